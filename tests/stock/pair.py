#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs one of our client/server programs over the library under test.

    pair.py BUILD_DIR PROGRAM SERVER_TEXT CLIENT_TEXT

Runs it on every active device. Each side's output must contain its text.
"""
import sys

import harness
from harness import Failure
from stock import Place


def main():
    build, program, server_text, client_text = sys.argv[1:5]
    with harness.Bench(build) as bench:
        place = Place(bench)
        program = bench.stage(program)

        def case_on(device):
            def case(_bench):
                server, client = place.pair(program, [], device, "127.0.0.1")
                if server_text not in server or client_text not in client:
                    raise Failure(
                        f"expected {server_text!r} and {client_text!r} in\n{server}\nand\n{client}"
                    )
            return case

        devices = filter(None, (place.device("lo"), place.device("eth")))
        return harness.run_table([(device, case_on(device)) for device in devices], bench)


if __name__ == "__main__":
    harness.end_with(main)
