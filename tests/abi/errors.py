#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/ERRORS.md against the tests it speaks of.

usage: errors.py TESTPROGRAM SOURCEROOT [--update].  Checks that
  - the lists of the document are the rows that `TESTPROGRAM --table` prints, by call and answer
  (--update writes them);
  - every test and function that they name exists, as do those of the events in docs/VERBS.md;
  - every call that the headers declare has a row, or a reason here to have none.
"""
import os
import re
import subprocess
import sys
import textwrap

MARK = (
    '<!-- Below: printed by tests/verbs/errors_test.c, '
    'put here by tests/abi/errors.py --update -->\n'
)

ERROR = r'((NULL|-1), )?`-?EINVAL`'

# Mistakes that are listed once for all calls, or that the head of the page tells (None): the item's
# title, answer, mistake.
COMMON = (
    (None, r'.*`ENODEV`|-1', r'.*closed context'),
    (None, ERROR, r'NULL [\w ]+'),
    ('NULL argument, no effect', r'0', r'NULL \w+: no effect'),
    (
        'Domain deallocated through an imported handle',
        ERROR,
        r'domain deallocated through .*',
    ),
    (
        'Above the device\'s limit (`max_pd`, `max_mr`, …), **`ENOMEM`**',
        r'.*`ENOMEM`',
        r'more than `max_\w+`',
    ),
    (
        'Depth or SGEs above the device\'s limit (`max_cqe`, …)',
        ERROR,
        r'more [\w ]+ than `max_\w+`',
    ),
    ('An object of another context', ERROR, r'[\w ]+ of another context'),
    ('Port 0 or too large', ERROR, r'port (0|too large)'),
    (
        'Unknown flag or attribute',
        ERROR,
        r'unknown (flag|attribute|value|input|change|access flag)',
    ),
    ('Unknown flag or attribute, **`EOPNOTSUPP`**', r'.*`EOPNOTSUPP`', r'unknown (flag|attribute)'),
    (
        'Still used: a PD by an object in it, a region by a window, an XRC domain by a QP or SRQ, '
        'anything else by what was made with it, **`EBUSY`**',
        r'(?!-4).*`EBUSY`',
        r'[\w ]+ in it|parent domain in use|used by an? [\w ]+|holds a QP or SRQ|window bound|'
        r'region registered|in an indirection table|a flow uses (it|them)|attached to a (group|QP)',
    ),
    (
        'A handle that is unknown or of another context, domain or kind, **`ENOENT`**',
        r'.*`ENOENT`',
        r'unknown handle|handle of another context|region of another domain|a window\'s handle',
    ),
    ('No entries, SGEs or bytes requested', ERROR, r'(new )?(length|size) 0|0 (entries|SGEs)'),
    (
        'More SGEs than the queue has, or a negative number',
        ERROR,
        r'more SGEs than the (queue|QP) has|negative number of SGEs',
    ),
    ('Queue full, **`ENOMEM`**', r'.*`ENOMEM`', r'queue full'),
    ('No file descriptor left, **`EMFILE`**', r'.*`EMFILE`', r'no file descriptor left'),
    (
        'Unknown number of an XRC QP, or a number of another domain',
        ERROR,
        r'unknown number( in the domain)?|number of another domain',
    ),
    (None, r'.*', r'every QP type, .*|boundary sizes'),
)

# Calls without a row, and why.
NO_ROW = {
    r'ibv_wc_read_\w+': 'reads a completion that was polled',
    r'ibv_end_poll': 'returns nothing',
    r'ibv_wr_(?!complete|abort)\w+': 'says nothing; ibv_wr_complete tells',
    r'ibv_cq_ex_to_cq|ibv_inc_rkey|'
    r'ibv_flow_label_to_udp_sport|ibv_is_qpt_supported': 'a conversion',
    r'ibv_\w*rate\w*_to_\w+|mbps_to_ibv_rate|mult_to_ibv_rate': 'a conversion; unit rate',
    r'ibv_copy_\w+': 'a conversion; unit marshal',
    r'ibv_get_sysfs_path|ibv_read_sysfs_file': 'unit sysfs',
    r'ibv_exp_\w+|_+ibv_\w+': 'ends in the calls that have rows; unit verbs_exp',
}


def document(root):
    return os.path.join(root, 'docs', 'ERRORS.md')


def printed(program):
    return subprocess.run(
        [program, '--table'], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def halves(root):
    with open(document(root), encoding='utf-8') as f:
        before, mark, after = f.read().partition(MARK)
    return before + mark, after


def cells_of(line):
    return [cell.strip() for cell in line.strip('| ').split(' | ')]


def chapters(table):
    """The title of each chapter, and of each of its calls the answers and to which mistakes it
    gives them."""
    for chapter in table.split('\n## ')[1:]:
        title, _, lines = chapter.partition('\n')
        calls = {}
        for line in lines.splitlines():
            if line.startswith('| `'):
                call, mistake, answer, _ = cells_of(line + ' ')
                calls.setdefault(call, {}).setdefault(answer, []).append(mistake)
        yield title, calls


def rendered(table):
    """An item for each answer that many calls share, then for each call, or for several that answer
    the same."""
    found = list(chapters(table))
    yield ''
    for title, answer, mistake in COMMON:
        own = dict.fromkeys(
            call for _, calls in found for call in calls if taken(calls[call], answer, mistake)
        )
        if title:
            yield from item(f'- {title}: {", ".join(own)}')
    for title, calls in found:
        same = {}
        for call, answers in calls.items():
            text = '; '.join(
                f'{head(short(answer))}{", ".join(mistakes)}'
                for answer, mistakes in sorted(
                    answers.items(), key=lambda a: short(a[0]) != '`EINVAL`')
                if mistakes
            )
            same.setdefault(text, []).append(call)
        same.pop('', None)
        if same:
            yield from ('', f'## {title}', '')
        for text, names in same.items():
            yield from item(f'- {", ".join(names)}: {text}')


def taken(answers, answer, mistake):
    """Takes these mistakes out of a call's own; were there any?"""
    count = sum(map(len, answers.values()))
    for given, mistakes in answers.items():
        if re.fullmatch(answer, given):
            mistakes[:] = [m for m in mistakes if not re.fullmatch(mistake, m)]
    return sum(map(len, answers.values())) < count


