# SPDX-License-Identifier: BSD-2-Clause
"""verbena run: the library, the preloaded answers for /sys and /dev, options, exit statuses."""
import json
import os
import re
import shutil
import socket
import sys

from tools import LeftOut, cases_of, main, want, want_equal


def run(bench, *words, **options):
    return bench.verbena("run", *words, **options)


def case_library(bench):
    out = run(bench, "--", "sh", "-c", "echo $LD_LIBRARY_PATH", expect=0).out
    want_equal(out.split(":")[0].strip(), os.path.realpath(bench.lib), "LD_LIBRARY_PATH")
    if shutil.which("ibv_devices"):
        want("vrb0" in run(bench, "--", "ibv_devices", expect=0).out, "ibv_devices shows no vrb0")


def case_shell(bench):
    script = """
        set -e
        ls -l /sys/class/infiniband/ /dev/infiniband /sys/class/infiniband_verbs
        test -d /sys/class/infiniband && test -c /dev/infiniband/uverbs0
        test -w /dev/infiniband/uverbs0
        test ! -e /dev/infiniband/nothing && test ! -e /sys/class/infiniband_verbsX
        cat /sys/class/infiniband/*/ports/1/state //sys/class//infiniband_verbs/uverbs0/ibdev
        for d in /sys/class/infiniband/*; do ls $d/device/net; done
        cd /sys/class/infiniband && ls
        readlink -f /sys/class/infiniband/vrb0/device
        find /sys/class/infiniband/ -name 'vrb*'
    """
    done = run(bench, "--", "sh", "-c", script, expect=0)
    for text in "vrb0", "uverbs0", "4: ACTIVE", "\nlo\n", "devices/vrb0":
        want(text in done.out, f"no {text!r} in\n{done.describe()}")
    want_equal(done.err, "", "stderr")


def case_python(bench):
    code = """
import glob, os
assert os.path.exists("/sys/class/infiniband") and os.path.isdir("/dev/infiniband")
names = sorted(os.listdir("/sys/class/infiniband"))
assert names and sorted(e.name for e in os.scandir("/sys/class/infiniband")) == names
base = "/sys/class/infiniband/" + names[0]
assert os.path.isfile(base + "/ports/1/gid_attrs/types/0")
assert open(base + "/ports/1/gid_attrs/types/0").read() == "RoCE v2\\n"
assert glob.glob("/sys/class/infiniband/*/device/net/lo")
device = os.path.realpath(base + "/device")
assert os.path.exists(device + "/vendor"), device
assert os.access("/dev/infiniband/uverbs0", os.R_OK | os.W_OK)
assert not os.path.exists("/sys/class/infiniband_none")
assert os.path.exists("/sys/devices/system") == bool(os.listdir("/sys/devices").count("system"))
"""
    run(bench, "--", "/usr/bin/python3", "-c", code, expect=0)


def case_ucx(bench):
    if not shutil.which("ucx_info"):
        raise LeftOut("ucx_info is not installed")
    if bench.sanitized:
        raise LeftOut("UCX's memory hooks and a sanitizer do not work together")
    out = run(bench, "--", "ucx_info", "-d", expect=0).out
    for text in "Memory domain: vrb0", "Transport: rc_verbs", "Device: vrb0:1":
        want(text in out, f"no {text!r} in\n{out}")


def counter(text, name):
    """How much a counter has grown, as perftest reports it."""
    lines = [line for line in text.splitlines() if name in line]
    want(lines, f"no {name} in\n{text}")
    return int(lines[-1].split("=")[-1].split(":")[-1].split()[-1])


def case_perftest_counters(bench):
    """perftest keeps the counter files open and reads them again at the end: the second reading
    must give the current values."""
    if not shutil.which("ib_send_bw"):
        raise LeftOut("perftest is not installed")
    if bench.sanitized:
        raise LeftOut("a preloaded library must not come before a sanitizer's run-time")
    port = str(bench.ports.take())
    argv = [
        bench.tool(), "run", "-d", "lo", "--", "ib_send_bw", "-n", "200", "-s", "1024", "-F", "-p",
        port, "-W",
        "hw_counters/out_of_buffer,hw_counters/rdma_sends,counters/port_xmit_data",
    ]
    server, client = bench.pair(argv, [*argv, "127.0.0.1"], int(port))
    want("Unable" not in server + client, server + client)
    want(
        counter(client, "rdma_sends") >= 200
        and counter(client, "port_xmit_data") >= 200 * 1024 // 4,
        client,
    )


