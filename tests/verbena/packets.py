#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The packet examples and `verbena capture`, where packets really move.

    packets.py BUILD_DIR one_host|hosts

one_host: an ordinary user, on the virtual segment of the loopback device, where a receiver that is
not scheduled for some time loses packets: so there what arrives must be right, and no number is
wanted that a busy machine may not give.  hosts: two namespaces joined by a veth pair, where the
kernel's own packets are seen and `verbena capture` is compared with what was sent by sockets.
"""
import os
import re
import signal
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
sys.path.insert(0, os.path.join(HERE, "..", "stock"))
sys.dont_write_bytecode = True
import netns  # noqa: E402
from harness import Failure, LIMIT_S, LeftOut, end_with, left_out  # noqa: E402
from tools import ToolBench, run_table, want, want_equal  # noqa: E402

HEADER = 42
FEW = 500  # udp_capture's receives are more: nothing is lost before it looks


class Packets(ToolBench):
    def __init__(self, build, hosts=None):
        super().__init__(build)
        self.hosts = hosts
        self.device = "packets"
        self.programs = {name: self.stage(os.path.join(build, folder, name)) for folder, name in (
            ("examples", "example_udp_capture"), ("examples", "example_udp_generate"),
            ("tests/verbena", "pcap_list_verbena"))}
        self.dirs = [self.run_dir] * 2
        if hosts:
            # Whoever runs there is root, if only in a user namespace, and runs in directories of
            # his own.
            self.dirs = [os.path.join(self.dir, f"host{host}") for host in (0, 1)]
            for path in self.dirs:
                os.mkdir(path, 0o700)

    def _prefix(self, host):
        # On a namespace's interface raw packets need a right; on the loopback device an ordinary
        # user has none.
        return self.hosts.enter(host) if self.hosts else self.user_prefix()

    def place_env(self, host):
        interface = netns.IFNAME if self.hosts else "lo"
        return {"VERBENA_DEVICES": f"{self.device}={interface}", "VERBENA_DIR": self.dirs[host]}

    def begin(self, host, argv, ready):
        """Starts a program; returns when it has said that it is ready."""
        process = self.start(argv, self.place_env(host), self._prefix(host))
        deadline = time.monotonic() + LIMIT_S
        while ready not in process.output():
            if process.popen.poll() is not None or time.monotonic() > deadline:
                process.wait(time.monotonic())
                raise Failure(f"never said {ready!r}:\n{process.describe()}")
            time.sleep(0.01)
        return process

    def done(self, process, status=0):
        if process.wait(time.monotonic() + LIMIT_S) != status:
            raise Failure(f"wanted exit status {status}:\n{process.describe()}")
        return process.output()

    def here(self, host, argv, expect=0, **options):
        return self.call(argv, self.place_env(host), expect, self._prefix(host), **options)

    def capture(self, port, *more):
        return self.begin(
            1,
            [self.programs["example_udp_capture"], "-d", self.device, "-t", "1", *more, str(port)],
            "capturing on",
        )

    def generate(self, port, *more):
        address = ["-m", self.mac(1), "-a", self.hosts.address(1)] if self.hosts else []
        return self.here(
            0,
            [
                self.programs["example_udp_generate"], "-d", self.device, *address, *map(str, more),
                str(port),
            ],
        )

    def generate_until(self, process, port, *more):
        """Again and again, until the capture has what it waits for."""
        deadline = time.monotonic() + LIMIT_S
        while process.popen.poll() is None:
            if time.monotonic() > deadline:
                process.kill()
                raise Failure(f"never had enough:\n{process.describe()}")
            self.generate(port, *more)
        return self.done(process)

    def mac(self, host):
        shown = self.call(
            ["ip", "link", "show", netns.IFNAME], prefix=self.hosts.enter(host), expect=0
        ).out
        return re.search(r"link/ether (\S+)", shown).group(1)

    def tool_capture(self, *words):
        return self.begin(1, [self.tool(), "capture", "-d", self.device, *words], "listening on")

    def listed(self, path):
        """[(length, bytes)] of a pcap file, as libpcap reads it."""
        lines = self.call(
            [self.programs["pcap_list_verbena"], path], expect=0, prefix=[]
        ).out.splitlines()
        want_equal(lines[0], "EN10MB", "link type")
        return [(int(line.split()[0]), bytes.fromhex(line.split()[1])) for line in lines[1:]]

    def file(self, name):
        """A path that the capturing program may write."""
        return os.path.join(self.dirs[1], name)


def udp(frame):
    """(destination port, payload) of an Ethernet frame with IPv4 and UDP; checks both checksums."""
    kind, ip = struct.unpack(">H", frame[12:14])[0], frame[14:]
    want_equal((kind, ip[0], ip[9]), (0x800, 0x45, 17), "IPv4 without options, UDP")
    want_equal(checksum(ip[:20]), 0, "IP checksum")
    length = struct.unpack(">H", ip[24:26])[0]
    if ip[26:28] != b"\0\0":
        want_equal(
            checksum(ip[12:20] + struct.pack(">HH", 17, length) + ip[20 : 20 + length]),
            0,
            "UDP checksum",
        )
    return struct.unpack(">H", ip[22:24])[0], ip[28:20 + length]


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def counts(text):
    found = re.search(r"received (\d+) packets, (\d+) bytes, lost (\d+), failed (\d+)", text)
    want(found, text)
    return tuple(map(int, found.groups()))


def case_examples(bench):
    """Headers and payloads apart, every packet of the port and none of another."""
    for payload in 18, 64, 1400:
        capture = bench.capture(5000)
        want("sent 100 packets" in bench.generate(5001, "-n", 100, "-s", payload).out, "generator")
        want("sent" in bench.generate(5000, "-n", FEW, "-s", payload).out, "generator")
        text = bench.done(capture)
        packets, size, lost, failed = counts(text)
        want(size == packets * (HEADER + payload) and not failed, text)
        if bench.hosts:
            want_equal((packets, lost), (FEW, 0), text)
            want(f"from {bench.hosts.address(0)} to {bench.hosts.address(1)}, TTL 64" in text, text)
        else:
            want(packets > 0 and packets + lost <= FEW, text)
            want("from 127.0.0.1 to 127.0.0.1, TTL 64" in text, text)


def case_many(bench):
    """Many more than there are receives: what is lost is counted."""
    total = 100000
    capture = bench.capture(5000)
    bench.generate(5000, "-n", total)
    packets, size, lost, failed = counts(bench.done(capture))
    want(packets > 0 and size == packets * (HEADER + 64) and packets + lost <= total and not failed,
         (packets, size, lost, failed))


def case_ends_by_count(bench):
    capture = bench.capture(5000, "-n", "100")
    want(counts(bench.generate_until(capture, 5000, "-n", 1000))[0] >= 100, "packets")


def case_example_bad_usage(bench):
    for words in ([], ["-x", "5000"], ["5000", "5001"], ["-s", "7", "5000"]):
        for name in "example_udp_capture", "example_udp_generate":
            bench.here(1, [bench.programs[name], *words], expect=2)
    for name in "example_udp_capture", "example_udp_generate":
        done = bench.here(1, [bench.programs[name], "-d", "nope", "5000"], expect=1)
        want("nope: No such device" in done.err, done.describe())


def case_tool(bench):
    """The file has the packets of the rule, whole and in order."""
    path = bench.file("rule.pcap")
    capture = bench.tool_capture("--dport", "5000", "-c", "50", path)
    bench.generate(5001, "-n", 10)
    want(
        "50 packets, 7100 bytes" in bench.generate_until(capture, 5000, "-n", 50, "-s", 100),
        capture.describe(),
    )
    packets = [(length, *udp(frame)) for length, frame in bench.listed(path)]
    numbers = [struct.unpack(">Q", payload[:8])[0] for _, _, payload in packets]
    want_equal(
        [(length, port, payload[8:]) for length, port, payload in packets],
        [(142, 5000, bytes(92))] * 50,
        "packets",
    )
    want(
        all(number < 50 for number in numbers) and (numbers == list(range(50)) or not bench.hosts),
        numbers,
    )


def case_tool_filter(bench):
    path = bench.file("filter.pcap")
    capture = bench.tool_capture("--dport", "5000", "-c", "5", "--filter", "less 100", path)
    bench.generate(5000, "-n", 3, "-s", 100)
    text = bench.generate_until(capture, 5000, "-n", 5, "-s", 20)
    want(
        "5 packets, 310 bytes, 3 did not match" in text
        or not bench.hosts
        and "5 packets, 310 bytes" in text,
        text,
    )
    want_equal([length for length, _ in bench.listed(path)], [62] * 5, "lengths")


def case_tool_sniffer(bench):
    """Without a selector: a copy of everything, while another program still gets its own."""
    path = bench.file("all.pcap")
    tool = bench.tool_capture("-c", "20", path)
    capture = bench.capture(5000, "-n", "20")
    want(
        counts(bench.generate_until(capture, 5000, "-n", 30))[0] >= 20, "what the other program got"
    )
    bench.generate_until(tool, 5000, "-n", 30)
    numbers = [struct.unpack(">Q", udp(frame)[1][:8])[0] for _, frame in bench.listed(path)
               if frame[12:14] == b"\x08\0" and frame[23] == 17 and udp(frame)[0] == 5000]
    want(numbers and all(number < 30 for number in numbers), numbers)


def case_tool_ends(bench):
    """By a signal and by the clock; what is in the file then can be read."""
    for number, words in ((signal.SIGINT, []), (signal.SIGTERM, []), (None, ["-s", "0.3"])):
        path = bench.file("ends.pcap")
        capture = bench.tool_capture("--dport", "5000", *words, path)
        if number:
            os.kill(capture.pid, number)
        want("0 packets" in bench.done(capture), capture.describe())
        want_equal(bench.listed(path), [], "packets")


def case_tool_pipe(bench):
    """- is the standard output, and complaints stay out of it."""
    words = [bench.tool(), "capture", "-d", bench.device, "--dport", "5000", "-c", "3", "-"]
    shell = f"{' '.join(words)} | {bench.programs['pcap_list_verbena']} -"
    reader = bench.begin(1, ["sh", "-c", shell], "listening on")
    text = bench.generate_until(reader, 5000, "-n", 3)
    want_equal(len(re.findall(r"^106 ", text, re.M)), 3, text)


def case_tool_bad_usage(bench):
    rows = (
        ([], 2), (["a", "b"], 2), (["-c", "0", "f"], 2), (["-c", "x", "f"], 2),
        (["-s", "-1", "f"], 2), (["-s", "x", "f"], 2), (["--dport", "65536", "f"], 2),
        (["--dport", "-1", "f"], 2), (["--dport", "", "f"], 2), (["--proto", "256", "f"], 2),
        (["--dmac", "1:2:3:4:5", "f"], 2), (["--dmac", "1:2:3:4:5:6:7", "f"], 2),
        (["--sip", "1.2.3", "f"], 2), (["--type", "x", "f"], 2), (["--nonsense", "f"], 2),
        (["-d", "nope", "f"], 3), (["-i", "nope", "f"], 3),
        (["-d", bench.device, "-i", "lo", "f"], 2),
        (["-d", bench.device, "-f", "((", "/dev/null"], 2), (["-d", bench.device, "/nowhere/f"], 1),
    )
    for words, status in rows:
        done = bench.here(1, [bench.tool(), "capture", *words], expect=status)
        want(len(done.err.splitlines()) == 1 and not done.out, done.describe())
    done = bench.here(
        1, ["sh", "-c", f"{bench.tool()} capture -d {bench.device} -s 0.2 /dev/full"], expect=1
    )
    want("No space left" in done.err, done.describe())


def case_kernel_packets(bench):
    """What ordinary sockets send is captured with right checksums, other protocols are not."""
    path = bench.file("kernel.pcap")
    capture = bench.tool_capture(
        "--dport", "6000", "--sip", bench.hosts.address(0), "-c", "10", path
    )
    code = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for i in range(10): s.sendto(b'x' * (100 * i + 1), ({0!r}, 6001)); "
        "s.sendto(b'y' * (100 * i + 1), ({0!r}, 6000))\n"
    )
    bench.here(0, [sys.executable, "-c", code.format(bench.hosts.address(1))])
    bench.done(capture)
    want_equal(
        [udp(frame) for _, frame in bench.listed(path)],
        [(6000, b"y" * (100 * i + 1)) for i in range(10)],
        "packets",
    )


def case_tool_refused(bench):
    """An ordinary user is told which right is missing."""
    if not bench.as_root:
        raise LeftOut("only root can become an ordinary user in the namespace")
    words = [bench.tool(), "capture", "-d", bench.device, bench.file("refused.pcap")]
    env = {**bench.place_env(1), "VERBENA_DIR": bench.run_dir}
    done = bench.call(words, env, 4, [*bench.hosts.enter(1), *bench.user_prefix()])
    want("CAP_NET_RAW" in done.err and not done.out, done.describe())


def case_large(bench):
    """8 KiB in one packet, where the MTU allows."""
    bench.hosts.set_mtu(9000)
    capture = bench.capture(5000)
    bench.generate(5000, "-n", 500, "-s", 8192)
    want_equal(counts(bench.done(capture)), (500, 500 * (HEADER + 8192), 0, 0), "counts")


def case_tcpdump_agrees(bench):
    """The file is one that others read."""
    path = bench.file("others.pcap")
    capture = bench.tool_capture("--dport", "5000", "-c", "5", path)
    bench.generate(5000, "-n", 5)
    bench.done(capture)
    try:
        done = subprocess.run(
            ["tcpdump", "-nvr", path], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise LeftOut("tcpdump is not installed") from None
    want_equal(
        (done.stdout.count("UDP, length 64"), done.stdout.count("bad")),
        (5, 0),
        done.stdout + done.stderr,
    )


ANYWHERE = (
    "examples", "many", "ends_by_count", "example_bad_usage", "tool", "tool_filter", "tool_sniffer",
    "tool_ends", "tool_pipe", "tool_bad_usage",
)
HOSTS = ("kernel_packets", "tool_refused", "large", "tcpdump_agrees")


def run(names, build, hosts=None):
    with Packets(build, hosts) as bench:
        return run_table(
            [(name, globals()["case_" + name]) for name in names],
            bench,
            sys.argv[3] if len(sys.argv) > 3 else None,
        )


def main():
    build, where = sys.argv[1:3]
    if where == "one_host":
        return run(ANYWHERE, build)
    try:
        hosts = netns.TwoHosts(("v4",))
    except netns.Unavailable as reason:
        left_out(len(HOSTS), f"no namespaces here: {reason}")
        return run(ANYWHERE, build)
    with hosts:
        return run(ANYWHERE + HOSTS, build, hosts)


if __name__ == "__main__":
    end_with(main)
