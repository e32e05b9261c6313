#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs `meson test` and ends with one plain line: N passed, N failed, N skipped.

    run_tests.py BUILD_DIR [arguments for meson test]

The counts come from meson's machine-readable log, so they are what it saw.  Skipped tests are named with
their reason (their last line of output), because a skip that nobody reads is a test that nobody runs.
"""
import json
import os
import subprocess
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}


def read_log(build):
    path = os.path.join(build, "meson-logs", "testlog.json")
    with open(path, encoding="utf-8") as log:
        return [json.loads(line) for line in log if line.strip()]


def last_line(result):
    lines = (result.get("stdout") or result.get("stderr") or "").strip().splitlines()
    return lines[-1] if lines else "no reason given"


def main():
    build, args = sys.argv[1], sys.argv[2:]
    log = os.path.join(build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    status = subprocess.call(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", *args])
    if not os.path.exists(log):
        print("0 passed, 1 failed, 0 skipped")
        return status or 1

    results = read_log(build)
    skipped = [r for r in results if r["result"] in SKIPPED]
    passed = [r for r in results if r["result"] in PASSED]
    failed = [r for r in results if r["result"] not in PASSED | SKIPPED]
    for result in skipped:
        print(f"skipped: {result['name']}: {last_line(result)}")
    for result in failed:
        print(f"failed: {result['name']}: {result['result']}")
    sys.stdout.flush()
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return status or (1 if failed else 0)


if __name__ == "__main__":
    sys.exit(main())
