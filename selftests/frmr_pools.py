#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""frmr_pools.py DEVICE: the pools of free memory keys that the RDMA core keeps for a device, a line for each:
"blocks in_use free pinned". What `rdma resource show frmr_pools` of a newer iproute2 shows.

frmr_pools.py DEVICE pin BLOCKS COUNT [VENDOR_KEY]: keep at least COUNT keys in a pool
frmr_pools.py DEVICE age SECONDS: how long keys that nobody takes live

Status 0; 1 and the errno on standard output if the kernel refuses; 2 if it has no such pools."""
import socket
import struct
import sys

# include/uapi/rdma/rdma_netlink.h of Linux 7.3
NLDEV = 5
GET, POOLS_GET, POOLS_SET = 1, 29, 30
INDEX, NAME = 1, 2
POOLS, ENTRY, KEY, VENDOR_KEY, BLOCKS, FREE, IN_USE, AGING, PINNED = 105, 106, 107, 110, 111, 112, 114, 115, 116
REQUEST, ACK, DUMP = 1, 4, 0x300
ERROR, DONE = 2, 3
NETLINK_RDMA = 20


def attributes(data):
    """attribute: value, or a list of them where one comes more than once"""
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from('HH', data)
        found.setdefault(kind & 0x3fff, []).append(data[4:size])
        data = data[(size + 3) & ~3:]
    return found


def attribute(kind, value):
    return struct.pack('HH', 4 + len(value), kind) + value + bytes(-len(value) % 4)


def ask(command, payload, flags):
    """the messages of the answer; OSError if the kernel refuses"""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA) as netlink:
        netlink.bind((0, 0))
        header = struct.pack('IHHII', 16 + len(payload), NLDEV << 10 | command, REQUEST | flags, 1, 0)
        netlink.send(header + payload)
        answers = []
        while True:
            data = netlink.recv(1 << 16)
            while data:
                size, kind = struct.unpack_from('IH', data)
                if kind == DONE:
                    return answers
                if kind == ERROR:
                    error = -struct.unpack_from('i', data, 16)[0]
                    if error:
                        raise OSError(error, 'netlink')
                    return answers
                answers.append(attributes(data[16:size]))
                data = data[(size + 3) & ~3:]


def number(raw):
    return int.from_bytes(raw[0], sys.byteorder)


def main(device, what='list', *values):
    values = [int(value, 0) for value in values]
    index = next(d[INDEX][0] for d in ask(GET, b'', DUMP) if d[NAME][0].rstrip(b'\0') == device.encode())
    index = attribute(INDEX, index)
    if what == 'list':
        for answer in ask(POOLS_GET, index, DUMP):
            for entry in attributes(answer[POOLS][0]).get(ENTRY, []):
                pool = attributes(entry)
                print(number(attributes(pool[KEY][0])[BLOCKS]), number(pool[IN_USE]), number(pool[FREE]),
                      number(pool[PINNED]))
    elif what == 'pin':
        blocks, count, vendor = (*values, 0)[:3]
        key = attribute(BLOCKS, struct.pack('Q', blocks)) + attribute(VENDOR_KEY, struct.pack('Q', vendor))
        ask(POOLS_SET, index + attribute(KEY | 0x8000, key) + attribute(PINNED, struct.pack('I', count)), ACK)
    else:
        ask(POOLS_SET, index + attribute(AGING, struct.pack('I', values[0])), ACK)


try:
    main(*sys.argv[1:])
except OSError as refused:
    print(refused.errno)
    sys.exit(2 if sys.argv[2:] == [] else 1)
