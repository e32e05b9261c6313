# SPDX-License-Identifier: BSD-2-Clause
"""UCX, never rebuilt, over the device by `verbena run`: its protocols on rc_verbs and ud_verbs, on
one host and between two."""
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stock"))
import netns  # noqa: E402
from harness import LIMIT_S  # noqa: E402
from tools import ToolBench, run_table, skip, want  # noqa: E402

TRANSPORTS = ("rc_v", "ud_v", "rc_v,ud_v")
TESTS = (
    "-t tag_lat -s 8", "-t tag_lat -s 100000", "-t tag_bw -s 65536", "-t ucp_put_lat",
    "-t ucp_put_bw -s 4096", "-t ucp_get -s 4096", "-t ucp_add", "-t ucp_fadd", "-t ucp_swap",
    "-t ucp_cswap", "-t stream_bw", "-t ucp_am_lat -s 8", "-t ucp_am_bw -s 20000",
)
COUNT = 200


def run_pair(bench, words, transport, device, address, prefixes):
    port = bench.ports.take()
    env = {
        "UCX_TLS": f"{transport},self",
        "UCX_NET_DEVICES": f"{device}:1",
        "UCX_WARN_UNUSED_ENV_VARS": "n",
    }
    program = [bench.tool(), "run", "--", "ucx_perftest", "-p", str(port)]
    _, out = bench.pair(
        program,
        [*program, address, "-n", str(COUNT), "-w", "10", *words.split()],
        port,
        env,
        env,
        *prefixes
    )
    want(re.search(rf"Final:\s+{COUNT}\s", out), f"no result:\n{out}")


def run_by_address(bench, device, address, prefixes):
    """Connected by rdma_cm: ucx_perftest exchanges its addresses by TCP, so it is UCX's other
    program.  Its server ends by a signal only."""
    port = bench.ports.take()
    env = {
        "UCX_TLS": "rc_v,self",
        "UCX_NET_DEVICES": f"{device}:1",
        "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm",
        "UCX_WARN_UNUSED_ENV_VARS": "n",
    }
    program = [bench.tool(), "run", "--", "io_demo", "-p", str(port)]
    server = bench.start(program, env, prefixes[0])
    deadline = time.monotonic() + LIMIT_S
    while (
        "started listener" not in server.output()
        and server.popen.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    client = bench.start([*program, "-i", "200", "-o", "read,write", address], env, prefixes[1])
    client.wait(deadline)
    server.kill()
    want(client.status == 0 and "Client exit with status 'OK'" in client.output(),
         f"server:\n{server.describe()}\nclient:\n{client.describe()}")
    want("got new connection request" in server.output(), server.output())


def cases(bench, device, address, prefixes=(None, None)):
    def case(words, transport):
        return lambda _: run_pair(bench, words, transport, device, address, prefixes)
    rows = (
        [(words, TRANSPORTS[0]) for words in TESTS]
        + [(TESTS[0], t) for t in TRANSPORTS[1:]]
        + [(TESTS[5], "ud_v")]
    )
    by_address = (
        f"{device} io_demo by rdma_cm",
        lambda _: run_by_address(bench, device, address, prefixes),
    )
    return [
        *((f"{device} {transport} {words}", case(words, transport)) for words, transport in rows),
        by_address,
    ]


def loopback(bench):
    """The name of the loopback interface's device."""
    return next(d["name"] for d in bench.json("devices") if d["netdev"] == "lo")


def main():
    if not shutil.which("ucx_perftest"):
        skip("ucx_perftest is not installed (scripts/setup installs it)")
    build, where = sys.argv[1:3]
    with ToolBench(build) as bench:
        if where == "one_host":
            return run_table(cases(bench, loopback(bench), "127.0.0.1"), bench)
        with netns.two_hosts() as hosts:
            hosts.check()
            prefixes = [hosts.prefix(host, bench.user_prefix()) for host in (0, 1)]
            return run_table(cases(bench, "vrb0", hosts.address(0), prefixes), bench)


if __name__ == "__main__":
    sys.exit(main())
