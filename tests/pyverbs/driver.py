#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rdma-core's Python wrapper (pyverbs, never rebuilt) over the library under test.

    driver.py BUILD_DIR one_host|hosts

Two processes do what is asked of them (side.py), on one host or in two network namespaces; what is
asked stands here.
"""
import json
import os
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stock"))
import harness  # noqa: E402
import netns  # noqa: E402
from harness import Failure  # noqa: E402

PYTHON = "/usr/bin/python3"     # the one that python3-pyverbs is for
SIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "side.py")
FLUSHED, REMOTE_ACCESS, RNR_EXCEEDED = 5, 10, 13
MIGRATED, ARMED = 0, 2
TM_ADD, TM_SYNC, TM_RECV, TM_NO_TAG = 130, 132, 133, 134
TM_MATCH, TM_DATA_VALID = 32, 64
NO_TAG, RNDV, FIN, EAGER = range(4)
SECOND = ("10.78.0.1", "10.78.0.2")     # addresses for path migration


def want_equal(got, wanted, what):
    if got != wanted:
        raise Failure(f"{what}: {got!r}, not {wanted!r}")


class Remote:
    """The other end of a side: side.method(...) runs there."""

    def __init__(self, bench, address, prefix=None):
        self.address = address
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(harness.LIMIT_S)
        self.lines = self.socket.makefile("rw", encoding="utf-8")
        self.process = bench.start(
            [PYTHON, bench.side, str(theirs.fileno())], prefix=prefix, pass_fds=[theirs.fileno()]
        )
        theirs.close()

    def __getattr__(self, method):
        def call(*arguments, **options):
            try:
                print(
                    json.dumps({"method": method, "arguments": arguments, "options": options}),
                    file=self.lines,
                    flush=True,
                )
                line = self.lines.readline()
            except OSError as problem:
                line = ""
                self.process.kill()
                print(f"{method}: {problem}")
            if not line:
                self.process.wait(0)
                raise Failure(f"{method} had no answer:\n{self.process.describe()}")
            answer = json.loads(line)
            if "error" in answer:
                raise Failure(f"{method}{arguments}: {answer['error']}")
            return answer["result"]
        return call

    def end(self):
        self.lines.close()
        self.socket.close()


class Pair:
    def __init__(self, bench, addresses=("127.0.0.1", "127.0.0.1"), prefixes=(None, None)):
        self.sides = [
            Remote(bench, address, prefix) for address, prefix in zip(addresses, prefixes)
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in self.sides:
            side.end()

    def connect_tags(self):
        """An ordinary QP, and one that matches tags."""
        for side in self.sides:
            side.open(side.address)
        self.sides[0].cq_plain()
        self.sides[1].cq_tags()
        self.sides[1].srq_tags()
        return self._connect_qps([side.create_qp("IBV_QPT_RC") for side in self.sides])

    def connect(self, kind, cq="cq_plain", srq=False, operations=None):
        facts = []
        for side in self.sides:
            side.open(side.address)
            getattr(side, cq)()
            if srq:
                side.srq_plain()
            facts.append(side.create_qp(kind, operations))
        a, b, at = self._connect_qps(facts)
        return a, b, at[1]

    def _connect_qps(self, facts):
        a, b = self.sides
        a.connect(a.address, b.address, facts[1])
        b.connect(b.address, a.address, facts[0])
        return a, b, facts

    def close(self):
        for side in self.sides:
            side.close()


def one(side, wr_id, status=0):
    """Waits for one completion and checks it."""
    done = side.poll(1)
    want_equal([(c["wr_id"], c["status"]) for c in done], [(wr_id, status)], "completions")
    return done[0]


def message(a, b, text="hello"):
    b.post_recv(1, 1000, 100)
    a.write_memory(0, text)
    a.post_send(2, "IBV_WR_SEND", 0, len(text))
    one(a, 2)
    want_equal(one(b, 1)["len"], len(text), "length")
    want_equal(b.read_memory(1000, len(text)), text, "memory")


# ---- cases: each gets a pair that has nothing open yet

def case_rc(pair):
    a, b, at = pair.connect("IBV_QPT_RC")
    message(a, b)
    a.write_memory(0, "written")
    a.post_send(3, "IBV_WR_RDMA_WRITE", 0, 7, at, 500)
    one(a, 3)
    want_equal(b.read_memory(500, 7), "written", "memory")
    a.post_send(4, "IBV_WR_RDMA_READ", 100, 7, at, 500)
    one(a, 4)
    want_equal(a.read_memory(100, 7), "written", "memory")
    b.write_memory(504 * 8, "\x05" + 7 * "\0")
    a.post_send(5, "IBV_WR_ATOMIC_FETCH_AND_ADD", 200, 8, at, 504 * 8, atomic=[3, 0])
    one(a, 5)
    want_equal(a.read_memory(200, 8), "\x05" + 7 * "\0", "what was there")
    want_equal(b.read_memory(504 * 8, 8), "\x08" + 7 * "\0", "the sum")
    b.post_recv(6, 0, 0)
    a.post_send(7, "IBV_WR_RDMA_WRITE_WITH_IMM", 0, 7, at, 600, imm=0x1234)
    one(a, 7)
    one(b, 6)
    a.post_send(8, "IBV_WR_RDMA_READ", 100, 7, {"rkey": at["rkey"] ^ 1, "addr": at["addr"]})
    one(a, 8, REMOTE_ACCESS)


def case_srq(pair):
    a, b, _ = pair.connect("IBV_QPT_RC", srq=True)
    message(a, b)
    message(b, a)


def case_uc(pair):
    a, b, at = pair.connect("IBV_QPT_UC")
    message(a, b)
    a.post_send(3, "IBV_WR_RDMA_WRITE", 0, 5, at, 500)
    one(a, 3)


def case_extended_cq(pair):
    a, b, _ = pair.connect("IBV_QPT_RC", cq="cq_extended")
    message(a, b)
    message(b, a, 20 * "long ")


def case_builders(pair):
    a, b, at = pair.connect(
        "IBV_QPT_RC",
        operations=[
            "IBV_QP_EX_WITH_SEND", "IBV_QP_EX_WITH_RDMA_WRITE", "IBV_QP_EX_WITH_RDMA_READ",
            "IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD",
        ],
    )
    b.post_recv(1, 1000, 100)
    a.write_memory(0, "built")
    a.build(2, "wr_send", [], 0, 5)
    one(a, 2)
    one(b, 1)
    want_equal(b.read_memory(1000, 5), "built", "memory")
    a.build(3, "wr_rdma_write", [at["rkey"], at["addr"] + 300], 0, 5)
    one(a, 3)
    a.build(4, "wr_rdma_read", [at["rkey"], at["addr"] + 300], 700, 5)
    one(a, 4)
    want_equal(a.read_memory(700, 5), "built", "memory")


def case_window(pair):
    a, b, at = pair.connect("IBV_QPT_RC")
    b.write_memory(4096, "seen")
    key = b.bind_window(4096, 64)
    one(b, 900)
    a.post_send(1, "IBV_WR_RDMA_READ", 0, 4, {"rkey": key, "addr": at["addr"]}, 4096)
    one(a, 1)
    want_equal(a.read_memory(0, 4), "seen", "memory")
    a.post_send(2, "IBV_WR_RDMA_WRITE", 0, 4, {"rkey": key, "addr": at["addr"]}, 4096)
    one(a, 2, REMOTE_ACCESS)


def tagged(b, **wanted):
    """Waits for one completion of the SRQ that matches tags and checks it."""
    wanted = {"status": 0, "tag": 0, **wanted}
    done = b.poll_tags(1)[0]
    want_equal({name: done[name] for name in wanted}, wanted, "completion")


def case_tags(pair):
    """The same completions as rdma-core's own tests of tag matching want to see."""
    a, b, at = pair.connect_tags()
    unexpected = 0

    def send(operation, tag, payload, offset=0, more=()):
        data = struct.pack(">BxxxIQ", operation, 7, tag) + payload
        a.write_memory(offset, data.decode("latin1"))
        a.post_send(1, "IBV_WR_SEND", offset, len(data))
        done = sorted((c["wr_id"], c["status"]) for c in a.poll(1 + len(more)))
        want_equal(done, [(1, 0), *((wr_id, 0) for wr_id in more)], "completions")

    for i in range(4):
        b.post_recv(100 + i, 4096 * i, 4096)
    for i in range(8):
        b.tag_add(i, 0x1000 + i, 0xffff, 32768 + 2048 * i, 2048, unexpected)
        tagged(b, wr_id=i, opcode=TM_ADD, flags=0)
    # A tag that the list has, last one first, and one that it has not.
    for i in (7, 6):
        send(EAGER, 0x1000 + i, b"payload")
        tagged(b, wr_id=i, opcode=TM_RECV, flags=TM_MATCH | TM_DATA_VALID, tag=0x1000 + i, len=7)
        want_equal(b.read_memory(32768 + 2048 * i, 7), "payload", "memory")
    send(EAGER, 99, b"nobody's")
    tagged(b, wr_id=100, opcode=TM_RECV, flags=0, len=24)
    want_equal(b.read_memory(16, 8), "nobody's", "memory")
    unexpected += 1
    b.tag_sync(27, unexpected)
    tagged(b, wr_id=27, opcode=TM_SYNC, flags=0)
    send(NO_TAG, 0x1000, b"untagged")
    tagged(b, wr_id=101, opcode=TM_NO_TAG, flags=0, len=24)
    # Rendezvous: the receiver's device fetches it and says so.
    text = 200 * "rendezvous"
    a.write_memory(8192, text)
    a.post_recv(2, 1024, 64)
    send(
        RNDV,
        0x1003,
        struct.pack(">QII", at[0]["addr"] + 8192, at[0]["rkey"], len(text)),
        512,
        more=[2],
    )
    tagged(b, wr_id=3, opcode=TM_RECV, flags=TM_MATCH, tag=0x1003)
    tagged(b, wr_id=3, opcode=TM_RECV, flags=TM_DATA_VALID, len=len(text))
    want_equal(b.read_memory(32768 + 2048 * 3, len(text)), text, "memory")
    want_equal(a.read_memory(1024, 1), chr(FIN), "FIN")
    want_equal(a.read_memory(1025, 31), a.read_memory(513, 31), "what FIN repeats")


