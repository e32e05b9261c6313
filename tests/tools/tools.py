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


# A program: installs a seccomp filter that refuses one system call with an errno value (socket():
# of one family only), then runs another.
FILTER = r"""
import ctypes, errno, os, struct, sys
call, value, family = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
def op(code, k, jt=0, jf=0): return struct.pack("HBBI", code, jt, jf, k)
prog = op(0x20, 0) + op(0x15, call, 0, 3)
prog += (op(0x20, 16) + op(0x15, family, 0, 1)) if family >= 0 else (op(0x06, 0x50000 | value) * 2)
prog += op(0x06, 0x50000 | value) + op(0x06, 0x7fff0000)
libc = ctypes.CDLL(None, use_errno=True)
class Prog(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
fprog = Prog(len(prog) // 8, prog)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(fprog), 0, 0):
    sys.exit(77)
os.execv(sys.argv[4], sys.argv[4:])
"""
SYSCALLS = {
    "x86_64": {"socket": 41, "process_vm_readv": 310, "eventfd2": 290, "pidfd_open": 434},
    "aarch64": {"socket": 198, "process_vm_readv": 270, "eventfd2": 19, "pidfd_open": 434},
}


def filtered(bench, call, value, family=-1):
    machine = SYSCALLS.get(os.uname().machine)
    if not machine:
        raise LeftOut("no numbers of system calls for this machine")
    if bench.sanitized:
        raise LeftOut("a sanitizer's run-time needs the system calls that are refused")
    return [
        "/usr/bin/python3", "-I", "-S", "-c", FILTER, str(machine[call]), str(value), str(family),
    ]


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
