#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Proves that the keys of regions come from the RDMA core's pools and go back there, where everybody can see and pin them, and
# that a key that nobody takes goes in the end. On a kernel without such pools, the last also of the driver's own.
. "$(dirname "$0")/lib/test.sh"

pools() { python3 ./frmr_pools.py "$device" "$@"; }
# pool BLOCKS: "in_use free pinned" of the pool for so many blocks
pool() { pools | sed -n "s/^$1 //p"; }
# total COLUMN: of all pools
total() { pools | awk -v n="$1" '{ sum += $n } END { print sum + 0 }'; }
refused() { pools "$@" || true; }

trace=/sys/kernel/tracing
log_on() {
	echo >$trace/trace
	echo 1 >$trace/events/softhca/hca_cmd/enable
}
# commands OPCODE: how many the HCA was given since log_on
commands() { grep -c "hca_cmd: opcode=$1 " $trace/trace; }
any_destroyed() { [ "$(commands 0x202)" -gt 0 ]; }
hold() {
	./tools/hold >/tmp/held 2>&1 &
	holder=$!
	until_true 10 grep -q ready /tmp/held
}
drop() {
	kill "$holder"
	wait "$holder" 2>/dev/null
}
trap 'echo 0 >$trace/events/softhca/hca_cmd/enable; kill $holder 2>/dev/null' EXIT

begin
if [ -e "$module" ]; then
	# other tests leave pools behind, and many keys in them
	check "the module is loaded anew" eval 'rmmod softhca && load'
fi
check "a program registers a region" hold
drop
if ! pools >/dev/null; then
	# the driver's own: nothing shows them, so the HCA has to tell
	skip "the pools can be seen" "this kernel has none"
	log_on
	check "HM-12.1 a key that nobody takes is destroyed within two minutes" until_true 130 any_destroyed
	finish
	exit
fi

in_use=$(total 2) free=$(total 3)
check "again" hold
same "HM-12.1 its key came from a pool" "$((in_use + 1)) $((free - 1))" "$(total 2) $(total 3)"
drop
same "HM-12.1 and is there again" "$in_use $free" "$(total 2) $(total 3)"

log_on
check "five keys for 3000 pages are pinned" pools pin 3000 5
same "the HCA was asked for five" 5 "$(commands 0x200)"
same "they wait" "0 5 5" "$(pool 3000)"
same "none for no page at all" 95 "$(refused pin 0 5)"
same "none with what only another HCA knows" 95 "$(refused pin 3000 5 1)"
same "none larger than the largest table" 95 "$(refused pin 0x100000000 5)"
same "nothing came of that" 5 "$(commands 0x200)"

log_on
check "keys live for a second" pools age 1
check "all but the pinned ones go" until_true 10 eval '[ "$(total 3)" = 5 ]'
same "the HCA was told" "$free" "$(commands 0x202)"
same "the pinned ones stay" "0 5 5" "$(pool 3000)"
check "they are no longer pinned" pools pin 3000 0
check "and go" until_true 10 eval '[ "$(total 3)" = 0 ]'
check "keys live for a minute again" pools age 60
check "a region can be registered all the same" hold
drop
finish