def case_close_open(pair):
    """Everything goes when its Python object does, and can be made again."""
    for _ in range(3):
        a, b, _ = pair.connect("IBV_QPT_RC")
        message(a, b)
        pair.close()


ONE_HOST = [
    case_rc, case_srq, case_uc, case_extended_cq, case_builders, case_window, case_tags,
    case_close_open,
]


# ---- two hosts

def drop(hosts, host, address):
    """Packets to this address of the host vanish."""
    rules = ("table ip cut {\nchain in {\ntype filter hook input priority 0;\n"
             f"ip daddr {address} udp dport != 0 drop;\n}}\n}}\n")
    done = subprocess.run(
        [*hosts.enter(host), "nft", "-f", "-"], input=rules, capture_output=True, text=True,
        check=False,
    )
    if done.returncode:
        harness.skip(f"nft cannot drop packets here: {done.stderr.strip()}")


def case_migration(pair, hosts):
    """The first path dies under a connection that has an alternate one: both ends go on over that,
    and say so."""
    a, b, at = pair.connect("IBV_QPT_RC")
    for side, own, peer in (a, *SECOND), (b, *reversed(SECOND)):
        side.load_alternate(own, peer)
    for _ in range(2):
        message(a, b)
        message(b, a)
    want_equal([side.query()["mig"] for side in (a, b)], [ARMED, ARMED], "armed")
    drop(hosts, 1, hosts.address(1))
    a.write_memory(0, "over the other path")
    a.post_send(3, "IBV_WR_RDMA_WRITE", 0, 19, at, 500)
    one(a, 3)
    want_equal(b.read_memory(500, 19), "over the other path", "memory")
    want_equal([side.events(1) for side in (a, b)], [["IBV_EVENT_PATH_MIG"]] * 2, "events")
    for side, own in (a, SECOND[0]), (b, SECOND[1]):
        want_equal(
            side.query(),
            {"state": 3, "mig": MIGRATED, "sgid": side.gid_index(own)},
            "what ibv_query_qp tells",
        )
    message(b, a)
    message(a, b)


