#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's programs over slow, shared, lossy and interrupted networks.

    network.py BUILD_DIR GROUP [part of a case's name]

Two hosts and a router between them, in three network namespaces. Data flows from host 1 to host 0;
the router delays, marks or drops packets. No case asserts a time; the cases of sharing compare the
flows of a run.
"""
import functools
import json
import os
import re
import statistics
import subprocess
import sys
import time

import harness
import netns
from harness import Failure, LeftOut
from stock import Place

SECONDS = 3
TCP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tcp_stream.py")
PORT = 4791


class Network:
    """The namespaces and the programs in them."""

    def __init__(self, bench, mtu=1500, family="v4"):
        self.bench = bench
        self.family = family
        self.hosts = netns.RoutedHosts()
        try:
            self.hosts.set_mtu(mtu)
            self.place = Place(bench, self.hosts)
            self.device = self.place.device("eth")
            self.gid = str(self.place.gid_index(self.device, family))
        except BaseException:
            self.hosts.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hosts.close()

    def per_packet(self):
        """Sends segments one by one, as a network card does: else each loss would drop 64 KiB."""
        for host in 0, 1:
            self.hosts.ip(host, "link", "set", netns.IFNAME, "gso_max_segs", "1")

    def slow(self, rate):
        self.hosts.run(
            netns.ROUTER, "tc", "qdisc", "replace", "dev", netns.TO[0], "root", "tbf", "rate", rate,
            "burst", "16k", "limit", "150k",
        )

    def mark(self, kbytes_per_s):
        """Marks ECN-capable packets above that rate, as a router does when a queue builds up."""
        rule = (
            f"iifname {netns.TO[1]} ip ecn != not-ect "
            f"limit rate over {kbytes_per_s:.0f} kbytes/second burst 32 kbytes "
            "ip ecn set ce"
        )
        self.hosts.run(netns.ROUTER, "nft", "add table ip marking; "
                       "add chain ip marking forward { type filter hook forward priority 0; }; "
                       f"add rule ip marking forward {rule}")

    def lose(self, per_mille):
        rule = f"iifname {netns.TO[1]} numgen random mod 1000 < {per_mille} drop"
        self.hosts.run(netns.ROUTER, "nft", "add table ip lossy; "
                       "add chain ip lossy forward { type filter hook forward priority 0; }; "
                       f"add rule ip lossy forward {rule}")

    def lose_nothing(self):
        self.hosts.run(netns.ROUTER, "nft", "delete table ip lossy")

    def server(self, argv, env=None):
        port = self.bench.ports.take()
        argv = [word.replace("PORT", str(port)) for word in argv]
        process = self.bench.start(argv, {**self.place.env(0), **(env or {})}, self.place.prefix(0))
        deadline = time.monotonic() + harness.LIMIT_S
        while not process.listens_on(port):
            if process.popen.poll() is not None or time.monotonic() > deadline:
                process.wait(0)
                raise Failure(f"the server never listened:\n{process.describe()}")
            time.sleep(0.01)
        return process, port

    def client(self, argv, env=None, root=False):
        prefix = self.hosts.enter(1) if root else self.place.prefix(1)
        return self.bench.start(argv, {**self.place.env(1), **(env or {})}, prefix)

    def verbs(self, program="ib_write_bw", args=f"-s 65536 -D {SECONDS} -f 0", env=None):
        """A flow with a running server. Both programs connect by IPv4, whatever family the RoCE
        packets have."""
        common = [program, *args.split(), "-d", self.device, "-x", self.gid, "-p", "PORT"]
        server, port = self.server(common, env)
        common[-1] = str(port)
        return Flow(
            server, lambda: self.client([*common, self.hosts.address(0)], env), mbits_of_perftest
        )

    def tcp(self):
        tool = self.bench.stage(TCP)
        server, port = self.server(["python3", tool, "recv", "PORT"])
        argv = ["python3", tool, "send", self.hosts.address(0), str(port), str(SECONDS)]
        # As root: choosing a congestion control algorithm may require it.
        return Flow(server, lambda: self.client(argv, root=True), None)


def mbits_of_perftest(text):
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s+\d+\s+\d", line)]
    if not rows:
        raise Failure(f"no bandwidth in\n{text}")
    return float(rows[-1][3]) * 8 * 2 ** 20 / 1e6


class Flow:
    def __init__(self, server, start_client, mbits):
        self.server = server
        self.start_client = start_client
        self.mbits = mbits
        self.client = None

    def wait(self, deadline):
        """Both ends must succeed by then."""
        if self.client.wait(deadline) != 0 or self.server.wait(deadline) != 0:
            raise Failure(f"server:\n{self.server.describe()}\nclient:\n{self.client.describe()}")

    def kill(self):
        self.client.kill()
        self.server.kill()


def run(*flows):
    """Runs the flows at the same time; returns the Mbit/s of each."""
    deadline = time.monotonic() + harness.LIMIT_S
    for flow in flows:
        flow.client = flow.start_client()
    try:
        for flow in flows:
            flow.wait(deadline)
    finally:
        for flow in flows:
            flow.kill()     # those still running after one has failed
    return [
        flow.mbits(flow.client.output()) if flow.mbits else float(flow.server.output())
        for flow in flows
    ]


BUSY_SHARE = 0.25   # of the CPU time, used by other processes


def busy_share():
    """The CPU time that other processes use, while this test runs nothing."""
    def ticks():
        with open("/proc/stat", encoding="ascii") as table:
            values = [int(word) for word in table.readline().split()[1:9]]
        return sum(values), values[3] + values[4]

    total, idle = ticks()
    time.sleep(0.5)
    now_total, now_idle = ticks()
    return 1 - (now_idle - idle) / max(1, now_total - total)


def leave_out_if_busy():
    """
    For a case that missed its figure. Verbs programs poll and need a CPU each, the kernel's TCP
    does not, so on a busy machine a miss proves nothing.
    """
    if (share := busy_share()) > BUSY_SHARE:
        raise LeftOut(f"other processes use {share:.0%} of the CPUs")


# ---- sharing -------------------------------------------------------------------------------------

# A program that is not scheduled for a while gets no share, so the majority of the runs must pass.
SHARING_TRIES = 5


def require_majority(what, once):
    """once() does a run and returns whether it passed."""
    results = []
    while max(results.count(True), results.count(False)) <= SHARING_TRIES // 2:
        results.append(once())
        if not results[-1]:
            leave_out_if_busy()
    if results.count(False) > results.count(True):
        raise Failure(f"{what} in {results.count(False)} of {len(results)} runs")


def two_to_one(rate, marked_from=None):
    """marked_from: kilobytes per second above which packets are marked."""
    def case(bench):
        with Network(bench) as net:
            net.slow(rate)
            if marked_from:
                net.mark(marked_from)

            def once():
                shares = run(net.verbs(), net.verbs())
                print(f"       {shares[0]:.0f} and {shares[1]:.0f} Mbit/s of {rate}")
                return max(shares) <= 2 * min(shares)
            require_majority("two Verbena flows did not share within 2:1", once)
    return case


def shared_with_tcp(rate):
    def case(bench):
        with Network(bench) as net:
            net.slow(rate)

            def once():
                shares = run(net.verbs(), net.tcp())
                print(f"       Verbena {shares[0]:.0f}, TCP cubic {shares[1]:.0f} Mbit/s of {rate}")
                return min(shares) >= 0.2 * int(rate.removesuffix("mbit"))
            require_majority("Verbena or TCP did not keep a fifth of the link", once)
    return case


def sharing_cases(_bench):
    harness.need_programs("tc", "ib_write_bw")
    return [
        (f"{what} at {rate}", case(rate))
        for rate in ("100mbit", "200mbit")
        for what, case in (
            ("two Verbena flows", two_to_one), ("Verbena beside TCP", shared_with_tcp),
        )
    ]


# ---- loss ----------------------------------------------------------------------------------------

LOSSY_RATE = "200mbit"
LOSS_RUNS = 6
FULL = 0.95     # of what the link can carry: what a flow reaches if nothing is lost
# By interface MTU: the largest RoCE MTU, and the part of a packet on the wire that is payload, of
# RoCE and of TCP with time stamps.
LINKS = {1500: (1024, 1024 / 1082, 1448 / 1514), 4200: (4096, 4096 / 4154, 4148 / 4214)}


def lossy_network(bench, per_mille, mtu=1500):
    net = Network(bench, mtu)
    net.per_packet()
    net.slow(LOSSY_RATE)
    net.lose(per_mille)
    return net


def goodputs(net, mtu):
    """Goodput in Mbit/s of a Verbena flow, then of a TCP flow."""
    (ours,) = run(net.verbs(args=f"-s 65536 -D {SECONDS} -f 0 -m {LINKS[mtu][0]}"))
    (tcp,) = run(net.tcp())
    return ours, tcp


def leave_out_if_slow(net, per_mille, mtu):
    """
    For a case that missed its figure: a machine that does not fill the link when nothing is lost
    says nothing about losses. Other processes of this machine are not the only cause: a hypervisor
    takes CPU time too, and does not always say so.
    """
    _, our_part, tcp_part = LINKS[mtu]
    net.lose_nothing()
    ours, tcp = goodputs(net, mtu)
    net.lose(per_mille)
    link = int(LOSSY_RATE.removesuffix("mbit"))
    print(f"       nothing lost: Verbena {ours:.0f}, TCP cubic {tcp:.0f} Mbit/s")
    if ours < FULL * our_part * link or tcp < FULL * tcp_part * link:
        raise LeftOut(f"without losses Verbena and TCP fill {ours:.0f} and {tcp:.0f} Mbit/s "
                      f"of {LOSSY_RATE}")


def goodput_at(per_mille, mtu, at_least):
    """
    at_least: minimum ratio of the parts of the link that Verbena and TCP fill. They run in turn
    until the best runs of both reach it: load on the machine only makes a run slower, and taking
    the best of both favours neither.
    """
    def case(bench):
        _, our_part, tcp_part = LINKS[mtu]
        ours = tcp = 0
        with lossy_network(bench, per_mille, mtu) as net:
            for _ in range(LOSS_RUNS):
                run_ours, run_tcp = goodputs(net, mtu)
                print(f"       {per_mille / 10:g} % lost of 200 Mbit/s, MTU {mtu}: "
                      f"Verbena {run_ours:.0f}, TCP cubic {run_tcp:.0f} Mbit/s, "
                      f"ratio {run_ours / run_tcp:.3f}")
                ours, tcp = max(ours, run_ours), max(tcp, run_tcp)
                if ours / our_part >= at_least * tcp / tcp_part:
                    return
                leave_out_if_busy()
                leave_out_if_slow(net, per_mille, mtu)
        raise Failure(f"a goodput below {at_least:g} of TCP's: "
                      f"at best {ours:.0f} and {tcp:.0f} Mbit/s")
    return case


def loss_cases(_bench):
    harness.need_programs("tc", "nft", "ib_write_bw")
    # With packets of the same length (MTU 4200) both fill the link with the same payload. At MTU
    # 1500 RoCE's MTU is 1024, so Verbena sends and loses more packets. The margins allow for a busy
    # machine: verbs programs poll, the kernel's TCP need not.
    return [
        ("0.1 %", goodput_at(1, 1500, 0.9)), ("1 %", goodput_at(10, 1500, 0.9)),
        ("1 %, packets of the same length", goodput_at(10, 4200, 0.98)),
        ("3 %", goodput_at(30, 1500, 0.9)),
    ]


# ---- marks ---------------------------------------------------------------------------------------

MARKED_KBYTES = 15000   # per second: 120 Mbit/s


def marks_cause_cnps(bench):
    """Host 0 receives marked packets and sends CNPs."""
    with Network(bench) as net:
        net.per_packet()
        net.slow(LOSSY_RATE)
        net.mark(MARKED_KBYTES / 15)
        seen = captured(net, net.verbs(args="-s 65536 -n 150 -f 0"), "marks", host=0)
        missing = [key for key in ("ecn_capable", "marked", "notifications") if not seen[key]]
        if missing:
            raise Failure(f"no packet with {missing}: {seen}")


def queue_of(net, flow):
    """The median length of the slow link's queue in bytes, while the flow runs."""
    flow.client = flow.start_client()
    seen = []
    while flow.client.popen.poll() is None:
        (qdisc,) = json.loads(
            net.hosts.run(netns.ROUTER, "tc", "-s", "-j", "qdisc", "show", "dev", netns.TO[0])
        )
        seen.append(qdisc["backlog"])
        time.sleep(0.02)
    flow.wait(time.monotonic() + harness.LIMIT_S)
    return statistics.median(seen)


def marks_slow_down(bench):
    """An ECN-capable flow keeps the queue short, another one fills it."""
    with Network(bench) as net:
        net.per_packet()
        net.slow(LOSSY_RATE)
        net.mark(MARKED_KBYTES)

        def once():
            unmarked, marked = queue_of(net, net.verbs(env={"VERBENA_ECN": "off"})), queue_of(
                net, net.verbs()
            )
            print(f"       {marked:.0f} bytes queued with marks, {unmarked:.0f} without")
            return marked <= 0.5 * unmarked
        require_majority("marks did not halve the queue", once)


def marks_cases(_bench):
    harness.need_programs("tc", "nft", "ib_write_bw", "tcpdump")
    return [
        ("marks are answered by CNPs", marks_cause_cnps),
        ("marks slow down", marks_slow_down),
        ("two marked flows", two_to_one(LOSSY_RATE, MARKED_KBYTES)),
    ]


# ---- interruptions -------------------------------------------------------------------------------

LONG = "-s 65536 -D 60 -f 0 -u 18"      # retries for eight seconds: does not fail
SHORT = "-s 65536 -D 60 -f 0 -u 15"     # for a second: enough for a busy machine


def wait_until(what, condition, limit=harness.LIMIT_S):
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{what}: never")
        time.sleep(0.02)


class Watcher:
    """ibv_asyncwatch on host 1."""

    def __init__(self, net):
        self.process = net.client(["stdbuf", "-oL", "ibv_asyncwatch", "-d", net.device])
        wait_until("ibv_asyncwatch is ready", lambda: "async event FD" in self.process.output())

    def expect(self, text):
        try:
            wait_until(f"event {text!r}", lambda: text in self.process.output(), 20)
        except Failure as failure:
            raise Failure(f"{failure}\n{self.process.output()}") from None


def started(net, args, mtu=1024):
    """A flow that has begun to send packets, and does not end during the test."""
    flow = net.verbs(args=f"{args} -m {mtu}")
    flow.client = flow.start_client()
    before = packets_sent(net)
    wait_until(
        "packets of the client",
        lambda: packets_sent(net) > before + 1000 or flow.client.popen.poll() is not None,
    )
    return flow


def packets_sent(net):
    """Sent by the interface of host 1."""
    for line in net.hosts.run(1, "cat", "/proc/net/dev").splitlines():
        if line.strip().startswith(netns.IFNAME):
            return int(line.split(":")[1].split()[9])
    raise Failure("no counters of the interface")


def expect_progress(net, flow):
    before = packets_sent(net)
    wait_until(
        "the transfer continues",
        lambda: packets_sent(net) > before + 5000 or flow.client.popen.poll() is not None,
    )
    if flow.client.popen.poll() is not None:
        flow.client.wait(0)
        raise Failure(f"the client gave up:\n{flow.client.describe()}")


def expect_failure(flow, reason):
    """The oldest request must fail with RETRY_EXC_ERR (12) and the reason, which perftest prints in
    hex; the log says who explains it."""
    flow.client.wait(time.monotonic() + harness.LIMIT_S)
    text = flow.client.output()
    if (
        flow.client.status in (0, None)
        or flow.client.status < 0
        or f"syndrom 0x{reason:x}" not in text
        or f"verbena explain {reason}\n" not in text
    ):
        flow.client.kill()
        raise Failure(f"expected status 12 and reason {reason}:\n{flow.client.describe()}")


def end(*flows):
    for flow in flows:
        flow.client.kill()
        flow.server.kill()


def interface_down_and_up(bench, family):
    with Network(bench, family=family) as net:
        watcher = Watcher(net)
        flow = started(net, LONG)
        net.hosts.ip(1, "link", "set", netns.IFNAME, "down")
        watcher.expect("IBV_EVENT_PORT_ERR")
        net.hosts.ip(1, "link", "set", netns.IFNAME, "up")
        if family == "v6":      # the kernel removes IPv6 addresses
            net.hosts.ip(
                1, "addr", "add", net.hosts.network_address(1, family), "dev", netns.IFNAME, "nodad"
            )
        net.hosts.set_route(1, family)
        watcher.expect("IBV_EVENT_PORT_ACTIVE")
        expect_progress(net, flow)
        end(flow)


def interface_stays_down(bench, family):
    with Network(bench, family=family) as net:
        flow = started(net, SHORT)
        net.hosts.ip(1, "link", "set", netns.IFNAME, "down")
        expect_failure(flow, 311)
        end(flow)


def address_removed(bench, family):
    with Network(bench, family=family) as net:
        watcher = Watcher(net)
        flow = started(net, SHORT)
        net.hosts.ip(1, "addr", "del", net.hosts.network_address(1, family), "dev", netns.IFNAME)
        watcher.expect("IBV_EVENT_GID_CHANGE")
        expect_failure(flow, 311)
        end(flow)


def interface_mtu_lowered(bench, family):
    with Network(bench, 9000, family) as net:
        flow = started(net, SHORT, 4096)
        net.hosts.ip(1, "link", "set", netns.IFNAME, "mtu", "1500")
        expect_failure(flow, 309)
        end(flow)


def interface_mtu_lowered_and_raised(bench, family):
    with Network(bench, 9000, family) as net:
        flow = started(net, LONG, 4096)
        net.hosts.ip(1, "link", "set", netns.IFNAME, "mtu", "1500")
        net.hosts.ip(1, "link", "set", netns.IFNAME, "mtu", "9000")
        expect_progress(net, flow)
        end(flow)


def router_mtu_lowered(bench, family):
    """ICMP "fragmentation needed"."""
    with Network(bench, 9000, family) as net:
        flow = started(net, SHORT, 4096)
        net.hosts.ip(netns.ROUTER, "link", "set", netns.TO[0], "mtu", "1500")
        expect_failure(flow, 309)
        end(flow)


def shorter_packets_pass(bench, family):
    with Network(bench, 9000, family) as net:
        net.hosts.ip(netns.ROUTER, "link", "set", netns.TO[0], "mtu", "1500")
        run(net.verbs(args="-s 65536 -n 500 -m 1024"))


def peer_ends(bench, family):
    with Network(bench, family=family) as net:
        flow = started(net, SHORT)
        flow.server.kill()
        expect_failure(flow, 310)
        end(flow)


def hop_limit(bench, family):
    """The program asks for a hop limit of 1, which Linux takes for no device."""
    with Network(bench, family=family) as net:
        words = ["ibv_rc_pingpong", "-d", net.device, "-g", net.gid, "-n", "10", "-p", "PORT"]
        server, port = net.server(words)
        words[-1] = str(port)
        run(Flow(server, lambda: net.client([*words, net.hosts.address(0)]), lambda _: 0))


def address_translated(bench, family):
    """Only the receiver can see it, by the ICRCs."""
    with Network(bench, family=family) as net:
        ip = {"v4": "ip", "v6": "ip6"}[family]
        net.hosts.run(netns.ROUTER, "nft", f"add table {ip} nat; add chain {ip} nat out "
                      "{ type nat hook postrouting priority 100; }; "
                      f"add rule {ip} nat out oifname {netns.TO[0]} udp dport {PORT} masquerade")
        flow = net.verbs(args=SHORT)
        flow.client = flow.start_client()
        expect_failure(flow, 304)
        wait_until("the server names NAT", lambda: "most likely NAT" in flow.server.output())
        end(flow)


def path_cases(_bench):
    harness.need_programs("ib_write_bw", "ibv_asyncwatch", "ibv_rc_pingpong", "nft")
    cases = [("interface down and up: events, and the transfer continues", interface_down_and_up),
            ("interface stays down", interface_stays_down),
            ("address removed: event, and an error", address_removed),
            ("MTU of the interface lowered", interface_mtu_lowered),
            ("MTU of the interface lowered and raised", interface_mtu_lowered_and_raised),
            ("MTU of the router lowered", router_mtu_lowered),
            ("shorter packets pass that router", shorter_packets_pass),
            ("the peer's process ends", peer_ends),
            ("a hop limit of 1", hop_limit),
            ("NAT between the hosts", address_translated)]
    return [
        (f"{what}, IP{family}", functools.partial(case, family=family))
        for what, case in cases
        for family in ("v4", "v6")
    ]


# ---- the port ------------------------------------------------------------------------------------

HOLD_PORT = f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", {PORT}))
t = socket.create_server(("", 1))
import sys
sys.stdin.read()
"""


def port_taken(bench):
    """Another user's program uses UDP 4791: one line names the port and the variable that selects
    another one; with that a pair works."""
    with Network(bench) as net:
        holder = subprocess.Popen(
            [*net.hosts.enter(1), "python3", "-c", HOLD_PORT], stdin=subprocess.PIPE
        )
        try:
            wait_until(
                "the port is taken", lambda: ":0001 " in net.hosts.run(1, "cat", "/proc/net/tcp")
            )
            output = net.place.run(1, ["ibv_devinfo"])
            lines = [line for line in output.splitlines() if "UDP port" in line]
            if (
                len(lines) != 1
                or f"UDP port {PORT}" not in lines[0]
                or "VERBENA_UDP_PORT" not in lines[0]
            ):
                raise Failure(f"expected one line that names the port:\n{output}")
            run(net.verbs(args="-s 4096 -n 500", env={"VERBENA_UDP_PORT": "4792"}))
        finally:
            holder.stdin.close()
            holder.wait()


def port_cases(_bench):
    harness.need_programs("ib_write_bw", "ibv_devinfo")
    return [("another program on the port, and another port", port_taken)]


# ---- packets -------------------------------------------------------------------------------------

def captured(net, flow, name, host=1):
    """Runs the flow and captures its packets on a host's link; returns packet_check's counts."""
    pcap = os.path.join(net.bench.dir, name + ".pcap")
    dump = subprocess.Popen(
        [
            *net.hosts.enter(host), "tcpdump", "--immediate-mode", "-Z", "root", "-i", netns.IFNAME,
            "-U", "-B", "65536", "-w", pcap, "udp", "port", str(PORT),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while "listening on" not in (line := dump.stderr.readline()):
            if not line:
                raise Failure("tcpdump does not listen")
        run(flow)
    finally:
        dump.terminate()
        dump.wait()
        dump.stderr.close()
    check = os.path.join(net.bench.build, "tests", "stock", "packet_check")
    done = subprocess.run([check, pcap], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{name}: {done.stdout}{done.stderr}")
    return {key: int(value) for key, value in (line.split() for line in done.stdout.splitlines())}


def packets_of(program, args, *wanted, env=None, unwanted=()):
    def case(bench):
        with Network(bench) as net:
            net.per_packet()
            seen = captured(net, net.verbs(program, args, env), "packets")
            missing = [key for key in ("packets", *wanted) if not seen[key]]
            found = [key for key in unwanted if seen[key]]
            if missing or found:
                raise Failure(f"no packet with {missing}, or some with {found}: {seen}")
    return case


def packets_cases(_bench):
    harness.need_programs("ib_write_bw", "tcpdump")
    runs = ("in_runs", "ack_requests", "ecn_capable")
    return [
        (
            "WRITE, 64 KiB: each segment of a run",
            packets_of("ib_write_bw", "-s 65536 -n 50", *runs),
        ),
        (
            "SEND, odd length: pad, credits",
            packets_of("ib_send_bw", "-s 5003 -n 100", *runs, "padded", "credits"),
        ),
        ("READ, odd length", packets_of("ib_read_bw", "-s 10001 -n 50", "in_runs", "padded")),
        ("atomics", packets_of("ib_atomic_bw", "-n 50", "ack_requests")),
        (
            "UC is ECN-capable and requests no ACK",
            packets_of(
                "ib_send_bw", "-c UC -s 1024 -n 50", "ecn_capable", unwanted=("ack_requests",)
            ),
        ),
        (
            "UD is ECN-capable",
            packets_of(
                "ib_send_bw", "-c UD -s 1024 -n 50", "ecn_capable", unwanted=("ack_requests",)
            ),
        ),
        (
            "VERBENA_ECN=off",
            packets_of(
                "ib_write_bw",
                "-s 65536 -n 50",
                "in_runs",
                env={"VERBENA_ECN": "off"},
                unwanted=("ecn_capable",),
            ),
        ),
    ]


GROUPS = {
    "sharing": sharing_cases,
    "loss": loss_cases,
    "marks": marks_cases,
    "path": path_cases,
    "port": port_cases,
    "packets": packets_cases,
}

CAPTURE = "marks", "packets"


def main():
    build, group = sys.argv[1], sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else None
    if os.geteuid() and group in CAPTURE:
        harness.skip("tcpdump needs real root")
    with harness.Bench(build) as bench:
        return harness.run_table(GROUPS[group](bench), bench, only)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except netns.Unavailable as problem:
        harness.skip(f"the network cannot be created here: {problem}")
    except Failure as problem:
        print(problem)
        sys.exit(1)
