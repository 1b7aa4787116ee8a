#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Proves that malicious programs harm nobody but themselves: tools/hostile (hostile/hostile.h) with the seeds that once found
# something, then with one of its own.
#
# Environment: HOSTILE_SECONDS, how long the last run takes (20); HOSTILE_SEED, its seed; HOSTILE_PROCESSES (3).
# Guarantees: that nothing was found counts only if every kind of check was reached and many requests succeeded.
. "$(dirname "$0")/lib/test.sh"

seconds=${HOSTILE_SECONDS:-20} processes=${HOSTILE_PROCESSES:-3}
log=/tmp/hostile.log

run() {
	./tools/hostile --seed "$1" --seconds "$2" --processes "$3" | tee -a $log
	return "${PIPESTATUS[0]}"
}

# total NAME: over all runs
total() { sed -n "s/^$1=//p" $log | { sum=0; while read -r n; do sum=$((sum + n)); done; echo $sum; }; }
at_least() { [ "$(total "$1")" -ge "$2" ] || { echo "$1 is $(total "$1")"; false; }; }

# reached NAME...: the vendor syndromes and counters that must have been seen
counted() {
	local name status=0
	for name in "$@"; do
		[ "$(counter "$name")" -gt "${before[$name]}" ] || { echo "never: $name"; status=1; }
	done
	return $status
}

requests=(wqe_send wqe_write wqe_read wqe_atomic wqe_umr wqe_recv wqe_flushed doorbell_sq doorbell_cq_arm doorbell_scan
	doorbell_trap doorbell_mapped rnr_nak retry_timeout cq_overrun)
refusals=(err_no_mkc err_mkc_free err_variant err_pd err_qpn err_bounds err_local_rights err_remote_rights err_atomic_right
	err_indirection err_table_end err_list_entry)
declare -A before
for name in "${requests[@]}" "${refusals[@]}" eq_overrun; do
	before[$name]=$(counter "$name")
done

begin
: >$log
while read -r seed time count note; do
	[[ $seed != \#* ]] || continue
	check "seed $seed: $note" run "$seed" "$time" "$count"
done <hostile/seeds
check "$seconds s of hostile programs" run "${HOSTILE_SEED:-$(date +%s)}" "$seconds" "$processes"
sed -n 's/^/# /p' $log

check "every kind of request and doorbell was reached" counted "${requests[@]}"
check "every kind of refusal was reached" counted "${refusals[@]}"
# UMR: no key, wrong kind, PD, mask, value, list; WQE, opcode; invalidation
umr_reached() {
	local code status=0
	for code in c1 c3 c8 ca cd ce cf d1 e0; do at_least "vendor_$code" 1 || status=1; done
	return $status
}
check "UMR, invalidation and WQEs were refused in their own ways" umr_reached
# a quarter of what was neither flushed nor lost with its queue
deep() { [ $(($(total good) * 4)) -ge $(($(total bad) - $(total vendor_f9))) ] && at_least good 200; }
check "many requests succeeded" deep
check "many changed system calls were taken" at_least taken 20
check "the oracle was at work all the time" at_least oracle $((seconds * 5))
same "no event was lost" "${before[eq_overrun]}" "$(counter eq_overrun)"
finish
