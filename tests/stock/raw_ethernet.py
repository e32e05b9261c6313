#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""perftest's raw packet programs between two namespaces: one sends whole frames, the other receives
them by flow rules.

    raw_ethernet.py BUILD_DIR [part of a case's name]

The programs have no handshake: the client starts when the server has printed that it is ready. They
need CAP_NET_RAW, so they stay root if the test runs as root.

Not tested, because perftest's code makes it fail on any device: events (`-e`: it never arms the
CQ), `--promiscuous` and `--sniffer` (it destroys a rule that it did not create), and
raw_ethernet_burst_lat without packet pacing (it refuses every other rate limiter) or with bursts
other than 16 (its buffers and polls have this size).
"""
import os
import sys
import time

import harness
import netns
from harness import Failure
from stock import Place

MAC = ("02:00:00:00:77:01", "02:00:00:00:77:02")
READY = "#bytes"
IP = ["-J", "10.77.0.2", "-j", "10.77.0.1", "-K", "2000", "-k", "3000"]
BURST = [
    "--rate_limit_type=PP", "--rate_limit=4000", "--rate_units=M", "--burst_size=16", "-Q", "1",
]

# raw_ethernet_bw hangs if a frame is lost, and has no flow control. So the frames of a row fit into
# the 512 receives that the server posts first, and into the thousand packets that the kernel queues
# for a busy CPU.
CASES = [
    ("bw", "raw_ethernet_bw", ["-n", "500", "-s", "1000"]),
    ("bw 64", "raw_ethernet_bw", ["-n", "500", "-s", "64"]),
    ("bw whole frames", "raw_ethernet_bw", ["-n", "500", "-s", "1500"]),
    ("bw inline", "raw_ethernet_bw", ["-n", "500", "-s", "64", "-I", "64"]),
    ("bw UDP", "raw_ethernet_bw", ["-n", "500", "-s", "1000", *IP]),
    ("bw TCP", "raw_ethernet_bw", ["-n", "500", "-s", "1000", *IP, "--tcp"]),
    ("bw tagged", "raw_ethernet_bw", ["-n", "500", "-s", "1000", "--vlan_en"]),
    ("bw two QPs", "raw_ethernet_bw", ["-n", "250", "-s", "1000", "-q", "2"]),
    ("bw lists", "raw_ethernet_bw", ["-n", "512", "-s", "1000", "-l", "16"]),
    ("lat", "raw_ethernet_lat", ["-n", "300", "-s", "100"]),
    ("lat UDP", "raw_ethernet_lat", ["-n", "300", "-s", "1000", *IP]),
    ("lat forwarded", "raw_ethernet_lat", ["-n", "300", "-s", "100", "-v"]),
    ("burst_lat", "raw_ethernet_burst_lat", ["-n", "1000", "-s", "100", *BURST]),
]


def start(place, host, program, role, args):
    bench = place.bench
    device = place.device("eth")
    line_by_line = ["stdbuf", "-oL"]
    argv = [*line_by_line, program, role, "-d", device, "-B", MAC[host], "-E", MAC[1 - host], *args]
    return bench.start(argv, place.env(host), place.hosts.prefix(host))


def wait_ready(server, deadline):
    while READY not in server.output():
        if server.popen.poll() is not None or time.monotonic() > deadline:
            server.wait(0)
            server.kill()
            raise Failure(f"the server was never ready:\n{server.describe()}")
        time.sleep(0.01)


def run(place, program, args):
    deadline = time.monotonic() + harness.LIMIT_S
    server = start(place, 1, program, "--server", args)
    wait_ready(server, deadline)
    client = start(place, 0, program, "--client", args)
    statuses = [client.wait(deadline), server.wait(deadline)]
    if statuses != [0, 0]:
        client.kill()
        server.kill()
        raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")


def main():
    build = sys.argv[1]
    only = sys.argv[2] if len(sys.argv) > 2 else None
    harness.need_programs("raw_ethernet_bw", "raw_ethernet_lat", "raw_ethernet_burst_lat", "stdbuf")
    with harness.Bench(build) as bench:
        with netns.two_hosts(("v4",)) as hosts:
            for host in 0, 1:
                hosts.ip(host, "link", "set", netns.IFNAME, "address", MAC[host])
                # The kernels answer frames with IP headers, and five seconds later ask the peer's
                # MAC address whether it is still there: a frame that raw_ethernet_burst_lat counts
                # beyond the end of its arrays.
                hosts.ip(host, "link", "set", netns.IFNAME, "arp", "off")
            place = Place(bench, hosts)
            # The programs run as the user who runs the test, who must own their directories.
            place.dirs = [os.path.join(bench.dir, f"own{host}") for host in (0, 1)]
            for path in place.dirs:
                os.mkdir(path, 0o700)
            cases = [
                (name, lambda _bench, p=program, a=args: run(place, p, a))
                for name, program, args in CASES
            ]
            return harness.run_table(cases, bench, only)


if __name__ == "__main__":
    harness.end_with(main)
