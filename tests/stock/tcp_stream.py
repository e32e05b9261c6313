#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""One TCP stream, as competing traffic or for comparison.

    tcp_stream.py recv PORT                       prints Mbit/s between the first byte and the last
    tcp_stream.py send HOST PORT SECONDS [CC]     congestion control, "cubic" by default

Needs CAP_NET_ADMIN if not every user may choose the algorithm.
"""
import socket
import sys
import time

CHUNK = 1 << 18


def receive(port):
    listener = socket.create_server(("", int(port)))
    connection, _ = listener.accept()
    buffer = bytearray(CHUNK)
    total = connection.recv_into(buffer)
    began = time.monotonic()
    while n := connection.recv_into(buffer):
        total += n
    print(f"{total * 8 / 1e6 / (time.monotonic() - began):.3f}")


def send(host, port, seconds, algorithm="cubic"):
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    connection.connect((host, int(port)))
    chunk = bytes(CHUNK)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        connection.sendall(chunk)
    connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    {"recv": receive, "send": send}[sys.argv[1]](*sys.argv[2:])
