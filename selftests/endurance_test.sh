#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Proves that a device can be taken from under its users again and again: programs are killed, devices and network devices are
# removed, the module is unloaded, all under mixed traffic and beside hostile programs; and in the end nothing is left.
#
# Environment: ENDURANCE_SECONDS, how long the loop runs (20); it ends with the round that is under way.
. "$(dirname "$0")/lib/test.sh"

[ -e "$module" ] || { echo "1..0 # SKIP no module file: the module was not loaded by vm-init"; exit 4; }

seconds=${ENDURANCE_SECONDS:-20}
other=softhca_e netdev=shca_e0
programs=()
cleanup() { [ ${#programs[@]} = 0 ] || kill -9 "${programs[@]}" 2>/dev/null; }
trap cleanup EXIT

has_device() { [ -d "/sys/class/infiniband/$1" ]; }
gone() { ! has_device "$1"; }
all_say() {
	local i
	for i in "${!programs[@]}"; do grep -q "$1" "/tmp/endure.$i" || return; done
}
add_netdev() { ip link add $netdev type dummy && ip link set $netdev up; }
add_other() { rdma link add $other type softhca netdev $netdev; }

# start DEVICE N: as many programs with traffic, and one that holds an object of each kind
start() {
	local i
	for i in $(seq "$2"); do
		IBV_TEST_DEV=$1 ./tools/traffic >"/tmp/endure.${#programs[@]}" 2>&1 </dev/null &
		programs+=($!)
	done
	IBV_TEST_DEV=$1 ./tools/hold all >"/tmp/endure.${#programs[@]}" 2>&1 </dev/null &
	programs+=($!)
	until_true 30 all_say 'running\|ready'
}

# end SIGNAL: all of them, and wait until they are gone
end() {
	[ ${#programs[@]} = 0 ] || kill "-$1" "${programs[@]}" 2>/dev/null
	wait "${programs[@]}" 2>/dev/null
	programs=()
}

kill_programs() { start "$device" 2 && sleep "0.$((RANDOM % 5))" && end KILL; }
take_device() { start $other 2 && timeout 30 rdma link del $other && gone $other && end KILL && add_other; }
take_netdev() {
	start $other 2 && ip link del $netdev && until_true 30 gone $other && end KILL && add_netdev && add_other
}
take_module() {
	start "$device" 1 && start $other 1 || return
	! rmmod softhca 2>/dev/null || return
	end KILL
	until_true 30 rmmod softhca && load && add_other
}
# in the middle of it: killed while they wait for the device to go
kill_and_take() {
	start $other 2 || return
	kill -9 "${programs[0]}"
	timeout 30 rdma link del $other && gone $other && end KILL && add_other
}
be_hostile() { ./tools/hostile --seed "$1" --seconds 2 --processes 2; }

# What there is of the users' objects: "pd 0 cq 0 ...", whatever the kernel itself has
users_objects() {
	local kind
	for kind in ctx pd cq mr; do
		echo "$kind $(rdma resource show $kind dev "$device" | grep -c ' pid ')"
	done
	echo "qp $(rdma resource show qp link "$device" | grep -c ' pid ')"
}
nothing_left() { [ "$(users_objects | cut -d' ' -f2 | sort -u)" = 0 ]; }
used_by() { read -r _ _ users _ < <(grep '^softhca ' /proc/modules) && echo "$users"; }
unused() { [ "$(used_by)" = "$idle" ]; }
leaks() {
	[ -e /sys/kernel/debug/kmemleak ] || return 1
	echo scan >/sys/kernel/debug/kmemleak
	sleep 6
	echo scan >/sys/kernel/debug/kmemleak
	[ -s /sys/kernel/debug/kmemleak ] && cat /sys/kernel/debug/kmemleak
}

begin
check "a second device" eval 'add_netdev && add_other'
idle=$(used_by)
rounds=(kill_programs take_device take_netdev take_module kill_and_take be_hostile)
declare -A times
n=0 until=$((SECONDS + seconds))
while [ $SECONDS -lt $until ] || [ $n -lt ${#rounds[@]} ]; do
	round=${rounds[$((n % ${#rounds[@]}))]}
	n=$((n + 1))
	if ! "$round" $n >/tmp/endurance 2>&1; then
		not_ok "round $n, $round"
		sed 's/^/# /' /tmp/endurance /tmp/endure.*
		end KILL
		break
	fi
	times[$round]=$((${times[$round]:-0} + 1))
done
for round in "${rounds[@]}"; do
	check "$round: ${times[$round]:-0} times" test "${times[$round]:-0}" -gt 0
done

check "nothing of the users is left" until_true 10 nothing_left
users_objects | sed 's/^/# /'
check "nobody uses the module" until_true 10 unused
check "the device works" ./tools/softhca-inspect
check "no page stayed with an HCA" eval '! dmesg | grep -E "HCA kept|HCA returned a page"'
rdma link del $other
check "the module unloads" until_true 10 rmmod softhca
check "no leak" eval '! leaks'
check "for those who come after us" load
ip link del $netdev
finish
