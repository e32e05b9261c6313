# SPDX-License-Identifier: BSD-2-Clause
"""Runs the distribution's RDMA programs, never rebuilt, over the library under test.

A Bench owns what a test needs: a private run directory, a UDP port and TCP ports that no other test
on this host uses, a copy of the library that an ordinary user can read, and the processes that it
started. Leaving it kills them (by process group) and removes the files. Output is captured, and
shown only after a failure.

Programs run as an ordinary user: as the user who runs the test, or as uid 65534 if that is root.
"""
import functools
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NOBODY = 65534
SKIP = 77

# A private /tmp, in which the bench's folder keeps its path: $0 is that folder, the command
# follows.
OWN_TMP = """
mount --bind "$0" "$0/tmp/${0##*/}" && mount --rbind "$0/tmp" /tmp && exec "$@"
"""

# The time limit of a pair of programs; long, because it only ends programs that hang. SLOWER
# multiplies it on a slow machine (scripts/load.py).
SLOWER = int(os.environ.get("VERBENA_TEST_SLOWER", "1"))
LIMIT_S = float(os.environ.get("VERBENA_TEST_LIMIT", "120")) * SLOWER

# Outputs of programs that fail on a busy machine with any device, and the reasons. Such a failure
# is not the library's, so the case runs again.
UNCALIBRATED = "Correlation coefficient"
UNRELATED_FAILURES = {
    # perftest calibrates the CPU's clock against the wall clock before it reports.
    UNCALIBRATED: "perftest could not calibrate its clock",
    # If the peer disconnects between its polls of the CQ and of the event queue, libfabric destroys
    # the QP with the last completion in the CQ, and reports that request as flushed.
    "cq_readerr: Work Request Flushed Error": "libfabric destroyed the QP before it polled its CQ",
}
TRIES = 5

# Run directories are here if this much is free.
MEMORY = "/dev/shm"
MEMORY_BYTES = 4 << 30     # many times as much as the 64 processes of `proc scale_test` use

# VERBENA_* variables that are passed on to the programs: no other setting of the caller may change
# a test.
PASSED_ON = (
    "VERBENA_TRANSPORT", "VERBENA_LOG", "VERBENA_RUNS", "VERBENA_SEED", "VERBENA_TEST_SLOWER",
)


class Failure(Exception):
    """A program failed the test; the text names the program and holds its output."""


class LeftOut(Exception):
    """A case cannot run here; the text is the reason."""


def skip(reason):
    """Skips the whole test. A case raises LeftOut instead."""
    print(f"skip: {reason}")
    sys.exit(SKIP)


def left_out(cases, reason):
    """Prints the line that scripts/run_tests.py counts."""
    print(f"left out: {cases}: {reason}")


def end_with(main):
    """Exits with main()'s status, or prints its Failure and exits with 1."""
    try:
        sys.exit(main())
    except Failure as problem:
        print(problem)
        sys.exit(1)


def need_programs(*names):
    for name in names:
        if not shutil.which(name):
            skip(f"{name} is not installed (scripts/setup installs it)")


