#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs inlines.c over our headers and over libibverbs-dev's, as C with and without optimisation: same output.

usage: inlines.py OUR_INCLUDE_FOLDER.  Exits 77 where libibverbs-dev is not installed.
"""
import difflib
import os
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'inlines.c')


def trace(flags, tmp):
    program = os.path.join(tmp, 'inlines')
    subprocess.run(['gcc', '-std=gnu11', '-w', *flags, '-o', program, SOURCE, '-lpthread'], check=True)
    return subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def main():
    if not os.path.exists('/usr/include/infiniband/verbs.h'):
        print('libibverbs-dev is not installed: nothing to compare with')
        return 77
    with tempfile.TemporaryDirectory() as tmp:
        for optimise in ('-O0', '-O2'):
            theirs = trace([optimise], tmp)
            ours = trace([optimise, '-I', sys.argv[1]], tmp)
            if ours != theirs:
                print('\n'.join(difflib.unified_diff(theirs, ours, 'libibverbs-dev', 'ours', lineterm='', n=0)))
                return 1
            if len(theirs) < 400:
                print(f'only {len(theirs)} lines: the trace is broken')
                return 1
    print(f'{len(theirs)} lines, the same')
    return 0


if __name__ == '__main__':
    sys.exit(main())
