# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Sourced by the test scripts: KTAP output, and what they ask about the device.
# Guarantees: finish, the last command of a test, prints the plan; its status is 0 only if nothing failed and something ran.

device=${IBV_TEST_DEV:-softhca0}
tests=0 failures=0

begin() { echo "TAP version 13"; }

ok() {
	tests=$((tests + 1))
	echo "ok $tests $*"
}

not_ok() {
	tests=$((tests + 1)) failures=$((failures + 1))
	echo "not ok $tests $*"
}

skip() { ok "$1 # SKIP ${*:2}"; }

# check NAME COMMAND...: passes if COMMAND succeeds, in this shell; what it prints is shown otherwise
check() {
	local name=$1
	shift
	if "$@" >/tmp/check.out 2>&1; then
		ok "$name"
	else
		not_ok "$name"
		sed 's/^/# /' /tmp/check.out
	fi
}

# same NAME EXPECTED SEEN
same() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1"
		printf '# expected %s\n# seen     %s\n' "$2" "$3"
	fi
}

finish() {
	echo "1..$tests"
	[ $failures = 0 ] && [ $tests -gt 0 ]
}

# until SECONDS COMMAND...: waits until COMMAND succeeds
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

netdev_of() { rdma link show "$1/1" | sed -n 's/.* netdev \([^ ]*\).*/\1/p'; }

# gid_index DEVICE [PATTERN]: the first RoCE v2 GID, of those that match PATTERN
gid_index() {
	local type index
	for type in "/sys/class/infiniband/$1/ports/1/gid_attrs/types"/*; do
		index=${type##*/}
		[ "$(cat "$type" 2>/dev/null)" = "RoCE v2" ] || continue
		grep -qE "${2:-.}" "/sys/class/infiniband/$1/ports/1/gids/$index" || continue
		echo "$index"
		return
	done
	return 1
}

# where vm-init leaves the module, if it loaded it
module=/run/vm/softhca.ko
loaded() { [ -d /sys/module/softhca ]; }
# load: the module as vm-init loads it
load() {
	local netdev
	insmod $module || return
	netdev=$(netdev_of softhca0)
	echo 0 >"/proc/sys/net/ipv6/conf/$netdev/accept_dad"
	ip addr add 192.0.2.1/24 dev "$netdev" && ip link set "$netdev" up
}

counter() { cat "/sys/class/infiniband/$device/ports/1/hw_counters/$1"; }
