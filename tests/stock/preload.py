#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Socket programs of the distribution over librspreload.so, which replaces TCP by rsockets in both
the server and the client.

    preload.py BUILD_DIR one_host|hosts_v4|hosts_v6 [PART_OF_A_NAME]

A listening rsocket is not visible from outside. So a client that fails is started again as long as
its server runs, until a deadline. A server that listens on TCP has failed.
"""
import os
import shutil
import sys
import time

import harness
import netns
from harness import Failure

FILE = "file.txt"
LINES = 60000
RETRY_S = 60 * harness.SLOWER

# A server that closes by syscall(SYS_close).
NODE = """'const data = require("fs").readFileSync("{d}/file.txt");
require("http").createServer((_, answer) => answer.end(data)).listen({p}, "{s}")'"""

# Name, server, client, a text that the client's output must contain, and one for the server's
# (None: it does not end by itself). {s}: the server's address; {u}: the same in a URL; {p}: a port;
# {d}: a folder with FILE in it.
ROWS = [
    (
        "rstream -T s", "rstream -T s -b {s} -p {p} -S 4096 -C 20 -I 1",
        "rstream -T s -s {s} -p {p} -S 4096 -C 20 -I 1", "Gb/sec", "Gb/sec",
    ),
    ("nc", "nc -l {s} {p}", "sh -c 'cat {d}/" + FILE + " | nc -N {s} {p}'", "", f"\n{LINES}\n"),
    ("iperf3", "iperf3 -s -1 -B {s} -p {p}", "iperf3 -c {s} -p {p} -n 20M", "receiver", "receiver"),
    (
        "iperf3 -R -P 3", "iperf3 -s -1 -B {s} -p {p}", "iperf3 -c {s} -p {p} -n 6M -R -P 3",
        "receiver", "sender",
    ),
    (
        "curl", "python3 -m http.server {p} --bind {s} --directory {d}",
        "curl -sS -m 30 http://{u}:{p}/" + FILE, f"\n{LINES}\n", None,
    ),
    (
        "redis-benchmark",
        "redis-server --port {p} --bind {s} --appendonly no --protected-mode no --dir {d}",
        "redis-benchmark -h {s} -p {p} -n 2000 -c 10 -q -t set,get",
        "GET:",
        None,
    ),
    (
        "redis-benchmark -P 16",
        "redis-server --port {p} --bind {s} --appendonly no --protected-mode no --dir {d}",
        "redis-benchmark -h {s} -p {p} -n 5000 -c 4 -P 16 -d 2000 -q -t set,get",
        "GET:",
        None,
    ),
    (
        "memcslap", "memcached -l {s} -p {p} -U 0 -t 2",
        "memcslap --servers={u}:{p} --concurrency=4 --execute-number=200 --test=get", "Time total",
        None,
    ),
    # Exits without close().
    (
        "socat", "socat -u OPEN:{d}/" + FILE + " TCP-LISTEN:{p},bind={s}",
        "socat -u TCP:{s}:{p} -", f"\n{LINES}\n", "",
    ),
    *(
        ("Node.js, " + client.split()[0], "node -e " + NODE, client, text, None)
        for client, text in (
            ("curl -sS -m 30 http://{u}:{p}/", f"\n{LINES}\n"),
            ("ab -n 200 -c 4 http://{u}:{p}/", "Failed requests:        0"),
        )
    ),
    (
        "sockperf --tcp", "sockperf sr --tcp -i {s} -p {p}", "sockperf pp --tcp -i {s} -p {p} -t 1",
        "avg-latency", None,
    ),
    *(
        (
            f"netperf -t {kind}", "netserver -D -f -L {s} -p {p}",
            f"netperf -H {{s}} -p {{p}} -t {kind} -l 1", "per sec" if "RR" in kind else "bits/sec",
            None,
        )
        for kind in ("TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_CRR", "UDP_RR")
    ),
    (
        "sockperf", "sockperf sr -i {s} -p {p}", "sockperf pp -i {s} -p {p} -t 1", "avg-latency",
        None,
    ),
]
# With RDMAV_FORK_SAFE=1 streams begin as TCP, so that a server can fork for each.
CLIENTS = 8
CURLS = "sh -c 'for i in $(seq {clients}); do curl -sS -m 60 http://{u}:{p}/" + FILE + \
    " > {d}/got.$i & done; wait; cat {d}/got.*'"
