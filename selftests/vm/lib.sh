# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Sourced by the scripts of this folder: where things are, how they report, how they lock.
# Guarantees nothing by itself and changes nothing when sourced.

# $vm and $tree: this folder and the work tree it belongs to
vm=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$vm/../.." && pwd)
cache=${SOFTHCA_CACHE:-/var/cache/softhca}
kernels='7.3 6.12'
own_kernels='debug kcsan' # built by kernel-build
# The guest root belongs to what it is made from, so that work trees with different inputs do not fight over one.
inputs=$(cat "$vm/guest-build" "$vm/packages" | sha256sum | cut -c 1-16)
root_link=${SOFTHCA_ROOT:-$cache/root-$inputs}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit "${status:-1}"; }

need_root() {
	[ "$(id -u)" = 0 ] || die "run as root: it mounts file systems and enters a chroot"
}

# hold_root: sets $root to this work tree's guest root and keeps it from being removed while this shell lives
hold_root() {
	root=$(readlink -e "$root_link") || die "no guest root in $cache: run selftests/vm/guest-build first"
	exec {root_lock}<"$root.lock"
	flock -s "$root_lock"
}

# kernel_release 7.3: the release string of that kernel of Debian's in $root
kernel_release() {
	local found
	found=$(cd "$root/lib/modules" && printf '%s\n' "$1".* | tail -n 1)
	[ -d "$root/lib/modules/$found" ] || die "no kernel $1 in the guest root: KERNEL is one of $kernels $own_kernels"
	printf '%s\n' "$found"
}

# source_version: the version of Debian's linux-source-7.3 that goes with the guest root
source_version() { cut -d ' ' -f 1 "$cache/src/linux-7.3/.softhca-inputs"; }

is_own_kernel() { [[ " $own_kernels " == *" $1 "* ]]; }

# own_kernel debug: the folder where kernel-build puts, or has put, that kernel
own_kernel() {
	local key
	key=$({ source_version && cat "$vm/kernel-build" "$vm/guest.config" "$vm/$1.config"; } | sha256sum | cut -c 1-8)
	printf '%s\n' "$cache/src/linux-$1-$key"
}

# find_kernel KERNEL: sets $release, $image (the kernel to boot), $modules (its /lib/modules), and $headers as in-root sees it.
# A kernel of our own must have been built. Needs hold_root.
# shellcheck disable=SC2034 # for those who source this
find_kernel() {
	local built
	if is_own_kernel "$1"; then
		built=$(own_kernel "$1")
		[ -d "$built" ] || die "no kernel $1 in $cache: run selftests/vm/kernel-build $1 first"
		exec {kernel_lock}<"$built.lock"
		flock -s "$kernel_lock"
		release=$(ls "$built/modules")
		image=$built/vmlinux modules=$built/modules
		headers=/linux/${built##*/}/headers/linux-headers-$release
	else
		release=$(kernel_release "$1")
		image=$root/boot/vmlinux-$release modules=$root/lib/modules
		headers=/usr/src/linux-headers-$release
	fi
}

# keep_last COUNT FOLDER: removes the older of the folders in FOLDER, but none that a run holds locked
keep_last() {
	find "$2" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' | sort -rn | tail -n "+$(($1 + 1))" |
		while read -r _ old; do
			flock -n "$old" rm -rf "$old" || true
		done
}

# build_dir NAME: this work tree's own folder in the cache for the build NAME
build_dir() {
	printf '%s/build/%s-%s/%s\n' "$cache" "${tree##*/}" "$(sha256sum <<<"$tree" | cut -c 1-8)" "$1"
}
