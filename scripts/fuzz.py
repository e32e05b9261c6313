#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs every fuzz target for a while.

    fuzz.py BUILD_DIR [--seconds 600] [TARGET...]

Where the build has libFuzzer programs (-Dfuzz=true, clang), those, each with a corpus that is kept
in BUILD_DIR/corpus; else the drivers with random inputs, a new seed each time.  Ends with a line
per target, and with 1 if one found something: then the input, or the seed, is named, and the target
repeats it.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import time

RANDOM_INPUTS = 20000


def targets(build):
    return sorted(
        os.path.basename(path)[: -len("_fuzz_random")]
        for path in glob.glob(f"{build}/tests/*/*_fuzz_random")
    )


def program(build, target, suffix):
    found = glob.glob(f"{build}/tests/*/{target}_fuzz{suffix}")
    return found[0] if found else None


def run_libfuzzer(build, target, seconds):
    """How many inputs, and what was found."""
    corpus = os.path.join(build, "corpus", target)
    os.makedirs(corpus, exist_ok=True)
    artifacts = os.path.join(build, "corpus", target + "-")
    done = subprocess.run(
        [
            program(build, target, ""), f"-max_total_time={seconds}", "-max_len=6000",
            "-timeout=60", "-rss_limit_mb=4096", f"-artifact_prefix={artifacts}",
            "-print_final_stats=1", corpus,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    inputs = re.search(r"stat::number_of_executed_units:\s+(\d+)", done.stdout)
    return (
        int(inputs.group(1)) if inputs else 0,
        None if done.returncode == 0 else done.stdout[-6000:],
    )


def run_random(build, target, seconds):
    end = time.monotonic() + seconds
    seed = int(time.time())
    inputs = 0
    while time.monotonic() < end:
        done = subprocess.run(
            [program(build, target, "_random"), str(RANDOM_INPUTS)],
            env={**os.environ, "VERBENA_SEED": str(seed)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            return (
                inputs,
                f"VERBENA_SEED={seed} {program(build, target, '_random')} "
                f"{RANDOM_INPUTS}\n{done.stdout}",
            )
        inputs += RANDOM_INPUTS
        seed += 1
    return inputs, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("target", nargs="*")
    options = parser.parse_intermixed_args()
    failed = False
    for target in options.target or targets(options.build):
        run = run_libfuzzer if program(options.build, target, "") else run_random
        inputs, found = run(options.build, target, options.seconds)
        print(
            f"{target}: {inputs} inputs, {'libFuzzer' if run is run_libfuzzer else 'random'}: "
            f"{'FOUND' if found else 'nothing found'}",
            flush=True,
        )
        if found:
            print(found)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
