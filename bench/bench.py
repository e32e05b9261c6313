#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`make bench`: what Verbena costs against what a user would take instead, as ratios of one run.

    bench.py BUILD_DIR [GROUP...]

Groups: wire, many, events, threads, instead, latency, mapped, rate, bandwidth64k, bandwidth1m,
scale, recording, rsockets, connect, on loopback; hosts, between namespaces on a bridge; wire-veth,
many-veth, events-veth, rsockets-veth: the same rows between two network namespaces; all without
one.  Every quantity is measured several
times, the contenders in turn, so that what else the machine does hits all of them; a row compares
medians.  Absolute figures are this machine's, the ratios are the result.  Asserts nothing.
BENCH_RUNS says how often (5).
"""
import contextlib
import functools
import itertools
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "stock"))
sys.dont_write_bytecode = True
import bridged  # noqa: E402
import harness  # noqa: E402
import netns  # noqa: E402
import taps  # noqa: E402
from stock import Place  # noqa: E402

RUNS = int(os.environ.get("BENCH_RUNS", "5"))
VERBS = ("send", "write", "read")
MAPPED_FILE = 64 << 20
CHUNKS = (1 << 16, 1 << 18, 1 << 20)
LATENCY = "us"
COST = "ns"
INSTRUCTIONS = "instructions"
PROCESSOR = "CPU s/GiB"
MEMORY = "bytes"
LESS_IS_BETTER = (LATENCY, COST, PROCESSOR, INSTRUCTIONS, MEMORY)
BANDWIDTH = "MiB/s"
RATE = "million/s"
VETH_MTU = 9000    # a packet of path MTU 4096 and its headers


def pin(cpu_number):
    cpus = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(cpus[cpu_number % len(cpus)])]


class Bench:
    """All contenders, both ends on the loopback device, or each in one of two network
    namespaces."""

    def __init__(self, bench, build, hosts=None):
        self.bench = bench
        self.hosts = hosts
        self.place = Place(bench, hosts)
        self.device = self.place.device("eth" if hosts else "lo")
        self.gid = str(self.place.gid_index(self.device, "v4"))
        self.server = hosts.address(0) if hosts else "127.0.0.1"
        self.udp_ref = bench.stage(os.path.join(build, "bench", "udp_ref"))
        self.shm_ref = bench.stage(os.path.join(build, "bench", "shm_ref"))
        self.both_ends = bench.stage(os.path.join(build, "bench", "self"))
        self.crowd = bench.stage(os.path.join(build, "bench", "threads"))
        self.connections = bench.stage(os.path.join(build, "bench", "connect"))
        self.fan = os.path.join(build, "bench", "fan")
        self.pair = bench.stage(os.path.join(build, "bench", "pair"))
        self.own_dir = os.path.join(bench.dir, "own")   # of the user, as bench/self is
        os.makedirs(self.own_dir, 0o700, exist_ok=True)

    def verbs(self, transport, argv, each=((), ())):
        """What the client says of a program over the library; the server has the same arguments but
        for those of `each`, and each its own CPU."""
        port = self.bench.ports.take()
        argv = [*map(str, argv), "-d", self.device, "-p", str(port)]
        envs = [{**self.place.env(host), "VERBENA_TRANSPORT": transport} for host in (0, 1)]
        prefixes = [[*self.place.prefix(host), *pin(1 - host)] for host in (0, 1)]
        server, client = [*argv, *each[0]], [*argv, *each[1], self.server]
        return self.bench.pair(server, client, port, *envs, *prefixes)[1]

    def mapped(self, program, args, column):
        """The same with buffers in files that the other process can map."""
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.NamedTemporaryFile(dir="/dev/shm"))
                     for _ in range(2)]
            for file in files:
                os.truncate(file.name, MAPPED_FILE)
                os.chmod(file.name, 0o666)
            each = [[f"--mmap={file.name}"] for file in files]
            return self.perftest("local", program, args, column, each)

    def perftest(self, transport, program, args, column, each=((), ())):
        text = self.verbs(transport, [program, "-x", self.gid, "-F", *args], each)
        rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s+\d+\s+\d", line)]
        return float(rows[-1][column])

    def rsockets(self, transport, program, size, count):
        """MiB/s of a program over rsockets, whose server cannot be seen from outside: its client
        asks until a process listens."""
        argv = [
            program, "-S", str(size), "-C", str(count), "-I", "1", "-p",
            str(self.bench.ports.take()),
        ]
        envs = [{**self.place.env(host), "VERBENA_TRANSPORT": transport} for host in (0, 1)]
        prefixes = [[*self.place.prefix(host), *pin(1 - host)] for host in (0, 1)]
        server = self.bench.start([*argv, "-b", self.server], envs[0], prefixes[0])
        deadline = time.monotonic() + harness.LIMIT_S
        while True:
            client = self.bench.start([*argv, "-s", self.server], envs[1], prefixes[1])
            if (
                client.wait(deadline) == 0
                or time.monotonic() > deadline
                or server.popen.poll() is not None
            ):
                break
        server.wait(time.monotonic() + 2)
        server.kill()
        rows = [line.split() for line in client.output().splitlines() if line.startswith("custom")]
        return float(rows[-1][6]) * 1e9 / 8 / 2 ** 20

    def own(self, transport, mode, size, count, qps):
        """bench/pair: WRITEs, sleeping or not, and many queue pairs."""
        return float(self.verbs(transport, [self.pair, mode, size, count, qps, "-g", self.gid]))

    def processor_time(self, gib, run):
        """Seconds of both processes together for each GiB."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / gib

    def latency(self, transport, program):
        return self.perftest(transport, program, ["-s", "64", "-n", "5000"], 4)

    def bandwidth(self, transport, program):
        return self.perftest(transport, program, ["-s", "65536", "-n", "2000"], 3)

    def reference(self, program, args, env=None):
        done = subprocess.run(
            [*program, *map(str, args)], capture_output=True, text=True, check=False, env=env
        )
        if done.returncode:
            raise harness.Failure(f"{os.path.basename(program[-1])} {args}: {done.stderr}")
        return float(done.stdout)

    def udp(self, *args):
        if not self.hosts:
            return self.reference([self.udp_ref], args)
        # The client's namespace first: it sends.
        places = [
            word for host in (1, 0) for word in (self.hosts.netns(host), self.hosts.address(host))
        ]
        return self.reference([*self.hosts.enter(1), self.udp_ref], [*args, *places])

    def shm(self, *args):
        return self.reference([self.shm_ref], args)

    def self_cost(self, *args, transport="local", record=None):
        env = {
            **os.environ,
            **({"VERBENA_RECORD": record} if record else {}),
            "VERBENA_TRANSPORT": transport,
            "VERBENA_UDP_PORT": str(self.bench.udp_port),
            "VERBENA_DIR": self.own_dir,
            "LD_LIBRARY_PATH": os.path.join(self.bench.build, "lib"),
        }
        return self.reference([self.both_ends], args, env)

    def threads(self, n, window, receivers="auto"):
        env = {
            **os.environ,
            "VERBENA_TRANSPORT": "udp",
            "VERBENA_UDP_PORT": str(self.bench.udp_port),
            "VERBENA_RECEIVERS": receivers,
            "VERBENA_DIR": self.own_dir,
            "LD_LIBRARY_PATH": os.path.join(self.bench.build, "lib"),
        }
        return self.reference([self.crowd], [n, 8, window, 500], env) / 1e6

    def connect(self, transport, *args):
        env = {
            **os.environ,
            "VERBENA_TRANSPORT": transport,
            "VERBENA_UDP_PORT": str(self.bench.udp_port),
            "VERBENA_DIR": self.own_dir,
            "LD_LIBRARY_PATH": os.path.join(self.bench.build, "lib"),
        }
        return self.reference([self.connections], args, env)

    def fan_out(self, n_hosts, qps, count):
        """What bench/fan prints of `qps` queue pairs to `n_hosts` hosts. It enters namespaces, so
        it is run as this user, and not staged."""
        env = {
            **os.environ,
            "VERBENA_TRANSPORT": "udp",
            "VERBENA_UDP_PORT": str(self.bench.udp_port),
            "LD_LIBRARY_PATH": os.path.join(self.bench.build, "lib"),
        }
        if os.geteuid() != 0:
            raise harness.Failure("only root can make a hundred namespaces on a bridge")
        with bridged.BridgedHosts(n_hosts + 1) as hosts, tempfile.TemporaryDirectory() as run_dirs:
            first, *others = hosts.paths()
            done = subprocess.run(
                [self.fan, "8", str(count), str(qps), run_dirs, first, *others],
                capture_output=True, text=True, check=False, env=env,
            )
        if done.returncode:
            raise harness.Failure(f"fan: {done.stderr}")
        return [float(word) for word in done.stdout.split()]

    def ucx(self, transports, test, size, count, column):
        port = self.bench.ports.take()
        argv = [
            "ucx_perftest", "-t", test, "-s", str(size), "-n", str(count), "-w", "100", "-f", "-p",
            str(port),
        ]
        env = {"LD_LIBRARY_PATH": None, "LD_PRELOAD": None, "UCX_TLS": transports}
        user = self.bench.user_prefix()
        _, text = self.bench.pair(
            argv, [*argv, "127.0.0.1"], port, env, env, [*user, *pin(1)], [*user, *pin(0)]
        )
        rows = [line.split() for line in text.splitlines() if re.match(r"Final:|\s*\d+\s+\d", line)]
        return float(rows[-1][column].rstrip("+"))


