#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The distribution's programs that connect through rdma_cm, over the libraries under test.

    rdmacm.py BUILD_DIR GROUP [PART_OF_A_NAME]

A listening rdma_cm server has no socket whose state the test could read. So a client that reports a
missing listener is started again as long as its server runs; any other failure counts.
"""
import functools
import os
import shutil
import subprocess
import sys
import time

import harness
import netns
from harness import Failure, LeftOut

NO_LISTENER = (
    "RDMA_CM_EVENT_REJECTED, error 8",
    "RDMA_CM_EVENT_REJECTED, error: 8",
    "Unexpected CM event bl blka 8",
    "event is RDMA_CM_EVENT_REJECTED instead of RDMA_CM_EVENT_ESTABLISHED",
    "RDMA_CM_EVENT_UNREACHABLE, error: 1",
    "rdma_connect: Connection refused",
    "rconnect: Connection refused",
    "rpoll: Resource temporarily unavailable",
    "connect: no listener at ",     # printed by our library
    "non-consumer REJ, reason=8",
)

# Name, server, client, and the texts that the outputs of both must contain. {s}, {c}: addresses of
# the server and of the client.
RPING = [
    (
        "rping",
        "rping -s -a {s} -v -C 5 -S 64",
        "rping -c -a {s} -v -C 5 -S 64",
        "server ping data: rdma-ping-4",
        "ping data: rdma-ping-4",
    ),
    ("rping, wildcard", "rping -s -a {any} -C 3", "rping -c -a {s} -C 3", "", ""),
    ("rping -q: own QPs", "rping -s -a {s} -q -C 5", "rping -c -a {s} -q -C 5", "", ""),
    (
        "rping -V -S 65535", "rping -s -a {s} -V -S 65535 -C 20",
        "rping -c -a {s} -V -S 65535 -C 20", "", "",
    ),
    ("rping -I: source given", "rping -s -a {s} -C 3", "rping -c -a {s} -I {c} -C 3", "", ""),
    (
        "rping -p -d: port, debug output", "rping -s -a {s} -p 7175 -d -C 3",
        "rping -c -a {s} -p 7175 -d -C 3", "RDMA_CM_EVENT_CONNECT_REQUEST",
        "RDMA_CM_EVENT_ESTABLISHED",
    ),
]

UTILITIES = [
    (
        "ucmatose", "ucmatose -b {s} -c 3 -C 2 -S 100", "ucmatose -s {s} -c 3 -C 2 -S 100",
        "return status 0", "return status 0",
    ),
    (
        "ucmatose -c 40", "ucmatose -b {s} -c 40 -C 3 -S 1000",
        "ucmatose -s {s} -c 40 -C 3 -S 1000", "return status 0", "return status 0",
    ),
    (
        "ucmatose -m: other channel",
        "ucmatose -b {s} -m -c 3 -C 2 -S 100",
        "ucmatose -s {s} -m -c 3 -C 2 -S 100",
        "migrating to new event channel",
        "migrating to new event channel",
    ),
    (
        "ucmatose -t -a", "ucmatose -b {s} -t 8 -c 2 -C 2", "ucmatose -s {s} -t 8 -a 14 -c 2 -C 2",
        "return status 0", "return status 0",
    ),
    (
        "ucmatose -C 0", "ucmatose -b {s} -c 2 -C 0", "ucmatose -s {s} -c 2 -C 0",
        "return status 0", "return status 0",
    ),
    (
        "ucmatose -p: port", "ucmatose -b {s} -p 7472 -c 2 -C 2",
        "ucmatose -s {s} -p 7472 -c 2 -C 2",
        "return status 0", "return status 0",
    ),
    (
        "udaddy -t: type of service",
        "udaddy -b {s} -t 8 -c 2 -C 2", "udaddy -s {s} -t 8 -c 2 -C 2",
        "return status 0", "return status 0",
    ),
    (
        "udaddy", "udaddy -b {s} -c 1 -C 2 -S 64", "udaddy -s {s} -c 1 -C 2 -S 64",
        "return status 0", "return status 0",
    ),
    (
        "udaddy -c 10", "udaddy -b {s} -c 10 -C 3 -S 500", "udaddy -s {s} -c 10 -C 3 -S 500",
        "return status 0", "return status 0",
    ),
    (
        "ucmatose -f gid: AF_IB",
        "ucmatose -f gid -P ib -b {s_gid} -c 2 -C 2",
        "ucmatose -f gid -P ib -s {s_gid} -c 2 -C 2",
        "return status 0",
        "return status 0",
    ),
    (
        "ucmatose -f, -P tcp", "ucmatose -f {ip} -P tcp -b {s} -c 2 -C 2",
        "ucmatose -f {ip} -P tcp -s {s} -c 2 -C 2", "return status 0", "return status 0",
    ),
    (
        "udaddy -f, -P udp", "udaddy -f {ip} -P udp -b {s} -c 2 -C 2",
        "udaddy -f name -P udp -s {s} -c 2 -C 2", "return status 0", "return status 0",
    ),
    (
        "udaddy -f gid: AF_IB",
        "udaddy -f gid -b {s_gid} -c 2 -C 2",
        "udaddy -f gid -s {s_gid} -c 2 -C 2",
        "return status 0",
        "return status 0",
    ),
    (
        "rdma_client",
        "rdma_server -s {s} -p 7999",
        "rdma_client -s {s} -p 7999",
        "rdma_server: end 0",
        "rdma_client: end 0",
    ),
    # These servers always listen on the IPv4 wildcard address.
    (
        "rdma_xclient -c r",
        "rdma_xserver -p 7999 -c r",
        "rdma_xclient -s {s} -p 7999 -c r",
        "rdma_xserver: end 0",
        "rdma_xclient: end 0",
    ),
    (
        "rdma_xclient -c x",
        "rdma_xserver -p 7999 -c x",
        "rdma_xclient -s {s} -p 7999 -c x",
        "rdma_xserver: end 0",
        "rdma_xclient: end 0",
    ),
]

RSOCKETS = [
    (
        f"{program} {args}", f"{program} -b {{s}} {args}", f"{program} -s {{s}} {args}", "Gb/sec",
        "Gb/sec",
    )
    for program, args in (
        ("rstream", "-S 4096 -C 20 -I 2"), ("rstream", "-S 100000 -C 20 -I 2 -T b"),
        ("rstream", "-S 4096 -C 20 -I 2 -T n"), ("rstream", "-S 4096 -C 20 -I 2 -T a"),
        ("rstream", "-S 65536 -C 20 -I 2 -T v"), ("rstream", "-S 256 -C 20 -I 2 -T r"),
        ("rstream", "-S 64 -C 200 -I 2 -i 0"), ("rstream", "-S 1000 -C 20 -I 2 -B 8192"),
        ("rstream", "-S 64 -C 20 -I 1 -k 1"), ("riostream", "-S 4096 -C 20 -I 2"),
        ("rstream", "-S 4096 -C 20 -I 2 -p 7472"), ("rstream", "-S all -C 10 -I 1"),
        ("riostream", "-S 4096 -C 20 -I 2 -p 7472 -B 65536 -i 0"),
        ("riostream", "-S 4096 -C 20 -I 2 -T a"), ("riostream", "-S 4096 -C 20 -I 2 -T n"),
        ("riostream", "-S 100000 -C 20 -I 2 -T b"), ("riostream", "-S 4096 -C 20 -I 2 -T v"),
        ("riostream", "-S all -C 10 -I 1"), ("rstream", "-f {ip} -S 4096 -C 20 -I 2"),
        ("riostream", "-f name -S 4096 -C 20 -I 2"),
    )
] + [
    (
        f"{program} -f gid: AF_IB", f"{program} -f gid -b {{s_gid}} -S 4096 -C 20 -I 2",
        f"{program} -f gid -s {{s_gid}} -S 4096 -C 20 -I 2", "Gb/sec", "Gb/sec",
    )
    for program in ("rstream", "riostream")
]

PERFTEST = [
    (
        f"{program} -R {args}", f"{program} -R {args}", f"{program} -R {args} {{s}}", "rdma_cm QPs",
        "rdma_cm QPs",
    )
    for program, args in (
        ("ib_send_bw", "-n 100 -s 4096"), ("ib_send_lat", "-n 100 -s 64"),
        ("ib_write_bw", "-n 100 -s 65536 -q 4"), ("ib_write_lat", "-n 100 -s 64"),
        ("ib_read_bw", "-n 100 -s 4096 -T 104"), ("ib_read_lat", "-n 100"),
        ("ib_atomic_bw", "-n 100"), ("ib_atomic_lat", "-n 100"),
        ("ib_send_bw", "-c UD -n 100 -s 1000"), ("ib_send_lat", "-c UD -n 100 -s 500"),
        ("ib_send_bw", "-z -n 100"), ("ib_read_bw", "-z -n 100"),
        ("ib_write_bw", "-n 100 -q 8 -b"), ("ib_send_bw", "-n 100 -e"),
    )
]

# perftest itself refuses -R except with RC and UD, before it looks for a device. A version that
# accepts more fails here.
XRC_REFUSED, UC_REFUSED = "XRC does not support RDMA_CM", "UC is not supported in librdmacm"
REFUSED = [
    *(
        (f"{program} -R -c XRC", XRC_REFUSED)
        for program in (
            "ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat",
            "ib_atomic_bw", "ib_atomic_lat",
        )
    ),
    *(
        (f"{program} -R -c UC", UC_REFUSED)
        for program in ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat")
    ),
]

# fi_info commands, and the texts that libfabric must print about the devices and rdma_cm.
FI_INFO = [
    ("fi_info -l", ("verbs:",)),
    (
        "fi_info -p verbs -t FI_EP_MSG",
        ("provider: verbs\n", "domain: vrb", "type: FI_EP_MSG", "protocol: FI_PROTO_RDMA_CM_IB_RC"),
    ),
    (
        "fi_info -p verbs -t FI_EP_RDM",
        ("provider: verbs;ofi_rxm", "domain: vrb", "type: FI_EP_RDM", "protocol: FI_PROTO_RXM"),
    ),
]

# Two processes that take turns at one group.
MULTICAST = [
    (
        "mckey", "mckey -m {group} -b {s} -C 3", "mckey -s -m {group} -b {c} -C 3",
        "return status 0", "return status 0",
    )
]

# No SENDs: fio uses no RNR retries, so they fail on any device if the server is slower than the
# client.
FIO = "--ioengine=rdma --port=7888 --bs=4k --size=256k --iodepth=8"
FIO_ROWS = [
    (
        f"fio {verb}", f"fio --name=s {FIO} --rw=read",
        f"fio --name=c {FIO} --verb={verb} --hostname={{s}} --rw=write", "err= 0", "err= 0",
    )
    for verb in ("write", "read")
] + [
    (
        "fio verify",
        f"fio --name=s {FIO} --rw=read",
        f"fio --name=c {FIO} --verb=write --hostname={{s}} --rw=write --verify=crc32c",
        "err= 0",
        "err= 0",
    )
]


# While it polls its CQ, libfabric's ofi_rxm looks for the connection's end 10 ms after it did so
# last: at once, if it had no CPU for so long. If the peer has then sent its last message and
# disconnected, libfabric destroys the QP with completions that it has not polled: that of a SEND is
# reported as flushed (harness.UNRELATED_FAILURES), and for that of a receive it waits for ever.
RARE_LOOKS = {"FI_OFI_RXM_CM_PROGRESS_INTERVAL": "1000000"}     # us; it also delays connections


# These connect by TCP first, on {port}.
LIBFABRIC = [
    (f"fi_pingpong -e {kind}", f"fi_pingpong -p verbs -e {kind} -I 50 -S 1024 -B {{port}} {{six}}",
     f"fi_pingpong -p verbs -e {kind} -I 50 -S 1024 -P {{port}} {{six}} {{s}}", "1k", "1k")
    for kind in ("msg", "rdm")
]


def found_no_listener(process):
    output = process.output()
    return any(text in output for text in NO_LISTENER)


def cmtime_too_early(process):
    """One that first connects by TCP says nothing when nobody listens yet."""
    silent = process.status == 1 and not process.output()
    return found_no_listener(process) or (silent and cmtime_usage()["by TCP"])


def run_client(bench, server, argv, prefix, deadline, env=None, too_early=found_no_listener):
    """Starts clients until one finds its server; returns it."""
    while True:
        client = bench.start(argv, env, prefix)
        client.wait(deadline)
        over = server.popen.poll() is not None or time.monotonic() > deadline
        if over or not too_early(client):
            return client


def run_pair(bench, row, names, prefixes):
    _, server_line, client_line, server_text, client_text = row
    server = bench.start(server_line.format(**names).split(), prefix=prefixes[0])
    deadline = time.monotonic() + harness.LIMIT_S
    client = run_client(bench, server, client_line.format(**names).split(), prefixes[1], deadline)
    server.wait(deadline if client.status == 0 else time.monotonic() + 2)
    good = (
        [server.status, client.status] == [0, 0]
        and server_text in server.output()
        and client_text in client.output()
    )
    if not good:
        server.kill()
        client.kill()
        raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")


def gid_of(address):
    return address if ":" in address else "::ffff:" + address


def for_family(rows, family):
    return [row for row in rows if family == "v4" or not any(name in row[1] for name in ONLY_IPV4)]


def present(rows):
    """The rows whose programs are installed."""
    kept = [row for row in rows if shutil.which(row[1].split()[0])]
    if len(kept) < len(rows):
        harness.left_out(
            len(rows) - len(kept), "the program is not installed (scripts/setup installs it)"
        )
    return kept


def run_with_tcp(bench, row, names, prefixes):
    _, server_line, client_line, server_text, client_text = row
    port = bench.ports.take()
    outputs = bench.pair(
        server_line.format(port=port, **names).split(),
        client_line.format(port=port, **names).split(), port, RARE_LOOKS, RARE_LOOKS,
        prefixes[0], prefixes[1],
    )
    for wanted, output in zip((server_text, client_text), outputs):
        if wanted not in output:
            raise Failure(f"expected {wanted!r} in\n{output}")


def run_single(bench, command, wanted, good, prefix):
    process = bench.start(command.split(), prefix=prefix)
    process.wait(time.monotonic() + harness.LIMIT_S)
    if (process.status == 0) != good or any(text not in process.output() for text in wanted):
        raise Failure(f"expected {wanted}:\n{process.describe()}")


def single_process_cases(bench, rows, prefix):
    """Cases of one process each."""
    alone = (
        [(command, (words,), False) for command, words in REFUSED]
        if all(row in rows for row in PERFTEST)
        else []
    )
    if all(row in rows for row in LIBFABRIC) and shutil.which("fi_info"):
        alone += [(command, wanted, True) for command, wanted in FI_INFO]
    return [(command, lambda _, row=(command, wanted, good): run_single(bench, *row, prefix))
            for command, wanted, good in alone]


STEPS = "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy"


CMTIME = ["-c 100", "-c 10 -p 7473 -r 3 -t 4000"]


@functools.cache
def cmtime_usage():
    """By TCP: from release 56 on the ends first connect so, by IPv4.  A controller: from release 65
    on both ends are told where the other is."""
    text = subprocess.run(
        ["cmtime", "-h"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    ).stdout
    return {"by TCP": "socket baseline" in text, "controller": "controller_address" in text}


def run_cmtime(bench, options, names, prefixes):
    """The server has to be killed."""
    usage = cmtime_usage()
    if usage["by TCP"] and not usage["controller"] and ":" in names["s"]:
        raise LeftOut("the cmtime of release 56 wants an IPv4 address")
    words = ["cmtime", *options.split()]
    ends = ["-b", names["s"]], ["-s", names["s"]]
    if usage["controller"]:
        ends = [["-C", names["s"], *end] for end in (["-L", "-b", names["s"]], ["-b", names["c"]])]
    server = bench.start([*words, *ends[0]], prefix=prefixes[0])
    deadline = time.monotonic() + harness.LIMIT_S
    client = run_client(
        bench, server, [*words, *ends[1]], prefixes[1], deadline,
        too_early=cmtime_too_early,
    )
    server.kill()
    output = client.output()
    if client.status or "event:" in output or any(step not in output for step in STEPS):
        raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")


def run_persistent_rping(bench, names, prefixes):
    """One server serves several clients, one after the other and at once; it has to be killed.
    It takes the second of two requests that it has not looked at for both, so each client must be
    connected before the next one starts."""
    server = bench.start(["rping", "-s", "-P", "-a", names["s"]], prefix=prefixes[0])
    deadline = time.monotonic() + harness.LIMIT_S
    words = ["stdbuf", "-oL", "rping", "-c", "-a", names["s"], "-V", "-d", "-C", "200"]
    clients = [run_client(bench, server, words, prefixes[1], deadline)]
    for _ in range(3):
        client = bench.start(words, prefix=prefixes[1])
        clients.append(client)
        while ("rdma_connect successful" not in client.output() and client.popen.poll() is None
               and time.monotonic() < deadline):
            time.sleep(0.001)
    for client in clients:
        client.wait(deadline)
    still_there = server.popen.poll() is None
    server.kill()
    if not still_there or any(client.status for client in clients):
        raise Failure("\n".join(p.describe() for p in (server, *clients)))


UDPONG = [
    f"udpong {args}".strip()
    for args in (
        "-S 64 -C 100", "-S 64 -C 100 -B 65536", "-S 1000 -C 100 -T b", "-S 64 -C 100 -T e",
        "-S 256 -C 100 -T n",
        "-S 2000 -C 20 -T a",
    )
]


def run_udpong(bench, command, names, prefixes):
    """The server has to be killed. A client gets no error if the server does not run yet: it
    repeats its request. The port is also one of UDP, so tests that run at once need their own."""
    deadline = time.monotonic() + harness.LIMIT_S
    words = [*command.split(), "-p", str(bench.ports.take())]
    server = bench.start([*words, "-b", names["s"]], prefix=prefixes[0])
    client = bench.start([*words, "-s", names["s"]], prefix=prefixes[1])
    client.wait(deadline)
    server.kill()
    if client.status or "Gb/sec" not in client.output():
        client.kill()
        raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")


RCOPY_BYTES = 300000


def run_rcopy(bench, names, prefixes):
    """The server has to be killed too; it writes to the path that the client sends."""
    folder = bench.make_dir("rcopy")
    os.chmod(folder, 0o777)
    source, target = os.path.join(folder, "from"), os.path.join(folder, "to")
    with open(source, "wb") as f:
        f.write(bytes(range(256)) * (RCOPY_BYTES // 256))
    server = bench.start(["rcopy", "-p", "7427"], prefix=prefixes[0])
    deadline = time.monotonic() + harness.LIMIT_S
    client = run_client(
        bench, server, ["rcopy", source, f"{names['s']}:{target}", "-p", "7427"], prefixes[1],
        deadline,
    )
    server.kill()
    try:
        with open(source, "rb") as a, open(target, "rb") as b:
            same = a.read() == b.read()
    except OSError:
        same = False
    shutil.rmtree(folder)
    if client.status or not same:
        raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")


def rsocket_cases(bench, names, prefixes):
    listed = [
        (command, lambda _, command=command: run_udpong(bench, command, names, prefixes))
        for command in UDPONG
    ]
    if ":" not in names["s"]:
        listed.append(("rcopy", lambda _: run_rcopy(bench, names, prefixes)))
    return listed if shutil.which("udpong") else []


def cases(bench, rows, names, prefixes):
    def case(row):
        run = run_with_tcp if row in LIBFABRIC else run_pair
        return lambda _: run(bench, row, names, prefixes)
    listed = [(row[0], case(row)) for row in present(rows)]
    listed += single_process_cases(bench, rows, prefixes[0])
    if all(row in rows for row in RPING):
        listed.append(
            ("rping -P: persistent", lambda _: run_persistent_rping(bench, names, prefixes))
        )
    if all(row in rows for row in RSOCKETS):
        listed += rsocket_cases(bench, names, prefixes)
    for options in CMTIME:
        listed.append(
            (f"cmtime {options}",
             lambda _, options=options: run_cmtime(bench, options, names, prefixes))
        )
    return listed


# rdma_xserver listens on the IPv4 wildcard only; perftest 4.5 does not support the address family;
# fio's engine supports IPv4 only.
ONLY_IPV4 = ("rdma_xserver", "-R", "fio")
ONE_HOST = {
    "rping": RPING,
    "utilities": UTILITIES,
    "perftest": PERFTEST,
    "rsockets": RSOCKETS,
    "others": [*FIO_ROWS, *LIBFABRIC],
}
BETWEEN_HOSTS = [*RPING, *UTILITIES, *RSOCKETS, *PERFTEST, *MULTICAST, *FIO_ROWS, *LIBFABRIC]
FAMILIES = {
    "v4": {"any": "0.0.0.0", "group": "239.77.2.1", "six": "", "ip": "ip"},
    "v6": {"any": "::", "group": "ff15::77:2", "six": "-6", "ip": "ipv6"},
}


def one_host(bench, rows, part):
    names = {"s": "127.0.0.1", "c": "127.0.0.1", "s_gid": gid_of("127.0.0.1"), **FAMILIES["v4"]}
    prefixes = [bench.user_prefix()] * 2
    return harness.run_table(
        [c for c in cases(bench, rows, names, prefixes) if part in c[0]], bench
    )


def link_local_cases(bench, hosts, prefixes):
    """The route to a local address goes through lo, which does not have the address."""
    row = ("", "rping -s -a {any} -C 3", "rping -c -a {s} -C 3", "", "")
    names = {"any": "::", "s": f"{hosts.address(0, 'link')}%{netns.IFNAME}"}
    mixed_row = ("", "rping -s -a {any} -C 3", "rping -c -a {s} -I {c} -C 3", "", "")
    mixed = {
        "any": "::",
        "s": hosts.address(0, "v6"),
        "c": f"{hosts.address(1, 'link')}%{netns.IFNAME}",
    }
    return [
        (f"rping, {whose} link-local address",
         lambda _, client=client: run_pair(bench, row, names, [prefixes[0], prefixes[client]]))
        for client, whose in enumerate(("the own", "the peer's"))
    ] + [("rping, a link-local address to a global one",
          lambda _: run_pair(bench, mixed_row, mixed, prefixes))]


def two_hosts(bench, family, part):
    with netns.two_hosts() as hosts:
        hosts.check()
        prefixes = [hosts.prefix(host, bench.user_prefix()) for host in (0, 1)]
        addresses = [hosts.address(host, family) for host in (0, 1)]
        names = {
            "s": addresses[0],
            "c": addresses[1],
            "s_gid": gid_of(addresses[0]),
            **FAMILIES[family],
        }
        listed = cases(bench, for_family(BETWEEN_HOSTS, family), names, prefixes)
        if family == "v6":
            listed += link_local_cases(bench, hosts, prefixes)
        return harness.run_table([c for c in listed if part in c[0]], bench)


def main():
    build, group = sys.argv[1:3]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    harness.need_programs("rping", "ib_send_bw")
    with harness.Bench(build) as bench:
        if group in ONE_HOST:
            return one_host(bench, ONE_HOST[group], part)
        return two_hosts(bench, group.removeprefix("hosts_"), part)


if __name__ == "__main__":
    harness.end_with(main)
