#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs tests on a machine that is busy with something else.

    load.py [--busy 20] [--cpus 2] BUILD_DIR [arguments for meson test]

--busy processes that never sleep share --cpus CPUs with the tests, which run one at a time.  A test
then gets a tenth of its usual CPU time: no verb may fail for that alone (docs/TESTING.md).  Limits
that exist to end what hangs are stretched: meson's, and those that read VERBENA_TEST_SLOWER.
"""
import argparse
import ctypes
import os
import signal
import subprocess
import sys

SLOWER = 10
PR_SET_PDEATHSIG = 1
RUN_TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_tests.py")


def spin(parent):
    """Spins in a session of its own: where the kernel shares the CPU among sessions, each spinner
    gets as big a share as a test program."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    while os.getppid() == parent:
        for _ in range(1000000):
            pass
    os._exit(0)


def start_busy(count):
    parent = os.getpid()
    pids = []
    for _ in range(count):
        pid = os.fork()
        if not pid:
            spin(parent)
        pids.append(pid)
    return pids


def end_busy(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", type=int, default=20)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("build")
    options, tests = parser.parse_known_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.cpus])
    pids = start_busy(options.busy)
    print(f"{options.busy} busy processes on {len(os.sched_getaffinity(0))} CPUs", flush=True)
    try:
        return subprocess.call([sys.executable, RUN_TESTS, options.build, "--num-processes", "1",
                                "--timeout-multiplier", str(SLOWER), *tests],
                               env={**os.environ, "VERBENA_TEST_SLOWER": str(SLOWER)})
    finally:
        end_busy(pids)


if __name__ == "__main__":
    sys.exit(main())
