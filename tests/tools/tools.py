# SPDX-License-Identifier: BSD-2-Clause
"""Runs the tool and the programs of its suite where an ordinary user can: a staged copy of
build/bin and build/lib.

Each file of this folder has one test per subcommand: functions of one argument, a ToolBench, which
main() runs.
"""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stock"))

from harness import Bench, Failure, LeftOut, run_table, sanitizer_runtime, skip  # noqa: E402,F401

LINKS = (
    "ibv_devices", "ibv_devinfo", "ibv_asyncwatch", "show_gids", "ibdev2netdev",
    "get-rdma-device-info",
)


class Done:
    def __init__(self, argv, completed):
        self.argv = argv
        self.status = completed.returncode
        self.out = completed.stdout
        self.err = completed.stderr

    def describe(self):
        return f"$ {' '.join(self.argv)}\n{self.out}{self.err}[exit status {self.status}]"


class ToolBench(Bench):
    def __init__(self, build):
        super().__init__(build)
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.bin)
        os.chmod(self.bin, 0o755)
        for name in "verbena", "verbena-probe":
            source = os.path.join(self.build, "bin", name)
            if os.path.exists(source):
                self._stage(source, self.bin)
        for name in "libverbena-preload.so", "libverbena-nldev.so":
            self._stage(os.path.join(self.build, "lib", name), self.lib)
        for name in LINKS:
            os.symlink("verbena", os.path.join(self.bin, name))
        self.sanitized = sanitizer_runtime(os.path.join(self.lib, "libibverbs.so.1"))

    @staticmethod
    def _stage(source, folder):
        target = os.path.join(folder, os.path.basename(source))
        shutil.copyfile(source, target)
        os.chmod(target, 0o755)

    def tool(self, name="verbena"):
        return os.path.join(self.bin, name)

    def call(
        self, argv, env=None, expect=None, prefix=None, stdin=None, limit=120, no_library=False
    ):
        """Runs a program to its end, stdout and stderr apart; `expect` is the exit status it must
        have."""
        environment = self.env(env)
        if no_library:
            environment.pop("LD_LIBRARY_PATH")
        prefix = self.user_prefix() if prefix is None else prefix
        done = Done(
            argv,
            subprocess.run(
                [*prefix, *argv], env=environment, capture_output=True, text=True, cwd="/",
                input=stdin, timeout=limit, check=False,
            ),
        )
        if expect is not None and done.status != expect:
            raise Failure(f"wanted exit status {expect}:\n{done.describe()}")
        return done

    def verbena(self, *words, **options):
        return self.call([self.tool(), *words], **{"no_library": True, **options})

    def json(self, *words, **options):
        done = self.verbena(*words, "--json", **{"expect": 0, **options})
        try:
            return json.loads(done.out)
        except ValueError as error:
            raise Failure(f"not JSON ({error}):\n{done.describe()}") from error


def want(condition, text):
    if not condition:
        raise Failure(text)


def want_equal(got, expected, what):
    if got != expected:
        raise Failure(f"{what}:\n--- wanted\n{expected}\n--- got\n{got}")


def main(cases):
    """For `python3 FILE BUILD [NAME]`: (name, function) cases, run one after the other."""
    with ToolBench(sys.argv[1]) as bench:
        sys.exit(run_table(cases, bench, sys.argv[2] if len(sys.argv) > 2 else None))


def cases_of(module):
    return [
        (name[5:], function) for name, function in vars(module).items() if name.startswith("case_")
    ]
