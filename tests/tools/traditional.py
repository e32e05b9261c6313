# SPDX-License-Identifier: BSD-2-Clause
"""The traditional names: against the distribution's own programs over our library, byte for byte,
and against reference texts where there is no program to compare with."""
import re
import shutil
import sys

from tools import LeftOut, cases_of, main, want, want_equal

DEVINFO = (
    [], ["-v"], ["-l"], ["-d", "vrb0"], ["--ib-dev=vrb0", "-v"], ["-d", "nope"], ["-i", "1"],
    ["-i", "2"], ["-i", "0"], ["-i", "x"], ["--ib-port=1", "--verbose"], ["--list"], ["-x"],
    ["--help"], ["word"], ["-l", "-d", "nope"], ["-d"],
)
# How releases describe the default of `ibv_devinfo -d`: 44, which does not do so, and later ones.
DEFAULTS = "(default first device found)", "(default all devices)"
GROUP = r"[0-9a-f]{4}"
GID = rf"{GROUP}(:{GROUP}){{7}}"

# The warning about the interface has a time and a pid.
NO_DEVICES = {"VERBENA_DEVICES": "none0", "VERBENA_LOG": "off"}


def same(bench, name, options, env=None):
    stock = shutil.which(name)
    if not stock:
        raise LeftOut(f"{name} is not installed")
    theirs = bench.call([stock, *options], env)
    ours = bench.call([bench.tool(name), *options], env)
    # Complaints name the program as it was called.
    err = ours.err.replace(bench.tool(name), stock)
    out = ours.out.replace(bench.tool(name), stock)
    wanted = theirs.out.replace(*DEFAULTS) if name == "ibv_devinfo" else theirs.out
    want_equal(
        (ours.status, out, err),
        (theirs.status, wanted, theirs.err),
        f"{name} {' '.join(options)}",
    )


def case_ibv_devices(bench):
    same(bench, "ibv_devices", [])
    same(bench, "ibv_devices", [], {"VERBENA_DEVICES": "lo"})
    same(bench, "ibv_devices", [], NO_DEVICES)


def case_ibv_devinfo(bench):
    for options in DEVINFO:
        same(bench, "ibv_devinfo", options)
    same(bench, "ibv_devinfo", [], NO_DEVICES)
    same(bench, "ibv_devinfo", ["-l"], NO_DEVICES)


def case_ibv_asyncwatch(bench):
    for options in ["-h"], ["-x"], ["-d", "nope"]:
        same(bench, "ibv_asyncwatch", options)


def case_show_gids(bench):
    lines = bench.call([bench.tool("show_gids")], expect=0).out.splitlines()
    want_equal(lines[0], "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV", "header")
    want_equal(lines[1], "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---", "header")
    rows = lines[2:-1]
    want_equal(lines[-1], f"n_gids_found={len(rows)}", "last line")
    for row in rows:
        want(re.fullmatch(rf"\w+\t1\t\d+\t{GID}\t(\t|[\d.]+  )\tv2\t\S+", row), f"odd row {row!r}")
    loopback = [row for row in rows if row.endswith("\tlo") and "127.0.0.1" in row]
    want(
        loopback
        and "\t0000:0000:0000:0000:0000:ffff:7f00:0001\t127.0.0.1  \tv2\tlo" in loopback[0],
        lines,
    )
    # One device only; the columns that scripts cut out.
    name = loopback[0].split("\t")[0]
    one = bench.call([bench.tool("show_gids"), name], expect=0).out
    want(all(line.startswith(name) for line in one.splitlines()[2:-1]), one)


def case_ibdev2netdev(bench):
    plain = bench.call([bench.tool("ibdev2netdev")], expect=0).out.splitlines()
    want(
        plain and all(re.fullmatch(r"\S+ port 1 ==> \S+ \((Up|Down)\)", line) for line in plain),
        plain,
    )
    want(any(line.endswith("==> lo (Up)") for line in plain), plain)
    verbose = bench.call([bench.tool("ibdev2netdev"), "-v"], expect=0).out.splitlines()
    for line in verbose:
        want(
            re.fullmatch(
                r"\S+ \S+ \(MT\d+ - \S+\) .* fw \S+ port 1 \([A-Z ]{6}\) ==> \S+ \((Up|Down)\)",
                line,
            ),
            line,
        )


def case_device_info(bench):
    done = bench.call([bench.tool("get-rdma-device-info"), "lo"], expect=0)
    values = dict(line.split("=") for line in done.out.splitlines())
    want_equal(list(values), ["device_name", "gid_index", "ib_port", "mtu_index"], "names")
    want_equal(
        (values["gid_index"], values["ib_port"], values["mtu_index"]), ("0", "1", "5"), "loopback"
    )
    for arguments in [], ["none0"], ["--help"], ["lo", "lo"]:
        done = bench.call([bench.tool("get-rdma-device-info"), *arguments], expect=1)
        want(len(done.err.splitlines()) == 1 and not done.out, done.describe())
    done = bench.call([bench.tool("get-rdma-device-info"), "lo"], NO_DEVICES, expect=1)
    want("no RDMA device" in done.err, done.describe())


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
