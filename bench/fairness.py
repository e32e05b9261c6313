#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Shares of flows that compete for a slow link: part of `make bench`.

    fairness.py BUILD_DIR [equal | windowless]...

Each flow is a pair of processes. Prints Jain's index, (sum x)^2 / (n * sum x^2): 1 if all shares
are equal, 1 / n if one flow gets everything. Of UC and UD, which have no window, it prints what
arrives beside TCP, where the router drops or marks. Needs root, for the network namespaces that the
link is made of.
"""
import json
import os
import statistics
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "stock"))
sys.dont_write_bytecode = True
import harness  # noqa: E402
import netns  # noqa: E402
import network  # noqa: E402

SECONDS = 10
RUNS = int(os.environ.get("BENCH_RUNS", "3"))
EQUALS = (("100mbit", 2), ("100mbit", 4), ("100mbit", 8), ("1gbit", 2), ("1gbit", 4))
BESIDE_TCP = "100mbit"
# Packets of RoCE above half of the link are marked: their share beside one TCP flow.
SHARE_KBYTES = 6250
# Program and arguments of a flow that has no window.
WINDOWLESS = {
    "UC": ("ib_write_bw", "-c UC -s 65536"),
    "UD": ("ib_send_bw", "-c UD -s 1024"),
}


def jain(shares):
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def equal_flows(bench, seconds):
    print(f"{'link':>8} {'flows':>6} {'Jain':>7} {'least':>7} {'Mbit/s':>8} {'shares':>8}")
    for rate, flows in EQUALS:
        indices = []
        for _ in range(RUNS):
            with network.Network(bench) as net:
                net.slow(rate)
                args = f"-s 65536 -D {seconds} -f 0"
                shares = network.run(*(net.verbs(args=args) for _ in range(flows)))
                indices.append(jain(shares))
        print(
            f"{rate:>8} {flows:>6} {statistics.median(indices):>7.3f} {min(indices):>7.3f} "
            f"{sum(shares):>8.0f}  {', '.join(f'{share:.0f}' for share in shares)}"
        )
        sys.stdout.flush()


def count_arrivals(net):
    net.hosts.run(
        0, "nft", "add table ip arrivals; add counter ip arrivals roce; "
        "add counter ip arrivals stream; "
        "add chain ip arrivals input { type filter hook input priority 0; }; "
        f"add rule ip arrivals input udp dport {network.PORT} counter name roce; "
        "add rule ip arrivals input ip protocol tcp counter name stream"
    )


def arrived(net):
    """Bytes of RoCE and of TCP."""
    listed = json.loads(net.hosts.run(0, "nft", "-j", "list", "counters", "table", "ip",
                                      "arrivals"))["nftables"]
    found = {entry["counter"]["name"]: entry["counter"]["bytes"] for entry in listed
             if "counter" in entry}
    return found["roce"], found["stream"]


def beside_tcp(bench, program, args, marking, seconds):
    """Mbit/s of RoCE and of TCP that arrive during the middle of a run."""
    with network.Network(bench) as net:
        net.slow(BESIDE_TCP)
        if marking:
            net.mark(SHARE_KBYTES)
        count_arrivals(net)
        network.SECONDS = seconds + 2
        flows = net.verbs(program, f"{args} -D {seconds + 2} -f 0"), net.tcp()
        try:
            for flow in flows:
                flow.client = flow.start_client()
            time.sleep(1.5)
            before, began = arrived(net), time.monotonic()
            time.sleep(seconds - 1)
            after, took = arrived(net), time.monotonic() - began
        finally:
            for flow in flows:
                flow.kill()
        return [(b - a) * 8 / took / 1e6 for a, b in zip(before, after)]


def windowless(bench, seconds):
    print(f"\nBeside a TCP CUBIC flow on {BESIDE_TCP}; Mbit/s that arrive, headers included\n")
    print(f"{'flow':>5} {'router':>10} {'Verbena':>8} {'TCP':>6}")
    for name, (program, args) in {"RC": ("ib_write_bw", "-s 65536"), **WINDOWLESS}.items():
        for marking in False, True:
            runs = [beside_tcp(bench, program, args, marking, seconds) for _ in range(RUNS)]
            ours, tcp = (statistics.median(column) for column in zip(*runs))
            print(f"{name:>5} {'marks' if marking else 'drops':>10} {ours:>8.1f} {tcp:>6.1f}")
            sys.stdout.flush()


def main():
    build, *names = sys.argv[1:]
    parts = {"equal": equal_flows, "windowless": windowless}
    if os.geteuid():
        print("fairness: left out, it needs root")
        return
    harness.need_programs("tc", "nft", "ib_write_bw", "ib_send_bw")
    with harness.Bench(build) as bench:
        for name in names or parts:
            parts[name](bench, SECONDS)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    try:
        main()
    except (netns.Unavailable, harness.Failure) as problem:
        print(f"fairness: {problem}")