def case_stock_librdmacm(bench):
    """A program that connects through another librdmacm gets one warning; a program that is only
    linked with it gets none."""
    if not shutil.which("rping"):
        raise LeftOut("rping is not installed")
    if bench.sanitized:
        raise LeftOut("a preloaded library and a sanitizer's run-time do not work together")
    line = "is not Verbena's librdmacm"
    ours = os.path.exists(os.path.join(bench.lib, "librdmacm.so.1"))
    done = run(
        bench, "--", "timeout", "5", "rping", "-c", "-a", "127.0.0.1", "-C", "1", "-p",
        str(bench.ports.take()),
    )
    want_equal((done.out + done.err).count(line), 0 if ours else 1, done.describe())
    done = run(bench, "--", "ib_send_bw", "--version")
    want(line not in done.out + done.err, done.describe())


def need(program, package):
    if not any(
        os.path.exists(os.path.join(folder, program))
        for folder in ("/usr/bin", "/usr/sbin", "/sbin", "/bin")
    ):
        raise LeftOut(f"{package}'s {program} is not installed")


def rdma(bench, *words, **options):
    need("rdma", "iproute2")
    return bench.verbena("rdma", *words, **options)


def case_rdma_shows_devices(bench):
    """iproute2 queries devices by netlink, like test suites that search the interface of one."""
    names = {device["device"]: device["netdev"] for device in bench.json("netdevs")}
    links = json.loads(rdma(bench, "link", "show", "-j", expect=0).out)
    want_equal({link["ifname"]: link["netdev"] for link in links}, names, "links")
    for link in links:
        want(
            link["port"] == 1
            and link["state"] in ("ACTIVE", "DOWN")
            and link["netdev_index"] == socket.if_nametoindex(link["netdev"]),
            link,
        )
    # Without the shorter form, through a shell, and of one device.
    text = run(bench, "--", "sh", "-c", "rdma link show vrb0/1", expect=0).out
    want(text.startswith("link vrb0/1 state ") and f"netdev {links[0]['netdev']} " in text, text)
    devices = json.loads(rdma(bench, "dev", "-j", expect=0).out)
    want_equal([d["ifname"] for d in devices], [link["ifname"] for link in links], "devices")
    want(all(d["node_type"] == "ca" and len(d["node_guid"]) == 19 for d in devices), devices)
    counters = json.loads(rdma(bench, "statistic", "show", "-j", expect=0).out)
    want(
        all(c["port"] == 1 and "out_of_buffer" in c and "rcvd_pkts" in c for c in counters)
        and len(counters) == len(links),
        counters,
    )


def case_rdma_refuses(bench):
    done = rdma(bench, "link", "add", "x0", "type", "rxe", "netdev", "lo", expect=1)
    want("not supported" in done.out + done.err, done.describe())
    rdma(bench, "dev", "show", "none0", expect=1)
    want_equal(
        run(bench, "--", "rdma", "resource", "show", "mr", expect=1).out, "", "not reported"
    )


def case_ibstat(bench):
    """infiniband-diags: libibumad, and a shell script, read the ports' files."""
    need("ibstat", "infiniband-diags")
    path = os.environ["PATH"] + ":/usr/sbin"
    names = [device["device"] for device in bench.json("netdevs")]
    listed = run(bench, "--", "env", f"PATH={path}", "ibstat", "-l", expect=0).out.split()
    want_equal(sorted(listed), sorted(names), "devices")
    port = run(bench, "--", "env", f"PATH={path}", "ibstat", names[0], "1", expect=0).out
    want("State: Active" in port and "Link layer: Ethernet" in port, port)
    status = run(bench, "--", "env", f"PATH={path}", "ibstatus", names[0], expect=0).out
    want(f"'{names[0]}' port 1 status" in status and "4: ACTIVE" in status, status)


def case_no_preload(bench):
    if os.path.exists("/sys/class/infiniband"):
        raise LeftOut("this host has RDMA devices of the kernel")
    run(bench, "-n", "--", "test", "-e", "/sys/class/infiniband", expect=1)


