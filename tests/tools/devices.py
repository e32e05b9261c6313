# SPDX-License-Identifier: BSD-2-Clause
"""verbena devices, info, gids, netdevs, and the reaction of all commands to bad input."""
import json
import subprocess
import sys

from tools import LeftOut, cases_of, main, want, want_equal


def case_devices(bench):
    devices = bench.json("devices")
    want("lo" in [device["netdev"] for device in devices], devices)
    want_equal(
        bench.verbena("devices", expect=0).out.split()[5::2], [d["name"] for d in devices], "names"
    )


def case_info(bench):
    name = bench.json("devices")[0]["name"]
    (info,) = bench.json("info", name)
    want_equal((info["name"], len(info["ports"]), info["max_sge"]), (name, 1, 32), info)
    text = bench.verbena("info", name, expect=0).out
    want(text.startswith(f"hca_id:\t{name}\n") and "\tmax_qp:\t" in text, text)


def case_gids(bench):
    gids = bench.json("gids")
    loopback = [gid for gid in gids if gid["netdev"] == "lo" and gid.get("ipv4") == "127.0.0.1"]
    want(loopback and loopback[0]["type"] == "RoCE v2", gids)
    name = loopback[0]["device"]
    want({gid["device"] for gid in bench.json("gids", name)} == {name}, "gids of one device")


def case_full_output(bench):
    """Output that is lost is no success."""
    for words in "devices", "info --json", "explain --all", "completion":
        done = bench.call(
            ["sh", "-c", f"{bench.tool()} {words} > /dev/full"], expect=1, no_library=True
        )
        want_equal(done.err, f"verbena {words.split()[0]}: standard output: No space left on "
                             "device\n", words)


def case_netdevs(bench):
    want({"netdev": "lo", "up": True, "state": "ACTIVE", "port": 1}.items() <=
         [row for row in bench.json("netdevs") if row["netdev"] == "lo"][0].items(), "loopback")


# An interface that gains an address, one that loses it and gets it again, one that is renamed, one
# that goes.
CHANGES = """
    say() { echo "$1 $("$TOOL" netdevs --json | tr -d ' \\n')"; }
    ip link set lo up && ip link add a0 type veth peer name a1 &&
    ip link add b0 type veth peer name b1 &&
    for i in a0 a1 b0 b1; do
        echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; ip link set $i up
    done &&
    ip addr add 192.0.2.1/24 dev b0 || exit 77
    say first
    ip addr add 192.0.2.2/24 dev a0; say gained
    ip addr flush dev b0; say lost
    ip addr add 192.0.2.1/24 dev b0; say again
    ip link set a0 down; ip link set a0 name c0; ip link set c0 up
    ip addr add 192.0.2.2/24 dev c0 2>/dev/null; say renamed
    ip link del c0; say gone
    ip link add d0 type veth peer name d1; ip link set d0 up
    ip addr add 192.0.2.3/24 dev d0; say new
"""


def case_numbers_stay(bench):
    """A device keeps its name as long as its interface exists, also in new processes."""
    unshare = ["unshare", "-n"] if bench.as_root else ["unshare", "-Urn"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        raise LeftOut("no network namespaces here")
    done = bench.call(
        [*unshare, "sh", "-c", CHANGES],
        {"TOOL": bench.tool(), "VERBENA_DIR": bench.make_dir("numbers")},
        prefix=[],
    )
    if done.status == 77:
        raise LeftOut(f"no interfaces can be made here: {done.err.strip()}")
    seen = {}
    for line in done.out.splitlines():
        step, rows = line.split(" ", 1)
        seen[step] = {row["netdev"]: row["device"] for row in json.loads(rows)}
    want_equal(seen["first"], {"b0": "vrb0", "lo": "vrb1"}, "first")
    want_equal(
        seen["gained"],
        {"b0": "vrb0", "lo": "vrb1", "a0": "vrb2"},
        "an interface with an address more",
    )
    want_equal(seen["lost"], {"lo": "vrb1", "a0": "vrb2"}, "one less")
    want_equal(seen["again"], seen["gained"], "it is back")
    want_equal(seen["renamed"], {"b0": "vrb0", "lo": "vrb1", "c0": "vrb2"}, "renamed")
    want_equal(seen["gone"], {"b0": "vrb0", "lo": "vrb1"}, "gone")
    want_equal(
        seen["new"], {"b0": "vrb0", "lo": "vrb1", "d0": "vrb2"}, "a new interface"
    )


def case_help(bench):
    text = bench.verbena("--help", expect=0).out
    want(len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 110, text)
    for line in text.splitlines():
        if line.startswith("  "):
            command = line.split()[0]
            text = bench.verbena(command, "--help", expect=0).out
            want(
                text.startswith(f"usage: verbena {command}") and len(text.splitlines()) <= 24, text
            )
    want(bench.verbena("--version", expect=0).out.startswith("verbena "), "version")


def case_bad_input(bench):
    rows = (
        ([], 2), (["nonsense"], 2), (["devices", "-x"], 2), (["devices", "--nonsense"], 2),
        (["devices", "word"], 2), (["info", "nope"], 3), (["gids", "nope"], 3),
        (["watch", "nope"], 3), (["info", "a", "b"], 2), (["netdevs", "word"], 2),
    )
    for words, status in rows:
        done = bench.verbena(*words, expect=status)
        want(len(done.err.splitlines()) == 1 and not done.out, done.describe())
    for name, value in (
        ("VERBENA_UDP_PORT", "70000"), ("VERBENA_TRANSPORT", "\x01\xff"),
        ("VERBENA_DIR", "relative"), ("VERBENA_LOG", "warn,nothing=debug"), ("VERBENA_SEED", "x"),
        ("VERBENA_DEVICES", "a" * 99),
    ):
        done = bench.verbena("devices", env={name: value}, expect=2)
        want(len(done.err.splitlines()) == 1 and name in done.err, done.describe())
    for words in ["info"], ["watch"], ["capture", "/dev/null"]:
        done = bench.verbena(*words, env={"VERBENA_DEVICES": "none0"}, expect=3)
        want(done.err.endswith(": no devices (verbena doctor says why)\n"), done.describe())


def case_no_such_interface(bench):
    """Of a name in the list that is no interface, but not of a name for one that may come."""
    done = bench.verbena("devices", env={"VERBENA_DEVICES": "lo,none0,other=none1"}, expect=0)
    (line,) = done.err.splitlines()
    want(line.endswith(" VERBENA_DEVICES: none0 is no interface here"), line)


def case_no_interface(bench):
    """In a new network namespace even loopback is down."""
    unshare = ["unshare", "-n"] if bench.as_root else ["unshare", "-Urn"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        raise LeftOut("no network namespaces here")
    done = bench.call([*unshare, *bench.user_prefix(), bench.tool("ibv_devices")], prefix=[])
    want_equal(done.err.count("there is no device: no network interface is up"), 1, done.err)


def case_plain_without_terminal(bench):
    """Colours on terminals only; script(1) provides one."""
    want("\033" not in bench.verbena("--help", expect=0).out, "escape sequences in a pipe")
    env = {**bench.env(), "TERM": "xterm"}
    try:
        done = subprocess.run(
            ["script", "-qec", f"{bench.tool()} --help", "/dev/null"], env=env, capture_output=True,
            text=True, check=False, stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise LeftOut("script is not installed") from None
    want("\033[1m" in done.stdout, done.stdout)


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
