#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compiles each public header alone, and all together, as C and as C++, with every warning an
error.

usage: compile.py OUR_INCLUDE_FOLDER.  With libibverbs-dev installed, the headers of its vendors are
compiled on top of ours as well.
"""
import itertools
import os
import shutil
import subprocess
import sys

STRICT = ['-Wall', '-Wextra', '-pedantic', '-Werror']
C = [(cc, ['-x', 'c', f'-std={std}']) for cc in ('gcc', 'clang') for std in ('c99', 'c11', 'gnu11')]
CXX = [
    (cc, ['-x', 'c++', f'-std={std}'])
    for cc in ('g++', 'clang++') for std in ('c++11', 'c++17', 'c++20')
]
# Not ours, so not held to our warnings.
GUESTS = ['infiniband/mlx5dv.h', 'infiniband/mlx4dv.h', 'infiniband/efadv.h', 'infiniband/manadv.h']


def public_headers(include):
    found = []
    for ours in 'infiniband', 'rdma', 'verbena':
        for folder, _, files in os.walk(os.path.join(include, ours)):
            found += [
                os.path.relpath(os.path.join(folder, f), include) for f in files if f.endswith('.h')
            ]
    return sorted(found)


def compiles(compiler, flags, include, headers):
    source = ''.join(f'#include <{h}>\n' for h in headers) + 'int main(void) { return 0; }\n'
    run = subprocess.run([compiler, *flags, '-I', include, '-fsyntax-only', '-'], input=source,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode:
        print(f'{compiler} {" ".join(flags)}: {" ".join(headers)}\n{run.stdout}')
    return run.returncode == 0


def report_missing():
    missing = [cc for cc, _ in C + CXX if not shutil.which(cc)]
    for cc in sorted(set(missing)):
        print(f'left out: {missing.count(cc)}: {cc} is not installed')


def cases(include):
    headers = public_headers(include)
    here = [(cc, flags) for cc, flags in C + CXX if shutil.which(cc)]
    report_missing()
    for (cc, flags), legacy in itertools.product(here, ([], ['-DVERBENA_LEGACY_XRC'])):
        yield cc, [*flags, *STRICT, *legacy], headers
    for cc, flags in here:
        if flags[1:] in (['c', '-std=c99'], ['c++', '-std=c++11']):
            for h in headers:
                yield cc, [*flags, *STRICT], [h]
    for cc, flags in here:
        if flags[1:] in (['c', '-std=gnu11'], ['c++', '-std=c++17']):
            for h in GUESTS:
                if os.path.exists(os.path.join('/usr/include', h)):
                    yield cc, flags, [h]


def main():
    results = [
        compiles(cc, flags, sys.argv[1], headers) for cc, flags, headers in cases(sys.argv[1])
    ]
    if not results:
        print('no compiler found')
        return 77
    print(f'{sum(results)} of {len(results)} compilations succeed')
    return 0 if all(results) else 1


if __name__ == '__main__':
    sys.exit(main())
