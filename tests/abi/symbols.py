#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The symbol table of a built library against what existing binaries expect of libibverbs.so.1 or
librdmacm.so.1.

usage: symbols.py LIBRARY MAP.  Checks that
  - every symbol of the library's data/*.symbols is there, in its node, with its type, as default or
  as old version;
  - every import of the programs in data/needed_by.txt is satisfied;
  - every default version is one that MAP gives, every node of MAP is defined, and nothing else is
  exported;
  - dlopen() finds room for its thread-local memory: on aarch64 that is given at an alignment of 16
  only.
"""
import os
import re
import subprocess
import sys

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data')
# By the name of the map: what the distribution's library has, and what its programs and libraries
# need of it.
REFERENCE = {
    'libibverbs': (('libibverbs.symbols', 'libibverbs.private.symbols'), 'needed_by.txt'),
    'librdmacm': (('librdmacm.symbols',), 'needed_of_librdmacm.txt'),
}
# Exported beyond the map: see src/verbs/compat.c and src/verbs/symver.h.
OLD_NODES = (
    'IBVERBS_1.0', 'IBVERBS_1.1', 'IBVERBS_PRIVATE_57', 'IBVERBS_PRIVATE_59', 'IBVERBS_PRIVATE_64',
    'IBVERBS_PRIVATE_65',
)


def rows(name):
    with open(os.path.join(DATA, name), encoding='utf-8') as f:
        return [line.rstrip('\n') for line in f if line.strip() and not line.startswith('#')]


def exports(library):
    """{(name, node): (is default, type)} and the nodes."""
    out = subprocess.run(
        ['readelf', '-W', '--dyn-syms', library], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found, nodes = {}, set()
    for line in out.splitlines():
        f = line.split()
        if len(f) < 8 or f[6] in ('UND', 'Ndx') or f[4] not in ('GLOBAL', 'WEAK'):
            continue
        m = re.match(r'(\w+)(@@?)([\w.]+)$', f[7])
        if m:
            found[m[1], m[3]] = (m[2] == '@@', f[3])
        elif f[6] == 'ABS':
            nodes.add(f[7])
        else:
            found[f[7], None] = (True, f[3])
    return found, nodes


def read_map(path):
    with open(path, encoding='utf-8') as f:
        text = re.sub(r'#.*', '', f.read())
    found = set()
    for node, body in re.findall(r'([\w.]+) \{(.*?)\}', text, re.S):
        body = body.split('local:')[0].replace('global:', '')
        found |= {(s.strip(), node) for s in body.split(';') if s.strip()}
    return found


def check_reference(found, names):
    for name in names:
        for row in rows(name):
            symbol, node, which, kind = row.split()[:4]
            have = found.get((symbol, node))
            if have is None:
                yield f'{symbol}@{node}: missing'
            elif have != (which == 'default', kind):
                yield f'{symbol}@{node}: {have}, not {which} {kind}'


def check_consumers(found, name):
    consumer = None
    for row in rows(name):
        if not row.startswith('\t'):
            consumer = row
            continue
        node, symbols = row.strip().split(': ')
        for symbol in symbols.split():
            if (symbol, node) not in found:
                yield f'{consumer} needs {symbol}@{node}'


def check_map(found, nodes, wanted):
    defaults = {key for key, (default, _) in found.items() if default}
    for symbol, node in sorted(wanted - defaults, key=str):
        yield f'{symbol}@@{node}: in the map, not in the library'
    for symbol, node in sorted(defaults - wanted, key=str):
        yield f'{symbol}@@{node}: exported, not in the map'
    for node in sorted({n for _, n in wanted} - nodes):
        yield f'node {node}: not defined'
    for (symbol, node), (default, _) in sorted(found.items(), key=str):
        if not default and node not in OLD_NODES:
            yield f'{symbol}@{node}: unexpected'


def check_thread_local(library):
    out = subprocess.run(
        ['readelf', '-W', '--program-headers', library], check=True, stdout=subprocess.PIPE,
        text=True,
    ).stdout
    for line in out.splitlines():
        f = line.split()
        if f[:1] == ['TLS'] and int(f[-1], 16) > 16:
            yield f'thread-local memory wants an alignment of {int(f[-1], 16)}'


def main():
    found, nodes = exports(sys.argv[1])
    symbols, needed_by = REFERENCE[os.path.splitext(os.path.basename(sys.argv[2]))[0]]
    bad = [
        *check_reference(found, symbols), *check_consumers(found, needed_by),
        *check_map(found, nodes, read_map(sys.argv[2])), *check_thread_local(sys.argv[1]),
    ]
    print('\n'.join(bad) or f'{len(found)} symbols as they should be')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
