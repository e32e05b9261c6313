#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's programs over networks that are not perfect: slow, shared, lossy, interrupted.

    network.py BUILD_DIR GROUP [part of a case's name]

Two hosts with a router between them, three network namespaces.  Data flow from host 1 to host 0, and what the
network does to them it does at the router.  No case asserts a time; those about sharing compare flows of one run.
"""
import os
import re
import subprocess
import sys
import time

import harness
import netns
from harness import Failure
from stock import Place

SECONDS = 3
TCP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tcp_stream.py")
PORT = 4791


class Network:
    """The namespaces, and the programs in them."""

    def __init__(self, bench, mtu=1500):
        self.bench = bench
        self.hosts = netns.RoutedHosts()
        try:
            self.hosts.set_mtu(mtu)
            self.place = Place(bench, self.hosts)
            self.device = self.place.device("eth")
            self.gid = str(self.place.gid_index(self.device, "v4"))
        except BaseException:
            self.hosts.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hosts.close()

    def per_packet(self):
        """Segments leave one by one, as from a network card: otherwise a loss takes 64 KiB at once."""
        for host in 0, 1:
            self.hosts.ip(host, "link", "set", netns.IFNAME, "gso_max_segs", "1")

    def slow(self, rate):
        self.hosts.run(netns.ROUTER, "tc", "qdisc", "replace", "dev", netns.TO[0], "root", "tbf", "rate", rate,
                       "burst", "16k", "limit", "150k")

    def lose(self, per_mille):
        rule = f"iifname {netns.TO[1]} numgen random mod 1000 < {per_mille} drop"
        self.hosts.run(netns.ROUTER, "nft", "add table ip lossy; "
                       "add chain ip lossy forward { type filter hook forward priority 0; }; "
                       f"add rule ip lossy forward {rule}")

    def server(self, argv, env=None):
        port = self.bench.ports.take()
        argv = [word.replace("PORT", str(port)) for word in argv]
        process = self.bench.start(argv, {**self.place.env(0), **(env or {})}, self.place.prefix(0))
        deadline = time.monotonic() + harness.LIMIT_S
        while not process.listens_on(port):
            if process.popen.poll() is not None or time.monotonic() > deadline:
                process.wait(0)
                raise Failure(f"the server never listened:\n{process.describe()}")
            time.sleep(0.01)
        return process, port

    def client(self, argv, env=None, root=False):
        prefix = self.hosts.enter(1) if root else self.place.prefix(1)
        return self.bench.start(argv, {**self.place.env(1), **(env or {})}, prefix)

    def verbs(self, program="ib_write_bw", args=f"-s 65536 -D {SECONDS} -f 0", env=None):
        """A started server, and what starts its client."""
        common = [program, *args.split(), "-d", self.device, "-x", self.gid, "-p", "PORT"]
        server, port = self.server(common, env)
        common[-1] = str(port)
        return Flow(server, lambda: self.client([*common, self.hosts.address(0)], env), mbits_of_perftest)

    def tcp(self):
        tool = self.bench.stage(TCP)
        server, port = self.server(["python3", tool, "recv", "PORT"])
        argv = ["python3", tool, "send", self.hosts.address(0), str(port), str(SECONDS)]
        # As root: congestion control other than the system's choice may be a privilege.
        return Flow(server, lambda: self.client(argv, root=True), None)


def mbits_of_perftest(text):
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s+\d+\s+\d", line)]
    if not rows:
        raise Failure(f"no figure in\n{text}")
    return float(rows[-1][3]) * 8 * 2 ** 20 / 1e6


class Flow:
    def __init__(self, server, start_client, mbits):
        self.server = server
        self.start_client = start_client
        self.mbits = mbits
        self.client = None


def run(*flows):
    """All at once; Mbit/s of each."""
    deadline = time.monotonic() + harness.LIMIT_S
    for flow in flows:
        flow.client = flow.start_client()
    for flow in flows:
        if flow.client.wait(deadline) != 0 or flow.server.wait(deadline) != 0:
            raise Failure(f"server:\n{flow.server.describe()}\nclient:\n{flow.client.describe()}")
    return [flow.mbits(flow.client.output()) if flow.mbits else float(flow.server.output()) for flow in flows]


# ---- sharing ----------------------------------------------------------------------------------------------------------

SHARING_TRIES = 5   # a program that is not scheduled for a while has no share; the best of so many runs counts


def two_to_one(rate):
    def case(bench):
        with Network(bench) as net:
            net.slow(rate)
            for _ in range(SHARING_TRIES):
                shares = run(net.verbs(), net.verbs())
                print(f"       {shares[0]:.0f} and {shares[1]:.0f} Mbit/s of {rate}")
                if max(shares) <= 2 * min(shares):
                    return
            raise Failure(f"two Verbena flows never shared within 2:1, at last {shares}")
    return case


def beside_tcp(rate):
    def case(bench):
        with Network(bench) as net:
            net.slow(rate)
            for _ in range(SHARING_TRIES):
                shares = run(net.verbs(), net.tcp())
                print(f"       Verbena {shares[0]:.0f}, TCP cubic {shares[1]:.0f} Mbit/s of {rate}")
                if min(shares) >= 0.2 * int(rate.removesuffix("mbit")):
                    return
            raise Failure(f"Verbena or TCP never kept a fifth of the link, at last {shares}")
    return case


def sharing_cases(_bench):
    harness.need_programs("tc", "ib_write_bw")
    return [(f"{what} at {rate}", case(rate)) for rate in ("100mbit", "200mbit")
            for what, case in (("two Verbena flows", two_to_one), ("Verbena beside TCP", beside_tcp))]


# ---- loss -------------------------------------------------------------------------------------------------------------

LOSSY_RATE = "200mbit"


def lossy_network(bench, per_mille):
    net = Network(bench)
    net.per_packet()
    net.slow(LOSSY_RATE)
    net.lose(per_mille)
    return net


def goodput_at(per_mille, at_least=0.0):
    def case(bench):
        with lossy_network(bench, per_mille) as net:
            for _ in range(SHARING_TRIES):
                (ours,), (tcp,) = run(net.verbs()), run(net.tcp())
                print(f"       {per_mille / 10:g} % lost of 200 Mbit/s: Verbena {ours:.0f}, TCP cubic {tcp:.0f} Mbit/s, "
                      f"ratio {ours / tcp:.2f}")
                if ours >= at_least * tcp:
                    return
            raise Failure(f"goodput of {ours:.0f} Mbit/s where TCP has {tcp:.0f}")
    return case


def loss_cases(_bench):
    harness.need_programs("tc", "nft", "ib_write_bw")
    # Of 1082 bytes on the wire 1024 are payload at the largest RoCE MTU here, 1448 of 1514 with TCP: equal is 0.99.
    # The margin is for a machine where others want the processors: these programs poll, the kernel's TCP need not.
    return [("0.1 %", goodput_at(1)), ("1 %", goodput_at(10, 0.8)), ("3 %", goodput_at(30))]


GROUPS = {
    "sharing": sharing_cases,
    "loss": loss_cases,
}


def main():
    build, group = sys.argv[1], sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else None
    if os.geteuid():
        harness.skip("routers, queues and filters between namespaces need root")
    with harness.Bench(build) as bench:
        return harness.run_table(GROUPS[group](bench), bench, only)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except netns.Unavailable as problem:
        harness.skip(f"the network cannot be made here: {problem}")
    except Failure as problem:
        print(problem)
        sys.exit(1)
