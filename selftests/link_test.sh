#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Proves that devices come and go with `rdma link`, and that their GIDs and their port follow the network device.
. "$(dirname "$0")/lib/test.sh"

ipv4_gid='^0000:0000:0000:0000:0000:ffff:c633:6407$' # 198.51.100.7
cleanup() {
	rdma link del softhca_t 2>/dev/null
	ip link del shca_t0 2>/dev/null
}
trap cleanup EXIT

has_device() { [ -d "/sys/class/infiniband/$1" ]; }
port_is() { grep -q "$2" "/sys/class/infiniband/$1/ports/1/state"; }
gid_is_there() { gid_index softhca_t "$1"; }
no_gid() { ! gid_is_there "$1"; }
gone() { ! has_device "$1"; }

begin
same "the first device is there without asking" "$device" "$(rdma link show "$device/1" | sed -n 's|^link \([^/]*\)/.*|\1|p')"
check "its port is active" port_is "$device" ACTIVE
check "it has a link-local GID" gid_index "$device" '^fe80:'
check "node description" grep -q softhca "/sys/class/infiniband/$device/node_desc"
check "the kernel reports its network device" test -n "$(netdev_of "$device")"

ip link add shca_t0 type dummy && ip link set shca_t0 up
echo 0 >/proc/sys/net/ipv6/conf/shca_t0/accept_dad 2>/dev/null
check "rdma link add" rdma link add softhca_t type softhca netdev shca_t0
check "the new device is there" has_device softhca_t
same "on its network device" shca_t0 "$(netdev_of softhca_t)"
check "a name is used once" eval '! rdma link add softhca_t type softhca netdev shca_t0'
check "loopback is refused" eval '! rdma link add softhca_l type softhca netdev lo'
check "its port becomes active" until_true 5 port_is softhca_t ACTIVE
ip addr add 198.51.100.7/24 dev shca_t0
check "an IPv4 address is a GID" until_true 5 gid_is_there "$ipv4_gid"
gid=$(gid_index softhca_t "$ipv4_gid")
check "the device works" ./tools/softhca-inspect -d softhca_t
timeout 20 ibv_rc_pingpong -d softhca_t -g "${gid:-0}" -n 20 -c >/tmp/pp 2>&1 &
sleep 1
check "ibv_rc_pingpong over the IPv4 GID" timeout 20 ibv_rc_pingpong -d softhca_t -g "${gid:-0}" -n 20 -c 127.0.0.1
wait $!
ip addr del 198.51.100.7/24 dev shca_t0
check "the GID goes with the address" until_true 5 no_gid "$ipv4_gid"
ip link set shca_t0 down
check "the port goes down with the network device" until_true 5 port_is softhca_t DOWN
ip link set shca_t0 up
check "and comes up with it" until_true 5 port_is softhca_t ACTIVE
check "rdma link del" rdma link del softhca_t
check "the device is gone" gone softhca_t
check "the first one is not" has_device "$device"

times=0
while [ $times -lt 10 ] && rdma link add softhca_t type softhca netdev shca_t0 && rdma link del softhca_t; do
	times=$((times + 1))
done
same "ten times more" 10 $times
rdma link add softhca_t type softhca netdev shca_t0
ip link del shca_t0
check "removing the network device removes the device" until_true 10 gone softhca_t
check "the first one works on" ./tools/softhca-inspect
finish
