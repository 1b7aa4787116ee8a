#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""table.py RESULTS: the figures that bench/run left in the folder RESULTS, side by side, and the targets of the project.
Status 0 also if a target was missed: that is in the table."""
import sys
from pathlib import Path
from statistics import median

LEAST = ('reg', 'dereg', 'reg_cmd', 'dereg_cmd', 'bind_1', 'unbind_1', 'bind_2', 'local_inv', 'send_inv',
         'odp_minor', 'odp_advise', 'odp_advised', 'odp_pinned')


def figures(folder, device):
    """One figure for each (metric, size): the median, or of registration times the least."""
    values = {}
    for file in Path(folder).glob(device + '.*'):
        for line in file.read_text().splitlines():
            metric, size, value = line.split()
            values.setdefault((metric, int(size)), []).append(float(value))
    return {key: (min if key[0] in LEAST else median)(seen) for key, seen in values.items()}


def name_of(size):
    for unit, scale in ('MiB', 1 << 20), ('KiB', 1 << 10):
        if size >= scale:
            return f'{size // scale} {unit}'
    return f'{size} B'


UNITS = {
    'write': 'RDMA WRITE, MB/s', 'read': 'RDMA READ, MB/s', 'send': 'SEND, MB/s',
    'write_4k': '- WRITE, scattered pages, MB/s',
    'perf_bw': 'ib_write_bw, two processes, MB/s',
    'write_lat': 'WRITE, post to completion, us', 'read_lat': 'READ, post to completion, us',
    'send_lat': 'SEND, post to completion, us', 'fa_lat': 'FETCH_ADD, post to completion, us',
    'perf_write_lat': 'ib_write_lat, typical us', 'perf_read_lat': 'ib_read_lat, typical us',
    'perf_send_lat': 'ib_send_lat, typical us',
    'write_rate': 'WRITE, operations/s', 'fa_rate': 'FETCH_ADD, operations/s',
    'rate_qps': 'WRITE of 64 B, operations/s', 'list_qps': '- posted 16 at a time', 'bw_qps': 'WRITE of 64 KiB, MB/s',
    'cpu': 'CPU seconds a GB, WRITEs of', 'idle': 'idle queue pairs, % of a CPU',
    'doorbells': 'doorbells a WRITE of 64 B', 'traps': '- faults a doorbell',
    'reg': 'ibv_reg_mr, us', 'reg_cmd': '- by CREATE_MKEY, us',
    'dereg': 'ibv_dereg_mr, us', 'dereg_cmd': '- by DESTROY_MKEY, us',
    'bind_1': 'window of type 1: bind, us', 'unbind_1': '- unbind, us',
    'bind_2': 'window of type 2: bind, us', 'local_inv': '- invalidate, us',
    'send_inv': '- invalidate by SEND, us',
    'odp_minor': 'WRITE with a minor page fault, us', 'odp_advised': '- to advised memory, us',
    'odp_pinned': '- to pinned memory, us', 'odp_advise': 'ibv_advise_mr, us',
    'odp_warm': 'WRITE on demand, warm, MB/s', 'odp_none': '- the same pinned, MB/s',
    'reg_at': 'ibv_reg_mr of 4 KiB, us', 'access_at': 'WRITE of 8 B, us',
    'page_at': 'WRITE of 8 B, MTT pages of, us',
    'klm_at': 'WRITE of 8 B into a KLM list, us', 'depth_at': '- through lists of one entry, us',
}
COUNTED = {'rate_qps': 'queue pairs', 'list_qps': 'queue pairs', 'bw_qps': 'queue pairs', 'idle': 'queue pairs', 'doorbells': 'queue pairs',
           'traps': 'queue pairs', 'reg_at': 'keys', 'access_at': 'keys', 'klm_at': 'entries', 'depth_at': 'deep'}
MIB = 1 << 20


def number(value):
    return f'{value:.3f}' if value < 10 else f'{value:.1f}'


def show(ours, rxe):
    print(f"{'':34} {'':>14} {'softhca':>11} {'rxe':>11} {'memcpy':>9} {'/ rxe':>8} {'/ memcpy':>9}")
    for metric, text in UNITS.items():
        for (found, size), value in sorted(ours.items()):
            if found != metric:
                continue
            peer = rxe.get((metric.removesuffix('_cmd'), size))
            copy = ours.get(('memcpy', size)) if metric in ('write', 'read', 'send', 'write_4k', 'perf_bw') else None
            where = f'{size} {COUNTED[metric]}' if metric in COUNTED else name_of(size)
            print(f'{text:34} {where:>14} {number(value):>11} '
                  + (f'{number(peer):>11} ' if peer else f"{'':11} ")
                  + (f'{copy:9.0f} ' if copy else f"{'':9} ")
                  + (f'{value / peer:7.2f}x' if peer else f"{'':8}")
                  + (f'{100 * value / copy:8.0f}%' if copy else ''))


def targets(ours, rxe):
    """(what is wanted, what was seen, whether that meets it)"""
    speed = {op: ours[op, MIB] for op in ('write', 'read', 'send')}
    for op, wanted in ('write', 80), ('read', 50), ('send', 50):
        share = 100 * speed[op] / ours['memcpy', MIB]
        yield f'{op} of 1 MiB at {wanted} % of the speed of memcpy', f'{share:.0f} %', share >= wanted
    for op, wanted in ('write', 18), ('read', 10), ('send', 10):
        ratio = speed[op] / rxe[op, MIB]
        yield f'{op} of 1 MiB {wanted} times as fast as rxe', f'{ratio:.1f} times', ratio >= wanted
    mine, theirs = ours['list_qps', 1], rxe['list_qps', 1]
    yield 'WRITEs of 64 B in lists at ten times the rate of rxe', f'{mine / theirs:.1f} times', mine >= 10 * theirs
    mine, theirs = ours['perf_write_lat', 8], rxe['perf_write_lat', 8]
    yield 'ib_write_lat of 8 B half of that of rxe', f'{mine:.1f} us against {theirs:.1f} us', 2 * mine <= theirs
    for metric in 'rate_qps', 'list_qps', 'bw_qps':
        share = 100 * ours[metric, 16] / ours[metric, 1]
        yield f'{UNITS[metric]}: 16 queue pairs as fast as one', f'{share:.0f} %', share >= 90
    for metric, how in ('reg_cmd', 'CREATE_MKEY'), ('reg', 'UMR'):
        for size in 4096, MIB:
            mine, theirs = ours[metric, size], rxe['reg', size]
            yield (f'ibv_reg_mr of {name_of(size)} by {how} no slower than rxe', f'{mine:.1f} us against {theirs:.1f} us',
                   mine <= theirs)
    for size in 4096, 65536:
        if ('odp_minor', size) in rxe:
            mine, theirs = ours['odp_minor', size], rxe['odp_minor', size]
            yield (f'WRITE of {name_of(size)} with a minor fault no dearer than rxe',
                   f'{mine:.1f} us against {theirs:.1f} us', mine <= theirs)
    for size in 65536, MIB:
        share = 100 * ours['odp_warm', size] / ours['odp_none', size]
        yield f'WRITE of {name_of(size)} on demand within 10 % of pinned', f'{share:.0f} %', share >= 90
    for metric, text in ('reg_at', 'registration'), ('access_at', 'access'):
        ratio = ours[metric, 100000] / ours[metric, 100]
        yield f'{text} with 100000 keys within 1.5 times of 100 keys', f'{ratio:.2f} times', ratio <= 1.5
    yield 'no CPU when idle', f"{ours['idle', 16]:.1f} %", ours['idle', 16] < 1


def main(folder):
    ours, rxe = figures(folder, 'softhca0'), figures(folder, 'rxe0')
    print('Medians of several rounds (registration and windows: the least of many), softhca and rxe in turn, in one guest:')
    print(', '.join((Path(folder) / 'machine').read_text().splitlines()), end='\n\n')
    show(ours, rxe)
    print('\nTargets')
    met = 0
    for text, seen, good in (checks := list(targets(ours, rxe))):
        met += good
        print(f"  {'met   ' if good else 'MISSED'}  {text}: {seen}")
    print(f'\n{met} of {len(checks)} targets met')


if __name__ == '__main__':
    main(sys.argv[1])
