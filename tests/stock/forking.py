# SPDX-License-Identifier: BSD-2-Clause
"""A web server of Python's library that forks for each request.

    forking.py ADDRESS PORT FOLDER

Prints for each request whether its process got an rsocket, whose congestion control is "rdma", or a
socket.
"""
import functools
import http.server
import os
import socket
import socketserver
import sys


class Server(socketserver.ForkingMixIn, http.server.HTTPServer):
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
    request_queue_size = 20


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        control = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        is_rdma = control.startswith(b"rdma")
        os.write(1, f"{os.getpid()} has {'an rsocket' if is_rdma else 'a socket'}\n".encode())
        super().do_GET()


def main():
    handler = functools.partial(Handler, directory=sys.argv[3])
    with Server((sys.argv[1], int(sys.argv[2])), handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
