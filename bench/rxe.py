#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`make bench-rxe`: soft RoCE against Verbena in the same guest, both ends in it, by perftest.

    rxe.py BUILD_DIR [ROW...]

Runs under tests/rxe/guest.py, which boots the guest; ROW is part of a row's name.  The guest is
emulated: only the ratios of a row count.  Prints a table; asserts nothing.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

INSIDE = "--inside"
LIMIT_S = 120
UDP_PORT = "4794"     # the kernel's soft RoCE has the usual one
FIRST_PORT = 18500
ADDRESS = "10.78.0.2"
# name, program and arguments, column of perftest's row, factor
ROWS = [
    ("SEND, median us", "ib_send_lat -s 8 -n 1000", 4, 1),
    ("WRITE, median us", "ib_write_lat -s 8 -n 1000", 4, 1),
    ("READ, median us", "ib_read_lat -s 8 -n 1000", 4, 1),
    ("atomic, median us", "ib_atomic_lat -n 1000", 4, 1),
    ("SEND 8 B, thousand/s", "ib_send_bw -s 8 -n 5000", 4, 1000),
    ("WRITE 8 B, thousand/s", "ib_write_bw -s 8 -n 5000", 4, 1000),
    ("SEND 64 KiB, MiB/s", "ib_send_bw -s 65536 -n 300", 3, 1),
    ("WRITE 64 KiB, MiB/s", "ib_write_bw -s 65536 -n 300", 3, 1),
    ("READ 64 KiB, MiB/s", "ib_read_bw -s 65536 -n 300", 3, 1),
]
COLUMNS = ("rxe", "one host", "UDP only")


def environment(build, column):
    if column == "rxe":
        return dict(os.environ)
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.path.join(build, "lib"),
        "VERBENA_TRANSPORT": "udp" if column == "UDP only" else "local",
        "VERBENA_UDP_PORT": UDP_PORT,
        "VERBENA_DIR": tempfile.gettempdir() + "/verbena",
    }


def listens(port):
    for table in "tcp", "tcp6":
        with open(f"/proc/net/{table}", encoding="ascii") as rows:
            if any(f":{port:04X} " in row and " 0A " in row for row in rows):
                return True
    return False


def measure(argv, env, port, column):
    """The figure that the client prints; None if there is none."""
    argv = [*argv, "-F", "-p", str(port)]
    deadline = time.monotonic() + LIMIT_S
    server = subprocess.Popen(
        argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not listens(port) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        done = subprocess.run(
            [*argv, ADDRESS], env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        server.wait(5)
    except subprocess.TimeoutExpired:
        return None
    finally:
        server.kill()
        server.wait()
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\s*\d+\s+\d+\s", line)]
    return float(rows[-1][column]) if rows else None


def inside(build, wanted):
    """In the guest: each row by the three in turn."""
    os.makedirs(tempfile.gettempdir() + "/verbena", 0o700, exist_ok=True)
    print("| 8 bytes unless said | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|", flush=True)
    port = FIRST_PORT
    for name, program, column, factor in ROWS:
        if wanted and not any(part in name for part in wanted):
            continue
        cells = []
        for contender in COLUMNS:
            port += 1
            device = ["-d", "rxe0", "-x", "1"] if contender == "rxe" else ["-d", "vrb0", "-x", "1"]
            value = measure(
                [*program.split(), *device], environment(build, contender), port, column
            )
            cells.append(f"{value * factor:.3g}" if value is not None else "failed")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    if sys.argv[1] == INSIDE:
        inside(sys.argv[2], sys.argv[3:])
        return 0
    shell = os.environ.get("VERBENA_TEST_RXE_SHELL")
    if not shell:
        sys.exit("runs under tests/rxe/guest.py: make bench-rxe")
    build = os.path.abspath(sys.argv[1])
    argv = [*shlex.split(shell), "python3", os.path.abspath(__file__), INSIDE, build]
    return subprocess.run([*argv, *sys.argv[2:]], check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    sys.exit(main())
