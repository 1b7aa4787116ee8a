#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""table.py RESULTS: the figures that bench/run left in the folder RESULTS, side by side, and the targets of the project.
Status 0 also if a target was missed: that is in the table."""
import sys
from pathlib import Path
from statistics import median


def turns(folder, device):
    """What was measured of each (metric, size), by the number of the turn."""
    values = {}
    for file in Path(folder).glob(device + '.*'):
        for line in file.read_text().splitlines():
            metric, size, value = line.split()
            values.setdefault((metric, int(size)), {})[int(file.suffix[1:])] = float(value)
    return values


def figures(folder, device):
    """One figure for each (metric, size): the median of the turns."""
    return {key: median(seen.values()) for key, seen in turns(folder, device).items()}


def peer_of(key):
    """What rxe's figure is called: it has one way to register."""
    metric, size = key
    return metric.replace('_cmd', ''), size


def ratios(folder):
    """softhca's figure over rxe's: the median of turns that met the same seconds, and so the same other load."""
    ours, rxe = turns(folder, 'softhca0'), turns(folder, 'rxe0')
    return {key: median(value / rxe[peer_of(key)][turn] for turn, value in seen.items())
            for key, seen in ours.items() if all(rxe.get(peer_of(key), {0: 0}).values())}


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
    'reg_large': '- in large pages, us', 'reg_cmd_large': '- by CREATE_MKEY in large pages, us',
    'dereg': 'ibv_dereg_mr, us', 'dereg_cmd': '- by DESTROY_MKEY, us',
    'dereg_large': '- in large pages, us', 'dereg_cmd_large': '- by DESTROY_MKEY in large pages, us',
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


def show(ours, rxe, ratio):
    print(f"{'':36} {'':>14} {'softhca':>11} {'rxe':>11} {'memcpy':>9} {'/ rxe':>8} {'/ memcpy':>9}")
    for metric, text in UNITS.items():
        for (found, size), value in sorted(ours.items()):
            if found != metric:
                continue
            peer = rxe.get(peer_of((metric, size)))
            copy = ours.get(('memcpy', size)) if metric in ('write', 'read', 'send', 'write_4k', 'perf_bw') else None
            where = f'{size} {COUNTED[metric]}' if metric in COUNTED else name_of(size)
            print(f'{text:36} {where:>14} {number(value):>11} '
                  + (f'{number(peer):>11} ' if peer else f"{'':11} ")
                  + (f'{copy:9.0f} ' if copy else f"{'':9} ")
                  + (f'{ratio[metric, size]:7.2f}x' if (metric, size) in ratio else f"{'':8}")
                  + (f'{100 * value / copy:8.0f}%' if copy else ''))


def targets(ours, ratio):
    """(what is wanted, what was seen, whether that meets it)"""
    def faster(text, key, wanted):
        return f'{text} {wanted} times as fast as rxe', f'{ratio[key]:.1f} times', ratio[key] >= wanted

    def no_slower(text, key, wanted=1):
        return f'{text} {"half the time of" if wanted < 1 else "no slower than"} rxe', f'{ratio[key]:.2f} times', ratio[key] <= wanted

    for op, wanted in ('write', 80), ('read', 50), ('send', 50):
        share = 100 * ours[op, MIB] / ours['memcpy', MIB]
        yield f'{op} of 1 MiB at {wanted} % of the speed of memcpy', f'{share:.0f} %', share >= wanted
    for op, wanted in ('write', 18), ('read', 10), ('send', 10):
        yield faster(f'{op} of 1 MiB', (op, MIB), wanted)
    yield faster('WRITEs of 64 B in lists', ('list_qps', 1), 10)
    yield no_slower('ib_write_lat of 8 B', ('perf_write_lat', 8), 0.5)
    for metric in 'rate_qps', 'list_qps', 'bw_qps':
        share = 100 * ours[metric, 16] / ours[metric, 1]
        yield f'{UNITS[metric]}: 16 queue pairs as fast as one', f'{share:.0f} %', share >= 90
    for metric, how in ('reg_cmd', 'CREATE_MKEY'), ('reg', 'UMR'):
        yield no_slower(f'ibv_reg_mr of 4 KiB by {how}', (metric, 4096))
        yield no_slower(f'ibv_reg_mr of 1 MiB in large pages by {how}', (f'{metric}_large', MIB))
        yield no_slower(f'ibv_reg_mr of 1 MiB in scattered pages by {how}', (metric, MIB))
    for size in 4096, 65536:
        if ('odp_minor', size) in ratio:
            yield no_slower(f'WRITE of {name_of(size)} with a minor fault', ('odp_minor', size))
    for size in 65536, MIB:
        share = 100 * ours['odp_warm', size] / ours['odp_none', size]
        yield f'WRITE of {name_of(size)} on demand within 10 % of pinned', f'{share:.0f} %', share >= 90
    for metric, text in ('reg_at', 'registration'), ('access_at', 'access'):
        grown = ours[metric, 100000] / ours[metric, 100]
        yield f'{text} with 100000 keys within 1.5 times of 100 keys', f'{grown:.2f} times', grown <= 1.5
    yield 'no CPU when idle', f"{ours['idle', 16]:.1f} %", ours['idle', 16] < 1


def main(folder):
    ours, rxe = figures(folder, 'softhca0'), figures(folder, 'rxe0')
    ratio = ratios(folder)
    print('Medians of several rounds, softhca and rxe in turn, in one guest; ratios are medians of those of single turns:')
    print(', '.join((Path(folder) / 'machine').read_text().splitlines()), end='\n\n')
    show(ours, rxe, ratio)
    print('\nTargets')
    met = 0
    for text, seen, good in (checks := list(targets(ours, ratio))):
        met += good
        print(f"  {'met   ' if good else 'MISSED'}  {text}: {seen}")
    print(f'\n{met} of {len(checks)} targets met')


if __name__ == '__main__':
    main(sys.argv[1])
