#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Goodput over a slow link that loses packets, beside TCP's over the same link: part of `make
bench`.

    lossy.py BUILD_DIR

Needs root, for the network namespaces that the link is made of.
"""
import os
import statistics
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "stock"))
sys.dont_write_bytecode = True
import harness  # noqa: E402
import netns  # noqa: E402
import network  # noqa: E402

RUNS = int(os.environ.get("BENCH_RUNS", "3"))
PER_MILLE = (0, 1, 10, 30)


def main():
    if os.geteuid():
        print("lossy link: left out, it needs root")
        return
    harness.need_programs("tc", "nft", "ib_write_bw")
    print(
        f"A link of {network.LOSSY_RATE} that loses packets at random; Mbit/s of payload, "
        f"medians of {RUNS} runs in turn.\n"
    )
    print(
        "An interface of MTU 1500 carries 1024 bytes of RoCE in a packet and 1448 of TCP, "
        "one of 4200 4096 and 4148.\n"
    )
    print(f"{'MTU':>5} {'lost':>6} {'Verbena':>10} {'TCP cubic':>10} {'ratio':>7}")
    for mtu in network.LINKS:
        for per_mille in PER_MILLE:
            with harness.Bench(sys.argv[1]) as bench, network.lossy_network(
                bench, per_mille, mtu
            ) as net:
                runs = [network.goodputs(net, mtu) for _ in range(RUNS)]
            ours, tcp = (statistics.median(column) for column in zip(*runs))
            print(f"{mtu:>5} {per_mille / 10:>4g} % {ours:>10.0f} {tcp:>10.0f} {ours / tcp:>7.3f}")
            sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    try:
        main()
    except (netns.Unavailable, harness.Failure) as problem:
        print(f"lossy link: {problem}")
