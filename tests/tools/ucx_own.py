# SPDX-License-Identifier: BSD-2-Clause
"""UCX's own tests (scripts/build-ucx) over the device by `verbena run`: of its transports, of its
protocols on them, and of connections by rdma_cm.

    ucx_own.py BUILD UCX_SOURCE [NAME]
"""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stock"))
from harness import SLOWER  # noqa: E402
from tools import ToolBench, run_table, want  # noqa: E402

LIMIT_S = 3600 * SLOWER
TEST_LIMIT_S = 300 * SLOWER

# test_md.sys_device wants a PCI device, which soft RoCE is not either; test_ucp_perf a fast one.
ROWS = [
    ("uct", "rc_verbs/*:ud_verbs/*:ib/*:rcv/*-*/test_md.sys_device/*"),
    ("uct by rdma_cm", "rdmacm/*"),
    ("ucp rc", "rc/*:rc_no_ud/*-*/test_ucp_perf.*"),
    ("ucp ud", "ud/*:ud_tcp/*-*/test_ucp_perf.*"),
]


def run_row(bench, folder, tests):
    env = {
        "UCX_MODULE_DIR": os.path.join(folder, "build", "modules"),
        "UCX_HANDLE_ERRORS": "bt",
        "WATCHDOG_GTEST_TIMEOUT": str(TEST_LIMIT_S),
        "TMPDIR": bench.make_dir(f"tmp{bench.number()}"),
    }
    gtest = os.path.join(folder, "build", "test", "gtest", "gtest")
    process = bench.start([bench.tool(), "run", "--", gtest, "--gtest_filter=" + tests], env)
    process.wait(time.monotonic() + LIMIT_S)
    process.kill()
    out = process.output()
    failed = sorted(set(re.findall(r"^\[  FAILED  \] [^ ,]+/[^ ,]+", out, re.M)))
    passed = re.search(r"^\[  PASSED  \] (\d+) tests?\.$", out, re.M)
    want(process.status == 0 and passed and not failed, "\n".join(failed) or out[-4000:])
    print(f"{passed[1]} tests")


def main():
    build, folder = sys.argv[1:3]
    with ToolBench(build) as bench:
        cases = [(name, lambda _, tests=tests: run_row(bench, os.path.abspath(folder), tests))
                 for name, tests in ROWS]
        return run_table(cases, bench, sys.argv[3] if len(sys.argv) > 3 else None)


if __name__ == "__main__":
    sys.exit(main())
