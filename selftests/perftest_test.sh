#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Proves that the stock programs run between two processes: ibv_rc_pingpong, whose bytes are checked, and perftest's
# bandwidth and latency tests at all sizes, with several queue pairs, with completion events, and on demand.
. "$(dirname "$0")/lib/test.sh"

gid=$(gid_index "$device" ':ffff:' || gid_index "$device") || exit 1
port=18600

# pair NAME COMMAND...: COMMAND as server, then as client
pair() {
	local name=$1 server status=0
	shift
	port=$((port + 1))
	timeout 60 "$@" -p $port >/tmp/server 2>&1 </dev/null &
	server=$!
	until_true 10 eval "[ -n \"\$(ss -Hltn 'sport = $port')\" ]"
	timeout 60 "$@" -p $port 127.0.0.1 >/tmp/client 2>&1 </dev/null || status=$?
	[ $status = 0 ] || kill $server 2>/dev/null
	wait $server || status="$status, server $?"
	if [ "$status" = 0 ]; then
		ok "$name"
	else
		not_ok "$name # status $status"
		sed 's/^/# /' /tmp/client /tmp/server
	fi
}

pingpong() { pair "ibv_rc_pingpong $*" ibv_rc_pingpong -d "$device" -g "$gid" -c "$@"; }
perf() { pair "$*" "$1" -d "$device" -x "$gid" -F "${@:2}"; }

begin
for size in 8 4096 65536 1048576; do
	pingpong -s $size -n 50
done
pingpong -s 4096 -n 200 -e
pingpong -s 1000 -n 200 -e -r 100
for operation in write read send; do
	# all sizes from 2 bytes to 8 MiB
	perf ib_${operation}_bw -a -n 20
	perf ib_${operation}_lat -a -n 20
	perf ib_${operation}_bw -s 8 -n 2000
	# the latency tests do not offer several queue pairs
	perf ib_${operation}_bw -s 8 -n 500 -q 4
	perf ib_${operation}_bw -s 65536 -n 200 -q 4
	perf ib_${operation}_bw -s 1048576 -n 20 -q 4
	perf ib_${operation}_bw -s 65536 -n 200 -b
done
# events; ib_write_bw and ib_write_lat do not offer them
for operation in read send; do
	for size in 8 65536 1048576; do
		perf ib_${operation}_bw -s $size -n 100 -e
		perf ib_${operation}_lat -s $size -n 100 -e
	done
	perf ib_${operation}_bw -s 64 -n 500 -e -q 4
done
# 8 bytes is what an atomic has
perf ib_atomic_bw -n 500
perf ib_atomic_bw -n 500 -A CMP_AND_SWAP
perf ib_atomic_bw -n 200 -q 4
perf ib_atomic_bw -n 200 -e
perf ib_atomic_bw -n 200 -e -q 4
perf ib_atomic_lat -n 200
perf ib_atomic_lat -n 200 -e
perf ib_atomic_lat -n 200 -A CMP_AND_SWAP
# on demand: regions, the whole address space, and advised of before
for option in -o -O '-o -P' '-O -P'; do
	for size in 8 65536 1048576; do
		# shellcheck disable=SC2086 # two options
		pingpong -s $size -n 50 $option
	done
done
for operation in write read send; do
	perf ib_${operation}_bw -s 8 -n 500 --odp
	perf ib_${operation}_bw -s 65536 -n 200 --odp -q 4
	perf ib_${operation}_lat -s 1048576 -n 20 --odp
done
perf ib_atomic_bw -n 200 --odp
# inline, and one doorbell for many requests
perf ib_write_bw -s 64 -n 1000 -I 64
perf ib_write_bw -s 64 -n 1024 --post_list 16
perf ib_send_bw -s 64 -n 1024 --recv_post_list 16 --post_list 16
finish
