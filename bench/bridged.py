# SPDX-License-Identifier: BSD-2-Clause
"""Many hosts for bench/fan: network namespaces on one bridge, which is in a namespace of its own.

As in netns.py, each lives as long as its holder.
"""
import subprocess

from netns import HOLD, Holder, Namespaces, Unavailable

IFNAME = "veth0"
MTU = 9000


class BridgedHosts(Namespaces):
    """Number 0 to n - 1; needs root."""

    def __init__(self, n):
        super().__init__()
        try:
            self.hub = self._hold()
            self._ip(self.hub, "link add name bridge0 type bridge", "link set bridge0 up")
            self.hosts = [self._host(i) for i in range(n)]
        except (Unavailable, OSError) as problem:
            self.close()
            raise Unavailable(str(problem)) from problem

    def paths(self):
        return [f"/proc/{host.popen.pid}/ns/net" for host in self.hosts]

    def _hold(self):
        self.holders.append(Holder(["unshare", "-n", "sh", "-c", HOLD]))
        return self.holders[-1]

    @staticmethod
    def _ip(holder, *lines):
        done = subprocess.run(
            ["nsenter", "-t", str(holder.popen.pid), "-n", "--", "ip", "-batch", "-"],
            input="\n".join(lines) + "\n", capture_output=True, text=True, check=False,
        )
        if done.returncode:
            raise Unavailable(done.stderr.strip())

    def _host(self, i):
        host = self._hold()
        port = f"p{i}"
        self._ip(
            self.hub,
            f"link add {port} mtu {MTU} type veth peer name {IFNAME} netns {host.popen.pid}",
            f"link set {port} addrgenmode none", f"link set {port} master bridge0 up",
        )
        self._ip(
            host, f"link set {IFNAME} mtu {MTU} addrgenmode none", "link set lo up",
            f"link set {IFNAME} up", f"addr add 10.78.{i // 250}.{i % 250 + 1}/16 dev {IFNAME}",
        )
        return host
