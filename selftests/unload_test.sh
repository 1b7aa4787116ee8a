#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Proves case 30: a device goes away under open contexts, mapped UARs, traffic and page faults. The programs survive, their
# stores vanish, nothing of their memory stays pinned or mapped, the module unloads as soon as no UAR is mapped, and can be
# loaded again; the same when its network device goes first.
. "$(dirname "$0")/lib/test.sh"

[ -e "$module" ] || { echo "1..0 # SKIP no module file: the module was not loaded by vm-init"; exit 4; }

programs=()
cleanup() { [ ${#programs[@]} = 0 ] || kill -9 "${programs[@]}" 2>/dev/null; }
trap cleanup EXIT

has_device() { [ -d "/sys/class/infiniband/$1" ]; }
gone() { ! has_device "$1"; }
says() { grep -q "$2" "/tmp/program.$1"; }
all_say() {
	local i
	for i in "${!programs[@]}"; do says "$i" "$1" || return; done
}
alive() { kill -0 "${programs[@]}"; }

# start DEVICE N: N programs with traffic
start() {
	local i
	programs=()
	for i in $(seq 0 $(($2 - 1))); do
		IBV_TEST_DEV=$1 ./tools/traffic >"/tmp/program.$i" 2>&1 </dev/null &
		programs+=($!)
	done
	until_true 15 all_say running
}

# Pages that are pinned for I/O, of all programs
pins() {
	cat /proc/sys/vm/stat_refresh
	awk '$1 == "nr_foll_pin_acquired" { n += $2 } $1 == "nr_foll_pin_released" { n -= $2 } END { print n }' /proc/vmstat
}

# What is registered is pinned as long as it is mapped. The mappings themselves, also those of pages on demand and of the
# firmware's pages, are counted by a kernel with DMA_API_DEBUG only, as the debug kernel is.
nothing_mapped() {
	echo "$(pins) pages are pinned, before it were $pinned"
	[ "$(pins)" = "$pinned" ] && ! grep -s softhca /sys/kernel/debug/dma-api/dump
}

# They are to end by our SIGTERM, with status 0
stop() {
	local pid status=0
	kill -TERM "${programs[@]}"
	for pid in "${programs[@]}"; do
		timeout 10 tail --pid="$pid" -f /dev/null || kill -9 "$pid"
		wait "$pid" || status=$?
	done
	programs=()
	return "$status"
}

rmmod_refused() { ! rmmod softhca 2>/dev/null && loaded; }
unload() { until_true 10 rmmod softhca; }

begin
pinned=$(pins)
check "programs run" start "$device" 3
check "a module whose UARs are mapped is not unloaded" rmmod_refused
check "and nobody is disturbed by the attempt" eval 'alive && ! says 0 stopped && ! says 1 stopped && ! says 2 stopped'

check "case 30, HM-11.7: the device goes under traffic" timeout 20 rdma link del "$device"
check "it is gone" gone "$device"
check "HM-11.7: nothing of their memory stays mapped" nothing_mapped
check "all programs are told so" until_true 10 all_say "stopped: -19"
sleep 0.5
check "and survive, though they go on ringing" alive
check "they end as they want to" stop
check "case 30, HM-11.7: the module unloads" unload
check "it is gone" eval '! loaded'
check "it can be loaded again" load
check "and works" ./tools/softhca-inspect

# The driver waits for pages that only the program can give, and for no more than its end
for how in USR1 KILL; do
	./tools/faults >/tmp/program.0 2>&1 </dev/null &
	programs=($!)
	check "SIG$how: page faults are open in every part of a request" until_true 20 says 0 ready
	timeout 30 rdma link del "$device" &
	removal=$!
	sleep 0.5
	kill -$how "${programs[0]}"
	check "HM-11.7: SIG$how: the device goes" wait $removal
	check "it is gone" gone "$device"
	if [ $how = USR1 ]; then
		check "the program is told so" until_true 10 says 0 "stopped: -19"
		check "HM-11.7: nothing of its memory stays mapped" nothing_mapped
		check "it ends as it wants to" stop
	fi
	wait 2>/dev/null
	programs=()
	check "HM-11.7: SIG$how: the module unloads" unload
	check "HM-11.7: SIG$how: nothing stays mapped" nothing_mapped
	check "it can be loaded again" load
	check "and works" ./tools/softhca-inspect
done

# one that is idle, with its context open and all kinds of objects in it; it has device memory mapped, and uses it
./tools/hold all >/tmp/held 2>&1 </dev/null &
programs=($!)
until_true 10 grep -q ready /tmp/held
check "the device goes under an idle context" timeout 20 rdma link del "$device"
sleep 0.2
check "which survives" alive
check "nothing of its memory stays mapped" nothing_mapped
kill -9 "${programs[@]}"
wait 2>/dev/null
programs=()
check "unload" unload

check "loaded with another part id" insmod $module vendor_part_id=4121
same "it is that of the device" 4121 "$(ibv_devinfo -d softhca0 | sed -n 's/.*vendor_part_id:[^0-9]*//p')"
check "unload" unload

ip link add shca_t0 type dummy && ip link set shca_t0 up
check "loaded without a device" insmod $module create=0
check "there is none" gone softhca0
for round in 1 2 3; do
	rdma link add softhca_t type softhca netdev shca_t0
	check "round $round: programs run on a device of their own" start softhca_t 2
	if [ $round = 2 ]; then
		ip link add shca_t1 type dummy && ip link set shca_t1 up
		ip link del shca_t0
		check "round $round: the device goes with its network device" until_true 20 gone softhca_t
		ip link set shca_t1 down && ip link set shca_t1 name shca_t0 && ip link set shca_t0 up
	else
		check "round $round: rdma link del" timeout 20 rdma link del softhca_t
	fi
	# with the network device the GIDs go first: that may look like a peer that is gone
	check "round $round: nothing of their memory stays mapped" nothing_mapped
	check "round $round: all programs are told so" until_true 10 all_say "stopped: \(-19\|12\)"
	check "round $round: and survive" alive
	check "round $round: they end as they want to" stop
done
check "unload" unload
ip link del shca_t0

# without any program
times=0
while [ $times -lt 5 ] && load && rmmod softhca; do
	times=$((times + 1))
done
same "loaded and unloaded five times" 5 $times
check "for those who come after us" load
finish
