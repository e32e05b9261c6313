#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a test of raw packets over packet sockets instead of the virtual segment: on the loopback
interface of a namespace of its own.

    on_packet_sockets.py PROGRAM
"""
import os
import subprocess
import sys

SKIP = 77


def main():
    program = sys.argv[1]
    unshare = ["unshare", "-n" if os.geteuid() == 0 else "-Urn"]
    ready = subprocess.run(
        [*unshare, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False
    )
    if ready.returncode:
        print(f"skip: no network namespace of our own: {ready.stderr.strip()}")
        return SKIP
    env = dict(os.environ, VERBENA_RAW="packet")
    return subprocess.run(
        [*unshare, "sh", "-c", 'ip link set lo up && exec "$0"', program], env=env, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
