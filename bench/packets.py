#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Packet capture between two namespaces: packets per second and losses.

    packets.py BUILD_DIR [RUNS]

The same numbered UDP packets, sent as fast as one CPU can, go in turn to examples/udp_capture (a
raw packet queue pair, a flow rule, headers and payloads apart), to a bare TPACKET_V3 receiver with
a ring of the same size, and to tcpdump. Prints medians, and the median of each round's ratio to the
bare receiver; the goal is 0.9.  The rate is of what was received, over the time of sending.  Needs
the right to make namespaces.
"""
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "stock"))
sys.dont_write_bytecode = True
import harness  # noqa: E402
import netns  # noqa: E402

SIZES = {64: 1_000_000, 8192: 200_000}  # bytes of payload: packets
PORT = 5000
LIMIT_S = 30
BARE = "TPACKET_V3, bare"
GOALS = {"examples/udp_capture": 0.9}


def pin(number):
    cpus = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(cpus[number % len(cpus)])]


class Capture:
    """One contender: started, waited for until it captures, ended, and asked what it saw."""

    def __init__(self, argv, ready, env=None):
        self.popen = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
            start_new_session=True,
        )
        self.text = ""
        while ready not in self.text:
            line = self.popen.stdout.readline()
            if not line:
                raise harness.Failure(f"{' '.join(argv)}:\n{self.text}")
            self.text += line

    def end(self, interrupt):
        if interrupt:
            time.sleep(0.5)  # what is still in its ring
            self.popen.send_signal(signal.SIGINT)
        try:
            self.text += self.popen.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.text += self.popen.communicate()[0]
        return self.text


class Packets:
    def __init__(self, bench, build, hosts):
        self.bench = bench
        self.hosts = hosts
        self.ref = bench.stage(os.path.join(build, "bench", "packet_ref"))
        self.example = bench.stage(os.path.join(build, "examples", "example_udp_capture"))
        self.mac = re.search(
            r"link/ether (\S+)", self.in_host(1, "ip", "link", "show", netns.IFNAME)
        ).group(1)

    def in_host(self, host, *argv):
        return subprocess.run(
            [*self.hosts.enter(host), *argv], capture_output=True, text=True, check=True
        ).stdout

    def send(self, size, count):
        out = self.in_host(
            0, *pin(0), self.ref, "send", netns.IFNAME, self.mac, self.hosts.address(0),
            self.hosts.address(1), str(PORT), str(size),
            str(count)
        )
        return float(out)

    def verbena(self):
        env = {
            **self.bench.env(),
            "VERBENA_DEVICES": f"veth={netns.IFNAME}",
            "VERBENA_DIR": self.bench.dir + "/capture",
        }
        return (
            Capture(
                [*self.hosts.enter(1), *pin(1), self.example, "-d", "veth", "-t", "1", str(PORT)],
                "capturing",
                env,
            ),
            False,
        )

    def bare(self):
        return (
            Capture(
                [*self.hosts.enter(1), *pin(1), self.ref, "receive", netns.IFNAME, str(PORT)],
                "capturing",
            ),
            False,
        )

    def tcpdump(self, *more):
        # It would drop its rights and then be unable to open /dev/null for writing in a user
        # namespace.
        return (
            Capture(
                [
                    *self.hosts.enter(1), *pin(1), "tcpdump", "-n", "-Z", "root", "-i",
                    netns.IFNAME, "-w", "/dev/null", *more, "udp", "dst", "port", str(PORT),
                ],
                "listening on",
            ),
            True,
        )

    def measure(self, start, size, count):
        """(million packets per second, lost of a thousand)"""
        capture, interrupt = start()
        took = self.send(size, count)
        text = capture.end(interrupt)
        got = re.search(r"received (\d+) packets|(\d+) packets? captured", text)
        if not got:
            raise harness.Failure(text)
        got = int(got.group(1) or got.group(2))
        return got / took / 1e6, (count - got) * 1000 / count


def main():
    build = os.path.abspath(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else int(os.environ.get("BENCH_RUNS", "5"))
    harness.need_programs("taskset", "ip", "nsenter")
    try:
        hosts = netns.TwoHosts(("v4",))
    except netns.Unavailable as reason:
        harness.skip(f"no namespaces here: {reason}")
    with hosts, harness.Bench(build) as bench:
        hosts.set_mtu(9000)
        p = Packets(bench, build, hosts)
        contenders = {BARE: p.bare, "examples/udp_capture": p.verbena}
        if shutil.which("tcpdump"):
            contenders["tcpdump -w /dev/null"] = p.tcpdump
            contenders["tcpdump, 32 MiB buffer"] = lambda: p.tcpdump("-B", "32768")
        print(f"Packet capture between two namespaces, medians of {runs} runs\n")
        print(
            f"{'payload':>7}  {'receiver':<24} {'million/s':>10} "
            f"{'lost':>8} {'ratio':>7} {'goal':>6}"
        )
        for size, count in SIZES.items():
            samples = {name: [] for name in contenders}
            for _ in range(runs):
                for name, start in contenders.items():
                    samples[name].append(p.measure(start, size, count))
            for name, values in samples.items():
                show(size, name, values, samples[BARE])


def show(size, name, values, bare):
    rate, lost = (statistics.median(column) for column in zip(*values))
    ratio = statistics.median(ours / theirs for (ours, _), (theirs, _) in zip(values, bare))
    goal = GOALS.get(name)
    said = "" if not goal else f"{goal:>6.2f}  {'reached' if ratio >= goal else 'missed'}"
    print(
        f"{size:>7}  {name:<24} {rate:>10.3f} {lost / 10:>7.2f}% {ratio:>7.2f} {said}", flush=True
    )


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    main()
