# SPDX-License-Identifier: BSD-2-Clause
"""Changing interfaces in a network namespace: asynchronous events, VLAN interfaces."""
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stock"))
import harness  # noqa: E402
import netns  # noqa: E402
from tools import Failure, LeftOut, ToolBench, run_table, want, want_equal  # noqa: E402

LINK = netns.IFNAME


class Watcher:
    """A program that prints events until it is ended."""

    def __init__(self, bench, hosts, argv):
        self.popen = subprocess.Popen(
            ["stdbuf", "-oL", *argv], env=bench.env(), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd="/",
        )
        self.argv = argv

    def line(self):
        text = self.popen.stdout.readline()
        if not text:
            raise Failure(f"{' '.join(self.argv)} ended with {self.popen.wait()}")
        return text.rstrip("\n")

    def end(self):
        self.popen.terminate()
        self.popen.wait()
        self.popen.stdout.close()


def changes(hosts):
    """Adds and removes an address, then takes the link down and up."""
    hosts.ip(0, "addr", "add", "10.79.0.1/24", "dev", LINK)
    yield "IBV_EVENT_GID_CHANGE (18)"
    hosts.ip(0, "addr", "del", "10.79.0.1/24", "dev", LINK)
    yield "IBV_EVENT_GID_CHANGE (18)"
    hosts.ip(1, "link", "set", LINK, "down")
    yield "IBV_EVENT_PORT_ERR (10)"
    hosts.ip(1, "link", "set", LINK, "up")
    yield "IBV_EVENT_PORT_ACTIVE (9)"


def case_asyncwatch(bench, hosts):
    """The distribution's program and ours print the same lines."""
    stock = shutil.which("ibv_asyncwatch")
    if not stock:
        raise LeftOut("ibv_asyncwatch is not installed (scripts/setup installs it)")
    prefix = hosts.prefix(0, bench.user_prefix())
    watchers = [
        Watcher(bench, hosts, [*prefix, program, "-d", "vrb0"])
        for program in (stock, bench.tool("ibv_asyncwatch"))
    ]
    try:
        for watcher in watchers:
            want(re.fullmatch(r"vrb0: async event FD \d+", watcher.line()), "first line")
        for event in changes(hosts):
            want_equal([w.line() for w in watchers], [f"  event_type {event}, port 1"] * 2, event)
    finally:
        for watcher in watchers:
            watcher.end()


def case_watch(bench, hosts):
    watcher = Watcher(
        bench, hosts, [*hosts.prefix(0, bench.user_prefix()), bench.tool(), "watch", "vrb0"]
    )
    try:
        deadline = time.monotonic() + harness.LIMIT_S
        first = watcher.line()
        want("vrb0" in first, first)
        for event in changes(hosts):
            name = event.split()[0]
            while True:
                line = watcher.line()
                if name in line and "vrb0" in line:
                    break
                want(time.monotonic() < deadline, line)
    finally:
        watcher.end()


def case_vlan(bench, hosts):
    """A VLAN interface is a device of its own, and get-rdma-device-info finds it."""
    try:
        hosts.ip(0, "link", "add", "link", LINK, "name", "vlan5", "type", "vlan", "id", "5")
    except netns.Unavailable as reason:
        print(f"       (a second veth instead: {reason})")
        hosts.ip(0, "link", "add", "vlan5", "type", "veth", "peer", "name", "peer5")
        hosts.ip(0, "link", "set", "peer5", "up")
    hosts.ip(0, "link", "set", "vlan5", "addrgenmode", "none")
    hosts.ip(0, "link", "set", "vlan5", "up")
    hosts.ip(0, "addr", "add", "10.80.0.1/24", "dev", "vlan5")
    prefix = hosts.prefix(0, bench.user_prefix())
    out = bench.call([bench.tool("get-rdma-device-info"), "vlan5"], prefix=prefix, expect=0).out
    values = dict(line.split("=") for line in out.splitlines())
    want_equal(list(values), ["device_name", "gid_index", "ib_port", "mtu_index"], "names")
    want_equal((values["ib_port"], values["mtu_index"]), ("1", "3"), "port, and 1024 of 1500 bytes")
    gids = bench.call([bench.tool("show_gids"), values["device_name"]], prefix=prefix, expect=0).out
    row = next(r for r in gids.splitlines() if r.split("\t")[2] == values["gid_index"])
    want("\t10.80.0.1" in row and row.endswith("\tvlan5"), gids)
    other = bench.call([bench.tool("get-rdma-device-info"), LINK], prefix=prefix, expect=0).out
    want(f"device_name={values['device_name']}\n" not in other, other)
    hosts.ip(0, "link", "del", "vlan5")
    done = bench.call([bench.tool("get-rdma-device-info"), "vlan5"], prefix=prefix, expect=1)
    want(len(done.err.splitlines()) == 1, done.describe())


def main():
    with ToolBench(sys.argv[1]) as bench:
        def on_hosts(case):
            def run(_):
                try:
                    hosts = netns.TwoHosts()
                except netns.Unavailable as reason:
                    raise LeftOut(f"network namespaces cannot be made here: {reason}") from None
                with hosts:
                    case(bench, hosts)
            return run
        cases = [(c.__name__[5:], on_hosts(c)) for c in (case_asyncwatch, case_watch, case_vlan)]
        return run_table(cases, bench, sys.argv[2] if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    sys.exit(main())
