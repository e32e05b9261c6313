#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A Ceph cluster of one monitor and two OSDs over its RDMA messenger, on one host; its client runs
there, or on another host.

    ceph.py BUILD_DIR one_host|hosts [PART_OF_A_NAME]

The messenger exchanges addresses by TCP, or uses rdma_cm. It has one SRQ per process, or a receive
queue per connection, and connects, sends until its peer is told, and destroys at random times.
Objects live in the OSDs' memory.
"""
import os
import sys
import time
import uuid

import harness
import netns
from harness import Failure

FSID = "3b0b9ff2-6d1c-4bd6-8f3b-6f0a5ac4b2d1"
OSDS = 2
OBJECT = 5_000_000
READY_S = 60 * harness.SLOWER

# A name, and what differs from the configuration below.
ROWS = [
    ("shared receive queue", {}),
    ("receive queues",
     {"ms_async_rdma_support_srq": "false", "ms_async_rdma_receive_queue_len": 256}),
    ("rdma_cm", {"ms_async_rdma_cm": "true", "ms_async_rdma_type": "iwarp"}),
]


def configuration(folder, address, ports, more):
    options = {
        "fsid": FSID,
        "mon_host": f"[v2:{address}:{ports[0]}/0,v1:{address}:{ports[1]}/0]",
        "mon_initial_members": "a",
        "public_addr": address,
        "cluster_addr": address,
        "ms_type": "async+rdma",
        "ms_async_rdma_device_name": "vrb0",
        "ms_async_rdma_buffer_size": 4096,
        "ms_async_rdma_receive_buffers": 65536,
        # By rdma_cm, Ceph asks for no retry when its SRQ is empty.
        "ms_async_rdma_receive_queue_len": 4096,
        "ms_async_rdma_send_buffers": 1024,
        "auth_cluster_required": "none",
        "auth_service_required": "none",
        "auth_client_required": "none",
        "run_dir": folder,
        "admin_socket": "",
        "pid_file": "",
        "keyring": f"{folder}/keyring",
        "mon_data": f"{folder}/mon",
        "mon_data_avail_crit": 1,
        "osd_data": f"{folder}/osd.$id",
        "osd_objectstore": "memstore",
        "memstore_device_bytes": 1 << 30,
        "osd_pool_default_size": OSDS,
        "osd_crush_chooseleaf_type": 0,
        "log_file": "",
        "log_to_stderr": "true",
        **more,
    }
    return "[global]\n" + "".join(f"{key} = {value}\n" for key, value in options.items())


class Cluster:
    def __init__(self, bench, address, prefixes, more):
        self.bench = bench
        self.prefixes = prefixes
        self.folder = bench.make_dir(f"ceph{bench.number()}")
        self.env = {"CEPH_CONF": f"{self.folder}/ceph.conf"}
        self.servers = []
        self.ports = bench.ports.take(), bench.ports.take()
        with open(self.env["CEPH_CONF"], "w", encoding="ascii") as f:
            f.write(configuration(self.folder, address, self.ports, more))
        self.address = address

    def run(self, *words, host=0):
        return self.bench.run(words, self.env, self.prefixes[host], limit=READY_S)

    def start(self, *words):
        self.servers.append(self.bench.start(words, self.env, self.prefixes[0]))

    def start_monitor(self):
        keyring, monmap = f"{self.folder}/keyring", f"{self.folder}/monmap"
        self.run("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.",
                 "--cap", "mon", "allow *")
        self.run("monmaptool", "--create", "--fsid", FSID, "--addv", "a",
                 f"[v2:{self.address}:{self.ports[0]},v1:{self.address}:{self.ports[1]}]", monmap)
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        self.start("ceph-mon", "-i", "a", "-f")

    def start_osd(self, number):
        name = str(uuid.uuid4())
        self.run("ceph", "osd", "new", name, str(number))
        self.run("mkdir", f"{self.folder}/osd.{number}")
        self.run("ceph-osd", "-i", str(number), "--mkfs", "--osd-uuid", name)
        self.start("ceph-osd", "-i", str(number), "-f")

    def wait_for_osds(self):
        deadline = time.monotonic() + READY_S
        while f"{OSDS} up" not in self.run("ceph", "osd", "stat"):
            if time.monotonic() > deadline:
                raise Failure("\n".join(p.describe() for p in self.servers))
            time.sleep(0.2)

    def stop(self):
        """The OSDs first: they notify the monitor."""
        for server in reversed(self.servers):
            server.popen.terminate()
            if server.wait(time.monotonic() + READY_S) is None or \
                    "Caught signal" in server.output():
                raise Failure(server.describe())


def use(cluster, folder):
    written, read = os.path.join(folder, "written"), os.path.join(folder, "read")
    data = os.urandom(OBJECT)
    with open(written, "wb") as f:
        f.write(data)
    cluster.run("ceph", "osd", "pool", "create", "p", "8", host=1)
    for _ in range(3):
        cluster.run("rados", "-p", "p", "put", "object", written, host=1)
        cluster.run("rados", "-p", "p", "get", "object", read, host=1)
        with open(read, "rb") as f:
            if f.read() != data:
                raise Failure("an object differs")
    for size in "500", "200000":
        out = cluster.run("rados", "-p", "p", "bench", "2", "write", "-b", size, "-t", "8", host=1)
        if "Average IOPS" not in out:
            raise Failure(out)


def run_row(bench, address, prefixes, more):
    cluster = Cluster(bench, address, prefixes, more)
    cluster.start_monitor()
    for number in range(OSDS):
        cluster.start_osd(number)
    cluster.wait_for_osds()
    use(cluster, cluster.folder)
    cluster.stop()


def main():
    build, where = sys.argv[1:3]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    harness.need_programs("ceph-mon", "ceph-osd", "ceph", "rados", "monmaptool")
    with harness.Bench(build) as bench, netns.two_hosts(("v4",)) as hosts:
        hosts.check()
        prefixes = [
            hosts.prefix(host, bench.user_prefix())
            for host in (0, 0 if where == "one_host" else 1)
        ]
        cases = [
            (f"Ceph, {name}",
             lambda _, more=more: run_row(bench, hosts.address(0), prefixes, more))
            for name, more in ROWS
        ]
        return harness.run_table([c for c in cases if part in c[0]], bench)


if __name__ == "__main__":
    harness.end_with(main)
