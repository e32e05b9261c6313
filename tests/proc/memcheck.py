#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs under valgrind's memcheck, which must report nothing.

    memcheck.py BUILD_DIR MEMCHECK_TARGET

rdma-core's programs, both ends, which are free of errors and leaks themselves; and memcheck_target,
whose memory another process writes.  Exit status 77: there is no valgrind.
"""
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stock"))
import harness  # noqa: E402

FOUND = 9
VALGRIND = [
    "valgrind", "-q", f"--error-exitcode={FOUND}", "--leak-check=full",
    "--errors-for-leak-kinds=definite,possible",
]
LIMIT_S = 200 * harness.SLOWER
PAIRS = [
    (["ibv_rc_pingpong", "-n", "50"], "-p"),
    (["ibv_uc_pingpong", "-n", "50", "-e"], "-p"),
    (["ibv_ud_pingpong", "-n", "50"], "-p"),
    (["ibv_srq_pingpong", "-n", "50"], "-p"),
]


def pair(argv, port_option, transport):
    def case(bench):
        port = bench.ports.take()
        env = {"VERBENA_TRANSPORT": transport, "MALLOC_PERTURB_": None}
        argv_at = [*VALGRIND, *argv, port_option, str(port)]
        bench.pair(argv_at, [*argv_at, "127.0.0.1"], port, env, env, limit=LIMIT_S)
    return case


def target(program, what, expect):
    def case(bench):
        process = bench.start([*VALGRIND, program, what], {"MALLOC_PERTURB_": None})
        if process.wait(time.monotonic() + LIMIT_S) != expect:
            raise harness.Failure(f"exit status {expect} was expected:\n{process.describe()}")
    return case


def main():
    build, program = sys.argv[1:3]
    if not shutil.which("valgrind"):
        harness.skip("there is no valgrind here")
    with harness.Bench(build) as bench:
        if harness.sanitizer_runtime(os.path.join(bench.lib, "libibverbs.so.1")):
            harness.skip("sanitizers do not run under valgrind")
        staged = bench.stage(program)
        cases = [
            (f"{transport}: {argv[0]}", pair(argv, option, transport))
            for argv, option in PAIRS
            for transport in ("local", "udp")
        ]
        cases += [
            ("memory that a peer wrote", target(staged, "WRITTEN", 0)),
            ("a byte that no peer wrote", target(staged, "UNWRITTEN", FOUND)),
        ]
        return harness.run_table(cases, bench)


if __name__ == "__main__":
    harness.end_with(main)