def case_services(pair, hosts):
    case_rc(pair)


def case_tags_between_hosts(pair, hosts):
    case_tags(pair)


def run_hosts(bench):
    with netns.two_hosts() as hosts:
        for host in 0, 1:
            hosts.ip(host, "addr", "add", f"{SECOND[host]}/24", "dev", netns.IFNAME)
        hosts.check()
        prefixes = [hosts.prefix(host, bench.user_prefix()) for host in (0, 1)]
        addresses = [hosts.address(host) for host in (0, 1)]

        def on_hosts(case):
            def run(_):
                with Pair(bench, addresses, prefixes) as pair:
                    case(pair, hosts)
            return run
        return harness.run_table(
            [
                (c.__name__[5:], on_hosts(c))
                for c in (case_services, case_tags_between_hosts, case_migration)
            ],
            bench,
        )


def run_one_host(bench):
    def run(case):
        def on_pair(_):
            with Pair(bench) as pair:
                case(pair)
        return on_pair
    return harness.run_table([(c.__name__[5:], run(c)) for c in ONE_HOST], bench)


def main():
    build, group = sys.argv[1:3]
    if not os.path.isdir("/usr/lib/python3/dist-packages/pyverbs"):
        harness.skip("python3-pyverbs is not installed (scripts/setup installs it)")
    with harness.Bench(build) as bench:
        bench.side = bench.stage(SIDE)
        return {"one_host": run_one_host, "hosts": run_hosts}[group](bench)


if __name__ == "__main__":
    harness.end_with(main)
