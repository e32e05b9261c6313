#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's mckey: several members of a multicast group send, receive, leave and rejoin.

    mckey.py BUILD_DIR one_host|hosts_v4|hosts_v6 [PART_OF_A_NAME]

A receiver exits when all its messages have arrived, so a missing message makes the test hang and
fail. Senders start when every receiver has printed that it joined (stdbuf makes its output
unbuffered); it posts its receives before that. mckey sends three seconds after it has joined, while
receivers spin, so cases run beside each other, in groups of their own.
"""
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import harness
import netns
from harness import Failure

TOGETHER = 4     # cases
JOINED = "mckey: joined dgid"
GOOD = "return status 0"


class Member:
    """A receiver; the constructor returns when it has joined."""

    def __init__(self, group, place, args):
        self.process = group.start(place, args)
        self.wanted = int(args.split("-c ")[1].split()[0]) if "-c " in args else 1
        while self.process.output().count(JOINED) < self.wanted:
            if self.process.popen.poll() is not None or time.monotonic() > group.deadline:
                self.process.wait(0)
                raise Failure(f"a receiver never joined:\n{self.process.describe()}")
            time.sleep(0.02)

    def is_running(self):
        return self.process.popen.poll() is None


class Group:
    """places: (bind address, prefix of commands) of each host."""

    def __init__(self, bench, address, places):
        self.bench = bench
        self.address = address
        self.places = places
        self.deadline = time.monotonic() + harness.LIMIT_S

    def start(self, place, args):
        own, prefix = self.places[place]
        gid = self.address if ":" in self.address else "::ffff:" + self.address
        args = args.format(own=own, group=self.address, gid=gid)
        return self.bench.start(["stdbuf", "-o0", "mckey", *args.split()], prefix=prefix)

    def receiver(self, place, args):
        return Member(self, place, "-m {group} -b {own} " + args)

    def send(self, place, args):
        self.end(self.start(place, "-s -m {group} -b {own} " + args))

    def end(self, process):
        if process.wait(self.deadline) != 0 or GOOD not in process.output():
            process.kill()
            raise Failure("\n".join(p.describe() for p in self.bench.processes))


def alternate(places, count):
    """The hosts of `count` members, in turn."""
    return [i % len(places) for i in range(count)]


def members(receivers, sender, count=3):
    """A case of `count` receivers and one sender, with these arguments."""
    def case(group):
        joined = [group.receiver(place, receivers) for place in alternate(group.places, count)]
        group.send(len(group.places) - 1, sender)
        for member in joined:
            group.end(member.process)
    return case


def leave_and_join(group):
    """One receiver stays; another leaves, then a third joins and gets no earlier message."""
    last = len(group.places) - 1
    stays, leaves = group.receiver(0, "-C 9"), group.receiver(last, "-C 3")
    group.send(last, "-C 3")
    group.end(leaves.process)
    group.send(0, "-C 3")
    joins = group.receiver(last, "-C 3")
    if not stays.is_running() or not joins.is_running():
        raise Failure(f"ended too early:\n{stays.process.describe()}\n{joins.process.describe()}")
    group.send(0, "-C 3")
    group.end(joins.process)
    group.end(stays.process)


def refused(group):
    """IPoIB groups are refused, as by Linux: Ethernet has none."""
    process = group.start(0, "-m {group} -b {own} -p 0x2")
    if process.wait(group.deadline) == 0 or "Invalid argument" not in process.output():
        raise Failure(process.describe())


def other_group(group):
    """A member of another group gets no message of this one."""
    here = group.receiver(0, "-C 3")
    address, group.address = group.address, group.address[:-1] + "9"
    there = group.receiver(0, "-C 3")
    group.address = address
    group.send(len(group.places) - 1, "-C 3")
    group.end(here.process)
    if not there.is_running():
        raise Failure(f"messages of another group:\n{there.process.describe()}")
    there.process.kill()


def by_gid(group):
    """-M: each names the group by its GID."""
    joined = [
        Member(group, place, "-M {gid} -b {own} -C 3") for place in alternate(group.places, 2)
    ]
    group.end(group.start(len(group.places) - 1, "-s -M {gid} -b {own} -C 3"))
    for member in joined:
        group.end(member.process)


CASES = [
    ("three receivers", members("-C 3", "-C 3")),
    ("four members of one process", members("-c 4 -C 5", "-C 5", 1)),
    ("-S 1000", members("-C 10 -S 1000", "-C 10 -S 1000", 2)),
    ("-o: send-only", members("-C 3", "-C 3 -o", 2)),
    ("-l: no loopback", members("-C 3 -l", "-C 3 -l", 2)),
    ("-M: by GID", by_gid),
    ("-p 0x2: IPOIB", refused),
    ("leave and join again", leave_and_join),
    ("other group", other_group),
]
GROUPS = {"v4": "239.77.3.{}1", "v6": "ff15::77:3{}1"}


def table(bench, family, places, part):
    def case(number, run):
        def begin():
            return pool.submit(lambda: run(Group(bench, GROUPS[family].format(number), places)))
        runs = [begin()]
        return lambda _: (runs.pop() if runs else begin()).result()
    with ThreadPoolExecutor(TOGETHER) as pool:
        cases = [
            (f"{name}, {family}", case(number, run))
            for number, (name, run) in enumerate(CASES, 1) if part in name
        ]
        return harness.run_table(cases, bench)


def main():
    build, where = sys.argv[1:3]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    harness.need_programs("mckey", "stdbuf")
    with harness.Bench(build) as bench:
        with netns.two_hosts() as hosts:
            hosts.check()
            prefixes = [hosts.prefix(host, bench.user_prefix()) for host in (0, 1)]

            def run(family, used):
                places = [(hosts.address(host, family), prefixes[host]) for host in used]
                return table(bench, family, places, part)

            if where == "one_host":
                return max(run(family, (0,)) for family in GROUPS)
            return run(where.removeprefix("hosts_"), (0, 1))


if __name__ == "__main__":
    harness.end_with(main)
