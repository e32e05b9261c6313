#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What more threads are worth over UDP: `make bench GROUP=scaling`.

    scaling.py BUILD_DIR
    scaling.py --plot PLOT.svg < OUTPUT

1, 2, 4, 8 and 16 threads, as many as there are CPUs, each both ends of a connection of its own:
bench/threads, against bench/udp_threads with as many pairs of sockets.  Contenders run in turn,
medians of BENCH_RUNS (5) runs.  The second form plots what the first has printed, perhaps on
another machine; it needs matplotlib.
"""
import os
import statistics
import subprocess
import sys
import tempfile

RUNS = int(os.environ.get("BENCH_RUNS", "5"))
DURATION_MS = "400"
MTU = 4096
SEGMENT = MTU + 44    # a packet's headers and ICRC, as bare UDP sees it
SHORT = 8 + 28
WORKLOADS = (
    # what, bytes, messages in flight, bare UDP's arguments
    ("SEND 8 B, 1 in flight", 8, 1, [str(SHORT), "1", DURATION_MS]),
    ("SEND 8 B, 16 in flight", 8, 16, [str(SHORT), "16", DURATION_MS]),
    ("SEND 64 KiB, 4 in flight", 1 << 16, 4, [str(1 << 16), "4", DURATION_MS, str(SEGMENT)]),
)


def measure(argv, env=None):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: {done.stderr}")
    return float(done.stdout)


def series(build, directory, size, window, bare_args):
    """Messages per second by number of threads: Verbena's and bare UDP's."""
    cpus = len(os.sched_getaffinity(0))
    counts = [n for n in (1, 2, 4, 8, 16) if n <= cpus]
    env = {
        **os.environ,
        "VERBENA_TRANSPORT": "udp",
        "VERBENA_DIR": directory,
        "LD_LIBRARY_PATH": os.path.join(build, "lib"),
    }
    ours = {n: [] for n in counts}
    bare = {n: [] for n in counts}
    for _ in range(RUNS):
        for n in counts:
            crowd = [os.path.join(build, "bench", "threads"), str(n), str(size), str(window)]
            ours[n].append(measure([*crowd, DURATION_MS], env))
            bare[n].append(
                measure([os.path.join(build, "bench", "udp_threads"), str(n), *bare_args])
            )
    return [{n: statistics.median(values[n]) for n in counts} for values in (ours, bare)]


def parse(text):
    """What the first form has printed: (what, Verbena's, bare UDP's) of each workload."""
    results = []
    for block in text.strip().split("\n\n"):
        what, _, *rows = block.splitlines()
        values = [row.replace(",", "").split() for row in rows]
        results.append((what, *({int(v[0]): float(v[i]) for v in values} for i in (1, 3))))
    return results


def plot(results, path):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.fonttype"] = "none"    # text stays text
    figure, axes = pyplot.subplots(1, len(results), figsize=(4 * len(results), 3.5))
    for ax, (what, ours, bare) in zip(axes, results):
        for name, values, style in (("Verbena", ours, "o-"), ("bare UDP", bare, "s--")):
            ax.plot(list(values), [v / values[1] for v in values.values()], style, label=name)
        ax.plot(list(ours), list(ours), ":", color="grey", label="linear")
        ax.set(title=what, xlabel="threads", ylabel="times one thread", xticks=list(ours))
        ax.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    if sys.argv[1] == "--plot":
        plot(parse(sys.stdin.read()), sys.argv[2])
        return
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as directory:
        for what, size, window, bare_args in WORKLOADS:
            ours, bare = series(build, directory, size, window, bare_args)
            print(f"{what}\n{'threads':>8} {'Verbena/s':>12} {'x one':>6} "
                  f"{'bare UDP/s':>12} {'x one':>6} {'ratio':>6}")
            for n in ours:
                print(f"{n:8} {ours[n]:12,.0f} {ours[n] / ours[1]:6.2f} {bare[n]:12,.0f} "
                      f"{bare[n] / bare[1]:6.2f} {ours[n] / bare[n]:6.2f}")
            print(flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    main()
