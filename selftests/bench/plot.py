#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""plot.py RESULTS FOLDER: the figures that bench/run left in the folder RESULTS as pictures in FOLDER, one SVG for each
family, drawn by gnuplot."""
import subprocess
import sys
from pathlib import Path

from table import figures

# file: (title, x axis, y axis, gnuplot's settings, [(device or both, metric, label)])
SIZES = 'set logscale xy; set format x "%.0s %cB"'
COUNTS = 'set logscale x'
PLOTS = {
    'bandwidth': ('Bandwidth', 'message', 'MB/s', SIZES,
                  [('both', 'write', 'WRITE'), ('both', 'read', 'READ'), ('both', 'send', 'SEND'),
                   ('softhca', 'memcpy', 'memcpy() of the kernel')]),
    'rate': ('WRITEs of 64 bytes', 'queue pairs', 'operations/s', 'set logscale y; set xtics (1, 4, 16)',
             [('both', 'rate_qps', 'one at a time'), ('both', 'list_qps', 'posted 16 at a time')]),
    'registration': ('Registration', 'region', 'us', SIZES,
                     [('both', 'reg', 'ibv_reg_mr'), ('softhca', 'reg_cmd', 'by CREATE_MKEY'),
                      ('both', 'reg_large', 'ibv_reg_mr, large pages'), ('both', 'dereg', 'ibv_dereg_mr')]),
    'keys': ('WRITE of 8 bytes against live keys', 'keys', 'us', COUNTS + '; set yrange [0:*]',
             [('both', 'access_at', 'WRITE'), ('both', 'reg_at', 'ibv_reg_mr of 4 KiB')]),
    'lists': ('WRITE of 8 bytes through a KLM list', 'entries', 'us', COUNTS + '; set yrange [0:*]',
              [('softhca', 'klm_at', 'WRITE')]),
    'depth': ('WRITE of 8 bytes through keys upon keys', 'keys above the region', 'us',
              'set yrange [0:*]; set xtics 1', [('softhca', 'depth_at', 'WRITE')]),
}
BARS = {
    'page-faults': ('WRITE to on-demand memory', 'us',
                    [('odp_minor', 'fault'), ('odp_advised', 'advised'), ('odp_pinned', 'pinned')]),
    'latency': ('Latency of 8 bytes, post to completion', 'us',
                [('write_lat', 'WRITE'), ('read_lat', 'READ'), ('send_lat', 'SEND'), ('fa_lat', 'FETCH_ADD')]),
    'cpu': ('CPU seconds for a GB of WRITEs', 's', [('cpu', '')]),
}
DEVICES = 'softhca', 'rxe'


def block(name, rows):
    return f'${name} << E\n' + ''.join(' '.join(map(str, row)) + '\n' for row in rows) + 'E\n'


def lines(of, series):
    data, parts = '', []
    for which, metric, label in series:
        for device in DEVICES if which == 'both' else (which,):
            rows = sorted((size, value) for (found, size), value in of[device].items() if found == metric and size)
            if not rows:
                continue
            name = f'd{len(parts)}'
            data += block(name, rows)
            text = label if which == 'softhca' else f'{device}: {label}'
            parts.append(f'${name} with linespoints title "{text}"')
    return data + 'plot ' + ', '.join(parts) + '\n'


def bars(of, metrics):
    rows = [(f'"{label or f"{size >> 10} KiB"}"', value, of['rxe'].get((metric, size), 'NaN'))
            for metric, label in metrics for (found, size), value in sorted(of['softhca'].items()) if found == metric]
    return (block('d', rows) + 'set style data histograms; set style fill solid; set yrange [0:*]\n'
            'plot $d using 2:xtic(1) title "softhca", "" using 3 title "rxe"\n')


def draw(folder, name, title, commands):
    script = (f'set terminal svg size 720,440 font "sans,13"; set output "{folder}/{name}.svg"\n'
              f'set title "{title}"; set key outside bottom; set grid\n' + commands)
    subprocess.run(['gnuplot'], input=script, text=True, check=True)


def main(results, folder):
    of = {'softhca': figures(results, 'softhca0'), 'rxe': figures(results, 'rxe0')}
    for name, (title, x, y, settings, series) in PLOTS.items():
        draw(folder, name, title, f'set xlabel "{x}"; set ylabel "{y}"; {settings}\n' + lines(of, series))
    for name, (title, y, metrics) in BARS.items():
        draw(folder, name, title, f'set ylabel "{y}"\n' + bars(of, metrics))


if __name__ == '__main__':
    main(*map(Path, sys.argv[1:]))