def short(answer):
    """The head of the page says which calls return NULL or -1 with an errno."""
    return (
        re.sub(r'^(NULL|-1|(-4) \(\S+\)), (?=`E[A-Z]+`)', lambda m: '-4, ' if m[2] else '', answer)
        or 'nothing'
    )


def head(answer):
    """The page says that EINVAL is the answer where none is named."""
    return '' if answer == '`EINVAL`' else f'**{answer}**: '


def item(text):
    return textwrap.wrap(
        text, 100, subsequent_indent='  ', break_long_words=False, break_on_hyphens=False
    )


def check_table(root, table):
    have, want = halves(root)[1].splitlines(), list(rendered(table))
    if have != want:
        for line in sorted(set(want) - set(have)):
            yield f'not in docs/ERRORS.md: {line}'
        for line in sorted(set(have) - set(want)):
            yield f'only in docs/ERRORS.md: {line}'
        yield 'docs/ERRORS.md differs; tests/abi/errors.py --update writes it'


def rows(table):
    for line in table.splitlines():
        cells = [c.strip() for c in line.split(' | ')]
        if len(cells) == 4 and cells[0].startswith('| `'):
            yield cells[0].strip('|` '), cells[3].strip('| ')


def check_tests(root, named):
    """'SUITE NAME: FUNCTION' is tests/SUITE/NAME_test.c with that function in it."""
    for verb, where in sorted(set(named)):
        test, _, function = where.partition(': ')
        suite, _, name = test.partition(' ')
        path = os.path.join(root, 'tests', suite, name + '_test.c')
        if not os.path.exists(path):
            yield f'{verb}: there is no test "{test}"'
            continue
        with open(path, encoding='utf-8') as f:
            if function and not re.search(rf'\b{function}\(', f.read()):
                yield f'{verb}: "{test}" has no {function}()'


def events(root):
    """Event and tests of each row of the table in docs/VERBS.md that names some."""
    with open(os.path.join(root, 'docs', 'VERBS.md'), encoding='utf-8') as f:
        chapter = f.read().partition('\n## Asynchronous events\n')[2].partition('\n## ')[0]
    for line in chapter.splitlines():
        cells = line.strip('| ').split(' | ')
        if line.startswith('| `') and len(cells) == 3:
            for where in re.split('; ', cells[2]):
                suite_test, _, functions = where.partition(': ')
                for function in functions.split(', '):
                    yield cells[0], f'{suite_test}: {function}' if function else suite_test


def declared(root):
    folder = os.path.join(root, 'include', 'infiniband', 'verbs')
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding='utf-8') as f:
            text = re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)
        yield from re.findall(
            r'^[a-z][\w \t]*[ *](\w*ibv_\w+|mbps_to_ibv_rate|mult_to_ibv_rate)\(', text, re.M
        )


def check_complete(root, table):
    have = {verb for verb, _ in rows(table)}
    for verb in sorted(set(declared(root)) - have):
        if not any(re.fullmatch(pattern, verb) for pattern in NO_ROW):
            yield f'{verb}: no row'


def main():
    program, root = sys.argv[1:3]
    table = printed(program)
    if '--update' in sys.argv:
        before = halves(root)[0]
        with open(document(root), 'w', encoding='utf-8') as f:
            f.write(before + '\n'.join(rendered(table)) + '\n')
        return 0
    wrong = [
        *check_table(root, table), *check_tests(root, rows(table)),
        *check_tests(root, events(root)), *check_complete(root, table),
    ]
    print('\n'.join(wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
