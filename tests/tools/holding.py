# SPDX-License-Identifier: BSD-2-Clause
"""A process that holds objects, for tests that inspect it from outside. Its program is the last
argument."""
import os
import signal
import subprocess
import sys

from tools import Failure, want_equal

HOLDER = sys.argv.pop()


class Holder:
    """A process with one QP, one CQ, one MR; send() makes it send one message of 4096 bytes to
    itself."""

    def __init__(self, bench, env=None, name=None):
        program = os.path.join(bench.dir, "holder")
        if not os.path.exists(program):
            bench.stage(HOLDER)
            os.rename(os.path.join(bench.dir, os.path.basename(HOLDER)), program)
        if name:
            program = os.path.join(os.fsencode(bench.dir), name)
            os.symlink("holder", program)
        self.popen = subprocess.Popen(
            [*bench.user_prefix(), program], env=bench.env(env), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd="/",
        )
        words = self.popen.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise Failure(f"the holder ended with {self.popen.wait()}")
        self.qpn, self.rkey = int(words[1]), int(words[2])

    @property
    def pid(self):
        return self.popen.pid

    def send(self):
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()
        want_equal(self.popen.stdout.readline(), "sent\n", "holder")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.popen.send_signal(signal.SIGCONT)
        self.popen.kill()
        self.popen.wait()
        self.popen.stdin.close()
        self.popen.stdout.close()