FORK_SAFE = [
    (
        "fork safe: rstream -T s",
        "rstream -T s -b {s} -p {p} -S 4096 -C 20 -I 1",
        "rstream -T s -s {s} -p {p} -S 4096 -C 20 -I 1",
        "Gb/sec",
        "Gb/sec",
    ),
    (
        "fork safe: rstream -T s -T f",
        "rstream -T s -T f -b {s} -p {p} -S 4096 -C 20 -I 1",
        "rstream -T s -s {s} -p {p} -S 4096 -C 20 -I 1",
        "Gb/sec",
        "Gb/sec",
    ),
    (
        "fork safe: server that forks",
        "python3 -u {forking} {s} {p} {d}",
        CURLS,
        f"\n{LINES}\n",
        None,
    ),
]
# Servers without Verbena, on another host: its RoCE port is closed, or {r}, which answers nothing.
HTTP_SERVER = "python3 -m http.server {p} --bind {s} --directory {d}"
SILENT = "'import socket, time; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); " \
    "s.bind((\"::\", {r})); print(\"bound\", flush=True); time.sleep(1000)'"
CURL = "curl -sS -m 30 http://{u}:{p}/" + FILE
BY_TCP = [
    ("curl to a host without RDMA", HTTP_SERVER, CURL, None),
    ("curl to a host whose firewall drops RoCE", HTTP_SERVER, CURL, "python3 -c " + SILENT),
]
ONLY_IPV4 = ("sockperf", "sockperf --tcp", "socat", "memcslap")


def split(line):
    """Splits a command line into words; it may end with one quoted word."""
    head, _, rest = line.partition("'")
    return head.split() + ([rest.rstrip("'")] if rest else [])


def run_client(bench, server, argv, env, prefix, wanted):
    deadline = time.monotonic() + RETRY_S
    while True:
        client = bench.start(argv, env, prefix)
        client.wait(deadline)
        if client.status == 0 and wanted in client.output():
            return client
        if server.popen.poll() is not None or time.monotonic() > deadline:
            client.kill()
            return client
        time.sleep(0.05)


def run_row(bench, row, names, prefixes, library):
    _, server_line, client_line, client_text, server_text = row
    port = bench.ports.take()
    names = {**names, "p": port}
    env = {"LD_PRELOAD": library}
    server = bench.start(split(server_line.format(**names)), env, prefixes[0])
    client = run_client(
        bench, server, split(client_line.format(**names)), env, prefixes[1], client_text
    )
    by_tcp = server.popen.poll() is None and server.listens_on(port)
    if server_text is not None:
        server.wait(time.monotonic() + RETRY_S)
    good = client.status == 0 and client_text in client.output() and not by_tcp
    if server_text is not None:
        good = good and server.status == 0 and server_text in server.output()
    server.kill()
    if not good:
        raise Failure(
            f"server{' on TCP' if by_tcp else ''}:\n{server.describe()}\n"
            f"client:\n{client.describe()}"
        )


def brief(process):
    """Without the lines of FILE."""
    return "\n".join(line for line in process.describe().splitlines() if not line.isdigit())


