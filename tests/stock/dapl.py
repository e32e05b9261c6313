#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's DAPL programs over the libraries under test.

    dapl.py BUILD_DIR one_host|hosts_v4 [PART_OF_A_NAME]

DAPL's provider `cma` connects through rdma_cm, `scm` through TCP, `ucm` through UD messages of its
own.

dtestx runs over cma only, because its client may connect before its server listens.  scm then sends
the request again, two bytes too long for its own server, which takes them for the next message; ucm
gives up, and its thread may crash while the device is closed.  After dtestcm over scm an event of
disconnection may come twice, so only the connections count.  None of that reaches a verb.
"""
import os
import shutil
import subprocess
import sys
import time

import harness
import netns
from harness import Failure
from rdmacm import run_client

# dat.conf: the name, the library, the device and the port.
PROVIDERS = (
    f'cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{netns.IFNAME} 0" ""\n'
    'scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "vrb_dapl 1" ""\n'
    'ucm u2.0 nonthreadsafe default libdaploucm.so.2 dapl.2.0 "vrb_dapl 1" ""\n'
)

ALL = "cma", "scm", "ucm"

# Where servers listen on TCP: dtest, dtestx and dtestcm to say which port is DAPL's; scm for
# connections.
HELLO, SRQ_SCM, DAPLTEST_SCM = 15828, 46248, 63000

# Name, providers, options of the server and the client, options of one of them, a text of both.
ROWS = [
    *(
        (f"dtest {options}", ALL, f"dtest {options}", "", "-h {s}", "Complete. PASSED")
        for options in ("-b 100000 -B 20", "-b 4000 -B 20 -c", "-b 4000 -B 20 -p",
                        "-b 4000 -B 20 -w")
    ),
    ("dtestx", ("cma",), "dtestx", "-s", "-c -h {s}", "immed/atomic test PASSED"),
    ("dtestcm", ALL, "dtestcm -c 30", "-s", "-h {s}", "ALL 30 CONNECTED"),
    ("dtestcm -w", ALL, "dtestcm -w -c 30", "-s", "-h {s}", "ALL 30 CONNECTED"),
    *(
        (f"dtestsrq {options}", providers, f"dtestsrq {options}", "-s", "-h {s}", "Complete.")
        for options, providers in (
            ("-c 5 -B 10", ("cma", "scm")), ("-c 5 -B 10 -S 0", ("cma", "scm")),
            ("-u -c 2 -B 10 -b 1000", ("scm",)),
        )
    ),
]

# Clients of one dapltest server, the last of which ends it.  -V: the data is checked.
DAPLTEST = [
    ("-T T -i 50 client SR 4096 2 server SR 4096 2", "Total Send"),
    (
        "-T T -V -t 2 -w 4 -i 30 client RW 4096 1 server RW 2048 4 client SR 1024 4 "
        "server SR 4096 2 client SR 1024 3 -f server SR 2048 1 -f", "Total RDMA Write",
    ),
    ("-T T -V -P -w 8 -i 30 client SR 256 server RW 4096 server SR 256 client RR 4096",
     "Total RDMA Read"),
    ("-T P -i 200 RW 4096 2", "raw: RW"),
    ("-T P -m p -i 200 -p 16 RR 8192 1", "raw: RR"),
    ("-T Q", "Quit_Cmd"),
]


def wait_for(server, port, deadline):
    while not server.listens_on(port) and server.popen.poll() is None:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)


def run_pair(bench, row, provider, address, env, prefixes):
    name, _, words, server_words, client_words, text = row
    lines = [f"{words} -P {provider} {own}".format(s=address).split()
             for own in (server_words, client_words)]
    deadline = time.monotonic() + harness.LIMIT_S
    server = bench.start(lines[0], env, prefixes[0])
    if not name.startswith("dtestsrq"):
        wait_for(server, HELLO, deadline)
    elif provider == "scm":
        wait_for(server, SRQ_SCM, deadline)
    client = run_client(bench, server, lines[1], prefixes[1], deadline, env)
    server.wait(deadline if client.status == 0 else time.monotonic() + 2)
    if any(end.status != 0 or text not in end.output() for end in (server, client)):
        server.kill()
        client.kill()
        raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")


def run_dapltest(bench, provider, address, env, prefixes):
    deadline = time.monotonic() + harness.LIMIT_S
    server = bench.start(["dapltest", "-T", "S", "-D", provider], env, prefixes[0])
    if provider == "scm":
        wait_for(server, DAPLTEST_SCM, deadline)
    for line, text in DAPLTEST:
        test, *options = line.removeprefix("-T ").split()
        words = ["dapltest", "-T", test, "-s", address, "-D", provider, *options]
        client = run_client(bench, server, words, prefixes[1], deadline, env)
        if client.status != 0 or text not in client.output():
            server.kill()
            client.kill()
            raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")
    if server.wait(deadline) != 0:
        server.kill()
        raise Failure(server.describe())


def environment(bench):
    path = os.path.join(bench.dir, "dat.conf")
    with open(path, "w", encoding="ascii") as f:
        f.write(PROVIDERS)
    os.chmod(path, 0o644)
    return {"DAT_OVERRIDE": path, "DAPL_SCM_NETDEV": netns.IFNAME,
            "VERBENA_DEVICES": f"vrb_dapl={netns.IFNAME}"}


def keep_ports_free(hosts):
    """DAPL's own ids take any free port, but dtestcm wants 45248 to 45277."""
    for host in 0, 1:
        subprocess.run([*hosts.enter(host), "sh", "-c",
                        "echo 50000 60999 > /proc/sys/net/ipv4/ip_local_port_range"], check=False)


def cases(bench, address, prefixes):
    env = environment(bench)
    listed = [
        (f"{row[0]}, {provider}",
         lambda _, row=row, provider=provider:
         run_pair(bench, row, provider, address, env, prefixes))
        for row in ROWS for provider in row[1]
    ]
    return listed + [
        (f"dapltest, {provider}",
         lambda _, provider=provider: run_dapltest(bench, provider, address, env, prefixes))
        for provider in ("cma", "scm")
    ]


def main():
    build, where = sys.argv[1:3]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    if not shutil.which("dtest"):
        harness.skip("dtest is not installed (scripts/setup installs it)")
    with harness.Bench(build) as bench:
        with netns.two_hosts() as hosts:
            hosts.check()
            keep_ports_free(hosts)
            prefixes = [
                hosts.prefix(host, bench.user_prefix())
                for host in (0, 0 if where == "one_host" else 1)
            ]
            listed = cases(bench, hosts.address(0), prefixes)
            return harness.run_table([c for c in listed if part in c[0]], bench)


if __name__ == "__main__":
    harness.end_with(main)
