#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A program that finds one of our two libraries and the distribution's other one must get a warning
of one line.

    mixed.py BUILD_DIR
"""
import os
import shutil
import subprocess
import sys
import tempfile

CASES = {
    "libibverbs.so.1": "this libibverbs is Verbena's, but librdmacm is not",
    "librdmacm.so.1": "is Verbena's librdmacm, but",
}


def complaints(build, library):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(os.path.join(build, "lib", library), os.path.join(folder, library))
        env = {**os.environ, "LD_LIBRARY_PATH": folder, "VERBENA_DIR": folder}
        done = subprocess.run(
            ["rping", "-c", "-a", "127.0.0.1"], env=env, capture_output=True, text=True, timeout=60,
            check=False,
        )
        if done.returncode == 0:
            sys.exit(f"rping succeeds with our {library} alone")
        return [line for line in done.stderr.splitlines() if "verbena" in line]


def main():
    if not shutil.which("rping"):
        print("rping is not installed (scripts/setup installs it)")
        return 77
    for library, text in CASES.items():
        lines = complaints(sys.argv[1], library)
        if len(lines) != 1 or text not in lines[0]:
            print(f"our {library} alone: expected one line with {text!r}, got {lines}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
