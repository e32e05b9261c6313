#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a test of raw packets over packet sockets instead of the virtual segment: on the loopback
interface of a namespace of its own, or on an Ethernet interface, whose packets to its own address
pass the loopback interface all the same.

    on_packet_sockets.py [--ethernet] PROGRAM
"""
import os
import subprocess
import sys

SKIP = 77
LOOPBACK = "ip link set lo up"
ETHERNET = """
ip link add veth0 type veth peer name veth1
ip addr add 192.0.2.1/24 dev veth0
ip link set veth1 up
ip link set veth0 up
"""


def main():
    ethernet = sys.argv[1] == "--ethernet"
    program = sys.argv[-1]
    setup = "set -e\n" + LOOPBACK + (ETHERNET if ethernet else "")
    unshare = ["unshare", "-n" if os.geteuid() == 0 else "-Urn"]
    ready = subprocess.run(
        [*unshare, "sh", "-c", setup], capture_output=True, text=True, check=False
    )
    if ready.returncode:
        print(f"skip: no network namespace of our own: {ready.stderr.strip()}")
        return SKIP
    env = dict(os.environ, VERBENA_RAW="packet")
    if ethernet:
        env["VERBENA_DEVICES"] = "veth0"
    return subprocess.run(
        [*unshare, "sh", "-c", setup + '\nexec "$0"', program], env=env, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
