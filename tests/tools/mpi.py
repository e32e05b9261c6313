#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Open MPI and MPICH of the distribution, by `verbena run` on one host; each element is checked.

    mpi.py BUILD_DIR [PART_OF_A_NAME [TIMES]]

TIMES repeats each row that is selected; docs/TESTING.md has the run beside 20 busy processes.

libfabric's verbs provider connects through rdma_cm.  UCX in an MPI job does not: its addresses go
through the launcher.  Not in Debian 12: the rdmacm part of Open MPI's openib BTL, without which it
refuses Ethernet ("no cpcs for port"), and MPICH over libfabric (its device is ch4:ucx): `make
test-mpich` builds that.

The host is a network namespace with one IPv4 address: libfabric takes no loopback interface, and
ofi_rxm never connects by link-local addresses, because their scope is not sent to the passive side.
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stock"))
import netns  # noqa: E402
from tools import LeftOut, ToolBench, run_table, skip, want  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
OPEN_MPI = "mpirun.openmpi --oversubscribe --allow-run-as-root -np {n} --mca plm_rsh_agent false"
MPICH = "mpirun.mpich -launcher fork -n {n}"
MPICH_OFI = os.path.abspath(os.path.join(HERE, "..", "..", "build-mpich", "bin", "mpicc"))
# Its own shared memory is for ranks of one host.
NOLOCAL = {"FI_PROVIDER": "verbs;ofi_rxm", "MPIR_CVAR_NOLOCAL": "1"}

COLLECTIVES = ["mpi_peer"]
PATTERNS = ["mpi_patterns", "20"]
THREADS = ["mpi_threads", "30"]

# Name, compiler, launcher with arguments, ranks, environment, program with arguments.
ROWS = [
    ("Open MPI, UCX rc_verbs", "mpicc.openmpi", OPEN_MPI + " --mca pml ucx --mca osc ucx", 4,
     {"UCX_TLS": "rc_v,self"}, COLLECTIVES),
    ("Open MPI, UCX rc_verbs, patterns of OSU", "mpicc.openmpi",
     OPEN_MPI + " --mca pml ucx --mca osc ucx", 4, {"UCX_TLS": "rc_v,self"}, PATTERNS),
    ("Open MPI, UCX ud_verbs", "mpicc.openmpi", OPEN_MPI + " --mca pml ucx --mca osc ucx", 3,
     {"UCX_TLS": "ud_v,self"}, COLLECTIVES),
    ("Open MPI, UCX rc_verbs, threads", "mpicc.openmpi",
     OPEN_MPI + " --mca pml ucx --mca osc ucx", 2, {"UCX_TLS": "rc_v,self"}, THREADS),
    ("Open MPI, UCX ud_verbs, threads", "mpicc.openmpi",
     OPEN_MPI + " --mca pml ucx --mca osc ucx", 2, {"UCX_TLS": "ud_v,self"}, THREADS),
    ("Open MPI, libfabric verbs;ofi_rxm", "mpicc.openmpi", OPEN_MPI + " --mca pml cm --mca mtl ofi"
     " --mca mtl_ofi_provider_include verbs;ofi_rxm", 3, {}, COLLECTIVES),
    ("MPICH, UCX rc_verbs", "mpicc.mpich", MPICH, 4, {"UCX_TLS": "rc_v,self"}, COLLECTIVES),
    ("MPICH, UCX ud_verbs", "mpicc.mpich", MPICH, 3, {"UCX_TLS": "ud_v,self"}, COLLECTIVES),
    ("MPICH, libfabric verbs;ofi_rxm", MPICH_OFI, MPICH, 4, NOLOCAL, COLLECTIVES),
    ("MPICH, libfabric verbs;ofi_rxm, patterns of OSU", MPICH_OFI, MPICH, 4, NOLOCAL, PATTERNS),
]


def program(bench, compiler, name):
    """Compiles NAME.c into a program that an ordinary user can run."""
    target = os.path.join(bench.dir, f"{os.path.basename(compiler)}.{name}")
    if not os.path.exists(target):
        source = os.path.join(HERE, name + ".c")
        done = bench.call([compiler, "-O1", "-pthread", source, "-o", target], prefix=[],
                          no_library=True)
        if done.status and "mpi.h: No such file" in done.err:
            raise LeftOut(f"{compiler} has no headers (scripts/setup installs them)")
        want(done.status == 0, done.describe())
        os.chmod(target, 0o755)
    return target


def run_row(bench, row, prefix):
    _, compiler, launcher, ranks, env, (name, *args) = row
    if not shutil.which(compiler) or not shutil.which(launcher.split()[0]):
        how = "make test-mpich builds" if compiler == MPICH_OFI else "scripts/setup installs"
        raise LeftOut(f"{os.path.basename(compiler)} is not installed ({how} it)")
    words = [bench.tool(), "run", "--", *launcher.format(n=ranks).split(),
             program(bench, compiler, name), *args]
    env = {"UCX_WARN_UNUSED_ENV_VARS": "n", "TMPDIR": bench.make_dir(f"tmp{bench.number()}"), **env}
    out = bench.run(words, env, prefix)
    want(f"{ranks} ranks, 0 bad" in out, out)


def main():
    build = sys.argv[1]
    if not shutil.which("mpirun.openmpi") and not shutil.which("mpirun.mpich"):
        skip("neither Open MPI nor MPICH is installed (scripts/setup installs them)")
    with ToolBench(build) as bench:
        with netns.two_hosts(("v4",)) as hosts:
            prefix = hosts.prefix(0, bench.user_prefix())
            times = int(sys.argv[3]) if len(sys.argv) > 3 else 1
            cases = [(row[0], lambda _, row=row: run_row(bench, row, prefix))
                     for row in ROWS for _ in range(times)]
            return run_table(cases, bench, sys.argv[2] if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    sys.exit(main())
