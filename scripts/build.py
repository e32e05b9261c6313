#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Configures a build folder if it is new, and builds it; progress is one line, and what failed is
told in full.

    build.py FOLDER [arguments for `meson setup`]

$MESON is another meson to configure with.
"""
import os
import re
import subprocess
import sys

STATUS = re.compile(r"\[(\d+)/(\d+)\] ")
STEP = 10     # per cent, where the line cannot be written anew


def configure(folder, args):
    if os.path.exists(os.path.join(folder, "build.ninja")):
        return 0
    done = subprocess.run(
        [os.environ.get("MESON", "meson"), "setup", folder, *args], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
    return done.returncode


class Progress:
    """One line of per cents, on a terminal or in a log."""

    def __init__(self, folder):
        self.told = -1
        self.name = f"building in {os.path.relpath(folder)}"
        self.terminal = sys.stdout.isatty()

    def tell(self, done, of):
        percent = 100 * done // of
        step = percent if self.terminal else percent // STEP * STEP
        if step <= self.told:
            return
        if self.terminal:
            print(f"\r{self.name}: {step} %", end="")
        else:
            print(
                f"{self.name}: {step}" if self.told < 0 else f" {step}",
                end=" %" if step == 100 else "",
            )
        self.told = step
        sys.stdout.flush()

    def end(self):
        if self.told >= 0:
            print()


def build(folder):
    env = {**os.environ, "NINJA_STATUS": "[%f/%t] "}
    progress, rest = Progress(folder), []
    with subprocess.Popen(
        ["ninja", "-C", folder], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as ninja:
        for line in ninja.stdout:
            status = STATUS.match(line)
            if status:
                progress.tell(int(status[1]), int(status[2]))
            else:
                rest.append(line)
    progress.end()
    if ninja.returncode or any("warning: " in line for line in rest):
        sys.stderr.writelines(rest)
    return ninja.returncode


def main():
    folder, args = sys.argv[1], sys.argv[2:]
    return configure(folder, args) or build(folder)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    sys.exit(main())
