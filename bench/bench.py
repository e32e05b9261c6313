#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`make bench`: what Verbena costs against what a user would take instead, as ratios of one run.

    bench.py BUILD_DIR [GROUP...]

Groups: wire, many, events, instead, latency, rate, bandwidth64k, bandwidth1m, scale; all without one.  Every quantity is measured several
times, the contenders in turn, so that what else the machine does hits all of them; a row compares medians.  Absolute figures are this machine's, the ratios are the result.  Asserts nothing.
BENCH_RUNS says how often (5).
"""
import os
import re
import resource
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
VERBS = ("send", "write", "read")
CHUNKS = (1 << 16, 1 << 18, 1 << 20)
LATENCY = "us"
COST = "ns"
PROCESSOR = "CPU s/GiB"
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
        self.both_ends = bench.stage(os.path.join(build, "bench", "self"))
        self.own_dir = bench.make_dir("own")

    def perftest(self, transport, program, args, column):
        port = self.bench.ports.take()
        env = {"VERBENA_TRANSPORT": transport}
        server = [program, "-d", self.device, "-p", str(port), "-F", *args]
        user = self.bench.user_prefix()
        _, text = self.bench.pair(server, [*server, "127.0.0.1"], port, env, env, [*user, *pin(1)], [*user, *pin(0)])
        rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s+\d+\s+\d", line)]
        return float(rows[-1][column])

    def processor_time(self, transport, program, *more):
        """Seconds of both processes together for each GiB."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.perftest(transport, program, ["-s", "65536", "-n", "32768", *more], 3)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 2

    def latency(self, transport, program):
        return self.perftest(transport, program, ["-s", "64", "-n", "5000"], 4)

    def bandwidth(self, transport, program):
        return self.perftest(transport, program, ["-s", "65536", "-n", "2000"], 3)

    def reference(self, program, args, env=None):
        done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            raise harness.Failure(f"{os.path.basename(program)} {args}: {done.stderr}")
        return float(done.stdout)

    def udp(self, *args):
        return self.reference(self.udp_ref, args)

    def shm(self, *args):
        return self.reference(self.shm_ref, args)

    def self_cost(self, *args, transport="local"):
        env = {**os.environ, "VERBENA_TRANSPORT": transport, "VERBENA_UDP_PORT": str(self.bench.udp_port),
               "VERBENA_DIR": self.own_dir, "LD_LIBRARY_PATH": os.path.join(self.bench.build, "lib")}
        return self.reference(self.both_ends, args, env)

    def ucx(self, transports, test, size, count, column):
        port = self.bench.ports.take()
        argv = ["ucx_perftest", "-t", test, "-s", str(size), "-n", str(count), "-w", "100", "-f", "-p", str(port)]
        env = {"LD_LIBRARY_PATH": None, "LD_PRELOAD": None, "UCX_TLS": transports}
        user = self.bench.user_prefix()
        _, text = self.bench.pair(argv, [*argv, "127.0.0.1"], port, env, env, [*user, *pin(1)], [*user, *pin(0)])
        rows = [line.split() for line in text.splitlines() if re.match(r"Final:|\s*\d+\s+\d", line)]
        return float(rows[-1][column].rstrip("+"))


def ucx_has():
    return shutil.which("ucx_perftest") is not None


