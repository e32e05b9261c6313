#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs commands for whoever connects: for the test guest only, which nobody but the host that
started it can reach.

    agent.py PORT               in the guest
    agent.py ADDRESS PORT -- COMMAND [ARGUMENT...]   on the host: runs it there, with its output and
    exit status

One connection, one command: a line of JSON there, the command's output back, then a NUL and the
exit status.  A connection that ends early ends the command.
"""
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys

INTERFACE = "eth0"


def serve(connection):
    with connection, connection.makefile("rb", buffering=0) as incoming:
        line = incoming.readline()
        if not line:
            return
        process = subprocess.Popen(
            json.loads(line), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, cwd="/",
        )
        try:
            while True:
                ready, _, _ = select.select([process.stdout, connection], [], [])
                if connection in ready:
                    return
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    break
                connection.sendall(data)
            connection.sendall(b"\0%d" % process.wait())
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def join_groups():
    """
    Those of probe_datagram.c, for as long as the sockets live.  Soft RoCE puts a group's address
    into the interface's filter; that IP takes in the group's packets is left to others.
    """
    index = socket.if_nametoindex(INTERFACE)
    four, six = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(
        socket.AF_INET6, socket.SOCK_DGRAM
    )
    four.setsockopt(
        socket.IPPROTO_IP,
        socket.IP_ADD_MEMBERSHIP,
        struct.pack("@4s4si", socket.inet_aton("239.77.1.2"), bytes(4), index),
    )
    six.setsockopt(
        socket.IPPROTO_IPV6,
        socket.IPV6_JOIN_GROUP,
        struct.pack("@16sI", socket.inet_pton(socket.AF_INET6, "ff0e::4d:102"), index),
    )
    return four, six


def agent(port):
    groups = join_groups()  # pylint: disable=unused-variable
    # No zombies of the children that serve; each child waits for its own children.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.create_server(
        ("::", port), family=socket.AF_INET6, dualstack_ipv6=True
    ) as listener:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                serve(connection)
                os._exit(0)
            connection.close()


def ask(address, port, argv):
    with socket.create_connection((address, port)) as connection:
        connection.sendall(json.dumps(argv).encode() + b"\n")
        tail = b""
        while True:
            data = connection.recv(65536)
            if not data:
                break
            text, end, status = data.partition(b"\0")
            os.write(1, text)
            tail += end + status if end or tail else b""
    if not tail:
        sys.exit("the guest went away")
    status = int(tail[1:])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if "--" in sys.argv:
        sys.exit(ask(sys.argv[1], int(sys.argv[2]), sys.argv[sys.argv.index("--") + 1:]))
    agent(int(sys.argv[1]))
