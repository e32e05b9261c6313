# SPDX-License-Identifier: BSD-2-Clause
"""Two network namespaces joined by a veth pair, which programs see as two hosts.

Each namespace exists as long as its holder, a `cat` that reads a pipe from this process, so they
disappear however this process ends. Root creates the namespaces directly; other users create them
in a user namespace.
"""
import os
import subprocess

from harness import Failure, skip

HOLD = "echo ready; exec cat"
IFNAME = "veth0"
PLAN = {
    "v4": ("10.77.0.1/24", "10.77.0.2/24"),
    "v6": ("fd77::1/64", "fd77::2/64"),
    "link": ("fe80::77:1/64", "fe80::77:2/64"),
}


class Unavailable(Exception):
    """Namespaces cannot be created here; the text is the reason."""


class Holder:
    def __init__(self, argv):
        self.popen = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )
        if self.popen.stdout.readline() != "ready\n":
            self.popen.stdin.close()
            raise Unavailable(self.popen.stderr.read().strip() or "unshare failed")

    def close(self):
        self.popen.stdin.close()
        self.popen.wait()
        self.popen.stdout.close()
        self.popen.stderr.close()


class Namespaces:
    """Namespaces that end with the block, the newest first."""

    def __init__(self):
        self.holders = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        while self.holders:
            self.holders.pop().close()


class TwoHosts(Namespaces):
    """The hosts are 0 and 1; prefix(i) precedes a command that is to run on host i."""

    def __init__(self, addresses=("v4", "v6", "link")):
        super().__init__()
        self.as_root = os.geteuid() == 0
        self.addresses = addresses
        try:
            self.holders.append(
                Holder(["unshare", "-n" if self.as_root else "-Urn", "sh", "-c", HOLD])
            )
            self.holders.append(Holder([*self.enter(0), "unshare", "-n", "sh", "-c", HOLD]))
            self._connect()
        except Unavailable:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise Unavailable(str(error)) from error

    def enter(self, host):
        users = [] if self.as_root else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", str(self.holders[host].popen.pid), *users, "-n", "--"]

    def prefix(self, host, user_prefix=()):
        return [*self.enter(host), *user_prefix]

    def netns(self, host):
        return f"/proc/{self.holders[host].popen.pid}/ns/net"

    def address(self, host, family="v4"):
        return PLAN[family][host].split("/")[0]

    def ip(self, host, *words):
        done = subprocess.run(
            [*self.enter(host), "ip", *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Unavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def _connect(self):
        self.ip(0, "link", "add", IFNAME, "type", "veth", "peer", "name", IFNAME, "netns",
                str(self.holders[1].popen.pid))
        for host in 0, 1:
            # No addresses that the kernel generates: they are unusable until duplicate address
            # detection ends.
            self.ip(host, "link", "set", IFNAME, "addrgenmode", "none")
            self.ip(host, "link", "set", "lo", "up")
            self.ip(host, "link", "set", IFNAME, "up")
            for family in self.addresses:
                nodad = [] if family == "v4" else ["nodad"]
                self.ip(host, "addr", "add", PLAN[family][host], "dev", IFNAME, *nodad)

    def set_mtu(self, mtu):
        for host in 0, 1:
            self.ip(host, "link", "set", IFNAME, "mtu", str(mtu))

    def check(self):
        """Checks that the two hosts reach each other, so that a later failure is the library's."""
        done = subprocess.run(
            [*self.enter(1), "ip", "-o", "route", "get", self.address(0)], capture_output=True,
            text=True, check=False,
        )
        if "v4" in self.addresses and done.returncode:
            raise Failure(f"no route between the namespaces: {done.stderr}")


def two_hosts(*args):
    """TwoHosts(); skips the test where namespaces cannot be created."""
    try:
        return TwoHosts(*args)
    except Unavailable as reason:
        skip(f"network namespaces cannot be created here: {reason}")



ROUTER = 2
TO = ("to0", "to1")     # the router's interfaces


class RoutedHosts(TwoHosts):
    """The same without link-local addresses, and with a router between the hosts, number 2."""

    def address(self, host, family="v4"):
        return {"v4": f"10.77.{host}.1", "v6": f"fd77:0:0:{host}::1"}[family]

    def network_address(self, host, family):
        return self.address(host, family) + {"v4": "/24", "v6": "/64"}[family]

    def set_route(self, host, family):
        self.ip(host, "-4" if family == "v4" else "-6", "route", "replace", "default", "via",
                {"v4": f"10.77.{host}.254", "v6": f"fd77:0:0:{host}::fe"}[family])

    def run(self, host, *argv):
        done = subprocess.run(
            [*self.enter(host), *argv], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Unavailable(f"{' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def _connect(self):
        self.holders.append(Holder([*self.enter(0), "unshare", "-n", "sh", "-c", HOLD]))
        for host in 0, 1:
            self.ip(host, "link", "add", IFNAME, "type", "veth", "peer", "name", TO[host], "netns",
                    str(self.holders[ROUTER].popen.pid))
            for where, name in (host, IFNAME), (ROUTER, TO[host]):
                self.ip(where, "link", "set", name, "addrgenmode", "none")
                self.ip(where, "link", "set", name, "up")
            self.ip(host, "link", "set", "lo", "up")
            self.ip(ROUTER, "addr", "add", f"10.77.{host}.254/24", "dev", TO[host])
            # A router sends neighbour solicitations from a link-local address.
            for address in f"fd77:0:0:{host}::fe/64", "fe80::fe/64":
                self.ip(ROUTER, "addr", "add", address, "dev", TO[host], "nodad")
            for family in "v4", "v6":
                nodad = [] if family == "v4" else ["nodad"]
                self.ip(
                    host, "addr", "add", self.network_address(host, family), "dev", IFNAME, *nodad
                )
                self.set_route(host, family)
        self.run(
            ROUTER,
            "sh",
            "-c",
            "echo 1 > /proc/sys/net/ipv4/ip_forward; "
            "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
        )

    def set_mtu(self, mtu):
        for host in 0, 1:
            self.ip(host, "link", "set", IFNAME, "mtu", str(mtu))
            self.ip(ROUTER, "link", "set", TO[host], "mtu", str(mtu))
