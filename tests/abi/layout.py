#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every name of the headers of libibverbs-dev, or of librdmacm-dev, exists in ours and means the
same: sizes, offsets, types of members, values, prototypes, macros.  Ours may have more; what may
differ is listed in GROWN.

usage: layout.py OUR_INCLUDE_FOLDER infiniband|rdma [COMPILER].  Exits 77 where theirs are not
installed.
"""
import os
import re
import sys

import headers

HEADERS = {
    'infiniband': (
        'verbs.h', 'verbs_api.h', 'opcode.h', 'ib.h', 'sa.h', 'sa-kern-abi.h', 'arch.h',
        'tm_types.h', 'ib_user_ioctl_verbs.h',
    ),
    'rdma': ('rdma_cma.h', 'rdma_verbs.h', 'rdma_cma_abi.h', 'rsocket.h'),
}
# At least so many constants, functions and macros: a parser that sees nothing would agree with
# everything.
LEAST = {'infiniband': (500, 150, 30), 'rdma': (550, 55, 20)}
SYSTEM = '/usr/include'

# Structures that later releases lengthen: by how much, unless theirs has this member already.  The
# old part must not move.
GROWN = {
    'struct ibv_port_attr': (4, 'active_speed_ex'),
    'struct ibv_qp_ex': (8, 'wr_flush'),
    'struct verbs_context': (48, 'free_buf'),
}
# This one grows at its top: members are counted from the end.
FROM_THE_END = {'struct verbs_context'}
# Reserved bytes of which later releases use the end, in the same way.
TAKEN = {'struct ib_uverbs_query_port_resp_ex.reserved': (4, 'active_speed_ex')}


def later(table, name, members):
    """The bytes by which a later release differs."""
    size, newest = table.get(name, (0, None))
    return 0 if newest in members else size


def same_macro(ours, theirs):
    if ours is None or theirs is None:
        return ours is theirs

    def value(text):
        bare = re.sub(r'\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b', r'\1', text)
        try:
            # eval() sees only constants of our own and the system's headers.
            return eval(bare, {'__builtins__': {}}) if bare else ''
        except (SyntaxError, NameError, TypeError):
            return re.sub(r'\s', '', text)
    return value(ours) == value(theirs)


def compare(ours, theirs):
    bad = []
    for name, (size, members) in theirs.records.items():
        if not any(w in name for w in ('ib', 'verbs', 'rdma')):
            continue
        if name not in ours.records:
            bad.append(f'{name}: missing')
            continue
        our_size, our_members = ours.records[name]
        wanted = size + later(GROWN, name, members)
        if our_size != wanted:
            bad.append(f'{name}: {our_size} bytes, not {wanted}')
        shift = our_size - size if name in FROM_THE_END else 0
        for path, (offset, length, kind) in members.items():
            if path not in our_members:
                bad.append(f'{name}.{path}: missing')
                continue
            taken = later(TAKEN, f'{name}.{path}', members)
            if taken:
                if our_members[path][:2] != (offset, length - taken):
                    bad.append(f'{name}.{path}: {our_members[path]}')
            elif our_members[path] != (offset + shift, length, kind):
                bad.append(
                    f'{name}.{path}: {our_members[path]}, not {(offset + shift, length, kind)}'
                )
    for what in ('enums', 'functions'):
        mine = getattr(ours, what)
        for name, fact in getattr(theirs, what).items():
            if name not in mine:
                bad.append(f'{name}: missing')
            elif mine[name] != fact:
                bad.append(f'{name}: {mine[name]}, not {fact}')
    for name, expansion in theirs.macros.items():
        if name not in ours.macros:
            bad.append(f'macro {name}: missing')
        elif not same_macro(ours.macros[name], expansion):
            bad.append(f'macro {name}: {ours.macros[name]!r}, not {expansion!r}')
    return bad


def main():
    folder = sys.argv[2]
    if not os.path.exists(os.path.join(SYSTEM, folder, HEADERS[folder][0])):
        print(f'{folder}/{HEADERS[folder][0]} is not installed: nothing to compare with')
        return 77
    cc = sys.argv[3] if len(sys.argv) > 3 else 'gcc'
    ours = headers.describe(cc, ['-I', sys.argv[1]], folder, HEADERS[folder])
    theirs = headers.describe(cc, [], folder, HEADERS[folder])
    counts = f'{len(theirs.records)} structures, {len(theirs.enums)} constants, ' \
             f'{len(theirs.functions)} functions, {len(theirs.macros)} macros'
    seen = (len(theirs.enums), len(theirs.functions), len(theirs.macros))
    if any(n < least for n, least in zip(seen, LEAST[folder])):
        print(f'only {counts}: the parser no longer understands the compiler')
        return 1
    bad = compare(ours, theirs)
    print('\n'.join(bad) or f'{counts}: all there and the same')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
