#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs many processes and threads on one host for a long time, kills and stops some of them, and
checks that nothing of them is left.

    soak.py BUILD_DIR [SECONDS]

Several workers run random pairs of stock programs that transfer and compare data (VERBENA_SEED),
one pair after the other, all in one run directory. At the same time a test program with many
threads, and one with random requests and a model of their results, run again and again. In a third
of the pairs one side is killed in the middle: the other must not crash, and if it has requests
outstanding, as perftest's clients have, it must end. (A server that waits for a message does not
end, as on an adapter.) In some pairs one side is stopped for a moment: both must succeed.

At the end a pair must succeed as in a new directory, and nothing may be left: no file of a dead
process, and no process that uses the library.
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
SURVIVOR_S = 60 * harness.SLOWER     # within this time a program must end whose peer was killed
BRIEF_S = 2                       # for a program that need not end

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
PROCESS_FILE = re.compile(r"s\d{4}\.")   # a file in the run directory
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
        """A random pair, and which side is killed or stopped, and after how many seconds."""
        with self.lock:
            program, args = self.random.choice(PAIRS)
            disturbance = self.random.choice(["", "", "", "killed", "killed", "stopped"])
            return program, args, disturbance, self.random.randrange(2), self.random.uniform(0, 1)

    def is_running(self):
        return time.monotonic() < self.end and not self.problems

    def run_pair(self, program, args, disturbance, side, delay):
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
        if disturbance:
            time.sleep(delay)
            self.disturb(both[side], disturbance)
        if disturbance == "killed":
            self.check_survivor(both[1 - side], program.startswith("ib_") and side == 0)
        else:
            self.expect_success(both, deadline)

    @staticmethod
    def disturb(process, disturbance):
        if disturbance == "killed":
            process.kill()
            return
        if process.popen.poll() is None:
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.2)
            os.kill(process.pid, signal.SIGCONT)

    @staticmethod
    def check_survivor(process, must_end):
        status = process.wait(time.monotonic() + (SURVIVOR_S if must_end else BRIEF_S))
        process.kill()
        # SIGPIPE: it wrote to its TCP connection with the peer.
        crashed = status is not None and status < 0 and status != -signal.SIGPIPE
        if crashed or (status is None and must_end):
            raise Failure(
                f"its peer was killed, and "
                f"it {'did not end' if status is None else 'crashed'}:\n{process.describe()}"
            )

    @staticmethod
    def expect_success(both, deadline):
        statuses = [process.wait(deadline) for process in both]
        if statuses != [0, 0]:
            text = "\n".join(process.describe() for process in both)
            if harness.UNCALIBRATED in text:
                return
            for process in both:
                process.kill()
            raise Failure(text)

    def worker(self):
        while self.is_running():
            program, args, disturbance, side, delay = self.choose()
            try:
                self.run_pair(program, args, disturbance, side, delay)
                self.note("pairs")
                if disturbance:
                    self.note(disturbance)
            except Failure as failure:
                self.problems.append(
                    f"{program} {args} ({disturbance or 'undisturbed'}, side {side}):\n{failure}"
                )

    def threaded(self, program):
        while self.is_running():
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
        """Runs a last pair, which removes the files of killed processes; nothing may be left."""
        self.bench.pair(
            self.last_pair(), [*self.last_pair(), "127.0.0.1"], self.port, self.place.env(0),
            self.place.env(1),
        )
        left = [
            name
            for folder in set(self.place.dirs)
            for name in os.listdir(folder)
            if PROCESS_FILE.match(name)
        ]
        if left:
            raise Failure(f"files of dead processes: {left}")
        alive = [
            process.describe() for process in self.bench.processes if process.popen.poll() is None
        ]
        if alive:
            raise Failure("still running:\n" + "\n".join(alive))

    def last_pair(self):
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
