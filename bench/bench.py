#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`make bench`: what Verbena costs against what a user would take instead, as ratios of one run.

    bench.py BUILD_DIR

Every quantity is measured several times, the contenders in turn, so that what else the machine does hits all of
them; a row compares medians.  Absolute figures are this machine's, the ratios are the result.  Asserts nothing.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "stock"))
sys.dont_write_bytecode = True
import harness  # noqa: E402
from stock import Place  # noqa: E402

RUNS = int(os.environ.get("BENCH_RUNS", "5"))
LATENCY = "us"
BANDWIDTH = "MiB/s"
RATE = "million/s"


def pin(cpu_number):
    cpus = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(cpus[cpu_number % len(cpus)])]


class Bench:
    def __init__(self, bench, build):
        self.bench = bench
        self.place = Place(bench)
        self.device = self.place.device("lo")
        self.udp_ref = bench.stage(os.path.join(build, "bench", "udp_ref"))
        self.shm_ref = bench.stage(os.path.join(build, "bench", "shm_ref"))

    def perftest(self, transport, program, args, column):
        port = self.bench.ports.take()
        env = {"VERBENA_TRANSPORT": transport}
        server = [program, "-d", self.device, "-p", str(port), "-F", *args]
        user = self.bench.user_prefix()
        _, text = self.bench.pair(server, [*server, "127.0.0.1"], port, env, env, [*user, *pin(1)], [*user, *pin(0)])
        rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s+\d+\s+\d", line)]
        return float(rows[-1][column])

    def latency(self, transport, program):
        return self.perftest(transport, program, ["-s", "64", "-n", "5000"], 4)

    def bandwidth(self, transport, program):
        return self.perftest(transport, program, ["-s", "65536", "-n", "2000"], 3)

    def udp(self, mode, size, count):
        done = subprocess.run([self.udp_ref, mode, str(size), str(count)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise harness.Failure(f"udp_ref {mode}: {done.stderr}")
        return float(done.stdout)

    def shm(self, *args):
        done = subprocess.run([self.shm_ref, *map(str, args)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise harness.Failure(f"shm_ref {args}: {done.stderr}")
        return float(done.stdout)

    def ucx(self, transports, test, size, count, column):
        port = self.bench.ports.take()
        argv = ["ucx_perftest", "-t", test, "-s", str(size), "-n", str(count), "-w", "100", "-f", "-p", str(port)]
        env = {"LD_LIBRARY_PATH": None, "LD_PRELOAD": None, "UCX_TLS": transports}
        user = self.bench.user_prefix()
        _, text = self.bench.pair(argv, [*argv, "127.0.0.1"], port, env, env, [*user, *pin(1)], [*user, *pin(0)])
        rows = [line.split() for line in text.splitlines() if re.match(r"Final:|\s*\d+\s+\d", line)]
        return float(rows[-1][column].rstrip("+"))


def contenders(b):
    """Rows: (what, unit, Verbena's measurement, [(name, its measurement), ...])."""
    ucx = shutil.which("ucx_perftest") is not None

    def ucx_latency(transports):
        return lambda: b.ucx(transports, "tag_lat", 64, 10000, 1)

    def ucx_bandwidth(transports):
        return lambda: b.ucx(transports, "ucp_put_bw", 65536, 5000, 5)

    def against_ucx(measure):
        return [("UCX tcp", measure("tcp,self")), ("UCX shared memory", measure("posix,cma,self"))] if ucx else []

    pingpong = ("UDP ping-pong", lambda: b.udp("pingpong", 64, 20000))
    streams = [("UDP 4 KiB per call", lambda: b.udp("stream", 4096, 50000)),
               ("UDP 4 KiB, GSO and GRO", lambda: b.udp("gso", 4096, 100000))]
    rows = []
    for verb in "send", "write", "read":
        rows.append((f"{verb.upper()} 64 bytes, UDP", LATENCY,
                     lambda verb=verb: b.latency("udp", f"ib_{verb}_lat"), [pingpong]))
        rows.append((f"{verb.upper()} 64 bytes, same host", LATENCY,
                     lambda verb=verb: b.latency("auto", f"ib_{verb}_lat"),
                     [pingpong, *(against_ucx(ucx_latency) if verb == "send" else [])]))
    for verb in "send", "write", "read":
        rows.append((f"{verb.upper()} 64 KiB, UDP", BANDWIDTH,
                     lambda verb=verb: b.bandwidth("udp", f"ib_{verb}_bw"), streams))
        rows.append((f"{verb.upper()} 64 KiB, same host", BANDWIDTH,
                     lambda verb=verb: b.bandwidth("auto", f"ib_{verb}_bw"),
                     against_ucx(ucx_bandwidth) if verb == "write" else streams[:1]))
    return rows


def same_host(b):
    """Rows of the local transport against bare memory and system calls: the best moments of both, and rates."""
    def best(program, size, count, column=2, *more):
        return lambda: b.perftest("local", program, ["-s", str(size), "-n", str(count), *more], column)

    def copies(call, size):
        return lambda: size / b.shm(call, size, 3000) * 1e6 / 2 ** 20

    rows = [("SEND 8 bytes, best", LATENCY, best("ib_send_lat", 8, 20000),
             [("a cache line handed over", lambda: b.shm("line", 100000))])]
    if shutil.which("ucx_perftest"):
        rows.append(("SEND 8 bytes, typical", LATENCY, best("ib_send_lat", 8, 20000, 4),
                     [("UCX posix", lambda: b.ucx("posix,self", "tag_lat", 8, 50000, 1))]))
    for verb in "write", "read":
        rows.append((f"{verb.upper()} 8 bytes, best", LATENCY, best(f"ib_{verb}_lat", 8, 20000),
                     [(f"process_vm_{verb}v", lambda verb=verb: b.shm(verb, 8, 100000))]))
    for size in 65536, 1 << 20:
        for verb in "send", "write", "read":
            rows.append((f"{verb.upper()} {size >> 10} KiB, peak", BANDWIDTH,
                         best(f"ib_{verb}_bw", size, (1 << 28) // size), [("process_vm_readv 64 KiB", copies("read", 65536))]))
    rows.append(("SEND 8 bytes", RATE, best("ib_send_bw", 8, 300000, 4),
                 [("process_vm_writev each", lambda: 1 / b.shm("write", 8, 100000))]))
    rows.append(("WRITE 8 bytes, lists of 16", RATE, best("ib_write_bw", 8, 300000, 4, "-l", "16"),
                 [("process_vm_writev each", lambda: 1 / b.shm("write", 8, 100000))]))
    return rows


def medians(measurements):
    """Runs all measurements RUNS times in turn. None for one that does not work here."""
    samples = [[] for _ in measurements]
    for _ in range(RUNS):
        for measure, values in zip(measurements, samples):
            try:
                values.append(measure())
            except (harness.Failure, IndexError, ValueError) as problem:
                reason = str(problem).splitlines()[0] if str(problem) else "no figure in the output"
                print(f"note: a measurement failed: {reason}", file=sys.stderr)
    return [statistics.median(values) if values else None for values in samples]


def main():
    build = sys.argv[1]
    harness.need_programs("ib_write_bw", "taskset")
    with harness.Bench(build) as bench:
        b = Bench(bench, build)
        rows = contenders(b) + same_host(b)
        load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
        print(f"Medians of {RUNS} runs, loopback, the two processes on different CPUs. "
              "Ratio above 1: Verbena is better.")
        print(f"Load before the first run: {load:.1f} on {cpus} CPUs; what spins suffers most from a busy machine.\n")
        print(f"{'Verbena':<28} {'':>10} {'against':<26} {'':>10} {'ratio':>7}")
        for what, unit, ours, others in rows:
            value, *rest = medians([ours] + [measure for _, measure in others])
            for (name, _), other in zip(others, rest):
                if value is None or other is None:
                    print(f"{what:<28} {'-':>10} {name:<26} {'-':>10} {'-':>7}")
                    continue
                ratio = other / value if unit == LATENCY else value / other
                print(f"{what:<28} {value:>10.2f} {name:<26} {other:>10.2f} {ratio:>7.2f}   {unit}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
