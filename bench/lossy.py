#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Goodput over a slow link that loses packets, beside TCP's over the same link: part of `make bench`.

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
    print(f"A link of {network.LOSSY_RATE} that loses packets at random; Mbit/s of payload, medians of {RUNS} runs in turn.\n")
    print(f"{'lost':>6} {'Verbena':>10} {'TCP cubic':>10} {'ratio':>7}")
    for per_mille in PER_MILLE:
        with harness.Bench(sys.argv[1]) as bench, network.lossy_network(bench, per_mille) as net:
            runs = [(network.run(net.verbs())[0], network.run(net.tcp())[0]) for _ in range(RUNS)]
        ours, tcp = (statistics.median(column) for column in zip(*runs))
        print(f"{per_mille / 10:>4g} % {ours:>10.0f} {tcp:>10.0f} {ours / tcp:>7.2f}")
        sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except (netns.Unavailable, harness.Failure) as problem:
        print(f"lossy link: {problem}")