def case_odd_folder(bench):
    """Installed where a shell, or the loader, would end the name."""
    place = os.path.join(bench.dir, "it's a folder")
    for folder in bench.bin, bench.lib:
        shutil.copytree(folder, os.path.join(place, os.path.basename(folder)), symlinks=True)
    tool = os.path.join(place, "bin", "verbena")
    done = bench.call(
        [tool, "run", "-d", "lo", "--", "ls", "/sys/class/infiniband"], expect=0, no_library=True
    )
    want_equal((done.out, done.err), ("vrb0\n", ""), "the devices")
    done = bench.call([tool, "doctor", "--json"], no_library=True)
    want("VD026" not in done.out, done.describe())


def case_options(bench):
    out = run(
        bench, "-d", "lo", "-t", "udp", "-l", "info", "-p", "4999", "--log-file", "/dev/null", "--",
        "env", expect=0,
    ).out.splitlines()
    for line in (
        "VERBENA_DEVICES=lo", "VERBENA_TRANSPORT=udp", "VERBENA_LOG=info", "VERBENA_UDP_PORT=4999",
        "VERBENA_LOG_FILE=/dev/null",
    ):
        want(line in out, f"no {line} in {out}")
    out = run(
        bench, "-r", "virtual", "-P", "none", "-f", "seed 1", "-s", "7", "-n", "--", "env",
        expect=0,
    ).out.splitlines()
    for line in (
        "VERBENA_RAW=virtual", "VERBENA_PROGRESS=none", "VERBENA_FAULTS=seed 1", "VERBENA_SEED=7",
    ):
        want(line in out, f"no {line} in {out}")
    out = run(bench, "-d", "lo", "--", "ls", "/sys/class/infiniband", expect=0).out
    want_equal(out, "vrb0\n", "the devices of -d lo")
    out = run(bench, "-t", "local", "--print", expect=0).out
    want("export VERBENA_TRANSPORT='local'\n" in out and "export LD_LIBRARY_PATH=" in out, out)
    out = run(bench, "-L", "/dev/shm/it's", "--print", expect=0).out
    told = bench.call(["sh", "-c", f'{out}\necho "$VERBENA_LOG_FILE"'], expect=0).out
    want_equal(told, "/dev/shm/it's\n", "what a shell makes of --print")


def completed(bench, *words):
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in ("verbena", *words))
    script = f"""PATH={bench.bin}:$PATH; source <(verbena completion)
        COMP_WORDS=({line}); COMP_CWORD={len(words)}; _verbena; echo "${{COMPREPLY[@]}}\""""
    return bench.call(["bash", "-c", script], expect=0, no_library=True).out.split()


def case_completion(bench):
    commands = completed(bench, "")
    want({"run", "trace", "completion", "--version"} <= set(commands), commands)
    for command in commands:
        if command.startswith("-"):
            continue
        told = bench.verbena(command, "--help", expect=0).out
        options = set(re.findall("--[a-z][a-z-]*", told)) | {"--help"}
        want_equal(sorted(set(completed(bench, command, "-"))), sorted(options), command)
    want_equal(completed(bench, "fault", "s"), ["sweep"], "actions")
    want_equal(completed(bench, "info", "vrb0"), ["vrb0"], "devices")
    want("RETRY_EXC_ERR" in " ".join(completed(bench, "explain", "")), "statuses")


def case_statuses(bench):
    for words, status in (
        (["--", "sh", "-c", "exit 42"], 42), (["--", "/no/such/program"], 127),
        (["--", "/etc"], 126), ([], 2), (["-x", "--", "true"], 2),
        (["--nonsense", "--", "true"], 2), (["-p", "0", "--", "true"], 2), (["-p"], 2),
        (["-t", "carrier-pigeon", "--", "true"], 2), (["-l", "loud", "--", "true"], 2),
    ):
        done = run(bench, *words, expect=status)
        if status != 42:
            want(len(done.err.splitlines()) == 1, done.describe())
    for words, option in (
        (["-xy"], "-x"), (["--print", "-xn"], "-x"), (["--nonsense=1"], "--nonsense=1"),
        (["--no-preload=1"], "--no-preload=1"),
    ):
        done = run(bench, *words, expect=2)
        want(f"unknown option {option};" in done.err, done.describe())
    done = run(bench, "--", "true", env={"VERBENA_UDP_PORT": "garbage"}, expect=2)
    want("VERBENA_UDP_PORT=garbage" in done.err, done.describe())


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
