#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Proves that rdma-core's own Python tests pass, as Debian ships them. Every one of their tests is one result here; a skip
# shows the reason that they give. It must be one of those that Documentation/testing.rst (beside this in the guest) lists.
# Each file runs in a process of its own: in one process an early failure can crash a later file's clean-up. A process that
# does not end with its closing line has failed, whatever its status is.
. "$(dirname "$0")/lib/test.sh"

files='test_device test_pd test_mr test_cq test_cq_events test_qp test_qpex test_odp test_atomic test_relaxed_ordering
	test_mlx5_devx test_mlx5_uar test_mlx5_raw_wqe test_mlx5_dm_ops test_mlx5_mkey'
mapfile -t expected < <(sed -n 's/^``\(test_[^`]*\)``.*/\1/p' testing.rst)
declare -A met
source=/usr/share/doc/rdma-core/tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp "$source"/* "$work" && gunzip -qf "$work"/*.gz || exit 1
cat >"$work/one_file.py" <<'P'
"""one_file.py MODULE --dev DEVICE ...: runs MODULE of the package `tests`, one line for each test."""
import importlib, os, sys, types, unittest

name = sys.argv.pop(1)
package = types.ModuleType('tests')
package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
sys.modules['tests'] = package
from args_parser import parser
parser.parse_args()


class Lines(unittest.TextTestResult):
    def line(self, word, test, reason=''):
        test_id = test.id().removeprefix('tests.')
        reason = ' '.join(str(reason).split())
        print(f'@{word} {test_id} {reason}'.rstrip(), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line('ok', test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line('skip', test, reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line('fail', test, err[1])

    def addError(self, test, err):
        super().addError(test, err)
        self.line('fail', test, repr(err[1]))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.line('fail', subtest, err[1])


# utils and mlx5_base import each other, which goes well in this order only
importlib.import_module('tests.utils')
suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module('tests.' + name))
result = unittest.TextTestRunner(resultclass=Lines, stream=sys.stderr, verbosity=0).run(suite)
sys.exit(not result.wasSuccessful())
P

# expected_skip NAME: is it listed?
expected_skip() {
	local pattern
	for pattern in "${expected[@]}"; do
		# shellcheck disable=SC2053 # it is a pattern
		[[ $1 == $pattern ]] || continue
		met[$pattern]=yes
		return
	done
	return 1
}

begin
cd "$work" || exit 1
# for test_odp
echo 8 >/proc/sys/vm/nr_hugepages
for file in $files; do
	timeout $((100 * ${TEST_SLOW:-1})) python3 "$work/one_file.py" "$file" --dev "$device" >"$work/lines" 2>"$work/errors" </dev/null
	status=$?
	while read -r word name reason; do
		case $word in
		@ok) ok "$name" ;;
		@skip) if expected_skip "$name"; then skip "$name" "$reason"; else not_ok "$name # skipped: $reason"; fi ;;
		@fail) not_ok "$name # $reason" ;;
		esac
	done <"$work/lines"
	if grep -qE '^OK( |$)' "$work/errors"; then
		ok "$file: closing line OK, status $status"
	else
		not_ok "$file: closing line '$(grep -E '^FAILED' "$work/errors" | tail -n 1)', status $status"
		grep -vE '^\[' "$work/errors" | tail -n 60 | sed 's/^/# /'
	fi
done
for pattern in "${expected[@]}"; do
	[ -n "${met[$pattern]:-}" ] || not_ok "$pattern is listed, but was not skipped"
done
finish