def run_fork_safe(bench, row, names, prefixes, library):
    """The server listens on TCP; each of its children, or the only process, must get an rsocket."""
    _, server_line, client_line, client_text, server_text = row
    names = {**names, "p": bench.ports.take(), "clients": CLIENTS}
    env = {"LD_PRELOAD": library, "RDMAV_FORK_SAFE": "1"}
    server = bench.start(split(server_line.format(**names)), env, prefixes[0])
    deadline = time.monotonic() + RETRY_S
    await_that(lambda: server.listens_on(names["p"]))
    client = bench.start(split(client_line.format(**names)), env, prefixes[1])
    client.wait(deadline)
    if server_text is not None:
        server.wait(deadline)
    server.kill()
    client.kill()
    good = client.status == 0 and client_text in client.output()
    if server_text is None:
        rows = [row.split() for row in server.output().splitlines() if " has a" in row]
        children = {row[0] for row in rows if row[-1] == "rsocket"}
        good = good and len(children) == len(rows) == client.output().count(client_text) == CLIENTS
    else:
        good = good and server.status == 0 and server_text in server.output()
    if not good:
        raise Failure(f"server:\n{server.describe()}\nclient:\n{brief(client)}")


def await_that(is_so):
    deadline = time.monotonic() + RETRY_S
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)


def run_by_tcp(bench, row, names, prefixes, library):
    """The client, alone in its run directory, must find out by itself and be in time."""
    _, server_line, client_line, silent_line = row
    names = {**names, "p": bench.ports.take(), "r": bench.ports.take()}
    env = {
        "LD_PRELOAD": library,
        "VERBENA_DIR": bench.make_dir(f"run-{names['p']}"),
        "VERBENA_UDP_PORT": str(names["r"]),
    }
    server = bench.start(split(server_line.format(**names)), {}, prefixes[0])
    silent = silent_line and bench.start(split(silent_line.format(**names)), {}, prefixes[0])
    await_that(lambda: server.listens_on(names["p"]))
    await_that(lambda: not silent or "bound" in silent.output())
    client = bench.start(split(client_line.format(**names)), env, prefixes[1])
    client.wait(time.monotonic() + RETRY_S)
    for process in (server, client, *([silent] if silent else [])):
        process.kill()
    if client.status or f"\n{LINES}\n" not in client.output():
        raise Failure(f"server:\n{server.describe()}\nclient:\n{brief(client)}")


def make_file(bench):
    folder = bench.make_dir("files")
    os.chmod(folder, 0o777)
    with open(os.path.join(folder, FILE), "w", encoding="ascii") as f:
        f.writelines(f"{i}\n" for i in range(LINES + 1))
    return folder


def table(bench, names, prefixes, family, part):
    library = os.path.join(bench.lib, "librspreload.so")
    shutil.copyfile(os.path.join(bench.build, "lib", "rsocket", "librspreload.so"), library)
    rows = [
        row
        for row in [*ROWS, *FORK_SAFE, *(BY_TCP if names["s"] != "127.0.0.1" else [])]
        if part in row[0] and (family == "v4" or row[0] not in ONLY_IPV4)
    ]
    kept = [
        row for row in rows if shutil.which(row[1].split()[0]) and shutil.which(split(row[2])[0])
    ]
    if len(kept) < len(rows):
        harness.left_out(
            len(rows) - len(kept),
            "the program is not installed (scripts/setup installs all but netperf, which is "
            "non-free, and Node.js)"
        )
    forking = bench.stage(os.path.join(os.path.dirname(os.path.abspath(__file__)), "forking.py"))
    names = {**names, "d": make_file(bench), "forking": forking}

    def case(row):
        run = run_fork_safe if row in FORK_SAFE else run_by_tcp if row in BY_TCP else run_row
        return lambda _: run(bench, row, names, prefixes, library)
    return harness.run_table([(row[0], case(row)) for row in kept], bench)


def main():
    build, group = sys.argv[1:3]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    with harness.Bench(build) as bench:
        if group == "one_host":
            return table(
                bench, {"s": "127.0.0.1", "u": "127.0.0.1"}, [bench.user_prefix()] * 2, "v4", part
            )
        family = group.removeprefix("hosts_")
        with netns.two_hosts() as hosts:
            hosts.check()
            address = hosts.address(0, family)
            names = {"s": address, "u": f"[{address}]" if family == "v6" else address}
            return table(
                bench, names, [hosts.prefix(host, bench.user_prefix()) for host in (0, 1)], family,
                part,
            )


if __name__ == "__main__":
    harness.end_with(main)
