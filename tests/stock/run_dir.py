#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run directories that cannot be used or that differ: programs that can communicate do, and the
others print the reason.

    run_dir.py BUILD_DIR [part of a case's name]
"""
import os
import struct
import subprocess
import sys
import tempfile

import harness
from harness import Failure

PINGPONG = ["ibv_rc_pingpong", "-n", "50", "-g", "0", "-d", "lo0"]
LOOPBACK = {"VERBENA_DEVICES": "lo0=lo", "VERBENA_LOG": "warn"}
LIMIT_S = harness.LIMIT_S

# Hides the contents of /dev/shm and /tmp and makes both read-only.
NO_PLACES = "for d in /dev/shm /tmp; do mount -t tmpfs -o ro,mode=755 none $d; done; exec \"$@\""


def run_pingpong(bench, env):
    port = bench.ports.take()
    argv = [*PINGPONG, "-p", str(port)]
    env = {**LOOPBACK, **env}
    return bench.pair(argv, [*argv, "127.0.0.1"], port, env, env)


def expect(condition, text):
    if not condition:
        raise Failure(text)


def make_dir_with_mode(bench, name, mode):
    path = bench.make_dir(name)
    os.chmod(path, mode)
    return path


def case_directory_of_mode_755(bench):
    path = make_dir_with_mode(bench, "755", 0o755)
    for transport in "udp", "local":
        outputs = run_pingpong(bench, {"VERBENA_DIR": path, "VERBENA_TRANSPORT": transport})
        expect("verbena" not in "".join(outputs), outputs)
    inside = os.listdir(path)
    expect(inside == [f"verbena-{bench.uid}"], inside)


def case_no_directory(bench):
    """A file, or a folder that does not exist: each program uses another directory and prints that
    once."""
    path = os.path.join(bench.dir, "file")
    with open(path, "w", encoding="ascii"):
        pass
    for wrong in path, "/proc/none/such":
        for transport in "udp", "local":
            outputs = run_pingpong(bench, {"VERBENA_DIR": wrong, "VERBENA_TRANSPORT": transport})
            for text in outputs:
                expect(text.count(f"cannot use {wrong}") == 1 and "instead" in text, text)


def old_table(bench, name):
    path = bench.make_dir(name)
    table = os.path.join(path, "table")
    with open(table, "wb") as out:
        out.write(
            struct.pack("=QIIIIII", 0x54534F4842525635, 99, 1024, 65536, 64, 8, 0) + bytes(4096)
        )
    if bench.as_root:
        os.chown(table, harness.NOBODY, harness.NOBODY)
    return path


def case_after_an_update(bench):
    """A table of another version that no process uses is replaced."""
    path = old_table(bench, "old")
    outputs = run_pingpong(bench, {"VERBENA_DIR": path})
    expect("verbena" not in "".join(outputs), outputs)


def case_no_place_at_all(bench):
    """One process gets the port, and relays packets to the second."""
    unshare = ["unshare", *([] if bench.as_root else ["-Ur"]), "-m"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        raise harness.LeftOut("no mount namespaces here")
    prefix = [
        *unshare, "sh", "-c", NO_PLACES, "sh", *(bench.user_prefix() if bench.as_root else ()),
    ]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        subprocess.run(["cp", "-r", bench.lib, folder], check=True)
        env = {**LOOPBACK, "VERBENA_DIR": None, "LD_LIBRARY_PATH": os.path.join(folder, "lib")}
        port = bench.ports.take()
        argv = [*PINGPONG, "-p", str(port)]
        outputs = bench.pair(argv, [*argv, "127.0.0.1"], port, env, env, prefix, prefix)
        for text in outputs:
            expect(text.count("no run directory") == 1, text)
            expect("(/dev/shm/verbena-" in text, text)


CASES = [
    (name[5:], function) for name, function in list(globals().items()) if name.startswith("case_")
]


def main():
    harness.need_programs("ibv_rc_pingpong")
    with harness.Bench(sys.argv[1]) as bench:
        return harness.run_table(CASES, bench, sys.argv[2] if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    harness.end_with(main)
