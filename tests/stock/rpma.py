#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's librpma over the libraries under test.

    rpma.py BUILD_DIR one_host|hosts_v4|hosts_v6 [PART_OF_A_NAME]

Debian packages librpma without its examples, so rpma_pair.c makes their calls; it is compiled here.
librpma finds its device by rdma_bind_addr(), which names none for a loopback address.
"""
import os
import shutil
import sys
import time

import harness
import netns
from harness import Failure
from rdmacm import run_client

HERE = os.path.dirname(os.path.abspath(__file__))
TIMES = 5
WAYS = "cq", "rcq", "channel", "srq", "srq_cq", "srq_rcq"   # of the server's receives


def compile_pair(bench, build):
    """An ordinary user can run it."""
    target = os.path.join(bench.dir, "rpma_pair")
    words = ["cc", "-O1", "-I", os.path.join(HERE, "../../include"),
             os.path.join(HERE, "rpma_pair.c"), "-o", target, "-lrpma",
             "-L", os.path.join(build, "lib"), "-libverbs", "-lrdmacm"]
    bench.run(words, prefix=[])
    os.chmod(target, 0o755)
    return target


def run_pair(bench, program, address, prefixes, way):
    port = str(bench.ports.take())
    deadline = time.monotonic() + harness.LIMIT_S
    server = bench.start([program, "server", address, port, way], prefix=prefixes[0])
    client = run_client(
        bench, server, [program, "client", address, port], prefixes[1], deadline
    )
    server.wait(deadline if client.status == 0 else time.monotonic() + 2)
    if [server.status, client.status] != [0, 0]:
        server.kill()
        client.kill()
        raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")


def main():
    build, where = sys.argv[1:3]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    if not os.path.exists("/usr/include/librpma.h") or not shutil.which("cc"):
        harness.skip("librpma-dev is not installed (scripts/setup installs it)")
    family = where.removeprefix("hosts_") if where.startswith("hosts_") else "v4"
    with harness.Bench(build) as bench:
        program = compile_pair(bench, build)
        with netns.two_hosts() as hosts:
            hosts.check()
            prefixes = [
                hosts.prefix(host, bench.user_prefix())
                for host in (0, 0 if where == "one_host" else 1)
            ]
            address = hosts.address(0, family)
            cases = [
                (f"librpma, receives by {way}, pair {i + 1}",
                 lambda _, way=way: run_pair(bench, program, address, prefixes, way))
                for way in WAYS for i in range(TIMES)
            ]
            return harness.run_table([c for c in cases if part in c[0]], bench)


if __name__ == "__main__":
    harness.end_with(main)
