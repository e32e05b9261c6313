#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A program linked with libibverbs.a runs without libibverbs.so.1.

usage: archive.py OUR_INCLUDE_FOLDER FOLDER_OF_THE_LIBRARY PKG_CONFIG_FILE
"""
import os
import subprocess
import sys
import tempfile

from link import sanitizers

PROGRAM = r"""
#include <stdio.h>
#include <infiniband/verbs.h>
int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;

	printf("%s\n", pd ? ibv_get_device_name(list[0]) : "no device");
	if (!pd || ibv_dealloc_pd(pd) || ibv_close_device(ctx))
		return 1;
	ibv_free_device_list(list);
	return 0;
}
"""


def private_libraries(pc):
    with open(pc, encoding='utf-8') as f:
        return next(line for line in f if line.startswith('Libs.private:')).split()[1:]


def build(source, program, flags, folder, pc):
    subprocess.run(
        [
            'gcc', *flags, *sanitizers(os.path.join(folder, 'libibverbs.so.1')), '-o', program,
            source, os.path.join(folder, 'libibverbs.a'), *private_libraries(pc),
        ],
        check=True,
    )
    needed = subprocess.run(
        ['readelf', '-d', program], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    if 'libibverbs' in needed:
        sys.exit(f'the program wants the shared library:\n{needed}')


def run(program, run_dir):
    env = {k: v for k, v in os.environ.items() if k != 'LD_LIBRARY_PATH'}
    os.mkdir(run_dir, 0o700)
    out = subprocess.run(
        [program], env={**env, 'VERBENA_DIR': run_dir}, stdout=subprocess.PIPE, text=True,
        check=False,
    )
    print(out.stdout.strip())
    if out.returncode:
        sys.exit(out.returncode)


def main():
    include, folder, pc = sys.argv[1:4]
    # With our header, and with the distribution's and the providers of ibv_get_device_list(3).
    kinds = [
        ['-I', include],
        ['-DRDMA_STATIC_PROVIDERS=rxe,mlx5,none'],
        ['-DRDMA_STATIC_PROVIDERS=all'],
    ]
    with tempfile.TemporaryDirectory() as tmp:
        source, program = os.path.join(tmp, 'p.c'), os.path.join(tmp, 'p')
        with open(source, 'w', encoding='utf-8') as f:
            f.write(PROGRAM)
        for i, flags in enumerate(kinds):
            build(source, program, flags, folder, pc)
            run(program, os.path.join(tmp, f'run{i}'))


if __name__ == '__main__':
    main()
