#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Live migration of a machine without a disk by the distribution's QEMU, over rdma: (rdma_cm).

    qemu.py BUILD_DIR
"""
import json
import os
import socket
import sys
import time

import harness
from harness import Failure

PROGRAM = "qemu-system-x86_64"
MACHINE = "-accel tcg -machine pc -m 32 -display none -nodefaults"


class Machine:
    """A QEMU and its control socket (QMP): a line of JSON for each command and event."""

    def __init__(self, bench, name, words, deadline):
        path = os.path.join(bench.make_dir(name), "control")
        self.process = bench.start(
            [PROGRAM, *MACHINE.split(), "-qmp", f"unix:{path},server,nowait", *words],
            prefix=bench.user_prefix(),
        )
        self.lines = self.connect(path, deadline).makefile("rw")
        self.lines.readline()       # the greeting
        self.run_command("qmp_capabilities")

    def connect(self, path, deadline):
        while True:
            control = socket.socket(socket.AF_UNIX)
            control.settimeout(harness.LIMIT_S)
            try:
                control.connect(path)
                return control
            except OSError:
                control.close()
            if self.process.popen.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"no control socket:\n{self.process.describe()}")
            time.sleep(0.05)

    def run_command(self, command, **arguments):
        self.lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            answer = json.loads(self.lines.readline() or '{"error": "it ended"}')
            if "error" in answer:
                raise Failure(f"{command}: {answer['error']}\n{self.process.describe()}")
            if "return" in answer:
                return answer["return"]

    def wait_for(self, command, key, value, bad, deadline):
        while True:
            answer = self.run_command(command)
            if answer.get(key) == value:
                return answer
            if answer.get(key) in bad or time.monotonic() > deadline:
                raise Failure(f"{command} returned {answer}\n{self.process.describe()}")
            time.sleep(0.05)

    def end(self, deadline):
        self.run_command("quit")
        self.process.wait(deadline)
        if self.process.status:
            raise Failure(self.process.describe())


def case_migration(bench):
    deadline = time.monotonic() + harness.LIMIT_S
    where = f"rdma:127.0.0.1:{bench.ports.take()}"
    to = Machine(bench, "to", ["-incoming", where], deadline)
    source = Machine(bench, "from", [], deadline)
    source.wait_for("query-status", "status", "running", (), deadline)
    source.run_command("migrate", uri=where)
    moved = source.wait_for(
        "query-migrate", "status", "completed", ("failed", "cancelled"), deadline
    )
    to.wait_for("query-status", "status", "running", (), deadline)
    if moved["ram"]["total"] < 32 << 20:
        raise Failure(f"not all memory was migrated: {moved}")
    source.end(deadline)
    to.end(deadline)


def main():
    harness.need_programs(PROGRAM)
    with harness.Bench(sys.argv[1]) as bench:
        return harness.run_table([("live migration over rdma:", case_migration)], bench)


if __name__ == "__main__":
    harness.end_with(main)
