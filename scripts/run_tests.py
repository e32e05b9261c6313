#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs `meson test` and ends with one plain line: N passed, N failed, N skipped.

    run_tests.py BUILD_DIR [arguments for meson test]

The counts come from meson's machine-readable log, so they are what it saw.  Skipped tests are named
with their reason (their last line of output), because a test that is
skipped unnoticed never runs.  Failed ones are named with the end of their output.

A test that runs, but not all of its cases, prints for those (tests/left_out.h,
tests/stock/harness.py)

    left out: NUMBER: REASON

They are added up by reason, right before the closing line.
"""
import collections
import glob
import json
import os
import re
import subprocess
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
LINES_OF_FAILED = 30  # at most, of each of its streams
FAILED_CASE = re.compile(r"^FAILED ", re.MULTILINE)     # a table's (tests/stock/harness.py)
LEFT_OUT = re.compile(r"^\s*left out: (\d+): (.*)$", re.MULTILINE)


def logs(build):
    """At most one: with --wrapper its name is another."""
    return glob.glob(os.path.join(build, "meson-logs", "testlog*.json"))


def read_log(path):
    with open(path, encoding="utf-8") as log:
        return [json.loads(line) for line in log if line.strip()]


def last_line(result):
    lines = (result.get("stdout") or result.get("stderr") or "").strip().splitlines()
    return lines[-1] if lines else "no reason given"


def why_failed(text):
    """The lines from the first case of a table that failed; of any other test, the last ones."""
    case = FAILED_CASE.search(text)
    if case:
        return text[case.start():].splitlines()[:LINES_OF_FAILED]
    return text.strip().splitlines()[-LINES_OF_FAILED:]


def report_failed(result):
    """Each line begins in the same way, so that all of a long log are found by it."""
    print(f"failed: {result['name']}: {result['result']}")
    for stream in ("stdout", "stderr"):
        for line in why_failed(result.get(stream) or ""):
            print(f"failed:   {line}")


def report_left_out(results):
    """What tests that ran have not tried."""
    cases = collections.Counter()
    tests = collections.defaultdict(set)
    for result in results:
        for number, reason in LEFT_OUT.findall(
            f"{result.get('stdout') or ''}\n{result.get('stderr') or ''}"
        ):
            cases[reason] += int(number)
            tests[reason].add(result["name"])
    for reason, number in cases.most_common():
        print(f"left out: {number} in {', '.join(sorted(tests[reason]))}: {reason}")
    print(f"{sum(cases.values())} cases inside tests were left out")


def environment():
    """Three tests for two CPUs unless the caller says how many: a third of their time they wait."""
    cpus = len(os.sched_getaffinity(0))
    return {"MESON_TESTTHREADS": str(cpus + (cpus + 1) // 2), **os.environ}


def main():
    build, args = sys.argv[1], sys.argv[2:]
    for old in logs(build):
        os.unlink(old)
    status = subprocess.call(
        ["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", *args],
        env=environment(),
    )
    found = logs(build)
    if not found:
        print("0 passed, 1 failed, 0 skipped")
        return status or 1

    results = read_log(found[0])
    skipped = [r for r in results if r["result"] in SKIPPED]
    passed = [r for r in results if r["result"] in PASSED]
    failed = [r for r in results if r["result"] not in PASSED | SKIPPED]
    for result in skipped:
        print(f"skipped: {result['name']}: {last_line(result)}")
    for result in failed:
        report_failed(result)
    report_left_out(passed + failed)
    sys.stdout.flush()
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return status or (1 if failed else 0)


if __name__ == "__main__":
    sys.exit(main())
