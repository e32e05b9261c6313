#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Which lines of core, roce and local the tests run, after they have run in a build with
-Db_coverage=true.

    coverage.py SOURCE_ROOT BUILD_DIR [--lines]

Prints a line per folder and per file that is not covered in full, with --lines the numbers of the
lines as well; ends with 1 if less than 90 % of the lines of a folder were run.  docs/RELIABILITY.md
says why what is left is left.
"""
import collections
import json
import os
import subprocess
import sys

FOLDERS = ("src/core", "src/roce", "src/local")
WANTED = 90.0


def measure(root, build):
    """For each file: its lines that count, and those that ran. Only as the library has it: tests
    compile some files otherwise."""
    done = subprocess.run(
        [
            "gcovr", "--root", root, "--object-directory", build, "--json", "-",
            *(f"--filter={root}/{folder}/" for folder in FOLDERS), os.path.join(build, "src"),
        ],
        stdout=subprocess.PIPE,
        check=True,
    )
    files = collections.defaultdict(dict)
    for entry in json.loads(done.stdout)["files"]:
        lines = files[entry["file"]]
        for line in entry["lines"]:
            if not line.get("gcovr/noncode"):
                lines[line["line_number"]] = max(lines.get(line["line_number"], 0), line["count"])
    return files


def ranges(numbers):
    found = []
    for n in sorted(numbers):
        if found and n == found[-1][1] + 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def share(lines):
    return 100.0 * sum(count > 0 for count in lines) / max(len(lines), 1)


def main():
    root, build = sys.argv[1:3]
    files = measure(root, build)
    failed = False
    for folder in FOLDERS:
        here = {name: lines for name, lines in files.items() if name.startswith(folder + "/")}
        counts = [count for lines in here.values() for count in lines.values()]
        print(f"{folder}: {share(counts):.1f} % of {len(counts)} lines")
        failed = failed or share(counts) < WANTED
        for name, lines in sorted(here.items()):
            missed = [number for number, count in lines.items() if not count]
            if missed:
                print(f"    {name}: {share(lines.values()):.1f} %, {len(missed)} not run"
                      + (f": {ranges(missed)}" if "--lines" in sys.argv else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    sys.exit(main())