def wire(b):
    """Rows: (what, unit, Verbena's measurement, [(name, its measurement[, goal]), ...]); a goal is the least ratio wanted.

    The wire against programs that do nothing but move UDP: datagrams as long as our packets, which carry 28 bytes of headers and ICRC
    in front of 8, and 44 around a segment.
    """
    def typical(program):
        return lambda: b.perftest("udp", program, ["-s", "8", "-n", "20000"], 4)

    def stream(verb, mtu):
        return lambda: b.perftest("udp", f"ib_{verb}_bw", ["-s", "65536", "-n", "10000", "-m", str(mtu)], 3)

    def per_call(mode, size, count):
        return lambda: b.udp(mode, size, count)

    pingpong = lambda: b.udp("pingpong", 24, 20000)
    rows = [("SEND 8 bytes, UDP", LATENCY, typical("ib_send_lat"), [("UDP ping-pong", pingpong, 1 / 1.4)]),
            ("WRITE 8 bytes, UDP", LATENCY, typical("ib_write_lat"), [("UDP ping-pong", pingpong, 1 / 2)])]
    for mtu in 4096, 1024:
        against = [(f"UDP {mtu} bytes, GSO and GRO", per_call("gso", mtu + 44, 400000000 // mtu), 0.5),
                   (f"UDP {mtu} bytes per call", per_call("stream", mtu + 44, 200000000 // mtu), 2)]
        rows += [(f"{verb.upper()} 64 KiB, MTU {mtu}", BANDWIDTH, stream(verb, mtu), against) for verb in ("write", "send")]
        rows.append((f"READ 64 KiB, MTU {mtu}", BANDWIDTH, stream("read", mtu), [("WRITE, the same", stream("write", mtu), 0.9)]))
    for verb in "write", "send":
        rows.append((f"{verb.upper()} 8 bytes, UDP", RATE,
                     lambda verb=verb: b.perftest("udp", f"ib_{verb}_bw", ["-s", "8", "-n", "307200"], 4),
                     [("UDP 36 bytes per call", lambda: b.udp("stream", 36, 300000) * 2 ** 20 / 36 / 1e6, 4)]))
    return rows


def many(b):
    """Ten thousand queue pairs over the wire, both ends in one thread."""
    def cost(qps):
        return lambda: b.self_cost("round", 8, 40000, qps, transport="udp")

    return [("SEND 8 bytes, 10,000 QPs", COST, cost(10000), [("16 QPs", cost(16), 1 / 1.5)]),
            ("QP pairs set up", "pairs/s", lambda: b.self_cost("setup", 8, 5000, transport="udp"), [("wanted", lambda: 2000.0, 1)])]


def events(b):
    """What a program that sleeps between completions costs against one that polls. perftest has events for SEND only."""
    return [(f"SEND 64 KiB with events, {transport}", PROCESSOR, lambda t=transport: b.processor_time(t, "ib_send_bw", "-e"),
             [("polling", lambda t=transport: b.processor_time(t, "ib_send_bw"), 1 / 1.3)]) for transport in ("udp", "local")]


def instead(b):
    """The same host by memory against what programs do without RDMA."""
    pingpong = ("UDP ping-pong", lambda: b.udp("pingpong", 64, 20000))
    stream = ("UDP 4 KiB per call", lambda: b.udp("stream", 4096, 50000))
    tcp = [("UCX tcp", lambda: b.ucx("tcp,self", "tag_lat", 64, 10000, 1))] if ucx_has() else []
    return ([(f"{verb.upper()} 64 bytes", LATENCY, lambda verb=verb: b.latency("auto", f"ib_{verb}_lat"),
              [pingpong, *(tcp if verb == "send" else [])]) for verb in VERBS] +
            [(f"{verb.upper()} 64 KiB", BANDWIDTH, lambda verb=verb: b.bandwidth("auto", f"ib_{verb}_bw"), [stream])
             for verb in VERBS])


def latency(b):
    """The same host against bare memory, bare system calls and UCX."""
    def typical(program, column=4):
        return lambda: b.perftest("local", program, ["-s", "8", "-n", "20000"], column)

    ucx = [("UCX posix", lambda: b.ucx("posix,self", "tag_lat", 8, 50000, 1), 1)] if ucx_has() else []
    rows = [("SEND 8 bytes", LATENCY, typical("ib_send_lat"),
             [("a cache line handed over", lambda: b.shm("line", 100000), 1 / 2.5), *ucx])]
    for verb in "write", "read":
        against = [(f"process_vm_{verb}v", lambda verb=verb: b.shm(verb, 8, 50000), 1 / 1.3)]
        if verb == "write":
            against.append(("the same, each way in turn", lambda: b.shm("pingpong", 8, 50000)))
        rows.append((f"{verb.upper()} 8 bytes", LATENCY, typical(f"ib_{verb}_lat"), against))
    return rows


def rate(b):
    """Messages of 8 bytes."""
    def per_second(program, *more):
        return lambda: b.perftest("local", program, ["-s", "8", "-n", "307200", *more], 4)

    def calls(pieces):
        return lambda: pieces / b.shm("list", pieces, 20000)

    return [("SEND 8 bytes", RATE, per_second("ib_send_bw"), [("wanted", lambda: 3.0, 1)]),
            ("SEND 8 bytes, lists of 16", RATE, per_second("ib_send_bw", "-l", "16"), [("wanted", lambda: 3.0, 1)]),
            ("WRITE 8 bytes", RATE, per_second("ib_write_bw"), [("process_vm_writev, 1 piece", calls(1))]),
            ("WRITE 8 bytes, lists of 16", RATE, per_second("ib_write_bw", "-l", "16"),
             [("process_vm_writev, 1 piece", calls(1), 3), ("process_vm_writev, 16 pieces", calls(16))]),
            ("WRITE 8 bytes, lists of 64", RATE, per_second("ib_write_bw", "-l", "64"),
             [("process_vm_writev, 1 piece", calls(1), 3), ("process_vm_writev, 64 pieces", calls(64))])]


def bandwidth(size):
    """The same host against the best that copies by the kernel do, and UCX."""
    def rows(b):
        def copies():
            return max(chunk / b.shm("read", chunk, (1 << 28) // chunk) * 1e6 / 2 ** 20 for chunk in CHUNKS)

        tests = {"send": "tag_bw", "write": "ucp_put_bw", "read": "ucp_get"}
        count = (1 << 29) // size

        def ours(verb, column):
            return lambda: b.perftest("local", f"ib_{verb}_bw", ["-s", str(size), "-n", str(count)], column)

        def ucx(verb):
            return lambda: b.ucx("posix,cma,self", tests[verb], size, count, 5)

        # The best moments of both; and averages against averages.
        out = []
        for verb in VERBS:
            out.append((f"{verb.upper()} {size >> 10} KiB, peak", BANDWIDTH, ours(verb, 2),
                        [("process_vm_readv, best", copies, 0.85)]))
            if ucx_has():
                out.append((f"{verb.upper()} {size >> 10} KiB", BANDWIDTH, ours(verb, 3),
                            [("UCX posix,cma", ucx(verb), 1)]))
        return out
    return rows


def scale(b):
    """One pair of QPs among many, both ends in one thread: what the code takes, with no line handed over."""
    def one(mode, *qps):
        return lambda: b.self_cost(mode, 8, 60000, *qps)

    return [(f"{mode.upper()} 8 bytes, of 1,000 QPs", COST, one(mode, 1000), [("a lone pair", one(mode), 1 / 1.2)])
            for mode in VERBS]


GROUPS = {"wire": wire, "many": many, "events": events, "instead": instead, "latency": latency, "rate": rate, "bandwidth64k": bandwidth(1 << 16),
          "bandwidth1m": bandwidth(1 << 20), "scale": scale}


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


def line(*fields):
    print("{:<28} {:>10} {:<28} {:>10} {:>7} {:>6}  {}".format(*fields).rstrip())


def show(row):
    what, unit, ours, others = row
    value, *rest = medians([ours] + [other[1] for other in others])
    for (name, _, *goal), other in zip(others, rest):
        if value is None or other is None:
            line(what, "-", name, "-", "-", "", "")
            continue
        ratio = other / value if unit in (LATENCY, COST, PROCESSOR) else value / other
        said = "reached" if goal and ratio >= goal[0] else "missed" if goal else ""
        line(what, f"{value:.2f}", name, f"{other:.2f}", f"{ratio:.2f}", f"{goal[0]:.2f}" if goal else "", f"{unit:<10} {said}")
    sys.stdout.flush()


def main():
    build, *names = sys.argv[1:]
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        sys.exit(f"no group {unknown[0]}; there are {', '.join(GROUPS)}")
    harness.need_programs("ib_write_bw", "taskset")
    with harness.Bench(build) as bench:
        b = Bench(bench, build)
        load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
        print(f"Medians of {RUNS} runs, loopback, the two processes on different CPUs. "
              "Ratio above 1: Verbena is better.")
        print(f"Load before the first run: {load:.1f} on {cpus} CPUs; what spins suffers most from a busy machine.")
        for name in names or GROUPS:
            print(f"\n{name}")
            line("Verbena", "", "against", "", "ratio", "goal", "")
            for row in GROUPS[name](b):
                show(row)


if __name__ == "__main__":
    main()
