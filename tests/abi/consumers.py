#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Lets the dynamic linker bind every symbol of the installed programs and libraries that use
libibverbs or librdmacm, against ours.

usage: consumers.py FOLDER_OF_THE_LIBRARIES libibverbs.so.1|librdmacm.so.1.  Exits 77 where no such
program is installed.
"""
import glob
import os
import subprocess
import sys

# What names of the library look like in the linker's complaints.
NAMES = {
    'libibverbs.so.1': ('ibv_', 'IBVERBS', 'verbs'),
    'librdmacm.so.1': ('rdma_', 'RDMACM', 'librdmacm', 'symbol: r'),
}
PATTERNS = (
    '/usr/bin/ibv_*', '/usr/bin/ib_*', '/usr/bin/raw_ethernet_*', '/usr/bin/rping',
    '/usr/bin/ucmatose', '/usr/bin/udaddy', '/usr/bin/mckey', '/usr/bin/cmtime', '/usr/bin/rdma_*',
    '/usr/bin/rcopy', '/usr/bin/rstream', '/usr/bin/riostream', '/usr/bin/udpong', '/usr/bin/qperf',
    '/usr/bin/fio', '/usr/bin/fi_info', '/usr/bin/ucx_*', '{lib}/librdmacm.so.1',
    '{lib}/rsocket/librspreload.so', '{lib}/libmlx5.so.1', '{lib}/libmlx4.so.1',
    '{lib}/libefa.so.1', '{lib}/libmana.so.1', '{lib}/libibverbs/*-rdmav*.so',
    '{lib}/ucx/libuct_ib.so.0', '{lib}/ucx/libuct_rdmacm.so.0', '{lib}/libfabric.so.1',
    '{lib}/libfabric/*.so', '{lib}/openmpi/lib/openmpi3/*openib*.so',
    '/usr/lib/python3/dist-packages/pyverbs/*.so',
)


def uses(path, library):
    out = subprocess.run(
        ['readelf', '-d', path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout
    return library in out


def bind(path, folder, library):
    """What the linker could not find, and whether it took our library."""
    out = subprocess.run(
        ['ldd', '-r', path], env={**os.environ, 'LD_LIBRARY_PATH': folder, 'LC_ALL': 'C'},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ).stdout
    missing = [line.strip() for line in out.splitlines()
               if ('undefined symbol' in line or 'not found' in line or 'not defined' in line)
               and any(name in line for name in NAMES[library])]
    if os.path.realpath(folder) not in os.path.realpath(next(
            (line.split('=>')[1].split('(')[0].strip() for line in out.splitlines()
             if line.strip().startswith(f'{library} =>')), '/')):
        missing.append(f'took another {library}')
    return missing


def main():
    folder, library = os.path.realpath(sys.argv[1]), sys.argv[2]
    arch = subprocess.run(
        ['gcc', '-print-multiarch'], stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    lib = os.path.join('/usr/lib', arch)
    paths = sorted(
        {os.path.realpath(p) for pattern in PATTERNS for p in glob.glob(pattern.format(lib=lib))}
    )
    paths = [p for p in paths if os.path.isfile(p) and uses(p, library)]
    if library == 'librdmacm.so.1':
        paths = [p for p in paths if not os.path.basename(p).startswith(library)]
    if not paths:
        print(f'nothing that uses {library} is installed')
        return 77
    bad = [f'{p}: {m}' for p in paths for m in bind(p, folder, library)]
    print('\n'.join(bad) or f'{len(paths)} programs and libraries bind')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
