# SPDX-License-Identifier: BSD-2-Clause
"""What the places of core/base/tap.h cost while nothing is attached to them: counted, not timed.

valgrind counts how often each instruction of the library runs; those that load `vrb_tapped`, with
what follows up to the branch on it, are the taps' own.
"""
import os
import re
import shutil
import subprocess
import tempfile

import harness

FEW, MANY = 1000, 3000      # messages: the difference is the messages' own
LONGEST = 8                 # instructions from the load to the branch, at most


def places(library):
    """Of each load of vrb_tapped: its address, and how many instructions there are to the
    branch."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True,
                             text=True, check=True).stdout
    rows = re.findall(r"^ +([0-9a-f]+):\t(\S+)(.*)$", listing, re.M)
    found = {}
    for i, (address, _, operands) in enumerate(rows):
        if "<vrb_tapped>" in operands:
            steps = [row[1].startswith("j") for row in rows[i:i + LONGEST]]
            found[int(address, 16)] = steps.index(True) + 1 if True in steps else LONGEST
    return found


def counted(program, library, messages):
    """How many instructions ran; and, of the library, how often the one at each address."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        env = {k: v for k, v in os.environ.items() if not k.startswith("VERBENA_")}
        env.update(VERBENA_SEED="1", VERBENA_PROGRESS="none", VERBENA_DEVICES="lo",
                   VERBENA_DIR=os.path.join(folder, "dir"),
                   LD_LIBRARY_PATH=os.path.dirname(library))
        os.mkdir(env["VERBENA_DIR"], 0o700)
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no",
             "--compress-pos=no", "--compress-strings=no", f"--callgrind-out-file={out}", program,
             "pong", "8", str(messages)], env=env, capture_output=True, text=True, check=False)
        total = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode or not total:
            raise harness.Failure(f"valgrind: {done.stderr}")
        return int(total[1]), of_library(out, os.path.basename(os.path.realpath(library)))


def of_library(out, name):
    times, ours, skip = {}, False, False
    with open(out, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("ob="):
                ours = line.rstrip().endswith("/" + name)
            elif line.startswith("calls="):
                skip = True     # the next line has the costs of what is called
            elif line.startswith("0x"):
                if ours and not skip:
                    address, n = line.split()[:2]
                    times[int(address, 16)] = times.get(int(address, 16), 0) + int(n)
                skip = False
    return times


def off(build):
    """Instructions of a small SEND there and back, and those of the taps on its way."""
    if not shutil.which("valgrind") or not shutil.which("objdump"):
        raise harness.Failure("needs valgrind and objdump")
    library = os.path.join(build, "lib", "libibverbs.so.1")
    program = os.path.join(build, "bench", "self")
    few, many = (counted(program, library, n) for n in (FEW, MANY))
    taps = sum((many[1].get(a, 0) - few[1].get(a, 0)) * n for a, n in places(library).items())
    return (many[0] - few[0]) / (MANY - FEW), taps / (MANY - FEW)
