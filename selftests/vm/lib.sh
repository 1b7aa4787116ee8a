# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Sourced by the scripts of this folder: where things are, how they report, how they lock.
# Guarantees nothing by itself and changes nothing when sourced.

# $vm and $tree: this folder and the work tree it belongs to
vm=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$vm/../.." && pwd)
cache=${SOFTHCA_CACHE:-/var/cache/softhca}
kernels='7.3 6.12'
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

# kernel_release 7.3: the release string of that kernel in $root
kernel_release() {
	local found
	found=$(cd "$root/lib/modules" && printf '%s\n' "$1".* | tail -n 1)
	[ -d "$root/lib/modules/$found" ] || die "no kernel $1 in the guest root: KERNEL is one of $kernels"
	printf '%s\n' "$found"
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
