#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Verbena against a kernel's soft RoCE: the distribution's programs in both directions, and probe.c
for what they do not do.

    peer.py BUILD_DIR GROUP [part of a case's name]

VERBENA_TEST_RXE_PEER is the peer's IPv4 address.  It has rdma-core, perftest and a device
VERBENA_TEST_RXE_DEVICE (rxe0); VERBENA_TEST_RXE_SHELL goes before a command that shall run there
(ssh -o BatchMode=yes ADDRESS).  guest.py boots such a peer.  Without one every group is skipped.
"""
import ipaddress
import os
import shlex
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "stock"))
import cm  # noqa: E402  pylint: disable=wrong-import-position
import harness  # noqa: E402  pylint: disable=wrong-import-position
from harness import Failure  # noqa: E402  pylint: disable=wrong-import-position
from stock import Place  # noqa: E402  pylint: disable=wrong-import-position

ADDRESS = os.environ.get("VERBENA_TEST_RXE_PEER")
DEVICE = os.environ.get("VERBENA_TEST_RXE_DEVICE", "rxe0")
SHELL = shlex.split(os.environ.get("VERBENA_TEST_RXE_SHELL", f"ssh -o BatchMode=yes {ADDRESS}"))
OURS, PEER = "verbena", "rxe"
PROBE = "rxe_probe"
# The probe finds the library of the build; on the peer it must use the distribution's instead.
DISTRIBUTIONS = """\
LD_LIBRARY_PATH=$(dirname "$(ldconfig -p | \
sed -n 's/.*libibverbs[.]so[.]1 .*=> //p' | head -1)") exec "$0" "$@" """
MTUS = (256, 512, 1024, 2048, 4096)


class Link:
    """Both ends: what they are called, and how a program is started there."""

    def __init__(self, bench):
        self.bench = bench
        self.place = Place(bench)
        self.built_probe = os.path.join(bench.build, "tests", "rxe", PROBE)
        self.probe = bench.stage(self.built_probe)
        route = subprocess.run(
            ["ip", "-o", "route", "get", ADDRESS], capture_output=True, text=True, check=True
        ).stdout.split()
        self.netdev = route[route.index("dev") + 1]
        self.addresses = {OURS: {"v4": route[route.index("src") + 1]}, PEER: {"v4": ADDRESS}}
        self.devices = {OURS: self.our_device(), PEER: DEVICE}
        self.gids = {
            OURS: dict(self.place.devices[self.devices[OURS]]["gids"]),
            PEER: self.peer_gids(),
        }
        for end, gids in self.gids.items():
            for gid in gids.values():
                if family(gid) == "v6":
                    self.addresses[end].setdefault("v6", gid)

    def our_device(self):
        mapped = "::ffff:" + self.addresses[OURS]["v4"]
        return next(
            name for name, facts in self.place.devices.items() if mapped in facts["gids"].values()
        )

    def there(self, *argv):
        return self.bench.run(argv, prefix=SHELL)

    def peer_gids(self):
        rows = self.there(
            "sh",
            "-c",
            f"cd /sys/class/infiniband/{DEVICE}/ports/1/gids; "
            f"grep -v 0000:0000:0000:0000:0000:0000:0000:0000 *",
        )
        pairs = (row.split(":", 1) for row in rows.splitlines())
        return {int(index): str(ipaddress.IPv6Address(gid)) for index, gid in pairs}

    def gid_index(self, end, kind):
        return next(index for index, gid in self.gids[end].items() if family(gid) == kind)

    def mtu(self):
        """The largest RoCE MTU that fits: 100 bytes are enough for all headers."""
        words = subprocess.run(
            ["ip", "-o", "link", "show", "dev", self.netdev], capture_output=True, text=True,
            check=True,
        ).stdout.split()
        return max(mtu for mtu in MTUS if mtu <= int(words[words.index("mtu") + 1]) - 100)

    def start(self, end, argv):
        if end == PEER:
            return self.bench.start(argv, prefix=SHELL)
        return self.bench.start(
            argv, {**self.place.env(0), "VERBENA_UDP_PORT": None}, self.place.prefix(0)
        )

    def listens(self, end, process, port):
        if end == OURS:
            return process.listens_on(port)
        return f":{port:04X} " in self.there("cat", "/proc/net/tcp", "/proc/net/tcp6")

    def words(self, end, program, args, port, kind):
        if program == PROBE:
            path = (
                [self.probe]
                if end == OURS
                else [
                    "sh", "-c", DISTRIBUTIONS,
                    os.environ.get("VERBENA_TEST_RXE_PROBE", self.built_probe),
                ]
            )
            return [
                *path, "-d", self.devices[end], "-g", str(self.gid_index(end, kind)), "-m",
                str(self.mtu()), "-p", str(port), *args.split(),
            ]
        gid = "-g" if program.startswith("ibv_") else "-x"
        return [
            program, *args.split(), "-d", self.devices[end], gid, str(self.gid_index(end, kind)),
            "-p", str(port),
        ]

    def pair(self, program, args, server, kind="v4"):
        """Server there, client at the other end; 0 wanted from both, and their outputs."""
        client = PEER if server == OURS else OURS
        port = self.bench.ports.take()
        deadline = time.monotonic() + harness.LIMIT_S
        first = self.start(server, self.words(server, program, args, port, kind))
        while not self.listens(server, first, port):
            if first.popen.poll() is not None or time.monotonic() > deadline:
                first.wait(0)
                first.kill()
                raise Failure(f"the server never listened:\n{first.describe()}")
            time.sleep(0.05)
        host = ["-h"] if program == PROBE else []
        second = self.start(
            client,
            [*self.words(client, program, args, port, kind), *host, self.addresses[server]["v4"]],
        )
        statuses = [
            second.wait(deadline),
            first.wait(deadline if second.status == 0 else time.monotonic() + 2),
        ]
        first.kill()
        second.kill()
        if harness.SKIP in statuses:
            raise harness.LeftOut("soft RoCE's rdma-core or kernel has no such requests")
        if statuses != [0, 0]:
            raise Failure(
                f"server ({server}):\n{first.describe()}\nclient ({client}):\n{second.describe()}"
            )
        return first.output(), second.output()


LINKS = {}


def link(bench):
    """The one of this run: made when the first case needs it."""
    if bench not in LINKS:
        LINKS[bench] = Link(bench)
    return LINKS[bench]


def family(gid):
    return "v4" if gid.startswith("::ffff:") else "link" if gid.startswith("fe80:") else "v6"


# ---- tables --------------------------------------------------------------------------------------

SIZES = (1, 2, 63, 255, 256, 257, 1023, 1024, 1025, 4096, 4097, 65536, 100000)

# Arguments; -c makes the programs compare every received buffer.
PINGPONG = [
    *[("ibv_rc_pingpong", f"-c -n 20 -s {size}") for size in SIZES],
    ("ibv_rc_pingpong", "-c -n 4 -s 1048576"),
    ("ibv_rc_pingpong", "-e -n 50"),
    ("ibv_rc_pingpong", "-r 1 -n 50"),
    ("ibv_rc_pingpong", "-N -n 50"),
    ("ibv_uc_pingpong", "-n 100 -s 1024"),
    ("ibv_uc_pingpong", "-n 20 -s 10001 -r 20"),
    ("ibv_uc_pingpong", "-e -n 50 -s 1024"),
    ("ibv_ud_pingpong", "-n 100 -s 1024"),
    ("ibv_ud_pingpong", "-e -n 50 -s 1"),
    ("ibv_srq_pingpong", "-n 50"),
    ("ibv_srq_pingpong", "-e -n 50 -q 4"),
]

PERFTEST = [
    *[
        (f"ib_{op}_lat", f"-n 50 -s {size}")
        for op in ("send", "write", "read")
        for size in (1, 256, 65536)
    ],
    *[
        (f"ib_{op}_bw", f"-n 50 -s {size}")
        for op in ("send", "write", "read")
        for size in (1, 1024, 65536)
    ],
    *[(f"ib_{op}_bw", "-n 5 -t 5 -s 1048576") for op in ("send", "write", "read")],
    *[(f"ib_{op}_lat", "-n 50 -s 64 -I 64") for op in ("send", "write")],
    *[(f"ib_{op}_bw", "-n 100 -b -s 8192") for op in ("send", "write", "read")],
    *[(f"ib_{op}_bw", "-n 50 -q 4 -s 4096") for op in ("send", "write", "read")],
    ("ib_send_lat", "-n 50 -e"),
    ("ib_send_bw", "-n 50 -e -s 4096"),
    ("ib_send_bw", "-n 50 --use-srq -s 4096"),
    ("ib_atomic_lat", "-n 50 -A FETCH_AND_ADD"),
    ("ib_atomic_lat", "-n 50 -A CMP_AND_SWAP"),
    ("ib_atomic_bw", "-n 100 -A FETCH_AND_ADD"),
    ("ib_atomic_bw", "-n 100 -A CMP_AND_SWAP"),
    ("ib_write_bw", "-n 50 -c UC -s 65536"),
    ("ib_write_lat", "-n 50 -c UC -s 8"),
    ("ib_send_lat", "-n 50 -c UC -s 1024"),
    ("ib_send_bw", "-n 50 -c UC -s 1024"),
    ("ib_send_lat", "-n 50 -c UD -s 1024"),
    ("ib_send_bw", "-n 50 -c UD -s 1024"),
]

MTU = [
    *[("ibv_rc_pingpong", f"-c -n 10 -s 20001 -m {mtu}") for mtu in MTUS],
    *[
        (f"ib_{op}_bw", f"-n 20 -s 100003 -m {mtu}")
        for op in ("send", "write", "read")
        for mtu in MTUS
    ],
]


def both_ways(rows, kind="v4", servers=(OURS, PEER)):
    def of(program, args, server):
        return lambda bench: link(bench).pair(program, args, server, kind)
    return [
        (f"{program} {args} {kind}, server {server}", of(program, args, server))
        for program, args in rows
        for server in servers
    ]


def mtu_cases(bench):
    most = link(bench).mtu()
    return both_ways(
        [(program, args) for program, args in MTU if int(args.split("-m ")[1]) <= most]
    )


def v6_cases(_bench):
    sizes = [("ibv_rc_pingpong", f"-c -n 20 -s {size}") for size in (1, 1025, 65536)]
    return both_ways(
        [
            *sizes,
            *[row for row in PINGPONG if "-c" not in row[1]],
            *[row for row in PERFTEST if "1048576" not in row[1]],
        ],
        "v6",
    )


# Scenarios of the probe.  What the requester sees, what the responder's receives, and the event at
# Verbena (soft RoCE raises none).
FAULTS = [
    ("write", "SUCCESS SUCCESS", "SUCCESS", "no event"),
    ("write_bad_rkey", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("write_imm_bad_rkey", "REM_ACCESS FLUSH", "LOC_ACCESS FLUSH", "no event"),
    ("write_long_bad_rkey", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("write_nothing_bad_rkey", "SUCCESS SUCCESS", "SUCCESS", "no event"),
    ("write_beyond", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("write_region_reads_only", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("write_qp_reads_only", "REM_INV_REQ FLUSH", "FLUSH", "QP_REQ_ERR"),
    ("read_bad_rkey", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("read_nothing_bad_rkey", "SUCCESS SUCCESS", "SUCCESS", "no event"),
    ("read_beyond", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("read_region_writes_only", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("read_qp_writes_only", "REM_INV_REQ FLUSH", "FLUSH", "QP_REQ_ERR"),
    ("atomic", "SUCCESS SUCCESS", "SUCCESS", "no event"),
    ("atomic_bad_rkey", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("atomic_region_writes_only", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("atomic_qp_writes_only", "REM_INV_REQ FLUSH", "FLUSH", "QP_REQ_ERR"),
    ("send_too_long", "REM_INV_REQ FLUSH", "LOC_LEN FLUSH", "no event"),
    ("send_too_long_later", "REM_INV_REQ FLUSH", "LOC_LEN FLUSH", "no event"),
    ("send_late_recv", "SUCCESS SUCCESS", "SUCCESS SUCCESS", "no event"),
    ("write_imm_late_recv", "SUCCESS SUCCESS", "SUCCESS SUCCESS", "no event"),
    ("send_no_recv", "RNR_RETRY_EXC FLUSH", "", "no event"),
    ("write_imm_no_recv", "RNR_RETRY_EXC FLUSH", "", "no event"),
    ("send_no_listener", "RETRY_EXC FLUSH", "", "no event"),
]

# What the requester sees, and the responder.
WINDOWS = [
    ("window1_outside", "SUCCESS REM_ACCESS", "SUCCESS FLUSH"),
    ("window1_unbound", "SUCCESS REM_ACCESS", "SUCCESS SUCCESS FLUSH"),
    ("window2_outside", "SUCCESS REM_ACCESS", "SUCCESS FLUSH"),
    ("window2_send_inv", "SUCCESS SUCCESS REM_ACCESS", "SUCCESS SUCCESS+INV"),
    ("window2_local_inv", "SUCCESS REM_ACCESS", "SUCCESS SUCCESS FLUSH"),
    ("window2_wrong_inv", "SUCCESS SUCCESS", "SUCCESS REM_INV_REQ"),
]

A19_SINCE = (6, 2)  # soft RoCE's FLUSH and ATOMIC WRITE

# What the requester sees, and the responder, the event, and whether the word has arrived.
A19 = [
    ("atomic_write", "SUCCESS SUCCESS", "SUCCESS", "no event, word"),
    ("atomic_write_misaligned", "REM_INV_REQ FLUSH", "FLUSH", "QP_REQ_ERR, no word"),
    ("atomic_write_bad_rkey", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR, no word"),
    ("atomic_write_beyond", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR, no word"),
    ("atomic_write_region_reads_only", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR, no word"),
    ("flush", "SUCCESS SUCCESS", "SUCCESS", "no event"),
    ("flush_nothing", "SUCCESS SUCCESS", "SUCCESS", "no event"),
    ("flush_region", "SUCCESS SUCCESS", "SUCCESS", "no event"),
    ("flush_bad_rkey", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("flush_beyond", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("flush_region_without_right", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
    ("flush_qp_without_right", "REM_INV_REQ FLUSH", "FLUSH", "QP_REQ_ERR"),
    ("flush_without_persistence", "REM_ACCESS FLUSH", "FLUSH", "QP_ACCESS_ERR"),
]

# What the requester sees, and which messages arrive.
DATAGRAMS = [
    ("ud", "SUCCESS SUCCESS SUCCESS SUCCESS", "0 1 2 3"),
    ("ud_bad_qkey", "SUCCESS SUCCESS SUCCESS SUCCESS", "3"),
    ("ud_multicast", "SUCCESS SUCCESS SUCCESS SUCCESS", "0 1 2 3"),
]

# Where soft RoCE as the responder does otherwise (docs/ROCE.md, Others).
RXE_RESPONDS = {
    "send_too_long": ("REM_OP FLUSH", "LOC_QP_OP FLUSH"),
    "send_too_long_later": ("REM_OP FLUSH", "LOC_QP_OP FLUSH"),
    "window1_outside": ("SUCCESS SUCCESS", "SUCCESS"),
    "window2_outside": ("SUCCESS SUCCESS", "SUCCESS"),
    "window2_send_inv": ("SUCCESS SUCCESS REM_ACCESS", "SUCCESS SUCCESS"),
    "write_imm_bad_rkey": ("REM_ACCESS FLUSH", "REM_ACCESS FLUSH"),
}


def saw(text, end):
    """What an end of the probe printed, after its name."""
    return next(
        (line[len(end) :].strip() for line in text.splitlines() if line.startswith(end)), "nothing"
    )


def wanted(name, requester, responder, event, server):
    """What is right: soft RoCE raises events since some kernel between 6.12 and 7.2."""
    if server == PEER:
        requester, responder = RXE_RESPONDS.get(name, (requester, responder))
    if event is None:
        return [(requester, responder)]
    events = [event]
    if server == PEER:
        events.append(", ".join(["no event", *event.split(", ")[1:]]))
    return [(requester, f"{responder}, {event}") for event in events]


def probe_cases(rows, kinds):
    """Rows without an event are of scenarios that look at none."""
    def of(row, server, kind):
        def case(bench):
            first, second = link(bench).pair(PROBE, row[0], server, kind)
            seen = saw(second, "requester"), saw(first, "responder")
            if seen not in wanted(*row, server):
                raise Failure(f"requester and responder: wanted {wanted(*row, server)}, got {seen}")
        return case
    rows = [row if len(row) == 4 else (*row, None) for row in rows]
    return [
        (f"{row[0]} {kind}, server {server}", of(row, server, kind))
        for row in rows
        for server in (OURS, PEER)
        for kind in kinds
    ]


class Loss:
    """So many packets of a thousand are lost, each way, at our interface, which no longer cuts runs
    of packets."""

    def __init__(self, ends, per_mille):
        self.netdev = ends.netdev
        rule = f"udp dport 4791 numgen random mod 1000 < {per_mille} drop"
        self.table = "add table inet verbena_loss; " + "".join(
            f"add chain inet verbena_loss {hook} {{ type filter hook {hook} priority 0; }}; "
            f"add rule inet verbena_loss {hook} {rule}; "
            for hook in ("input", "output")
        )

    def __enter__(self):
        subprocess.run(["ip", "link", "set", self.netdev, "gso_max_segs", "1"], check=True)
        subprocess.run(["nft", self.table], check=True)

    def __exit__(self, *_):
        subprocess.run(["nft", "delete table inet verbena_loss"], check=True)
        subprocess.run(["ip", "link", "set", self.netdev, "gso_max_segs", "65535"], check=True)


# Not the pingpongs: who is done leaves, and the last ACK of who is not may have been lost.
LOSSY = [
    *[(PROBE, f"mix {seed}") for seed in (11, 12, 13)],
    *[(f"ib_{op}_bw", "-n 100 -s 65536") for op in ("send", "write", "read")],
    ("ib_atomic_bw", "-n 200"),
]


def loss_cases(_bench, rows=LOSSY, servers=(OURS, PEER)):
    harness.need_programs("nft")

    def of(program, args, server, per_mille):
        def case(bench):
            with Loss(link(bench), per_mille):
                link(bench).pair(program, args, server)
        return case
    return [
        (
            f"{per_mille / 10:g} % lost: {program} {args}, server {server}",
            of(program, args, server, per_mille),
        )
        for per_mille in (10, 50)
        for program, args in rows
        for server in servers
    ]


def mix_cases(_bench):
    return both_ways([(PROBE, f"mix {seed}") for seed in range(1, 6)])


def left_out(name, reason):
    def case(_bench):
        raise harness.LeftOut(reason)
    return [(name, case)]


def a19_cases(bench):
    """
    Soft RoCE repeats a lost FLUSH or ATOMIC WRITE with address 0, and our FLUSHes to it fail where
    packets are lost: in the mixes it sends none, and packets are lost of those without FLUSH only.
    """
    kernel = link(bench).there("uname", "-r").strip()
    if tuple(map(int, kernel.split(".")[:2])) < A19_SINCE:
        return left_out("FLUSH and ATOMIC WRITE", f"Linux {kernel} has none")

    def mixes(kind, server):
        return [(PROBE, f"{kind}_mix {seed} 300 {int(server == OURS)}") for seed in range(1, 4)]
    servers = (OURS, PEER)
    return [
        *probe_cases(A19, ("v4",)),
        *[row for end in servers for row in both_ways(mixes("a19", end), servers=(end,))],
        *[row for end in servers for row in loss_cases(bench, mixes("atomic_write", end), (end,))],
    ]


GROUPS = {
    "pingpong": lambda _bench: both_ways(PINGPONG),
    "perftest": lambda _bench: both_ways(PERFTEST),
    "mtu": mtu_cases,
    "v6": v6_cases,
    "faults": lambda _bench: probe_cases(FAULTS, ("v4",)),
    "windows": lambda _bench: probe_cases(WINDOWS, ("v4",)),
    "a19": a19_cases,
    "datagrams": lambda _bench: probe_cases(DATAGRAMS, ("v4", "v6")),
    "mix": mix_cases,
    "loss": loss_cases,
    "cm": lambda bench: cm.cases(link(bench), "v4", (OURS, PEER)),
    "cm_v6": lambda bench: cm.cases(link(bench), "v6", (OURS, PEER)),
}


def main():
    build, group = sys.argv[1], sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else None
    if not ADDRESS:
        harness.skip(
            "VERBENA_TEST_RXE_PEER names no host with a soft-RoCE device (docs/TESTING.md)"
        )
    harness.need_programs("ib_write_bw", "ibv_rc_pingpong", "ip")
    statuses = set()
    with harness.Bench(build) as bench:
        for name in GROUPS if group == "all" else group.split(","):
            print(f"{name}:")
            statuses.add(harness.run_table(GROUPS[name](bench), bench, only))
    if statuses == {harness.SKIP}:
        return harness.SKIP
    return int(bool(statuses - {0, harness.SKIP}))


if __name__ == "__main__":
    harness.end_with(main)
