#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Proves what an administrator can see: `rdma resource` names every object with its values, its raw dump is the MKC that the
# HCA keeps, and the hardware counters count.
. "$(dirname "$0")/lib/test.sh"

./tools/hold >/tmp/held 2>&1 &
holder=$!
trap 'kill $holder 2>/dev/null' EXIT
until_true 10 grep -q ready /tmp/held || { cat /tmp/held; exit 1; }
# fact NAME: of the objects that the program holds
fact() { sed -n "s/^$1=//p" /tmp/held; }
qpns=$(fact qpns) key=$(fact key)

json() { python3 -c '
import json, sys
rows = [r for r in json.load(sys.stdin) if r.get("pid") == int(sys.argv[1])]
print(eval(sys.argv[2], {"rows": rows}))' "$holder" "$1"; }
# queue pairs belong to a link, all else to a device
resource() { rdma resource show "$1" "$([ "$1" = qp ] && echo link || echo dev)" "$device" -j "${@:2}"; }

begin
same "one context of the program" 1 "$(resource ctx | json 'len(rows)')"
same "one PD" 1 "$(resource pd | json 'len(rows)')"
same "two CQs" 2 "$(resource cq | json 'len(rows)')"
same "the CQ has its size" "$(fact cqe)" "$(resource cq | json 'rows[0]["cqe"] + 0')"
same "two QPs" 2 "$(resource qp | json 'len(rows)')"
same "RC" "RC RC" "$(resource qp | json '" ".join(r["type"] for r in rows)')"
same "their numbers" "$qpns" "$(resource qp | json '" ".join(str(n) for n in sorted(r["lqpn"] for r in rows))')"
same "ready to send" "RTS RTS" "$(resource qp | json '" ".join(r["state"] for r in rows)')"
same "connected to each other" "$qpns" "$(resource qp | json '" ".join(str(n) for n in sorted(r["rqpn"] for r in rows))')"
same "one MR" 1 "$(resource mr | json 'len(rows)')"
same "its length" "$(fact len)" "$(resource mr | json 'rows[0]["mrlen"]')"
same "its keys" "$key $key" "$(resource mr -d | json '"%s %s" % (rows[0].get("lkey"), rows[0].get("rkey"))' 2>&1)"
check "nothing is shown of a device that is not there" eval '! rdma resource show mr dev softhca99'

# HM-2.14: the raw dump of the MR
mrn=$(resource mr | json 'rows[0]["mrn"]')
raw=$(rdma resource show mr dev "$device" mrn "$mrn" -r -j | python3 -c '
import json, sys
rows = json.load(sys.stdin)
data = rows[0]["data"]
print("".join("%02x" % int(b) for b in data))' 2>&1)
same "HM-2.14 the raw dump begins with the MKC of QUERY_MKEY" "$(fact mkc)" "${raw:0:128}"
check "the raw dump of a QP is there" eval '[ "$(resource qp -r | wc -c)" -gt 400 ]'
check "the raw dump of a CQ is there" eval '[ "$(resource cq -r | wc -c)" -gt 100 ]'
# only an administrator sees it: it holds DMA addresses
check "not for everybody" eval '! setpriv --reuid 65534 --regid 65534 --clear-groups rdma resource show mr dev "$device" -r -j 2>/dev/null | grep -q data'

kill $holder
wait $holder 2>/dev/null
same "nothing is left of the program" "0 0 0 0" "$(for kind in pd cq qp mr; do resource $kind | json 'len(rows)'; done | xargs)"

# counters: the same names and values by both ways, and they count what was done
echo 0 >"/sys/class/infiniband/$device/ports/1/hw_counters/lifespan"
gid=$(gid_index "$device")
before=$(counter wqe_send) bytes=$(counter bytes_copied)
ibv_rc_pingpong -d "$device" -g "$gid" -s 4096 -n 10 >/dev/null &
sleep 1
check "ten messages of 4096 bytes each way" timeout 20 ibv_rc_pingpong -d "$device" -g "$gid" -s 4096 -n 10 127.0.0.1
wait $!
sleep 0.1
same "wqe_send counts" $((before + 20)) "$(counter wqe_send)"
same "bytes_copied counts" $((bytes + 20 * 4096)) "$(counter bytes_copied)"
check "softhca-inspect finds what the CPU's page table says" ./tools/softhca-inspect
check "also in huge pages" ./tools/softhca-inspect -H -l 5000000

# tracepoints
trace=/sys/kernel/tracing
echo 1 >$trace/events/softhca/enable
check "a program runs while it is traced" ./tools/softhca-inspect
echo 0 >$trace/events/softhca/enable
for event in hca_cmd hca_wqe hca_cqe hca_refused hca_qp_state; do
	check "tracepoint $event" grep -q " $event: " $trace/trace
done
echo >$trace/trace

names=$(cd "/sys/class/infiniband/$device/ports/1/hw_counters" && printf '%s\n' * | grep -v lifespan | sort | xargs)
same "rdma statistic shows the same counters" "$names" "$(rdma statistic show link "$device/1" -j | python3 -c '
import json, sys
row = json.load(sys.stdin)[0]
print(" ".join(sorted(k for k in row if k not in ("ifindex", "ifname", "port"))))')"
finish
