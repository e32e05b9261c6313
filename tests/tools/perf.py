# SPDX-License-Identifier: BSD-2-Clause
"""verbena perf: runs and prints its results in three forms; the test asserts no times."""
import os
import sys
import xml.etree.ElementTree

from tools import cases_of, main, want, want_equal


def case_forms(bench):
    svg = os.path.join(bench.make_dir("plot"), "plot.svg")
    result = bench.json("perf", "--quick", "--svg", svg, limit=150)
    want_equal(
        sorted(result), ["local", "memcpy_mib_s", "udp", "udp_latency_us", "udp_mib_s"], "keys"
    )
    for transport in "local", "udp":
        want_equal(
            [row["size"] for row in result[transport]],
            [8, 64, 512, 4096, 32768, 262144, 1048576],
            transport,
        )
        want(all(row["send_latency_us"] > 0 and row["write_mib_s"] > 0 and row["write_rate"] > 0
                 for row in result[transport]), result)
    lines = (
        xml.etree.ElementTree.parse(svg).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    )
    want_equal([len(line.get("points").split()) for line in lines], [7] * 4, "lines of the plot")


def case_plot_cannot_be_written(bench):
    """It is told before anything is measured."""
    done = bench.verbena("perf", "--quick", "--svg", "/nowhere/plot.svg", expect=1)
    want_equal((done.out, done.err), ("", "verbena perf: /nowhere/plot.svg: No such file or "
                                          "directory\n"), "nothing measured")


def case_bad_input(bench):
    for words in ["-x"], ["word"], ["--svg"]:
        done = bench.verbena("perf", *words, expect=2)
        want(len(done.err.splitlines()) == 1, done.describe())


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
