# SPDX-License-Identifier: BSD-2-Clause
"""The connection manager against the kernel's: rdmacm-utils with the server at either end.

A server of rdma_cm has no socket to look at: a client that finds no listener is started again.
"""
import time

import harness
import rdmacm
from harness import Failure

# A few of each, because an emulated guest takes half a minute for some.
NAMES = ("ucmatose", "ucmatose -m: other channel", "udaddy", "rdma_client",
         "rstream -S 4096 -C 20 -I 2", "rstream -S 65536 -C 20 -I 2 -T v",
         "riostream -S 4096 -C 20 -I 2")
PAIRS = [*rdmacm.RPING, *(row for row in (*rdmacm.UTILITIES, *rdmacm.RSOCKETS) if row[0] in NAMES)]
CMTIME = ("cmtime", "cmtime -b {s} -c 20", "cmtime -s {s} -c 20", "", "disconnect")

# The sender waits for three seconds, the receiver is started and has joined before it.
MCKEY = ("mckey", "stdbuf -o0 mckey -m {group} -b {s} -C 3", "mckey -s -m {group} -b {c} -C 3",
         "return status 0", "return status 0")
JOINED = "mckey: joined dgid"
FAMILIES = {"v4": {"any": "0.0.0.0", "group": "239.77.4.1"}, "v6": {"any": "::"}}


def wait_for_text(process, text, deadline):
    while text not in process.output():
        if process.popen.poll() is not None or time.monotonic() > deadline:
            raise Failure(f"no {text!r}:\n{process.describe()}")
        time.sleep(0.05)


def run_client(link, end, argv, server, deadline):
    while True:
        client = link.start(end, argv)
        client.wait(deadline)
        ended = server.popen.poll() is not None or time.monotonic() > deadline
        if ended or not rdmacm.found_no_listener(client):
            return client
        time.sleep(0.2)


def run_pair(link, row, ends, kind):
    """ends: of the server and of the client."""
    _, server_line, client_line, server_text, client_text = row
    names = {"s": link.addresses[ends[0]][kind], "c": link.addresses[ends[1]][kind],
             **FAMILIES[kind]}
    deadline = time.monotonic() + harness.LIMIT_S
    server = link.start(ends[0], server_line.format(**names).split())
    if row is MCKEY:
        wait_for_text(server, JOINED, deadline)
    client = run_client(link, ends[1], client_line.format(**names).split(), server, deadline)
    if row is CMTIME:
        server.kill()       # it serves until a signal
        server.status = 0
    else:
        server.wait(deadline if client.status == 0 else time.monotonic() + 2)
    server.kill()
    client.kill()
    # A slow client of Linux lives until its connection's timewait ends.
    events = client.output().replace("event: RDMA_CM_EVENT_TIMEWAIT_EXIT", "")
    good = [server.status, client.status] == [0, 0] and "event:" not in events
    if not good or server_text not in server.output() or client_text not in client.output():
        raise Failure(f"server ({ends[0]}):\n{server.describe()}\n"
                      f"client ({ends[1]}):\n{client.describe()}")


def cases(link, kind, ends):
    """Every row, with the server at each end.  Linux refuses groups of IPv6 on RoCE."""
    harness.need_programs("rping", "stdbuf")
    rows = [*PAIRS, CMTIME, *([MCKEY] if kind == "v4" else [])]

    def case(row, both):
        return lambda _: run_pair(link, row, both, kind)
    return [(f"{row[0]} {kind}, server {both[0]}", case(row, both))
            for row in rows for both in (ends, ends[::-1])]
