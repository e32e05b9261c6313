#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a test, and stops all of its processes once for a while, as a machine without CPU would.

    freeze.py PROGRAM [arguments]            for `meson test --wrapper`

Nothing may be lost or time out for the processes that go on together. FREEZE_SECONDS: how long they
are stopped (default 12: several of our limits are ten seconds); FREEZE_AT: after how many seconds
(default: random, which is printed). FREEZE_ONE=1: only one of them is stopped, at random, of those
that have no children.
"""
import os
import random
import signal
import subprocess
import sys
import time

ROUNDS = 3  # of looking for processes that were started meanwhile


def descendants(root):
    """The processes below `root`, with their states."""
    children = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                state, parent = f.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        children.setdefault(int(parent), []).append((int(pid), state))
    below, todo = [], [root]
    while todo:
        found = children.get(todo.pop(), [])
        below += found
        todo += [pid for pid, _ in found]
    return below


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def stop_one(root):
    below = [pid for pid, state in descendants(root) if state not in "TtZX"]
    leaves = [pid for pid in below if not descendants(pid)] or [root]
    one = random.choice(leaves)
    send(one, signal.SIGSTOP)
    return [one]


def stop_all(root):
    """What a test has stopped itself stays so."""
    send(root, signal.SIGSTOP)
    stopped = [root]
    for _ in range(ROUNDS):
        for pid, state in descendants(root):
            if state not in "TtZX":
                send(pid, signal.SIGSTOP)
                stopped.append(pid)
    return stopped


def freeze(root, seconds):
    stopped = stop_one(root) if os.environ.get("FREEZE_ONE") == "1" else stop_all(root)
    time.sleep(seconds)
    for pid in reversed(stopped):
        send(pid, signal.SIGCONT)


def main():
    seconds = float(os.environ.get("FREEZE_SECONDS", "12"))
    at = float(os.environ.get("FREEZE_AT", random.choice([0.1, 0.4, 1.6]) * random.random()))
    test = subprocess.Popen(sys.argv[1:])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: send(test.pid, n))
    try:
        test.wait(at)
    except subprocess.TimeoutExpired:
        print(f"freeze: FREEZE_AT={at:.3f}", file=sys.stderr)
        freeze(test.pid, seconds)
    status = test.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    sys.exit(main())
