# SPDX-License-Identifier: BSD-2-Clause
"""Stock programs under each fault of packets, and of messages between processes (docs/FAULTS.md):
they must succeed, and ibv_rc_pingpong must transfer the right data.

    stock_faults.py BUILD_DIR udp|local [part of a case's name]
"""
import shutil
import sys

from tools import LeftOut, ToolBench, run_table

# Rules that lose or delay packets do not apply to the last ones: if the last ACK is lost, or still
# held, and the peer has ended, no device can report to the sender that its request was executed.
RULES = (
    "nth 1..200 every 50 drop", "tx opcode ACK nth 1..50 every 5 drop", "every 20 duplicate 2",
    "tx nth 1..200 every 50 delay 1ms", "rx nth 1..200 every 50 delay 1ms",
    "tx nth 1..200 every 40 reorder 2", "rx nth 1..200 every 40 reorder",
    "nth 1..200 every 50 corrupt", "tx every 3 mark", "rx every 3 mark",
    "seed 5; nth 1..200 chance 1/50 drop",
)
PROGRAMS = {
    "ibv_rc_pingpong": ["ibv_rc_pingpong", "-c", "-n", "300", "-s", "5000"],
    "ib_send_bw": ["ib_send_bw", "-F", "-n", "300", "-s", "5000"],
    "ib_write_lat": ["ib_write_lat", "-F", "-n", "300", "-s", "64"],
    "ib_read_bw": ["ib_read_bw", "-F", "-n", "300", "-s", "5000"],
    "ucx_perftest": ["ucx_perftest", "-t", "tag_bw", "-s", "5000", "-n", "300", "-w", "10"],
}


def rules_of(kind, rule):
    """ "seed 5; chance ..." begins with another rule."""
    *before, last = rule.split("; ")
    return "; ".join([*before, f"{kind} {last}"])


def case(program, rules, transport):
    def run(bench):
        if not shutil.which(program):
            raise LeftOut(f"{program} is not installed")
        port = bench.ports.take()
        argv = [bench.tool(), "run", "--", *PROGRAMS[program], "-p", str(port)]
        env = {
            "VERBENA_TRANSPORT": transport, "VERBENA_DEVICES": "lo", "VERBENA_FAULTS": rules,
            "UCX_TLS": "rc_v,self", "UCX_NET_DEVICES": "vrb0:1", "UCX_WARN_UNUSED_ENV_VARS": "n",
        }
        bench.pair(argv, [*argv, "127.0.0.1"], port, env, env)
    return f"{program}: {rules}", run


def main():
    build, transport = sys.argv[1:3]
    kind = "packet" if transport == "udp" else "message"
    cases = [
        case(program, rules_of(kind, rule), transport)
        for program in PROGRAMS for rule in RULES
    ]
    with ToolBench(build) as bench:
        return run_table(cases, bench, sys.argv[3] if len(sys.argv) > 3 else None)


if __name__ == "__main__":
    sys.exit(main())