def ucx_has():
    return shutil.which("ucx_perftest") is not None


def wire(b):
    """Rows: (what, unit, Verbena's measurement, [(name, its measurement[, goal]), ...]); a goal is
    the least ratio wanted.

    The wire against programs that do nothing but move UDP: datagrams as long as our packets, which
    carry 28 bytes of headers and ICRC in front of 8, and 44 around a segment.
    """
    def typical(program):
        return lambda: b.perftest("udp", program, ["-s", "8", "-n", "20000"], 4)

    def stream(verb, mtu):
        return lambda: b.perftest(
            "udp", f"ib_{verb}_bw", ["-s", "65536", "-n", "10000", "-m", str(mtu)], 3
        )

    def per_call(mode, size, count):
        return lambda: b.udp(mode, size, count)

    def spent(run):
        """CPU time of both ends for a GiB: of a long run less that of a short one, so that what
        each does but once does not count."""
        return lambda: (
            b.processor_time(1, lambda: run(5 << 28)) - b.processor_time(1, lambda: run(1 << 28))
        )

    def moved(verb):
        return lambda size: b.perftest(
            "udp", f"ib_{verb}_bw", ["-s", "65536", "-n", str(size >> 16), "-m", "4096"], 3
        )

    def batches(size):
        return b.udp("gso", 4096 + 44, size >> 12)

    def one_way(program):
        return lambda: b.perftest("udp", program, ["-s", "65536", "-n", "3000"], 4)

    pingpong = lambda: b.udp("pingpong", 24, 20000)
    rows = [
        (
            "SEND 8 bytes, UDP", LATENCY, typical("ib_send_lat"),
            [("UDP ping-pong", pingpong, 1 / 1.4)],
        ),
        (
            "WRITE 8 bytes, UDP", LATENCY, typical("ib_write_lat"),
            [("UDP ping-pong", pingpong, 1 / 1.5)],
        ),
    ]
    rows += [
        (
            "WRITE 64 bytes and a flag, UDP", LATENCY, lambda: b.own("udp", "flag", 64, 10000, 1),
            [("UDP ping-pong", pingpong)],
        ),
        (
            "WRITE 64 KiB, UDP", LATENCY, one_way("ib_write_lat"),
            [("SEND, the same", one_way("ib_send_lat"))],
        ),
    ]
    for size in 1024, 4096:
        rows += [
            (
                f"{verb.upper()} {size} bytes, MTU 4096", BANDWIDTH,
                lambda verb=verb, size=size: b.perftest(
                    "udp", f"ib_{verb}_bw", ["-s", str(size), "-n", "100000", "-m", "4096"], 3
                ),
                [(f"UDP {size} bytes per call", per_call("stream", size + 44, 200000))],
            )
            for verb in ("write", "send")
        ]
    for mtu in 4096, 1024:
        against = [
            (f"UDP {mtu} bytes, GSO and GRO", per_call("gso", mtu + 44, 400000000 // mtu), 0.65),
            (f"UDP {mtu} bytes per call", per_call("stream", mtu + 44, 200000000 // mtu), 2),
        ]
        rows += [
            (f"{verb.upper()} 64 KiB, MTU {mtu}", BANDWIDTH, stream(verb, mtu), against)
            for verb in ("write", "send")
        ]
        rows.append(
            (
                f"READ 64 KiB, MTU {mtu}", BANDWIDTH, stream("read", mtu),
                [("WRITE, the same", stream("write", mtu), 0.95)],
            )
        )
    rows += [
        (
            f"{verb.upper()} 64 KiB, both ends", PROCESSOR, spent(moved(verb)),
            [("UDP, GSO and GRO", spent(batches), 1 / 1.5)],
        )
        for verb in VERBS
    ]
    for verb, kind in ("write", "RC"), ("send", "RC"), ("write", "UC"), ("send", "UD"):
        rows.append(
            (
                f"{verb.upper()} 8 bytes, {kind}, UDP",
                RATE,
                lambda verb=verb, kind=kind: b.perftest(
                    "udp", f"ib_{verb}_bw", ["-c", kind, "-s", "8", "-n", "307200"], 4
                ),
                [
                    (
                        "UDP 36 bytes per call",
                        lambda: b.udp("stream", 36, 300000) * 2**20 / 36 / 1e6,
                        6,
                    )
                ],
            )
        )
    return rows


def many(b):
    """Ten thousand queue pairs over the wire: two processes, and on loopback both ends in one
    thread, where nothing is handed over."""
    def alone(qps):
        return lambda: b.self_cost("round", 8, 40000, qps, transport="udp")

    def two(qps):
        return lambda: b.own("udp", "send", 8, 100000, qps)

    rows = [
        ("SEND 8 bytes, 10,000 QPs", COST, two(10000), [("16 QPs", two(16), 1 / 1.5)]),
        (
            "QP pairs connected by TCP",
            "pairs/s",
            lambda: b.own("udp", "setup", 8, 1, 5000),
            [("wanted", lambda: 2000.0, 1)],
        ),
    ]
    if not b.hosts:
        rows += [
            ("10,000 QPs, one thread", COST, alone(10000), [("16 QPs", alone(16), 1 / 1.5)]),
            (
                "QP pairs set up, one thread",
                "pairs/s",
                lambda: b.self_cost("setup", 8, 5000, transport="udp"),
                [("wanted", lambda: 2000.0, 1)],
            ),
        ]
    return rows


def many_hosts(b):
    """Ten thousand queue pairs to a hundred hosts, whose processes sleep: what the sender pays."""
    run = functools.cache(lambda turn, *args: b.fan_out(*args))

    def column(i):
        """Of what bench/fan prints, in each turn, for many and for few."""
        def of(*args):
            turns = itertools.count()
            return lambda: run(next(turns), *args)[i]
        return of(100, 10000, 40000), of(16, 16, 40000)

    (rate, few_rate), (memory, _), (passed, few_passed), (used, few_used) = map(column, range(4))
    few = "16 QPs, 16 hosts"
    return [
        ("10,000 QPs, 100 hosts", "QPs/s", rate, [(few, few_rate)]),
        ("WRITE 8 bytes", COST, passed, [(few, few_passed, 1 / 1.2)]),
        ("WRITE 8 bytes, CPU time", COST, used, [(few, few_used, 1 / 1.2)]),
        ("resident memory of a QP", MEMORY, memory, [("wanted", lambda: 4096.0)]),
    ]


def events(b):
    """What programs that sleep between completions cost against ones that poll. perftest has events
    for SEND only, so WRITE is a program of our own."""
    size, count = 1 << 16, 1 << 15

    def cost(run):
        return lambda: b.processor_time(size * count / 2 ** 30, run)

    def send(transport, *more):
        return cost(
            lambda: b.perftest(transport, "ib_send_bw", ["-s", size, "-n", count, *more], 3)
        )

    def write(transport, mode):
        return cost(lambda: b.own(transport, mode, size, count, 1))

    def pingpong(transport, *more):
        return cost(
            lambda: b.verbs(
                transport,
                ["ibv_rc_pingpong", "-g", b.gid, "-m", 4096, "-s", size, "-n", count // 2, *more],
            )
        )

    rows = []
    for transport in ("udp",) if b.hosts else ("udp", "local"):
        rows += [
            (
                f"{name}, events, {transport}", PROCESSOR, run(transport, sleeping),
                [("polling", run(transport, *polling), 1 / 1.3)],
            )
            for name, run, sleeping, polling in (
                ("SEND 64 KiB", send, "-e", ()),
                ("WRITE 64 KiB", write, "sleep", ("write",)),
                ("Ping-pong 64 KiB", pingpong, "-e", ()),
            )
        ]
    return rows


def threads(b):
    """Two threads, each both ends of its own connection over UDP, against one that does so; and
    where both have to receive by turns."""
    def some(n, window, *receivers):
        return lambda: b.threads(n, window, *receivers)

    return [
        (
            f"SEND 8 bytes, 2 threads, {window} on their way",
            RATE,
            some(2, window),
            [("1 thread", some(1, window), 1.8), ("2 threads, 1 receiver", some(2, window, "1"))],
        )
        for window in (1, 16)
    ]


def instead(b):
    """The same host by memory against what programs do without RDMA."""
    pingpong = ("UDP ping-pong", lambda: b.udp("pingpong", 64, 20000))
    stream = ("UDP 4 KiB per call", lambda: b.udp("stream", 4096, 50000))
    tcp = [("UCX tcp", lambda: b.ucx("tcp,self", "tag_lat", 64, 10000, 1))] if ucx_has() else []
    return [
        (
            f"{verb.upper()} 64 bytes",
            LATENCY,
            lambda verb=verb: b.latency("auto", f"ib_{verb}_lat"),
            [pingpong, *(tcp if verb == "send" else [])],
        )
        for verb in VERBS
    ] + [
        (
            f"{verb.upper()} 64 KiB",
            BANDWIDTH,
            lambda verb=verb: b.bandwidth("auto", f"ib_{verb}_bw"),
            [stream],
        )
        for verb in VERBS
    ]


def latency(b):
    """The same host against bare memory, bare system calls and UCX."""
    def typical(program, column=4):
        return lambda: b.perftest("local", program, ["-s", "8", "-n", "20000"], column)

    ucx = (
        [("UCX posix", lambda: b.ucx("posix,self", "tag_lat", 8, 50000, 1), 1 / 1.5)]
        if ucx_has() else []
    )
    rows = [("SEND 8 bytes", LATENCY, typical("ib_send_lat"),
             [("a cache line handed over", lambda: b.shm("line", 100000), 1 / 2.5), *ucx])]
    for verb in "write", "read":
        against = [(f"process_vm_{verb}v", lambda verb=verb: b.shm(verb, 8, 50000), 1 / 1.3)]
        if verb == "write":
            against.append(("the same, each way in turn", lambda: b.shm("pingpong", 8, 50000)))
        rows.append((f"{verb.upper()} 8 bytes", LATENCY, typical(f"ib_{verb}_lat"), against))
    # "auto": with sockets, which datagrams between processes of one host must not make polls read.
    rows.append((
        "SEND 8 bytes, UD", LATENCY,
        lambda: b.perftest("auto", "ib_send_lat", ["-c", "UD", "-s", "8", "-n", "20000"], 4),
        [("RC", typical("ib_send_lat"))],
    ))
    return rows


def mapped(b):
    """WRITE and READ in memory that the other process maps."""
    def ucx(test):
        return lambda: b.ucx("posix,self", test, 8, 50000, 1)

    rows = []
    for verb in "write", "read", "atomic":
        args = ["-s", "8"] if verb != "atomic" else []
        test = {"write": "ucp_put_lat", "read": "ucp_get", "atomic": "ucp_fadd"}[verb]

        def ours(verb=verb, args=args):
            return b.mapped(f"ib_{verb}_lat", [*args, "-n", "20000"], 4)

        against = [(f"UCX posix {test}", ucx(test), 1 / 1.5)] if ucx_has() else []
        against.append(("a cache line handed over", lambda: b.shm("line", 100000)))
        rows.append((f"{verb.upper()} 8 bytes, mapped", LATENCY, ours, against))
    for size in 1 << 16, 1 << 20:
        count = (1 << 29) // size

        def copies(size=size, count=count):
            return size / b.shm("memcpy", size, count) * 1e6 / 2**20

        for verb in "write", "read":
            def ours(verb=verb, size=size, count=count):
                return b.mapped(f"ib_{verb}_bw", ["-s", str(size), "-n", str(count)], 2)

            rows.append((f"{verb.upper()} {size >> 10} KiB, mapped", BANDWIDTH, ours,
                         [("memcpy into shared memory", copies, 0.9)]))
    return rows


def rate(b):
    """Messages of 8 bytes."""
    def per_second(program, *more):
        return lambda: b.perftest("local", program, ["-s", "8", "-n", "307200", *more], 4)

    def calls(pieces):
        return lambda: pieces / b.shm("list", pieces, 20000)

    ucx = (
        [("UCX posix", lambda: b.ucx("posix,self", "tag_bw", 8, 1000000, 7) / 1e6, 1)]
        if ucx_has() else []
    )
    return [
        ("SEND 8 bytes", RATE, per_second("ib_send_bw"), [("wanted", lambda: 3.0, 1), *ucx]),
        (
            "SEND 8 bytes, lists of 16",
            RATE,
            per_second("ib_send_bw", "-l", "16"),
            [("wanted", lambda: 10.0, 1)],
        ),
        (
            "WRITE 8 bytes", RATE, per_second("ib_write_bw"),
            [("process_vm_writev, 1 piece", calls(1))],
        ),
        (
            "WRITE 8 bytes, lists of 16",
            RATE,
            per_second("ib_write_bw", "-l", "16"),
            [
                ("process_vm_writev, 1 piece", calls(1), 3),
                ("process_vm_writev, 16 pieces", calls(16)),
            ],
        ),
        (
            "WRITE 8 bytes, lists of 64",
            RATE,
            per_second("ib_write_bw", "-l", "64"),
            [
                ("process_vm_writev, 1 piece", calls(1), 3),
                ("process_vm_writev, 64 pieces", calls(64)),
            ],
        ),
    ]


def bandwidth(size):
    """The same host against the best that copies by the kernel do, and UCX."""
    def rows(b):
        def copies():
            return max(
                chunk / b.shm("read", chunk, (1 << 28) // chunk) * 1e6 / 2**20 for chunk in CHUNKS
            )

        def copy(verb):
            return lambda: size / b.shm(verb, size, count) * 1e6 / 2**20

        tests = {"send": "tag_bw", "write": "ucp_put_bw", "read": "ucp_get"}
        count = (1 << 29) // size

        def ours(verb, column):
            return lambda: b.perftest(
                "local", f"ib_{verb}_bw", ["-s", str(size), "-n", str(count)], column
            )

        def ucx(verb):
            return lambda: b.ucx("posix,cma,self", tests[verb], size, count, 5)

        # The best moments of both; and averages against averages.
        out = []
        for verb in VERBS:
            against = [("process_vm_readv, best", copies, 0.85)]
            if verb != "send":
                against.append((f"process_vm_{verb}v of that size", copy(verb), 0.9))
            out.append((f"{verb.upper()} {size >> 10} KiB, peak", BANDWIDTH, ours(verb, 2),
                        against))
            if ucx_has():
                out.append((f"{verb.upper()} {size >> 10} KiB", BANDWIDTH, ours(verb, 3),
                            [("UCX posix,cma", ucx(verb), 1)]))
        return out
    return rows


def rsockets(b):
    """Streams of bytes, which are copied in and out, against messages of that size, and on one host
    against what the copies alone reach."""
    def messages(transport, size, count):
        return lambda: b.perftest(transport, "ib_send_bw", ["-s", str(size), "-n", str(count)], 3)

    def stream(transport, program, size, count):
        return lambda: b.rsockets(transport, program, size, count)

    def copies(program, size, count):
        mode, name = {
            "rstream": ("stream", "copied into a ring and out"),
            "riostream": ("write", "process_vm_writev, best"),
        }[program]
        return name, lambda: size / 2**20 / (b.shm(mode, size, count) / 1e6)

    return [
        (
            f"{program} {size >> 10} KiB, {transport}",
            BANDWIDTH,
            stream(transport, program, size, (1 << 28) // size),
            [
                ("ib_send_bw, the same", messages(transport, size, (1 << 29) // size), 0.8),
                *([copies(program, size, (1 << 29) // size)] if transport == "local" else []),
            ],
        )
        for transport in (("udp",) if b.hosts else ("local", "udp"))
        for size in (4 << 10, 64 << 10, 1 << 20)
        for program in ("rstream", "riostream")
    ]


def connect(b):
    """Connections through rdma_cm, each with a queue pair at both ends, against what is wanted and
    TCP; also while another process forges requests."""
    def run(transport, *args):
        return lambda: b.connect(transport, *args)

    rows = []
    for transport in ("local", "udp"):
        rows += [
            (
                f"{clients} client{'s' * (clients > 1)}, {transport}",
                "connects/s",
                run(transport, "rate", clients, 3),
                [("wanted", lambda wanted=wanted: wanted, 1)],
            )
            for clients, wanted in ((1, 3000.0), (8, 10000.0))
        ]
        rows += [
            (
                f"rdma_connect, p{percent}, {transport}",
                LATENCY,
                run(transport, "latency", 2000, percent),
                [
                    ("connect(2)", run(transport, "tcp", 2000, percent)),
                    *([("wanted", lambda: 1000.0, 1)] if percent == 99 else []),
                ],
            )
            for percent in (50, 99)
        ]
    rows += [
        (
            "forged REQs, beside 1 client",
            "REQs/s",
            run("udp", "forged", 1, 5),
            [("wanted", lambda: 100000.0, 1)],
        ),
        (
            "1 client, 100,000 forged REQs/s", "connects/s", run("udp", "flooded", 1, 5),
            [("alone", run("udp", "rate", 1, 3))],
        ),
        (
            "rdma_connect, p99, forged REQs", LATENCY, run("udp", "flooded-latency", 5, 99),
            [("alone", run("udp", "latency", 2000, 99))],
        ),
    ]
    return rows


def scale(b):
    """One pair of QPs among many, and many pairs in turn, both ends in one thread: what the code
    takes, with no line handed over; and how fast pairs are set up."""
    def one(mode, *qps):
        return lambda: b.self_cost(mode, 8, 60000, *qps)

    return [
        *(
            (
                f"{mode.upper()} 8 bytes, of 1,000 QPs", COST, one(mode, 1000),
                [("a lone pair", one(mode), 1 / 1.1)],
            )
            for mode in VERBS
        ),
        ("SEND 8 bytes, 1,000 in turn", COST, one("round", 1000), [("a lone pair", one("send"))]),
        *(
            (
                f"QP pairs connected by TCP, {addresses} a message", "pairs/s",
                lambda addresses=addresses: b.own("local", "setup", 8, addresses, 5000),
                [("wanted", lambda: 20000.0, 1)],
            )
            for addresses in (1, 16)
        ),
        (
            "QP pairs set up, one thread", "pairs/s",
            lambda: b.self_cost("setup", 8, 5000), [("wanted", lambda: 20000.0, 1)],
        ),
    ]


def recording(b):
    """What a recording costs a thread that is both ends of a connection: 14 records a turn; and
    what its places cost where there is none."""
    def turn(record=None):
        return lambda: b.self_cost("pong", 8, 100000, record=record)

    counted = functools.cache(lambda: taps.off(b.bench.build))
    return [
        (
            "SEND 8 bytes, there and back, recorded", COST,
            turn(os.path.join(b.own_dir, "record")), [("not recorded", turn(), 1 / 2)],
        ),
        (
            "the same, not recorded", INSTRUCTIONS, lambda: counted()[0],
            [("without the taps", lambda: counted()[0] - counted()[1], 0.99)],
        ),
    ]


GROUPS = {
    "wire": wire,
    "many": many,
    "hosts": many_hosts,
    "events": events,
    "threads": threads,
    "instead": instead,
    "latency": latency,
    "mapped": mapped,
    "rate": rate,
    "bandwidth64k": bandwidth(1 << 16),
    "bandwidth1m": bandwidth(1 << 20),
    "scale": scale,
    "recording": recording,
    "rsockets": rsockets,
    "connect": connect,
}
VETH = "-veth"
GROUPS.update({name + VETH: GROUPS[name] for name in ("wire", "many", "events", "rsockets")})


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
        ratio = other / value if unit in LESS_IS_BETTER else value / other
        said = "reached" if goal and ratio >= goal[0] else "missed" if goal else ""
        line(
            what, f"{value:.2f}", name, f"{other:.2f}", f"{ratio:.2f}",
            f"{goal[0]:.2f}" if goal else "", f"{unit:<10} {said}",
        )
    sys.stdout.flush()


@contextlib.contextmanager
def two_hosts():
    """Two namespaces with room for packets of MTU 4096 between them; None where they cannot be
    made, and the reason."""
    try:
        hosts = netns.TwoHosts(("v4",))
    except netns.Unavailable as problem:
        yield None, str(problem)
        return
    with hosts:
        hosts.set_mtu(VETH_MTU)
        yield hosts, None


def main():
    build, *names = sys.argv[1:]
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        sys.exit(f"no group {unknown[0]}; there are {', '.join(GROUPS)}")
    harness.need_programs("ib_write_bw", "taskset")
    with two_hosts() as (hosts, reason), harness.Bench(build) as bench:
        on_loopback = Bench(bench, build)
        over_veth = Bench(bench, build, hosts) if hosts else None
        load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
        print(
            f"Medians of {RUNS} runs, the two processes on different CPUs, "
            f"on loopback; {VETH}: between two network namespaces, interface MTU {VETH_MTU}."
        )
        print("Ratio above 1: Verbena is better.")
        print(
            f"Load before the first run: {load:.1f} on {cpus} CPUs; "
            f"what spins suffers most from a busy machine."
        )
        for name in names or GROUPS:
            b = over_veth if name.endswith(VETH) else on_loopback
            if not b:
                print(f"\n{name}: left out, no network namespaces here: {reason}")
                continue
            print(f"\n{name}")
            line("Verbena", "", "against", "", "ratio", "goal", "")
            for row in GROUPS[name](b):
                show(row)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    main()
