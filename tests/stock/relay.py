#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's programs of two users, or of two run directories, in one network namespace:
only one of them holds the UDP port, and relays packets to the other.

    relay.py BUILD_DIR GROUP [part of a case's name]

Groups: `verbs`, `rdmacm`: on one host, with the port held by either end and by a third user;
`hosts`: a relayed process, and one in another network namespace; `ends`: the holder ends or is
stopped, or its claim is forged or full; `groups`: multicast.
"""
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time

import harness
import netns
import rdmacm
from harness import Failure
from stock import Place

HOLDER = ["ibv_rc_pingpong", "-d", "lo0", "-g", "0"]
VERBS = [
    "ibv_rc_pingpong -g 0 -n 200",
    "ibv_uc_pingpong -g 0 -n 100",
    "ibv_ud_pingpong -g 0 -n 100",
    "ibv_srq_pingpong -g 0 -n 200 -q 3",
    "ibv_rc_pingpong -g 0 -n 200 -e",
    "ib_send_bw -x 0 -n 300 -s 4096 -q 3 -b",
    "ib_write_bw -x 0 -n 200 -s 65536",
    "ib_read_bw -x 0 -n 100 -s 65536",
    "ib_atomic_bw -x 0 -n 200",
]
TAKEN = "was free: this process holds it now"
RDMACM = [*rdmacm.RPING[:3], *rdmacm.UTILITIES]
BETWEEN_HOSTS = ["ibv_rc_pingpong -g {gid} -n 200", "ib_write_bw -x {gid} -n 200 -s 65536",
                 "ib_read_bw -x {gid} -n 100 -s 65536"]


class Owner:
    """A run directory, of a user of its own where the test may change users."""

    def __init__(self, bench, number):
        self.uid = harness.NOBODY - number if bench.as_root else None
        self.dir = tempfile.mkdtemp(prefix="verbena-test-", dir=bench.dir)
        if bench.as_root:
            os.chown(self.dir, self.uid, self.uid)

    def prefix(self, devices="VERBENA_DEVICES=lo0=lo"):
        """Of a command that runs as this owner."""
        user = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        return [*(user if self.uid else []), "env", f"VERBENA_DIR={self.dir}", "VERBENA_LOG=info",
                devices]


def wait_for(process, condition, what):
    deadline = time.monotonic() + harness.LIMIT_S
    while not condition():
        if process.popen.poll() is not None or time.monotonic() > deadline:
            raise Failure(f"{what}:\n{process.describe()}")
        time.sleep(0.01)


@contextlib.contextmanager
def holder(bench, prefix, env=None, argv=HOLDER):
    """A program that opens its device and waits for a peer, and so holds the port."""
    port = bench.ports.take()
    process = bench.start([*argv, "-p", str(port)], env, prefix)
    try:
        wait_for(process, lambda: process.listens_on(port), "the holder never listened")
        yield process
    finally:
        process.kill()


def expect_relayed(text, relayed):
    if ("relay packets to this one" in text) != relayed:
        raise Failure(f"expected that it is {'' if relayed else 'not '}relayed to:\n{text}")


def verbs_case(words, held):
    """held: whose is the port: the server's (0), the client's (1), a third one's (2)."""
    def case(bench):
        ends = [Owner(bench, 1), Owner(bench, 2), Owner(bench, 3)]
        port = bench.ports.take()
        argv = [*words.split(), "-d", "lo0", "-p", str(port)]
        with holder(bench, ends[held].prefix()):
            outputs = bench.pair(argv, [*argv, "127.0.0.1"], port, server_prefix=ends[0].prefix(),
                                 client_prefix=ends[1].prefix())
        for end, output in enumerate(outputs):
            expect_relayed(output, end != held)
    return case


def verbs(_):
    for i, words in enumerate(VERBS):
        yield f"{words}: port of {i % 3}", verbs_case(words, i % 3)
    for held in 1, 2:
        yield f"{VERBS[0]}: port of {held}", verbs_case(VERBS[0], held)


def cm(bench):
    ends = [Owner(bench, 1), Owner(bench, 2), Owner(bench, 3)]
    names = {"s": "127.0.0.1", "c": "127.0.0.1", "s_gid": rdmacm.gid_of("127.0.0.1"),
             **rdmacm.FAMILIES["v4"]}

    def case(row, held):
        def run(bench):
            with holder(bench, ends[held].prefix()):
                rdmacm.run_pair(bench, row, names, [ends[0].prefix(), ends[1].prefix()])
        return run
    for i, row in enumerate(rdmacm.present(RDMACM)):
        yield f"{row[0]}: port of {i % 3}", case(row, i % 3)


def hosts(bench):
    """The relayed process is the server or the client."""
    places = netns.two_hosts()
    place = Place(bench, places)
    device = place.device("eth")
    gid = place.gid_index(device, "v4")

    def case(words, side):
        def run(bench):
            port = bench.ports.take()
            argv = [*words.format(gid=gid).split(), "-d", device, "-p", str(port)]
            order = [0, 1] if side == "server" else [1, 0]
            env = [{**place.env(host), "VERBENA_LOG": "info"} for host in order]
            prefix = [place.prefix(host) for host in order]
            other = {**place.env(0), "VERBENA_DIR": bench.make_dir(f"other{bench.number()}")}
            with holder(bench, place.prefix(0), other,
                        ["ibv_rc_pingpong", "-d", device, "-g", str(gid)]):
                outputs = bench.pair(argv, [*argv, places.address(order[0])], port, *env, *prefix)
            expect_relayed(outputs[order.index(0)], True)
            expect_relayed(outputs[order.index(1)], False)
        return run
    for words in BETWEEN_HOSTS:
        for side in "server", "client":
            yield f"{words}: {side}", case(words, side)


def killed(bench):
    """Both ends are relayed to, by a process that is killed. One of them takes the port."""
    ends = [Owner(bench, 1), Owner(bench, 2)]
    argv = ["ib_send_bw", "-d", "lo0", "-x", "0", "-s", "4096", "-n", "60000"]
    with holder(bench, Owner(bench, 3).prefix()) as first, \
            holder(bench, ends[0].prefix(), argv=argv) as server:
        client = bench.start(["stdbuf", "-oL", *server.argv, "127.0.0.1"], None, ends[1].prefix())
        wait_for(client, lambda: "remote address" in client.output(), "never connected")
        first.kill()
        deadline = time.monotonic() + harness.LIMIT_S
        if client.wait(deadline) != 0 or server.wait(deadline) != 0:
            raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")
    for output in server.output(), client.output():
        expect_relayed(output, True)
    if TAKEN not in server.output() + client.output():
        raise Failure(f"nobody took the port:\n{server.describe()}\n{client.describe()}")


def left(bench):
    """A listener outlives the holder and takes the port; who comes then is relayed to by it."""
    ends = [Owner(bench, 1), Owner(bench, 2)]
    words = ["rping", "-c", "-a", "127.0.0.1", "-C", "20", "-V"]
    with holder(bench, ends[1].prefix()) as first:
        server = bench.start(["rping", "-s", "-P", "-a", "127.0.0.1"], None, ends[0].prefix())
        deadline = time.monotonic() + harness.LIMIT_S
        before = rdmacm.run_client(bench, server, words, ends[1].prefix(), deadline)
        first.kill()
        wait_for(server, lambda: TAKEN in server.output(), "still waits")
    after = rdmacm.run_client(bench, server, words, ends[1].prefix(), deadline)
    server.kill()
    if [before.status, after.status] != [0, 0]:
        raise Failure("\n".join(p.describe() for p in (server, before, after)))
    expect_relayed(before.output(), False)
    expect_relayed(after.output(), True)


class Members:
    """mckey's members of a multicast group, of several owners and two hosts."""

    def __init__(self, bench, places, family):
        self.bench, self.places, self.family = bench, places, family
        self.group = {"v4": "239.77.4.1", "v6": "ff15::77:41"}[family]
        self.deadline = time.monotonic() + harness.LIMIT_S

    def start(self, owner, words, host=0):
        argv = ["stdbuf", "-oL", "mckey", "-m", self.group, "-b",
                self.places.address(host, self.family), *words.split()]
        prefix = self.places.prefix(host, owner.prefix("VERBENA_DEVICES="))
        return self.bench.start(argv, None, prefix)

    def join(self, owner, words, host=0):
        receiver = self.start(owner, words, host)
        wait_for(receiver, lambda: "joined dgid" in receiver.output(), "never joined")
        return receiver

    def end(self, *processes):
        for process in processes:
            if process.wait(self.deadline) != 0:
                raise Failure("\n".join(p.describe() for p in self.bench.processes))

    def holder(self, owner):
        return holder(self.bench, self.places.prefix(0, owner.prefix("VERBENA_DEVICES=")),
                      argv=["ibv_rc_pingpong", "-g", "0"])


def each_once(family):
    """Each message reaches each member once, of the holder's directory, of two that it relays to,
    and of another host, whichever of them sends it. A receiver ends with the last message that it
    wants: a copy would end it early."""
    def case(bench):
        owners = [Owner(bench, n) for n in range(1, 5)]
        with netns.two_hosts() as places:
            members = Members(bench, places, family)
            with members.holder(owners[0]):
                receivers = [members.join(owner, "-C 11", host)
                             for owner, host in zip([*owners, owners[1]], [0, 0, 0, 1, 0])]
                for owner, host, words in [(0, 0, ""), (1, 0, "-o"), (2, 0, ""), (3, 1, "")]:
                    members.end(members.start(owners[owner], f"-s -C 2 {words}", host))
                if any(r.popen.poll() is not None for r in receivers):
                    raise Failure("\n".join(r.describe() for r in receivers))
                members.end(members.start(owners[0], "-s -C 3"), *receivers)
        for number, receiver in enumerate(receivers):
            expect_relayed(receiver.output(), number in (1, 2, 4))
    return case


def other_holder(bench):
    """Of two holders both are killed in turn, so also the one that relays, while a third one comes.
    The groups go on."""
    owners = [Owner(bench, 1), Owner(bench, 2)]
    with netns.two_hosts() as places:
        members = Members(bench, places, "v4")
        with members.holder(owners[0]) as first, members.holder(owners[0]) as second:
            receiver = members.join(owners[1], "-C 2")
            members.end(members.start(owners[0], "-s -C 1"))
            first.kill()
            with members.holder(owners[0]):
                second.kill()
                while receiver.popen.poll() is None:
                    members.end(members.start(owners[0], "-s -C 1"))
                members.end(receiver)
        if TAKEN in receiver.output():
            raise Failure(f"there was a holder:\n{receiver.describe()}")


def multicast(bench):
    """Who takes the port gets the packets of the groups that it has joined before."""
    own, other = Owner(bench, 1), Owner(bench, 2)
    with netns.two_hosts() as places:
        members = Members(bench, places, "v4")
        with members.holder(other) as first:
            receiver = members.join(own, "-C 3")
            first.kill()
            wait_for(receiver, lambda: TAKEN in receiver.output(), "did not take the port")
        members.end(members.start(own, "-s -C 3"), receiver)


def groups(_):
    return [("each once, v4", each_once("v4")), ("each once, v6", each_once("v6")),
            ("other holder", other_holder), ("port taken", multicast)]


@contextlib.contextmanager
def forged_claim(bench):
    """A claim to the port that is none of Verbena's."""
    with socket.socket(socket.AF_UNIX) as claim:
        claim.bind(f"\0verbena-udp-{bench.udp_port}-{1:016x}-{1:016x}")
        claim.listen(16)
        claim.settimeout(harness.LIMIT_S)
        yield claim


def forged(bench):
    """Who claims the port without holding it is not connected to, and keeps no process away from a
    port that others of its directory hold. A free one is taken later."""
    owner = Owner(bench, 1)
    with holder(bench, owner.prefix()), forged_claim(bench), \
            holder(bench, owner.prefix()) as second:
        expect_relayed(second.output(), False)
        if "cannot reach other hosts" in second.output():
            raise Failure(f"has no wire:\n{second.describe()}")
    with forged_claim(bench) as claim, holder(bench, owner.prefix()) as process:
        claim.setblocking(False)
        try:
            claim.accept()
            raise Failure(f"connected to a forged claim:\n{process.describe()}")
        except BlockingIOError:
            claim.close()
        wait_for(process, lambda: TAKEN in process.output(), "did not take the port")


def brief(bench):
    """Claims that end at once do not keep a process busy: it pauses for 20 ms and more."""
    owner = Owner(bench, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port, forged_claim(bench) as claim:
        port.bind(("", bench.udp_port))
        with holder(bench, owner.prefix()) as process:
            start = time.monotonic()
            for _ in range(6):
                claim.accept()[0].close()
            if time.monotonic() - start < 0.3:
                raise Failure(f"no pauses:\n{process.describe()}")
            port.close()
            claim.close()
            wait_for(process, lambda: TAKEN in process.output(), "did not take the port")


def full(bench):
    """Too many have connected to the holder's claim: others are relayed to all the same."""
    ends = [Owner(bench, 1), Owner(bench, 2)]
    port = bench.ports.take()
    argv = [*VERBS[0].split(), "-d", "lo0", "-p", str(port)]
    with holder(bench, ends[0].prefix()) as first, open("/proc/net/unix", encoding="ascii",
                                                       errors="replace") as sockets:
        name = next(line.split("@", 1)[1].rstrip("\n") for line in sockets
                    if f"@verbena-udp-{bench.udp_port}-" in line)
        with contextlib.suppress(BlockingIOError):
            while True:
                with socket.socket(socket.AF_UNIX) as one:
                    one.setblocking(False)
                    one.connect("\0" + name)
        outputs = bench.pair(argv, [*argv, "127.0.0.1"], port, server_prefix=ends[0].prefix(),
                             client_prefix=ends[1].prefix())
        expect_relayed(outputs[1], True)
        with holder(bench, ends[1].prefix()) as second:
            first.kill()
            wait_for(second, lambda: TAKEN in second.output(), "did not take the port")


def stopped(bench):
    """While the holder is stopped, those to whom it relays cannot reach each other, and are told
    what may be the reason. Once it continues, they can."""
    ends = [Owner(bench, 1), Owner(bench, 2)]
    port = bench.ports.take()
    argv = [*VERBS[0].split(), "-d", "lo0", "-p", str(port)]
    with holder(bench, Owner(bench, 3).prefix()) as first:
        os.killpg(first.pid, signal.SIGSTOP)
        with holder(bench, ends[0].prefix(), argv=VERBS[0].split() + ["-d", "lo0"]) as server:
            client = bench.start([*server.argv, "127.0.0.1"], None, ends[1].prefix())
            client.wait(time.monotonic() + harness.LIMIT_S)
        if "may be stopped" not in client.output():
            raise Failure(f"expected a reason:\n{client.describe()}")
        os.killpg(first.pid, signal.SIGCONT)
        bench.pair(argv, [*argv, "127.0.0.1"], port, server_prefix=ends[0].prefix(),
                   client_prefix=ends[1].prefix())


def ends_of_holders(_):
    return [("killed", killed), ("stopped", stopped), ("left", left), ("forged", forged),
            ("brief", brief), ("full", full)]


GROUPS = {"verbs": verbs, "rdmacm": cm, "hosts": hosts, "ends": ends_of_holders,
          "groups": groups}


def main():
    harness.need_programs("ibv_rc_pingpong")
    if not shutil.which("ib_send_bw") or not shutil.which("rping"):
        harness.skip("no perftest or rdmacm-utils")
    with harness.Bench(sys.argv[1]) as bench:
        os.environ["VERBENA_TRANSPORT"] = "auto"
        cases = list(GROUPS[sys.argv[2]](bench))
        return harness.run_table(cases, bench, sys.argv[3] if len(sys.argv) > 3 else None)


if __name__ == "__main__":
    harness.end_with(main)
