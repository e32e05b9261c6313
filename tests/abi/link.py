#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every function our public headers declare can be linked, from C and from C++.

usage: link.py OUR_INCLUDE_FOLDER FOLDER_OF_THE_LIBRARIES infiniband|rdma
"""
import os
import shutil
import subprocess
import sys
import tempfile

import headers

# By the folder of the headers: which, what to link, and at least how many functions there are.
LIBRARIES = {
    'infiniband': (('verbs.h', 'sa.h', 'verbs_exp.h'), ['-libverbs'], 80),
    'rdma': (('rdma_cma.h', 'rdma_verbs.h'), ['-lrdmacm', '-libverbs'], 43),
}
# A sanitized library needs a sanitized program.
SANITIZERS = {'libasan': 'address', 'libtsan': 'thread', 'libubsan': 'undefined'}


def sanitizers(library):
    out = subprocess.run(['readelf', '-d', library], stdout=subprocess.PIPE, text=True).stdout
    return [f'-fsanitize={name}' for lib, name in SANITIZERS.items() if f'{lib}.so' in out]


def main():
    include, folder, kind_of = sys.argv[1:4]
    public, libraries, least = LIBRARIES[kind_of]
    flags = ['-DVERBENA_LEGACY_XRC', '-I', include]
    sanitize = sanitizers(os.path.join(folder, 'libibverbs.so.1'))
    names = sorted(
        n
        for n, (_, kind) in headers.describe('gcc', flags, kind_of, public).functions.items()
        if kind == 'extern'
    )
    if len(names) < least:
        print(f'only {len(names)} functions seen: the parser is broken')
        return 1
    text = ''.join(f'#include <{kind_of}/{h}>\n' for h in public)
    text += ''.join(f'#undef {n}\n' for n in names)
    text += (
        'typedef void (*function)(void);\nextern const function all[];\nconst function all[] = {\n'
    )
    text += ''.join(f'\t(function){n},\n' for n in names)
    text += '};\nint main(void) { return !all[0]; }\n'
    with tempfile.TemporaryDirectory() as tmp:
        source, program = os.path.join(tmp, 'all.c'), os.path.join(tmp, 'all')
        with open(source, 'w', encoding='utf-8') as f:
            f.write(text)
        for cc, language in (('gcc', 'c'), ('g++', 'c++')):
            if not shutil.which(cc):
                continue
            subprocess.run(
                [
                    cc, '-x', language, '-w', *flags, *sanitize, '-o', program, source, '-x',
                    'none', '-L', folder, *libraries,
                ],
                check=True,
            )
            subprocess.run([program], check=True, env={**os.environ, 'LD_LIBRARY_PATH': folder})
    print(f'{len(names)} functions link')
    return 0


if __name__ == '__main__':
    sys.exit(main())
