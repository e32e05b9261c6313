#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs inlines.c, or rdma_inlines.c, over our headers and over the distribution's, as C with and
without optimisation: same output.

usage: inlines.py OUR_INCLUDE_FOLDER infiniband|rdma.  Exits 77 where the distribution's are not
installed.
"""
import difflib
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Source, a header it includes, and the least number of lines it prints.
PROGRAMS = {
    'infiniband': ('inlines.c', 'infiniband/verbs.h', 400),
    'rdma': ('rdma_inlines.c', 'rdma/rdma_verbs.h', 70),
}


def trace(source, flags, tmp):
    program = os.path.join(tmp, 'inlines')
    subprocess.run(
        ['gcc', '-std=gnu11', '-w', *flags, '-o', program, os.path.join(HERE, source), '-lpthread'],
        check=True,
    )
    return subprocess.run(
        [program], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()


def main():
    source, header, least = PROGRAMS[sys.argv[2]]
    if not os.path.exists(os.path.join('/usr/include', header)):
        print(f'{header} is not installed: nothing to compare with')
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        for optimise in ('-O0', '-O2'):
            theirs = trace(source, [optimise], tmp)
            ours = trace(source, [optimise, '-I', sys.argv[1]], tmp)
            if ours != theirs:
                print(
                    '\n'.join(
                        difflib.unified_diff(theirs, ours, 'theirs', 'ours', lineterm='', n=0)
                    )
                )
                return 1
            if len(theirs) < least:
                print(f'only {len(theirs)} lines: the trace is broken')
                return 1
    print(f'{len(theirs)} lines, the same')
    return 0


if __name__ == '__main__':
    sys.exit(main())
