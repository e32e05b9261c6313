#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's qperf over the library under test: all its RDMA tests.

    qperf.py BUILD_DIR one_host|hosts [cm]

cm: the tests that can connect through rdma_cm, connected that way.
"""
import re
import sys
import time

import harness
import netns
from harness import Failure

TESTS = """
    rc_lat rc_bw rc_bi_bw rc_rdma_read_lat rc_rdma_read_bw
    rc_rdma_write_lat rc_rdma_write_bw rc_rdma_write_poll_lat
    rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add
    uc_lat uc_rdma_write_lat uc_rdma_write_bw uc_rdma_write_poll_lat ud_lat
""".split()
CM_TESTS = [name for name in TESTS if name.startswith("rc_") or name.startswith("ver_rc_")]
# Each test runs for a second: qperf's number of messages (-n) does not end all tests.
SECONDS, SIZE, MTU = 1, 1024, 1024


def serve(bench, prefix):
    port = bench.ports.take()
    server = bench.start(["qperf", "-lp", str(port)], prefix=prefix)
    deadline = time.monotonic() + harness.LIMIT_S
    while not server.listens_on(port):
        if server.popen.poll() is not None or time.monotonic() > deadline:
            raise Failure(f"the server never listened:\n{server.describe()}")
        time.sleep(0.01)
    return port


def cases(bench, address, server_prefix, client_prefix, by_cm):
    port = serve(bench, server_prefix)
    options = ["-cm", "1"] if by_cm else ["-mt", str(MTU)]

    def case(name):
        def run(_):
            out = bench.run(
                [
                    "qperf", "-lp", str(port), "-t", str(SECONDS), "-m", str(SIZE), *options, "-vs",
                    address, name,
                ],
                prefix=client_prefix,
            )
            if not re.search(r"(latency|bw|msg_rate)\s+=\s+[\d.]+", out):
                raise Failure(f"no result:\n{out}")
        return run
    return [(name, case(name)) for name in (CM_TESTS if by_cm else TESTS)]


def main():
    build, where = sys.argv[1:3]
    by_cm = sys.argv[3:] == ["cm"]
    harness.need_programs("qperf")
    with harness.Bench(build) as bench:
        if where == "one_host":
            return harness.run_table(cases(bench, "127.0.0.1", None, None, by_cm), bench)
        with netns.two_hosts() as hosts:
            hosts.check()
            prefixes = [hosts.prefix(host, bench.user_prefix()) for host in (0, 1)]
            return harness.run_table(cases(bench, hosts.address(0), *prefixes, by_cm), bench)


if __name__ == "__main__":
    harness.end_with(main)
