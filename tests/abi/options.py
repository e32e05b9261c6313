#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/OPTIONS.md against the test it speaks of.

usage: options.py TESTPROGRAM SOURCEROOT [--update].  Checks that
  - the lists of the document are the rows that `TESTPROGRAM --table` prints, by answer (--update);
  - every test that they name exists;
  - every bit of these enums of the headers has a row.
"""
import os
import re
import sys
import textwrap

import errors

MARK = (
    '<!-- Below: printed by tests/verbs/options_test.c, '
    'put here by tests/abi/options.py --update -->\n'
)
ENUMS = [
    'ibv_qp_create_flags', 'ibv_qp_init_attr_mask', 'ibv_qp_create_send_ops_flags',
    'ibv_qp_open_attr_mask', 'ibv_create_cq_attr_flags', 'ibv_create_cq_wc_flags',
    'ibv_cq_init_attr_mask', 'ibv_cq_attr_mask', 'ibv_srq_init_attr_mask', 'ibv_srq_attr_mask',
    'ibv_ops_flags', 'ibv_xrcd_init_attr_mask', 'ibv_access_flags',
    'ibv_parent_domain_init_attr_mask', 'ibv_values_mask', 'ibv_device_cap_flags',
    'ibv_odp_transport_cap_bits', 'ibv_odp_general_caps', 'ibv_tm_cap_flags',
]


def enumerators(root, name):
    folder = os.path.join(root, 'include', 'infiniband', 'verbs')
    for header in sorted(os.listdir(folder)):
        with open(os.path.join(folder, header), encoding='utf-8') as f:
            text = re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)
        body = re.search(rf'\benum {name} \{{(.*?)\}};', text, re.S)
        if body:
            return re.findall(r'\b(IBV_\w+) =', body.group(1))
    return []


def check_complete(root, table):
    have = {flag for flag, _ in errors.rows(table)}
    for name in ENUMS:
        members = enumerators(root, name)
        if not members:
            yield f'no header has enum {name}'
        for member in members:
            if member not in have:
                yield f'{member} of enum {name}: no row'


# What the page says of all bits that it does not list.
USUAL = {'accepted', 'claimed'}


def rendered(table):
    """An item for each answer: the flags that have it, with their notes.  A flag with the usual
    answer and no note is left out, and a chapter of nothing else."""
    for chapter in table.split('\n## ')[1:]:
        title, _, lines = chapter.partition('\n')
        answers, objects = {}, []
        for line in lines.splitlines():
            if line.startswith('On: ') and line != 'On: any.':
                objects = [line, '']
            elif line.startswith('| `'):
                flag, answer, note, _ = errors.cells_of(line)
                if note or answer not in USUAL:
                    answers.setdefault(answer, []).append(f'{flag} ({note})' if note else flag)
        if answers:
            yield from ('', f'## {title}', '', *objects, *items(answers))


def items(answers):
    for answer, flags in answers.items():
        yield from textwrap.wrap(
            f'- **{answer}**: ' + ', '.join(flags), 100, subsequent_indent='  ',
            break_long_words=False, break_on_hyphens=False,
        )


def main():
    program, root = sys.argv[1:3]
    table = errors.printed(program)
    document = os.path.join(root, 'docs', 'OPTIONS.md')
    with open(document, encoding='utf-8') as f:
        before, mark, have = f.read().partition(MARK)
    if '--update' in sys.argv:
        with open(document, 'w', encoding='utf-8') as f:
            f.write(before + mark + '\n'.join(rendered(table)) + '\n')
        return 0
    wrong = [*errors.check_tests(root, errors.rows(table)), *check_complete(root, table)]
    if have.splitlines() != list(rendered(table)):
        wrong.append('docs/OPTIONS.md differs; tests/abi/options.py --update writes it')
    print('\n'.join(wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
