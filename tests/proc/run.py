#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs one program of this folder as an ordinary user, with its own run directory and UDP port.

    run.py BUILD_DIR PROGRAM [arguments]
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stock"))
import harness  # noqa: E402

LIMIT_S = 220 * harness.SLOWER   # longer than RC_LIMIT_S (rc.h), whose alarm ends a hang


def main():
    build, program, args = sys.argv[1], sys.argv[2], sys.argv[3:]
    with harness.Bench(build) as bench:
        process = bench.start([bench.stage(program), *args])
        status = process.wait(time.monotonic() + LIMIT_S)
        print(process.describe() if status not in (0, harness.SKIP) else process.output().strip())
        return 1 if status is None or status < 0 else status


if __name__ == "__main__":
    harness.end_with(main)
