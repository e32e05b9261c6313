#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the compiler makes of a set of public headers: types with their layouts, functions, macros.

describe(cc, flags, folder, headers) compiles a file that includes the headers of the folder
(infiniband, rdma) and returns a Description.  Types come from the debugging information (all types,
used or not), prototypes from gcc's
-aux-info, macros from the preprocessor; the last two only as far as files of that folder have them.
"""
import os
import re
import subprocess
import tempfile

TAG = re.compile(r'^ <(\d+)><([0-9a-f]+)>: Abbrev Number: \d+(?: \((\w+)\))?')
ATTR = re.compile(r'^\s+<[0-9a-f]+>\s+(DW_AT_\w+)\s*: (.*)$')


class Die:
    """One entry of the debugging information."""

    def __init__(self, tag):
        self.tag = tag
        self.attr = {}
        self.children = []

    def text(self, name):
        """Without what some versions of readelf say about the form of the attribute."""
        value = self.attr.get(name)
        if value is None:
            return None
        return re.sub(r'^(\([^)]*\):? ?)+', '', value).strip()

    def number(self, name):
        value = self.text(name)
        return None if value is None else int(value.split()[0], 0)

    def ref(self, name):
        value = self.attr.get(name)
        return None if value is None else int(re.search(r'<0x([0-9a-f]+)>', value)[1], 16)


def read_dies(object_file):
    out = subprocess.run(['readelf', '-W', '--debug-dump=info', object_file], check=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    dies, stack, die = {}, [], None
    for line in out.splitlines():
        m = TAG.match(line)
        if m:
            level, offset, tag = int(m[1]), int(m[2], 16), m[3]
            del stack[level:]
            die = None
            if tag:
                die = Die(tag[len('DW_TAG_'):])
                dies[offset] = die
                if stack:
                    stack[-1].children.append(die)
                stack.append(die)
            continue
        m = ATTR.match(line)
        if m and die:
            die.attr[m[1]] = m[2]
    return dies


class Types:
    def __init__(self, dies):
        self.dies = dies
        self.records = {}  # 'struct x' -> (size, {path: (offset, size, type)})
        self.enums = {}    # constant -> (value, enum)
        for die in dies.values():
            if (
                die.tag in ('structure_type', 'union_type')
                and die.number('DW_AT_byte_size') is not None
            ):
                name = die.text('DW_AT_name')
                if name:
                    members = {}
                    self.walk(die, '', 0, members)
                    self.records[f'{self.kind(die)} {name}'] = (
                        die.number('DW_AT_byte_size'),
                        members,
                    )
            elif die.tag == 'enumeration_type':
                for c in die.children:
                    if c.tag == 'enumerator':
                        self.enums[c.text('DW_AT_name')] = (c.number('DW_AT_const_value'),
                                                            die.text('DW_AT_name') or '')

    @staticmethod
    def kind(die):
        return {'structure_type': 'struct', 'union_type': 'union', 'enumeration_type': 'enum'}[
            die.tag
        ]

    def walk(self, record, prefix, base, members):
        for m in record.children:
            if m.tag != 'member':
                continue
            offset = base + (m.number('DW_AT_data_member_location') or 0)
            target = self.dies[m.ref('DW_AT_type')]
            name = m.text('DW_AT_name')
            anonymous = target.tag in ('structure_type', 'union_type') and not target.text(
                'DW_AT_name'
            )
            path = prefix + name if name else prefix
            if name:
                members[path] = (offset, self.size(target), '' if anonymous else self.name(target))
            if anonymous:
                self.walk(target, path + '.' if name else prefix, offset, members)

    def size(self, die):
        if die.tag == 'array_type':
            count = 1
            for c in die.children:
                if c.tag == 'subrange_type':
                    bound = c.number('DW_AT_upper_bound')
                    count *= 0 if bound is None else bound + 1
            return count * self.size(self.dies[die.ref('DW_AT_type')])
        size = die.number('DW_AT_byte_size')
        if size is None and die.ref('DW_AT_type') is not None:
            return self.size(self.dies[die.ref('DW_AT_type')])
        return size

    def name(self, die):
        """The type as C would write it, near enough to compare."""
        inner = die.ref('DW_AT_type')
        of = self.name(self.dies[inner]) if inner is not None and die.tag != 'typedef' else 'void'
        if die.tag == 'pointer_type':
            return f'{of} *'
        if die.tag == 'const_type':
            return f'const {of}'
        if die.tag == 'array_type':
            return f'{of}[{self.size(die)}]'
        if die.tag == 'subroutine_type':
            args = [self.name(self.dies[c.ref('DW_AT_type')]) for c in die.children
                    if c.tag == 'formal_parameter']
            return f'{of} ({", ".join(args)})'
        if die.tag in ('structure_type', 'union_type', 'enumeration_type'):
            return f'{self.kind(die)} {die.text("DW_AT_name") or ""}'
        return die.text('DW_AT_name') or die.tag


def normal_prototype(line, is_definition):
    """'type (types)' of a line of -aux-info, and its name."""
    decl = line.split('*/', 1)[1].split(';')[0].strip()
    m = re.match(r'(?:extern|static) (.*?)(\w+) \((.*)\)$', decl)
    if not m:
        return None, None
    result, name, args = m[1].replace(' ', ''), m[2], m[3]
    if is_definition and args != 'void':
        args = ', '.join(re.sub(r'\b\w+(\[\])?$', r'\1', a.strip()) for a in args.split(','))
    args = args.replace('[]', '*')
    return name, f'{result}({args})'.replace(' ', '')


class Description:
    def __init__(self, records, enums, functions, macros):
        self.records = records
        self.enums = enums
        self.functions = functions  # name -> (normal prototype, 'inline' or 'extern')
        self.macros = macros        # name -> its expansion


def read_functions(aux_file, folder):
    functions = {}
    with open(aux_file, encoding='utf-8') as f:
        for line in f:
            if f'/{folder}/' not in line:
                continue
            is_definition = ':NF */' in line or ':OF */' in line
            name, prototype = normal_prototype(line, is_definition)
            if name and (is_definition or name not in functions):
                functions[name] = (prototype, 'inline' if is_definition else 'extern')
    return functions


def read_macros(cc, flags, folder, source, tmp):
    """Macros defined in files of the folder, with their full expansion where they take no
    arguments."""
    out = subprocess.run(
        [cc, *flags, '-E', '-dD', source], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    names, ours = {}, False
    for line in out.splitlines():
        m = re.match(r'# \d+ "(.*?)"', line)
        if m:
            ours = f'/{folder}/' in m[1]
            continue
        m = re.match(r'#(define|undef) (\w+)(\()?', line)
        if m and m[1] == 'undef':
            names.pop(m[2], None)
        elif m and ours:
            names[m[2]] = bool(m[3])
    plain = [n for n, takes_arguments in names.items() if not takes_arguments]
    probe = os.path.join(tmp, 'macros.c')
    with open(source, encoding='utf-8') as f, open(probe, 'w', encoding='utf-8') as p:
        p.write(f.read() + ''.join(f'\n@@{i} {n}' for i, n in enumerate(plain)))
    text = subprocess.run([cc, *flags, '-E', '-P', probe], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout
    macros = {n: None for n, takes_arguments in names.items() if takes_arguments}
    for line in text.splitlines():
        if line.startswith('@@'):
            index, _, expansion = line[2:].partition(' ')
            macros[plain[int(index)]] = expansion.strip()
    return macros


def describe(cc, flags, folder, headers):
    with tempfile.TemporaryDirectory() as tmp:
        source = os.path.join(tmp, 'all.c')
        with open(source, 'w', encoding='utf-8') as f:
            f.write(''.join(f'#include <{folder}/{h}>\n' for h in headers))
        obj, aux = os.path.join(tmp, 'all.o'), os.path.join(tmp, 'all.aux')
        base = [cc, '-std=gnu11', '-w', *flags]
        subprocess.run(
            [
                *base, '-g', '-gdwarf-4', '-fno-eliminate-unused-debug-types', '-aux-info', aux,
                '-c', '-o', obj, source,
            ],
            check=True,
        )
        types = Types(read_dies(obj))
        return Description(types.records, types.enums, read_functions(aux, folder),
                           read_macros(cc, ['-std=gnu11', '-w', *flags], folder, source, tmp))
