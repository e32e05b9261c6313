#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's binaries over the library under test: one group of cases per meson test.

    stock.py BUILD_DIR GROUP [part of a case's name]

A case is a row: name, program and arguments. Both sides get the same arguments, and the client the
server's address. `lo` is the loopback device, `eth` the first other one.
"""
import os
import random
import re
import shlex
import subprocess
import sys

import harness
import netns
import services
from harness import Failure


def parse_devinfo(text):
    """{device: {"state": ..., "gids": {index: address}}} from `ibv_devinfo -v`, in its order."""
    devices = {}
    current = None
    for line in text.splitlines():
        words = line.split()
        if line.startswith("hca_id:"):
            current = devices.setdefault(words[1], {"state": None, "gids": {}})
        elif current is not None and words[:1] == ["state:"]:
            current["state"] = words[1]
        elif current is not None and line.strip().startswith("GID["):
            index, address = re.match(r"\s*GID\[\s*(\d+)\]:\s*([^,\s]+)", line).groups()
            current["gids"][int(index)] = address
    return devices


class Place:
    """Where the two programs of a case run: on one host, or in two namespaces."""

    def __init__(self, bench, hosts=None, shared_dir=False, transport=None, own_tmp=False):
        self.bench = bench
        self.own_tmp = bench.own_tmp_prefix(bool(hosts)) if own_tmp else []
        self.hosts = hosts
        self.transport = transport
        self.dirs = [bench.run_dir, bench.run_dir]
        if hosts and not shared_dir:
            self.dirs[1] = os.path.join(bench.dir, "run2")
            if not os.path.isdir(self.dirs[1]):
                bench.make_dir("run2")
        self.devices = parse_devinfo(self.run(0, ["ibv_devinfo", "-v"]))
        if not self.devices:
            raise Failure("ibv_devinfo shows no device")

    def prefix(self, host):
        user = [*self.own_tmp, *self.bench.user_prefix()]
        return self.hosts.prefix(host, user) if self.hosts else user

    def env(self, host):
        # No other program uses the RoCE port in a namespace, so the default is tested there.
        env = {"VERBENA_DIR": self.dirs[host], "VERBENA_TRANSPORT": self.transport}
        if self.hosts:
            env["VERBENA_UDP_PORT"] = None
        return env

    def run(self, host, argv, expect=0):
        return self.bench.run(argv, self.env(host), self.prefix(host), expect)

    def device(self, kind):
        """An active device with an IPv4 address, which programs that exchange LIDs need."""
        for name, facts in self.devices.items():
            addresses = facts["gids"].values()
            is_loopback = "::ffff:127.0.0.1" in addresses
            has_lid = any(address.startswith("::ffff:") for address in addresses)
            if is_loopback == (kind == "lo") and has_lid and facts["state"] == "PORT_ACTIVE":
                return name
        return None

    def gid_index(self, device, family):
        for index, address in self.devices[device]["gids"].items():
            kind = (
                "v4"
                if address.startswith("::ffff:")
                else "link"
                if address.startswith("fe80:")
                else "v6"
            )
            if kind == family:
                return index
        return None

    def pair(self, program, args, device, server_address):
        port = self.bench.ports.take()
        common = [program, *args, "-d", device, "-p", str(port)]
        return self.bench.pair(common, [*common, server_address], port, self.env(0), self.env(1),
                               self.prefix(0), self.prefix(1))

    def run_clients(self, program, args, clients, device, server_address):
        """
        A server and several clients, which run on the other host if there are two.
        ibv_xsrq_pingpong answers all clients through one connection if the LID of the first one is
        its own: then all must use the same XRC domain.
        """
        port = self.bench.ports.take()
        common = [program, *args, "-d", device, "-p", str(port)]
        client = [*common, server_address], self.env(1), self.prefix(1)
        self.bench.run_clients(
            ([*common, "-c", str(clients)], self.env(0), self.prefix(0)), [client] * clients, port
        )


# ---- tables --------------------------------------------------------------------------------------

# ibv_*_pingpong: name, program, arguments.  -c makes the programs compare every received buffer.
RC_PINGPONG = [
    ("default", "ibv_rc_pingpong", ""),
    ("checked", "ibv_rc_pingpong", "-c -n 200"),
    ("events", "ibv_rc_pingpong", "-e -n 300"),
    ("events checked", "ibv_rc_pingpong", "-e -c -n 200 -s 9000"),
    ("one receive", "ibv_rc_pingpong", "-r 1 -n 100"),
    ("depth 7", "ibv_rc_pingpong", "-r 7 -n 300 -s 333"),
    ("few iterations", "ibv_rc_pingpong", "-n 1"),
    ("service level", "ibv_rc_pingpong", "-l 3 -n 100"),
    ("new post API", "ibv_rc_pingpong", "-N -n 200"),
]

PINGPONG_SIZES = [
    *[
        (f"size {size}", "ibv_rc_pingpong", f"-c -n 50 -s {size}")
        for size in (1, 2, 63, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 100000)
    ],
    ("size 1048576", "ibv_rc_pingpong", "-c -n 10 -s 1048576"),
    *[
        (f"mtu {mtu}", "ibv_rc_pingpong", f"-c -n 50 -m {mtu} -s 20001")
        for mtu in (256, 512, 1024, 2048, 4096)
    ],
]

SRQ_PINGPONG = [
    ("default", "ibv_srq_pingpong", "-n 100"),
    ("events", "ibv_srq_pingpong", "-e -n 100"),
    ("one QP", "ibv_srq_pingpong", "-q 1 -n 200"),
    ("four QPs, shallow", "ibv_srq_pingpong", "-q 4 -r 16 -n 100"),
    ("checked", "ibv_srq_pingpong", "-c -q 4 -n 50 -s 3000"),
    ("mtu 256", "ibv_srq_pingpong", "-q 2 -m 256 -n 50 -s 3000"),
    ("gid", "ibv_srq_pingpong", "-q 4 -g {v4} -n 100"),
]


def perftest(program, sizes, extra=(), iters=300):
    rows = [(f"{program} {size} bytes", program, f"-s {size} -n {iters}") for size in sizes]
    return rows + [(f"{program} {args}", program, f"-n {iters} {args}") for args in extra]


SEND = [
    *perftest(
        "ib_send_bw", (1, 1024, 65536), ("-s 4096 -t 16 -r 64", "-s 2048 -m 256", "-s 100 -I 100")
    ),
    *perftest("ib_send_lat", (2, 4096), ("-s 64 -I 0",)),
]
WRITE = [
    *perftest(
        "ib_write_bw", (1, 4097, 65536), ("-s 4096 -t 16", "-s 5000 -m 512", "-s 512 -l 4 -t 64")
    ),
    ("ib_write_bw 1 MiB", "ib_write_bw", "-s 1048576 -n 20"),
    *perftest("ib_write_lat", (2, 4096), ("-s 64 -I 0",)),
]
READ = [
    *perftest("ib_read_bw", (1, 4097, 65536), ("-s 4096 -o 1", "-s 5000 -m 256")),
    ("ib_read_bw 1 MiB", "ib_read_bw", "-s 1048576 -n 20"),
    *perftest("ib_read_lat", (2, 4096)),
]
ATOMIC = [
    *[
        (f"{program} {kind}", program, f"-n 300 -A {kind}")
        for program in ("ib_atomic_bw", "ib_atomic_lat")
        for kind in ("FETCH_AND_ADD", "{cmp_and_swap}")
    ],
    ("ib_atomic_bw -q 4", "ib_atomic_bw", "-n 200 -q 4"),
]
MANY_QPS = [
    ("ib_send_bw -q 8", "ib_send_bw", "-q 8 -n 200 -s 2048"),
    ("ib_write_bw -q 8", "ib_write_bw", "-q 8 -n 200 -s 8192"),
    ("ib_read_bw -q 8", "ib_read_bw", "-q 8 -n 200 -s 8192"),
    ("ib_send_bw -q 8 --use-srq", "ib_send_bw", "-q 8 -n 200 -s 2048 --use-srq -r 512"),
]
BIDIRECTIONAL = [
    ("ib_send_bw -b", "ib_send_bw", "-b -n 300 -s 8192"),
    ("ib_write_bw -b", "ib_write_bw", "-b -n 300 -s 8192"),
    ("ib_read_bw -b", "ib_read_bw", "-b -n 300 -s 8192"),
    ("ib_atomic_bw -b", "ib_atomic_bw", "-b -n 300"),
    ("ib_write_bw -b -q 8", "ib_write_bw", "-b -q 8 -n 200 -s 4096"),
]
EVENTS = [
    ("ib_send_bw -e", "ib_send_bw", "-e -n 300 -s 4096"),
    ("ib_send_lat -e", "ib_send_lat", "-e -n 300 -s 64"),
    ("ib_read_bw -e", "ib_read_bw", "-e -n 300 -s 4096"),
    ("ib_read_lat -e", "ib_read_lat", "-e -n 300 -s 64"),
    ("ib_atomic_bw -e", "ib_atomic_bw", "-e -n 300"),
]
# These programs hang if a message is lost, so no more bytes are in flight than the smallest socket
# buffer can hold.
UNRELIABLE = [
    ("ibv_uc_pingpong", "ibv_uc_pingpong", "-c -n 200"),
    ("ibv_uc_pingpong -e", "ibv_uc_pingpong", "-e -n 200"),
    ("ibv_uc_pingpong, 20 kB, mtu 256", "ibv_uc_pingpong", "-n 20 -s 20000 -m 256"),
    ("ibv_ud_pingpong", "ibv_ud_pingpong", "-c -n 200 -s 1024"),
    ("ibv_ud_pingpong -e", "ibv_ud_pingpong", "-e -n 200 -s 1024"),
    *[(f"{program} -c UC", program, "-c UC -n 50 -s 1024") for program in
      ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat")],
    ("ib_send_bw -c UD", "ib_send_bw", "-c UD -n 50 -s 1024"),
    ("ib_send_lat -c UD", "ib_send_lat", "-c UD -n 200"),
    # perftest creates an IPv6 group.
    ("ib_send_bw -c UD, multicast", "ib_send_bw", "-c UD -g -n 50 -s 1024 -x {v6}"),
]
XRC = [
    ("ibv_xsrq_pingpong", "ibv_xsrq_pingpong", "-n 100"),
    ("ibv_xsrq_pingpong -e", "ibv_xsrq_pingpong", "-e -n 100"),
    *[(f"{program} -c XRC", program, "-c XRC -n 200 -s 4096") for program in
      ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_read_bw")],
    ("ib_atomic_bw -c XRC", "ib_atomic_bw", "-c XRC -n 200"),
]
# Other kinds of memory (on-demand, implicit, prefetched, device memory) and completion timestamps.
KINDS = [
    (f"ibv_rc_pingpong {args}", "ibv_rc_pingpong", f"-n 100 {args}")
    for args in ("-o", "-O", "-o -P", "-j", "-t")
]
# Rows for two hosts: one of each kind.
BETWEEN_HOSTS = [
    ("rc_pingpong, LID", "ibv_rc_pingpong", "-c -n 300"),
    ("rc_pingpong, GID", "ibv_rc_pingpong", "-c -n 300 -g {gid}"),
    ("rc_pingpong, events", "ibv_rc_pingpong", "-e -n 200 -g {gid}"),
    ("rc_pingpong, 256 KiB", "ibv_rc_pingpong", "-c -n 20 -s 262144 -g {gid}"),
    (
        "rc_pingpong, path MTU above the interface's",
        "ibv_rc_pingpong",
        "-c -n 50 -s 20001 -m 4096 -g {gid}",
    ),
    ("srq_pingpong", "ibv_srq_pingpong", "-n 50 -g {gid}"),
    ("ib_send_bw", "ib_send_bw", "-n 300 -s 8192 -x {gid}"),
    ("ib_send_lat", "ib_send_lat", "-n 300 -x {gid}"),
    ("ib_write_bw", "ib_write_bw", "-n 300 -s 65536 -x {gid}"),
    ("ib_write_bw -q 8 -b", "ib_write_bw", "-n 200 -s 4096 -q 8 -b -x {gid}"),
    ("ib_write_lat", "ib_write_lat", "-n 300 -x {gid}"),
    ("ib_read_bw", "ib_read_bw", "-n 300 -s 65536 -x {gid}"),
    ("ib_read_lat", "ib_read_lat", "-n 300 -x {gid}"),
    ("ib_atomic_bw", "ib_atomic_bw", "-n 300 -x {gid}"),
    ("ib_atomic_lat", "ib_atomic_lat", "-n 300 -x {gid}"),
]
WITHOUT_GID = ("rc_pingpong, LID",)


# ---- rows to cases -------------------------------------------------------------------------------

def cmp_and_swap():
    """The name in this release of perftest, whose parser and help text have differed."""
    done = subprocess.run(
        ["ib_atomic_bw", "-A", "CMP_AND_SWAP", "-h"], capture_output=True, text=True, check=False
    )
    return "CMP_AND_SWP" if "Invalid" in done.stdout + done.stderr else "CMP_AND_SWAP"


def row_case(place, kind, row, family=None):
    """A case function of one row on the device of that kind, on one host."""
    _, program, args = row

    def case(_bench):
        device = place.device(kind)
        gids = {name: place.gid_index(device, name) for name in ("v4", "v6", "link")}
        text = args.format(gid=gids.get(family), group=random.randrange(1, 255),
                           cmp_and_swap=cmp_and_swap() if "{cmp" in args else None, **gids)
        place.pair(program, shlex.split(text), device, server_address(place, kind, family))
    return case


def server_address(place, kind, family):
    if not place.hosts:
        return "127.0.0.1"
    # perftest resolves the server's name as IPv4 only; the family selects the GIDs.
    return place.hosts.address(0, "v4")


def on_devices(bench, rows, kinds=("lo", "eth"), transport=None):
    harness.need_programs(*{program for _, program, _ in rows})
    place = Place(bench, transport=transport, own_tmp=services.has_xrc(rows))
    rows = services.runnable(rows, bench.uid, place.own_tmp)
    cases = []
    for kind in kinds:
        if place.device(kind) is None:
            harness.left_out(len(rows), f"no active {kind} device on this host")
            continue
        cases += [(f"{kind}: {row[0]}", row_case(place, kind, row)) for row in rows]
        cases += multi_client_cases(place, kind) if services.has_xrc(rows) else []
    return cases


def multi_client_cases(place, kind):
    def case(clients, args):
        return lambda _bench: place.run_clients(
            "ibv_xsrq_pingpong", shlex.split(args), clients, place.device(kind),
            server_address(place, kind, None),
        )

    return [(f"{kind}: xsrq_pingpong {args}, {clients} clients", case(clients, args))
            for clients, args in services.XSRQ_CLIENTS]


def gid_cases(bench):
    """ibv_rc_pingpong -g with every GID of every active device."""
    place = Place(bench)
    cases = []
    for device, facts in place.devices.items():
        if facts["state"] != "PORT_ACTIVE":
            continue
        for index, address in facts["gids"].items():
            def case(_bench, device=device, index=index):
                place.pair(
                    "ibv_rc_pingpong", ["-c", "-n", "100", "-g", str(index)], device, "127.0.0.1"
                )
            cases.append((f"{device}: -g {index} ({address})", case))
    return cases


def device_cases(_bench):
    harness.need_programs("ibv_devices", "ibv_devinfo")

    def listing(bench):
        text = bench.run(["ibv_devices"])
        rows = [line.split() for line in text.splitlines()[2:] if line.strip()]
        if not rows or not all(len(r) == 2 and re.fullmatch(r"[0-9a-f]{16}", r[1]) for r in rows):
            raise Failure(f"unexpected listing:\n{text}")
        if len({r[1] for r in rows}) != len(rows):
            raise Failure(f"node GUIDs are not unique:\n{text}")

    def details(bench):
        text = bench.run(["ibv_devinfo", "-v"])
        devices = parse_devinfo(text)
        for wanted in "PORT_ACTIVE", "link_layer:\t\tEthernet", "RoCE v2", "ATOMIC_HCA":
            if wanted not in text:
                raise Failure(f"no {wanted!r} in:\n{text}")
        if "::ffff:127.0.0.1" not in list(devices.values())[-1]["gids"].values():
            raise Failure(f"the last device is not the loopback one:\n{text}")

    def each_device(bench):
        for name in parse_devinfo(bench.run(["ibv_devinfo", "-v"])):
            if f"hca_id:\t{name}" not in bench.run(["ibv_devinfo", "-d", name]):
                raise Failure(f"ibv_devinfo -d {name} does not show the device")

    def unknown_device(bench):
        text = bench.run(["ibv_devinfo", "-d", "nope"], expect=255)
        if "IB device 'nope' wasn't found" not in text:
            raise Failure(text)

    return [("ibv_devices", listing), ("ibv_devinfo -v", details), ("ibv_devinfo -d", each_device),
            ("ibv_devinfo, unknown device", unknown_device)]


def between_hosts(bench, hosts, family, rows, shared_dir=False):
    harness.need_programs(*{program for _, program, _ in rows})
    hosts.check()
    place = Place(bench, hosts, shared_dir, own_tmp=services.has_xrc(rows))
    rows = services.runnable(rows, bench.uid, place.own_tmp)
    cases = [(f"{family}: {row[0]}", row_case(place, "eth", row, family)) for row in rows]
    return [*cases, *(multi_client_cases(place, "eth") if services.has_xrc(rows) else [])]


GROUPS = {
    "devices": device_cases,
    "rc_pingpong": lambda bench: on_devices(bench, RC_PINGPONG),
    "rc_pingpong_gid": gid_cases,
    "rc_pingpong_sizes": lambda bench: on_devices(bench, PINGPONG_SIZES, ("lo",)),
    "srq_pingpong": lambda bench: on_devices(bench, SRQ_PINGPONG),
    "send": lambda bench: on_devices(bench, SEND),
    "write": lambda bench: on_devices(bench, WRITE),
    "read": lambda bench: on_devices(bench, READ),
    "atomic": lambda bench: on_devices(bench, ATOMIC),
    "many_qps": lambda bench: on_devices(bench, MANY_QPS),
    "bidirectional": lambda bench: on_devices(bench, BIDIRECTIONAL),
    "events": lambda bench: on_devices(bench, EVENTS),
    "unreliable": lambda bench: on_devices(bench, UNRELIABLE),
    "xrc": lambda bench: on_devices(bench, XRC),
    "kinds": lambda bench: on_devices(bench, KINDS),
    "services_udp": lambda bench: on_devices(bench, services.ONE_HOST, ("lo",), "udp"),
    "services_local": lambda bench: on_devices(
        bench, [*services.ONE_HOST, *services.MULTICAST_IPV6], ("lo",), "local"
    ),
}
# Groups between two namespaces: GID family, interface MTU, rows, whether both hosts share one run
# directory.
HOST_GROUPS = {
    "hosts_v4": ("v4", 1500, BETWEEN_HOSTS, False),
    "hosts_v6": ("v6", 1500, [r for r in BETWEEN_HOSTS if r[0] not in WITHOUT_GID], False),
    "hosts_link_local": (
        "link", 9000, [r for r in BETWEEN_HOSTS if r[0] not in WITHOUT_GID], False,
    ),
    "hosts_shared_dir": ("v4", 9000, BETWEEN_HOSTS[:3], True),
    "hosts_services": ("v4", 1500, services.BETWEEN_HOSTS, False),
}


def main():
    build, group = sys.argv[1], sys.argv[2]
    only = sys.argv[3] if len(sys.argv) > 3 else None
    with harness.Bench(build) as bench:
        if group not in HOST_GROUPS:
            return harness.run_table(GROUPS[group](bench), bench, only)
        family, mtu, rows, shared_dir = HOST_GROUPS[group]
        with netns.two_hosts() as hosts:
            hosts.set_mtu(mtu)
            return harness.run_table(
                between_hosts(bench, hosts, family, rows, shared_dir), bench, only
            )


if __name__ == "__main__":
    harness.end_with(main)
