#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs one of our client/server programs that connect through rdma_cm, over the libraries under
test.

    cm_pair.py BUILD_DIR PROGRAM SERVER_TEXT CLIENT_TEXT

Each side's output must contain its text. The client itself waits until its server listens.
"""
import sys
import time

import harness
from harness import Failure


def main():
    build, program, server_text, client_text = sys.argv[1:5]
    with harness.Bench(build) as bench:
        program = bench.stage(program)

        def case(_):
            deadline = time.monotonic() + harness.LIMIT_S
            server, client = bench.start([program]), bench.start([program, "127.0.0.1"])
            statuses = [side.wait(deadline) for side in (server, client)]
            if (
                statuses != [0, 0]
                or server_text not in server.output()
                or client_text not in client.output()
            ):
                raise Failure(f"server:\n{server.describe()}\nclient:\n{client.describe()}")

        return harness.run_table([("127.0.0.1", case)], bench)


if __name__ == "__main__":
    harness.end_with(main)
