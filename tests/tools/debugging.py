# SPDX-License-Identifier: BSD-2-Clause
"""docs/DEBUGGING.md: the commands on its hanging programs print the lines that the page shows."""
import os
import re
import sys
import tempfile
import xml.etree.ElementTree

from tools import cases_of, main, want

PROGRAM = sys.argv.pop(2)
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")


def read(name):
    with open(os.path.join(DOCS, name), encoding="utf-8") as file:
        return file.read()


def blocks():
    """The page's contents: the commands of each case, each with its output lines."""
    found, case, command = {}, None, None
    for line in read("DEBUGGING.md").splitlines():
        if match := re.match(r"    \$ verbena record .*hang (\S+)$", line):
            case, command = match[1], None
            found[case] = []
        elif case and (match := re.match(r"    \$ verbena (trace .*)$", line)):
            command = (match[1].split(), [])
            found[case].append(command)
        elif line.startswith("    ") and command and line.strip() != "...":
            command[1].append(line)
        elif line.strip() and not line.startswith("    "):
            command = None
    return found


def plain(line):
    """The line without numbers and column widths, which depend on run and machine."""
    line = re.sub(r"0x[0-9a-f]+|\b\d+(\.\d+)?\b", "#", line)
    return re.sub(r"\s+", " ", re.sub(r"hang\.#/#|hang\.#", "hang", line)).strip()


def is_printed(line, given):
    """A line of the page that ends with "..." is the beginning of an output line."""
    if line.endswith(" ..."):
        return any(other.startswith(line[:-4]) for other in given)
    return line in given


def check(bench, name):
    folder = tempfile.mkdtemp(dir=bench.dir)
    os.chmod(folder, 0o777)
    out = os.path.join(folder, "out")
    program = os.path.join(bench.bin, "hang")
    if not os.path.exists(program):
        os.symlink(bench.stage(PROGRAM), program)
    bench.verbena("record", "-o", out, "--", program, name, expect=0)
    commands = blocks()[name]
    want(commands and all(lines for _, lines in commands), f"{name}: no output in the page")
    for words, lines in commands:
        words = [out if word == "DIR" else word for word in words]
        done = bench.verbena(*words, expect=0)
        given = [plain(line) for line in done.out.splitlines()]
        for line in lines:
            want(is_printed(plain(line), given), f"not printed:\n{line}\nbut\n{done.describe()}")


def case_no_receive(bench):
    check(bench, "no-receive")


def case_wrong_rkey(bench):
    check(bench, "wrong-rkey")


def case_one_poll(bench):
    check(bench, "one-poll")


def case_picture(_bench):
    """The picture exists, uses only permitted elements, and contains the texts of the log."""
    (name,) = re.findall(r"!\[.*?\]\((\S+\.svg)\)", read("DEBUGGING.md"))
    text = read(name)
    root = xml.etree.ElementTree.fromstring(text)
    want(root.tag.endswith("svg") and len(text) < 10000, name)
    words = " ".join(element.text or "" for element in root.iter())
    for part in "post SEND", "RNR NAK", "again":
        want(part in words, f"no {part} in {words}")


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
