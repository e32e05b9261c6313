#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Many processes and threads on one host for a long time, some of them killed or stopped, and what
must hold afterwards.

    soak.py BUILD_DIR [SECONDS]

Several workers, each of which runs one pair of programs after the other, chosen at random
(VERBENA_SEED): stock programs that move and compare data, all in one run directory.  Beside them a
program of ours with many threads and one with random requests against a model go on and on. In a
third of the pairs one side is killed in the middle: the other must not crash, and if it has
requests under way, as the clients of perftest have, it must end.  (A server that waits for a
message does so for ever, as on an adapter.)  In some, one side is stopped for a moment: then
nothing may be seen of it.

At the end nothing is left: no file of a dead process, no process that uses the library, no memory
beyond the host's table; and a pair works as in a fresh directory.
"""
import os
import random
import re
import signal
import sys
import threading
import time

import harness
from harness import Failure
from stock import Place

SECONDS = 600
WORKERS = 3
SURVIVOR_S = 60 * harness.SLOWER     # in this time a program hears that its peer was killed
BRIEF_S = 2                       # for one that need not

PAIRS = [
    ("ibv_rc_pingpong", "-c -n 300 -s 5000"),
    ("ibv_rc_pingpong", "-e -c -n 200"),
    ("ibv_srq_pingpong", "-n 100"),
    ("ib_send_bw", "-n 500 -s 65536"),
    ("ib_write_bw", "-n 500 -s 8192 -q 4"),
    ("ib_read_bw", "-n 300 -s 65536"),
    ("ib_atomic_bw", "-n 300"),
    ("ib_send_bw", "-e -n 300 -s 4096"),
]
OF_A_PROCESS = re.compile(r"s\d{4}\.")   # a file in the run directory
THREADED = ("threads_verbs", "rc_model_verbs")


class Soak:
    def __init__(self, bench, seconds, seed):
        self.bench = bench
        self.place = Place(bench)
        self.device = self.place.device("lo")
        self.end = time.monotonic() + seconds
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.counts = {"pairs": 0, "killed": 0, "stopped": 0, "threaded": 0}
        self.problems = []

    def note(self, what):
        with self.lock:
            self.counts[what] += 1

    def choose(self):
        """A pair, and what is done to one side of it: after so many seconds, a signal."""
        with self.lock:
            program, args = self.random.choice(PAIRS)
            harm = self.random.choice(["", "", "", "killed", "killed", "stopped"])
            return program, args, harm, self.random.randrange(2), self.random.uniform(0, 1)

    def goes_on(self):
        return time.monotonic() < self.end and not self.problems

    def run_pair(self, program, args, harm, side, delay):
        port = self.bench.ports.take()
        argv = [program, *args.split(), "-d", self.device, "-p", str(port)]
        server = self.bench.start(argv, self.place.env(0))
        deadline = time.monotonic() + harness.LIMIT_S
        while not server.listens_on(port):
            if server.popen.poll() is not None or time.monotonic() > deadline:
                server.kill()
                raise Failure(f"the server never listened:\n{server.describe()}")
            time.sleep(0.01)
        client = self.bench.start([*argv, "127.0.0.1"], self.place.env(1))
        both = [server, client]
        if harm:
            time.sleep(delay)
            self.harm(both[side], harm)
        if harm == "killed":
            self.survivor_ends(both[1 - side], program.startswith("ib_") and side == 0)
        else:
            self.both_succeed(both, deadline)

    @staticmethod
    def harm(process, harm):
        if harm == "killed":
            process.kill()
            return
        if process.popen.poll() is None:
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.2)
            os.kill(process.pid, signal.SIGCONT)

    @staticmethod
    def survivor_ends(process, must_end):
        status = process.wait(time.monotonic() + (SURVIVOR_S if must_end else BRIEF_S))
        process.kill()
        if (status is None and must_end) or (status is not None and status < 0):
            raise Failure(
                f"its peer was killed, and "
                f"it {'goes on' if status is None else 'crashed'}:\n{process.describe()}"
            )

    @staticmethod
    def both_succeed(both, deadline):
        statuses = [process.wait(deadline) for process in both]
        if statuses != [0, 0]:
            text = "\n".join(process.describe() for process in both)
            if harness.UNCALIBRATED in text:
                return
            for process in both:
                process.kill()
            raise Failure(text)

    def worker(self):
        while self.goes_on():
            program, args, harm, side, delay = self.choose()
            try:
                self.run_pair(program, args, harm, side, delay)
                self.note("pairs")
                if harm:
                    self.note(harm)
            except Failure as failure:
                self.problems.append(
                    f"{program} {args} ({harm or 'left alone'}, side {side}):\n{failure}"
                )

    def threaded(self, program):
        while self.goes_on():
            with self.lock:
                seed = self.random.randrange(1 << 30)
            try:
                self.bench.run([program], {**self.place.env(0), "VERBENA_SEED": str(seed)})
                self.note("threaded")
            except Failure as failure:
                self.problems.append(f"VERBENA_SEED={seed} {program}:\n{failure}")

    def run(self):
        programs = [
            self.bench.stage(os.path.join(self.bench.build, "tests", "verbs", name))
            for name in THREADED
        ]
        threads = [threading.Thread(target=self.worker) for _ in range(WORKERS)]
        threads += [threading.Thread(target=self.threaded, args=(program,)) for program in programs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def check_end(self):
        """Whoever comes next cleans up what the killed ones have left."""
        self.bench.pair(
            self.last(), [*self.last(), "127.0.0.1"], self.port, self.place.env(0),
            self.place.env(1),
        )
        left = [
            name
            for folder in set(self.place.dirs)
            for name in os.listdir(folder)
            if OF_A_PROCESS.match(name)
        ]
        if left:
            raise Failure(f"files of processes that are gone: {left}")
        alive = [
            process.describe() for process in self.bench.processes if process.popen.poll() is None
        ]
        if alive:
            raise Failure("still running:\n" + "\n".join(alive))

    def last(self):
        return ["ibv_rc_pingpong", "-c", "-n", "100", "-d", self.device, "-p", str(self.port)]


def main():
    build = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    seed = int(os.environ.get("VERBENA_SEED", time.time_ns() % (1 << 30)))
    print(f"seed {seed} (VERBENA_SEED), {seconds:g} seconds", flush=True)
    harness.need_programs(*{program for program, _ in PAIRS})
    with harness.Bench(build) as bench:
        soak = Soak(bench, seconds, seed)
        soak.run()
        print(", ".join(f"{number} {what}" for what, number in soak.counts.items()))
        if soak.problems:
            raise Failure("\n".join(soak.problems))
        soak.port = bench.ports.take()
        soak.check_end()
    return 0


if __name__ == "__main__":
    harness.end_with(main)
