#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's own tests, as its package ships them: Python over pyverbs, never changed.

    rdma_core.py BUILD_DIR

They want a network device with an IP address other than the loopback interface's, and skip what
only mlx5 or EFA has.
"""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

from tools import LeftOut, ToolBench, cases_of, run_table, skip, want, want_equal

PYTHON = "/usr/bin/python3"     # the one that python3-pyverbs is for
SHIPPED = "/usr/share/doc/rdma-core/tests"
# A receive posted in RESET: refused by rxe, accepted by mlx5 and here (docs/ERRORS.md).
KNOWN = {"test_post_receive_qp_state_bad_flow"}
PASSED_AT_LEAST = 100           # 146 of rdma-core 44's for an ordinary user


def unpack(folder):
    os.makedirs(folder)
    for name in os.listdir(SHIPPED):
        source = os.path.join(SHIPPED, name)
        target = os.path.join(folder, name.removesuffix(".gz"))
        if name.endswith(".gz"):
            with gzip.open(source) as packed, open(target, "wb") as plain:
                shutil.copyfileobj(packed, plain)
        elif name.endswith(".py"):
            shutil.copyfile(source, target)


def has_address(interface):
    shown = subprocess.run(
        ["ip", "-4", "-j", "addr", "show", "dev", interface, "up"], capture_output=True, check=False
    )
    return interface != "lo" and any(
        entry.get("addr_info") for entry in json.loads(shown.stdout or "[]")
    )


def case_shipped_tests(bench):
    devices = [d["name"] for d in bench.json("devices") if has_address(d["netdev"])]
    if not devices:
        raise LeftOut("no device with an IPv4 address besides the loopback interface's")
    root = os.path.join(bench.dir, "rdma-core")
    if not os.path.isdir(root):
        unpack(os.path.join(root, "tests"))
    done = bench.verbena(
        "run", "--", PYTHON, os.path.join(root, "tests", "run_tests.py"), "-v", "--dev", devices[0],
        env={"PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}, limit=200,
    )
    failed = set(re.findall(r"^(?:ERROR|FAIL): (\w+)", done.err, re.MULTILINE))
    passed = len(re.findall(r"\bok$", done.err, re.MULTILINE))
    want(re.search(r"^Ran \d+ tests", done.err, re.MULTILINE), done.describe())
    want_equal(failed - KNOWN, set(), f"failures in\n{done.describe()}")
    want(passed >= PASSED_AT_LEAST, f"only {passed} passed:\n{done.describe()}")
    print(f"       {passed} passed, {len(failed)} failed as expected")


if __name__ == "__main__":
    if not os.path.isdir(SHIPPED) or not os.path.isdir("/usr/lib/python3/dist-packages/pyverbs"):
        skip("rdma-core or python3-pyverbs is not installed (scripts/setup installs them)")
    with ToolBench(sys.argv[1]) as tool_bench:
        sys.exit(run_table(cases_of(sys.modules[__name__]), tool_bench))
