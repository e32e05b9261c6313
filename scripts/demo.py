#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`make demo`: two stock RDMA programs talk through build/lib, as an ordinary user.

    demo.py BUILD_DIR

Prints every command as a user would type it, and the lines of its output that matter.
"""
import os
import re
import socket
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "stock"))
sys.dont_write_bytecode = True
import harness  # noqa: E402

ROCE_PORT = 4791


def port_is_free(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


class Demo:
    def __init__(self, bench, build):
        self.bench = bench
        self.build = build
        # The default port, as a user has it, unless another program is on it.
        self.env = {"VERBENA_UDP_PORT": None} if port_is_free(ROCE_PORT) else {}

    def say(self, argv, where=""):
        print(f"\n$ LD_LIBRARY_PATH=$PWD/{os.path.relpath(self.build)}/lib {' '.join(argv)}{where}")

    def show(self, text, pattern):
        for line in text.splitlines():
            if re.search(pattern, line):
                print(f"    {line.strip()}")

    def devices(self):
        self.say(["ibv_devices"])
        print(self.bench.run(["ibv_devices"], self.env).rstrip())

    def pair(self, argv, pattern):
        port = self.bench.ports.take()
        argv = [*argv, "-p", str(port)]
        client = [*argv, "127.0.0.1"]
        self.say(argv, "    # one process")
        self.say(client, "    # another")
        _, text = self.bench.pair(argv, client, port, self.env, self.env)
        self.show(text, pattern)


def main():
    build = sys.argv[1]
    with harness.Bench(build) as bench:
        demo = Demo(bench, build)
        job_owner = (
            "uid 65534 (nobody), because you are root" if bench.as_root else f"uid {os.getuid()}"
        )
        print(
            f"Verbena demo: the distribution's own RDMA programs, no RDMA hardware, "
            f"no kernel module; as {job_owner}."
        )
        if demo.env == {}:
            print(
                f"(UDP port {ROCE_PORT} is taken by another program here; "
                f"the demo uses {bench.udp_port}.)"
            )
        demo.devices()
        demo.pair(["ibv_rc_pingpong", "-c"], r"address:|bytes in|iters in")
        demo.pair(["ib_write_bw", "-n", "1000", "-s", "65536"], r"#bytes|^ \d")
        print(
            f"\nThat worked. Run yours:  LD_LIBRARY_PATH=$PWD/{os.path.relpath(build)}/lib COMMAND"
        )


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    try:
        main()
    except harness.Failure as problem:
        print(f"\nThe demo failed.\n{problem}", file=sys.stderr)
        sys.exit(1)