def sanitizer_runtime(library):
    """The sanitizer runtime that a sanitized library needs loaded first; None for a plain one."""
    listing = subprocess.run(["ldd", library], capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        words = line.split()
        if words and words[0].startswith(("libasan.", "libtsan.")) and len(words) > 2:
            return words[2]
    return None


class Ports:
    """Port numbers that no program on this host uses and no other test gets.

    A bound abstract UNIX socket reserves a number, so two tests that run at the same time never
    choose the same one, and the numbers of a killed test are free again.
    """

    def __init__(self):
        self.held = []

    def take(self):
        for _ in range(1000):
            port = random.randrange(20000, 32000)
            if self._reserve(port) and self._unused(port):
                return port
        raise Failure("no free port found")

    def _reserve(self, port):
        token = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            token.bind(f"\0verbena-test-port-{port}")
        except OSError:
            token.close()
            return False
        self.held.append(token)
        return True

    @staticmethod
    def _unused(port):
        for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
            with socket.socket(socket.AF_INET6, kind) as probe:
                try:
                    probe.bind(("::", port))
                except OSError:
                    return False
        return True

    def release(self):
        for token in self.held:
            token.close()


def stdin_of(argv):
    """Debian 13's ucx_perftest takes itself for a part of an MPI job unless a terminal is there."""
    return terminal() if "ucx_perftest" in argv else subprocess.DEVNULL


@functools.cache
def terminal():
    _, slave = os.openpty()     # the other end stays open until the test ends
    return slave


class Process:
    """A started program with its own process group; its output goes to a file."""

    def __init__(self, argv, env, log_path, prefix=(), pass_fds=()):
        self.argv = argv
        self.log_path = log_path
        self.status = None
        with open(log_path, "wb") as log:
            self.popen = subprocess.Popen(
                [*prefix, *argv], env=env, stdin=stdin_of(argv), stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, cwd="/", pass_fds=pass_fds,
            )

    @property
    def pid(self):
        return self.popen.pid

    def output(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait(self, deadline):
        """Exit status, negative for a signal; None when the deadline passed first."""
        try:
            self.status = self.popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.status = None
        return self.status

    def kill(self):
        if self.popen.poll() is None:
            try:
                os.killpg(self.popen.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.popen.wait()

    def listens_on(self, port):
        """True once the program's network namespace has a TCP listener on port."""
        wanted = f":{port:04X}"
        for table in "tcp", "tcp6":
            try:
                with open(f"/proc/{self.pid}/net/{table}", encoding="ascii") as rows:
                    for row in rows:
                        column = row.split()
                        if column[1].endswith(wanted) and column[3] == "0A":
                            return True
            except OSError:
                pass
        return False

    def describe(self):
        how = "still running" if self.status is None else f"exit status {self.status}"
        text = self.output().rstrip() or "(no output)"
        return f"$ {' '.join(self.argv)}\n{text}\n[{how}]"


class Bench:
    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.as_root = os.geteuid() == 0
        self.uid = NOBODY if self.as_root else os.geteuid()
        self.dir = tempfile.mkdtemp(prefix="verbena-test-")
        self.ports = Ports()
        self.processes = []
        self.numbers = itertools.count(1)
        self.lib = self._stage_library()
        self.udp_port = self.ports.take()
        self.run_dir = self._make_run_dir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        self.ports.release()
        shutil.rmtree(self.run_dir, ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def _make_run_dir(self):
        """In /dev/shm if there is room, as without VERBENA_DIR: access to shared memory must not
        wait for a busy disk."""
        try:
            memory = os.statvfs(MEMORY)
            if memory.f_bavail * memory.f_frsize < MEMORY_BYTES:
                return self.make_dir("run")
            path = tempfile.mkdtemp(prefix="verbena-test-", dir=MEMORY)
        except OSError:
            return self.make_dir("run")
        if self.as_root:
            os.chown(path, NOBODY, NOBODY)
        return path

    def _stage_library(self):
        """Copies the libraries to a folder that every user can read, since the build folder may not
        be readable; returns it."""
        os.chmod(self.dir, 0o755)
        source = os.path.join(self.build, "lib", "libibverbs.so.1")
        if not os.path.exists(source):
            raise Failure(f"{source} does not exist; build first")
        lib = os.path.join(self.dir, "lib")
        os.mkdir(lib)
        for name in "libibverbs.so.1", "librdmacm.so.1", "libverbena.so.0":
            source = os.path.join(self.build, "lib", name)
            if os.path.exists(source):
                shutil.copyfile(source, os.path.join(lib, name))
        os.chmod(lib, 0o755)
        return lib

    def stage(self, program):
        """Copies one of our test programs so that the ordinary user can run it."""
        target = os.path.join(self.dir, os.path.basename(program))
        shutil.copyfile(program, target)
        os.chmod(target, 0o755)
        return target

    def make_dir(self, name):
        path = os.path.join(self.dir, name)
        os.mkdir(path, 0o700)
        if self.as_root:
            os.chown(path, NOBODY, NOBODY)
        return path

    def user_prefix(self):
        if not self.as_root:
            return []
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

    def own_tmp_prefix(self, in_namespace=False):
        """
        The prefix of a command that must find only files of this bench's programs in /tmp.
        in_namespace: the command already runs in a user namespace, if it needs one. [] if mounts
        are not allowed, or the bench is not in /tmp.
        """
        tmp = os.path.join(self.dir, "tmp")
        if os.path.dirname(self.dir) != "/tmp":
            return []
        if not os.path.isdir(tmp):
            os.mkdir(tmp)
            os.chmod(tmp, 0o1777)
            os.mkdir(os.path.join(tmp, os.path.basename(self.dir)))
        users = [] if self.as_root or in_namespace else ["-Ur"]
        prefix = ["unshare", *users, "-m", "sh", "-c", OWN_TMP, self.dir]
        probe = (
            subprocess.run([*prefix, "true"], capture_output=True, check=False)
            if not in_namespace
            else None
        )
        return prefix if probe is None or probe.returncode == 0 else []

    def env(self, extra=None):
        env = {
            k: v for k, v in os.environ.items() if not k.startswith("VERBENA_") or k in PASSED_ON
        }
        env.update(
            LD_LIBRARY_PATH=self.lib, VERBENA_DIR=self.run_dir, VERBENA_UDP_PORT=str(self.udp_port),
            HOME=self.dir, LC_ALL="C",
        )
        runtime = sanitizer_runtime(os.path.join(self.lib, "libibverbs.so.1"))
        if runtime:
            # Leaks of the stock programs are not reported; tests/verbs finds the library's own.
            env["LD_PRELOAD"] = runtime
            env["ASAN_OPTIONS"] = (
                env.get("ASAN_OPTIONS", "")
                + ":abort_on_error=1:detect_leaks=0:verify_asan_link_order=0"
            )
            # UBSan may detect a NULL pointer before it crashes the program: that must fail too.
            env["UBSAN_OPTIONS"] = env.get("UBSAN_OPTIONS", "") + ":abort_on_error=1"
        env.update(extra or {})
        return {k: v for k, v in env.items() if v is not None}

    def number(self):
        """One that nothing else of this bench has; several threads may start programs."""
        return next(self.numbers)

    def start(self, argv, env=None, prefix=None, pass_fds=()):
        log = os.path.join(self.dir, f"{self.number()}.log")
        prefix = self.user_prefix() if prefix is None else prefix
        process = Process(argv, self.env(env), log, prefix, pass_fds)
        self.processes.append(process)
        return process

    def run(self, argv, env=None, prefix=None, expect=0, limit=LIMIT_S):
        """Runs one program to its end and returns its output."""
        process = self.start(argv, env, prefix)
        if process.wait(time.monotonic() + limit) != expect:
            process.kill()
            raise Failure(
                f"expected exit status {expect} within {limit:g} s:\n{process.describe()}"
            )
        return process.output()

    def pair(
        self, server, client, port, server_env=None, client_env=None, server_prefix=None,
        client_prefix=None, limit=LIMIT_S,
    ):
        """Runs a server, and a client once it listens on TCP `port`; both must exit with 0."""
        deadline = time.monotonic() + limit
        first = self.start(server, server_env, server_prefix)
        while not first.listens_on(port):
            if first.popen.poll() is not None or time.monotonic() > deadline:
                first.wait(0)
                first.kill()
                raise Failure(f"the server never listened:\n{first.describe()}")
            time.sleep(0.01)
        second = self.start(client, client_env, client_prefix)
        statuses = [
            second.wait(deadline),
            first.wait(deadline if second.status == 0 else time.monotonic() + 2),
        ]
        if statuses != [0, 0]:
            second.kill()
            first.kill()
            raise Failure(f"server:\n{first.describe()}\nclient:\n{second.describe()}")
        return first.output(), second.output()


    def run_clients(self, server, clients, port, limit=LIMIT_S):
        """
        Runs a server and, once it listens, several clients at the same time; all must exit with 0.
        Each is (command, environment, prefix).
        """
        deadline = time.monotonic() + limit
        started = [self.start(*server)]
        while not started[0].listens_on(port):
            if started[0].popen.poll() is not None or time.monotonic() > deadline:
                started[0].wait(0)
                started[0].kill()
                raise Failure(f"the server never listened:\n{started[0].describe()}")
            time.sleep(0.01)
        started += [self.start(*client) for client in clients]
        statuses = [process.wait(deadline) for process in started]
        for process in started:
            process.kill()
        if statuses != [0] * len(started):
            raise Failure("\n".join(process.describe() for process in started))


def retry(function):
    """Calls function() again if it fails for a reason of UNRELATED_FAILURES; returns its result."""
    for _ in range(TRIES - 1):
        try:
            return function()
        except Failure as failure:
            reason = next(
                (why for text, why in UNRELATED_FAILURES.items() if text in str(failure)), None
            )
            if not reason:
                raise
            print(f"again: {reason}")
    return function()


def run_table(cases, bench, only=None):
    """Runs (name, function) cases, prints one line each, and returns the exit status of the
    test."""
    count = {"passed": 0, "failed": 0, "left out": 0}
    for name, function in cases:
        if only and only not in name:
            continue
        began = time.monotonic()
        try:
            retry(lambda: function(bench))
            count["passed"] += 1
            print(f"ok     {name} ({time.monotonic() - began:.1f} s)")
        except LeftOut as reason:
            count["left out"] += 1
            left_out(1, f"{name}: {reason}")
        except Failure as failure:
            count["failed"] += 1
            print(f"FAILED {name}\n{failure}\n")
        sys.stdout.flush()
    print(f"{count['passed']} of {count['passed'] + count['failed']} passed")
    if count["failed"]:
        return 1
    if count["passed"]:
        return 0
    return SKIP if count["left out"] else 1     # no case has that name
