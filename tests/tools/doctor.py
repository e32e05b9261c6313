# SPDX-License-Identifier: BSD-2-Clause
"""verbena doctor: each finding is provoked, by the environment, limits, namespaces, a seccomp
filter or sockets in the way."""
import array
import fcntl
import json
import os
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading

from tools import Failure, LeftOut, cases_of, filtered, main, want, want_equal

# Not in the fcntl module of Python 3.11.
F_OFD_SETLK = 37


def read(done):
    """Returns the findings by code; the exit status must match, and each must have texts."""
    try:
        report = json.loads(done.out)
    except ValueError as error:
        raise Failure(f"not JSON ({error}):\n{done.describe()}") from error
    want_equal(done.status, 1 if report["problems"] else 0, "exit status")
    for finding in report["findings"]:
        want(finding["seen"] and finding["do"], finding)
    return {finding["code"]: finding for finding in report["findings"]}


def must_find(done, code, seen=""):
    findings = read(done)
    want(code in findings, f"{code} was not found:\n{done.describe()}")
    want(seen in findings[code]["seen"], findings[code])


def provoke(bench, code, seen="", env=None, library=True):
    must_find(
        bench.call([bench.tool(), "doctor", "--json"], env, no_library=not library), code, seen
    )


def user(bench):
    return bench.user_prefix()


def namespace(bench, *flags):
    """A command prefix: new namespaces, with root's rights inside."""
    argv = ["unshare", *flags] if bench.as_root else ["unshare", "-Ur", *flags]
    if (
        not shutil.which("unshare")
        or subprocess.run([*argv, "true"], capture_output=True, check=False).returncode
    ):
        return None
    return argv


def in_namespace(bench, code, flags, script, seen="", env=None, wrap=()):
    """Runs a shell script as root of new namespaces, then the doctor as the user, behind the words
    of `wrap`."""
    argv = namespace(bench, *flags)
    if not argv:
        raise LeftOut("no namespaces here")
    tool = shlex.join(
        [*(user(bench) if bench.as_root else ()), *wrap, bench.tool(), "doctor", "--json"]
    )
    done = bench.call(
        [*argv, "sh", "-c", f"{{ {script}\n}} >&2 || exit 77\nexec {tool}"], env, prefix=[]
    )
    if done.status == 77:
        raise LeftOut(done.err.strip())
    must_find(done, code, seen)


def case_healthy(bench):
    findings = read(bench.call([bench.tool(), "doctor", "--json"]))
    want(
        not {
            "VD001", "VD002", "VD003", "VD005", "VD006", "VD007", "VD008", "VD009", "VD010",
            "VD011", "VD014", "VD016", "VD020", "VD023", "VD024", "VD025", "VD026", "VD032",
        }
        & set(findings),
        findings,
    )
    text = bench.call([bench.tool(), "doctor"], expect=0).out
    want("ok      " in text and "Verbena works here" in text and "\033" not in text, text)
    want("ok      " not in bench.call([bench.tool(), "doctor", "-q"], expect=0).out, "quiet")


def case_vd001_other_library(bench):
    provoke(bench, "VD001", library=False)


def stock_file(name):
    found = subprocess.run(
        ["ldconfig", "-p"], capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": os.environ["PATH"] + ":/sbin:/usr/sbin"},
    ).stdout
    for line in found.splitlines():
        if line.strip().startswith(f"{name} "):
            return line.split()[-1]
    raise LeftOut(f"the distribution's {name} is not installed")


def stock_library(bench):
    folder = os.path.join(bench.dir, "stock")
    os.makedirs(folder, mode=0o755, exist_ok=True)
    shutil.copyfile(stock_file("libibverbs.so.1"), os.path.join(folder, "libibverbs.so.1"))
    return folder


def case_vd002_library_order(bench):
    folder = stock_library(bench)
    if not folder:
        raise LeftOut("rdma-core's library is not installed")
    provoke(bench, "VD002", folder, env={"LD_LIBRARY_PATH": f"{folder}:{bench.lib}"})


def case_vd003_other_build(bench):
    folder = os.path.join(bench.dir, "other")
    os.mkdir(folder, 0o755)
    target = os.path.join(folder, "libibverbs.so.1")
    shutil.copyfile(os.path.join(bench.lib, "libibverbs.so.1"), target)
    with open(target, "ab") as library:
        library.write(b"another build")
    provoke(bench, "VD003", folder, env={"LD_LIBRARY_PATH": folder})


def case_vd004_private_dev(bench):
    in_namespace(bench, "VD004", ["-m"], """
        mkdir -p {0} && mount -t tmpfs none {0} && mkdir {0}/shm && chmod 1777 {0}/shm &&
        for f in null zero urandom; do touch {0}/$f && mount --bind /dev/$f {0}/$f; done &&
        mount --rbind {0} /dev""".format(os.path.join(bench.dir, "dev")), "/dev has no devices")


def seccomp(bench, code, seen, call, value, family=-1):
    prefix = filtered(bench, call, value, family)
    done = bench.call([*prefix, bench.tool(), "doctor", "--json"])
    if done.status == 77:
        raise LeftOut("no seccomp here")
    must_find(done, code, seen)


def case_vd005_no_sockets(bench):
    seccomp(bench, "VD005", "", "socket", 97)


def case_vd006_no_interface(bench):
    in_namespace(bench, "VD006", ["-n"], "true", "lo is down")


def case_vd007_devices(bench):
    provoke(bench, "VD007", "none0", env={"VERBENA_DEVICES": "none0"})
    provoke(bench, "VD007", "'none0'", env={"VERBENA_DEVICES": "lo,none0"})


def case_vd008_environment(bench):
    provoke(bench, "VD008", "VERBENA_TRANSPORT=x", env={"VERBENA_TRANSPORT": "x"})


def case_vd035_unknown_variable(bench):
    provoke(bench, "VD035", "VERBENA_TRANSPRT", env={"VERBENA_TRANSPRT": "udp"})
    known = {"VERBENA_RSOCKET_DIR": "/nowhere", "VERBENA_TEST_LIMIT": "9", "VERBENA_ECN": "off"}
    want("VD035" not in read(bench.call([bench.tool(), "doctor", "--json"], known)), known)


def case_vd009_open(bench):
    seccomp(bench, "VD009", "", "eventfd2", 12)


def limited(bench, code, option, seen=""):
    if bench.sanitized and "--as" in option:
        raise LeftOut("a sanitizer's run-time takes more address space")
    must_find(bench.call(["prlimit", option, bench.tool(), "doctor", "--json"]), code, seen)


def case_vd010_port_taken(bench):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        provoke(bench, "VD010", "127.0.0.1", env={"VERBENA_UDP_PORT": str(other.getsockname()[1])})
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
        other.bind(("::", 0))
        done = bench.call(
            [bench.tool(), "doctor", "--json"], {"VERBENA_UDP_PORT": str(other.getsockname()[1])}
        )
        codes = [finding["code"] for finding in json.loads(done.out)["findings"]]
        want_equal(codes.count("VD010"), 1, "one finding for all addresses")


def case_vd011_firewall(bench):
    in_namespace(
        bench,
        "VD011",
        ["-n"],
        """
        ip link set lo up && nft add table ip t &&
        nft add chain ip t c '{ type filter hook input priority 0; }' &&
        nft add rule ip t c udp dport 4791 drop""",
        "127.0.0.1",
        env={"VERBENA_UDP_PORT": "4791"},
    )


def case_vd012_no_ipv6(bench):
    in_namespace(
        bench, "VD012", ["-n"], "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 && ip link set lo up"
    )


def case_vd013_small_mtu(bench):
    in_namespace(
        bench, "VD013", ["-n"], "ip link set lo mtu 1111 && ip link set lo up", "lo has 1111"
    )


def case_vd014_large_packets(bench):
    in_namespace(
        bench,
        "VD014",
        ["-n"],
        """
        ip link set lo up && nft add table ip t &&
        nft add chain ip t c '{ type filter hook input priority 0; }' &&
        nft add rule ip t c udp length \\> 1000 drop""",
        "127.0.0.1",
    )


def case_vd016_no_netlink(bench):
    seccomp(bench, "VD016", "", "socket", 97, socket.AF_NETLINK)


def case_vd020_no_directory(bench):
    in_namespace(
        bench,
        "VD020",
        ["-m"],
        "mount -t tmpfs -o ro none /dev/shm && mount --bind /tmp /tmp "
        "&& mount -o remount,ro,bind /tmp",
        "/dev/shm",
        env={"VERBENA_DIR": None},
    )


def case_vd020_mode_755(bench):
    """A directory of the user's own that others can read is accepted."""
    path = bench.make_dir("open")
    os.chmod(path, 0o755)
    findings = read(bench.call([bench.tool(), "doctor", "--json"], {"VERBENA_DIR": path}))
    want(not {"VD020", "VD021", "VD025"} & set(findings), findings)


def case_vd025_another_directory(bench):
    provoke(bench, "VD025", "/proc/self", env={"VERBENA_DIR": "/proc/self"})
    # An ordinary user is root in the namespace, but the host's root may have that directory.
    if not bench.as_root and os.path.exists("/tmp/verbena-0"):
        raise LeftOut("/tmp/verbena-0 belongs to another user")
    in_namespace(
        bench, "VD025", ["-m"], "mount -t tmpfs -o ro none /dev/shm", "/tmp/verbena-",
        env={"VERBENA_DIR": None},
    )


def case_vd026_no_probe(bench):
    folder = bench.make_dir("alone")
    os.chmod(folder, 0o755)
    tool = os.path.join(folder, "verbena")
    shutil.copyfile(bench.tool(), tool)
    os.chmod(tool, 0o755)
    must_find(bench.call([tool, "doctor", "--json"]), "VD026")


def case_vd026_no_process(bench):
    """Neither a process nor a thread can be started."""
    done = bench.call(["prlimit", "--nproc=1", bench.tool(), "doctor", "--json"])
    must_find(done, "VD026", "no process")
    must_find(done, "VD009", "unavailable")
    done = bench.call(["prlimit", "--nproc=1", bench.tool("ibv_devinfo")])
    want("its thread cannot be started" in done.err, done.describe())


def case_vd027_rdma_cm(bench):
    theirs = stock_file("librdmacm.so.1")
    folder = bench.make_dir("cm")
    os.chmod(folder, 0o755)
    for source, name in (
        (os.path.join(bench.lib, "libibverbs.so.1"), "libibverbs.so.1"),
        (theirs, "librdmacm.so.1"),
    ):
        shutil.copyfile(source, os.path.join(folder, name))
    provoke(bench, "VD027", folder, env={"LD_LIBRARY_PATH": folder})


def case_vd021_shm(bench):
    in_namespace(
        bench, "VD021", ["-m"], "mount -t tmpfs -o size=1m,mode=1777 none /dev/shm", "/dev/shm",
        env={"VERBENA_DIR": None},
    )


def case_vd022_file_size(bench):
    limited(bench, "VD022", "--fsize=65536")


def case_vd023_version(bench):
    path = bench.make_dir("version")
    table = os.path.join(path, "table")
    with open(table, "wb") as out:
        out.write(
            struct.pack("=QIIIIII", 0x54534F4842525635, 99, 1024, 65536, 64, 8, 0) + bytes(4096)
        )
        out.flush()
        if bench.as_root:
            os.chown(table, 65534, 65534)
        # A live process of any version holds this lock.
        fcntl.fcntl(
            out, F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 1 << 41, 1, 0)
        )
        provoke(bench, "VD023", "version 99", env={"VERBENA_DIR": path})


def answer(listener):
    """Simulates a process of another version."""
    connection, _ = listener.accept()
    with connection, tempfile.TemporaryFile() as text:
        text.write(b'{"version": "9.9", "pid": 1, "program": "old"}')
        text.flush()
        connection.sendmsg(
            [b"A"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [text.fileno()]))]
        )


def case_vd024_other_version(bench):
    path = bench.make_dir("mix")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        name = os.path.join(path, "s0999.query")
        listener.bind(name)
        os.chmod(name, 0o777)
        listener.listen(1)
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        provoke(bench, "VD024", "9.9", env={"VERBENA_DIR": path})
        thread.join(10)


def case_vd030_attach(bench):
    seccomp(bench, "VD030", "seccomp", "process_vm_readv", 1)


def case_vd030_yama(bench):
    """Simulates a kernel with Yama: its setting exists, and attaching is refused."""
    wrap = filtered(bench, "process_vm_readv", 1)
    in_namespace(
        bench,
        "VD030",
        ["-m"],
        """
        mkdir -p {0}/yama && echo 2 > {0}/yama/ptrace_scope && chmod -R a+rX {0} &&
        mount --bind {0} /proc/sys/kernel""".format(
            os.path.join(bench.dir, "kernel")
        ),
        "Yama",
        wrap=wrap,
    )


def case_vd031_locked_memory(bench):
    limited(bench, "VD031", "--memlock=65536")


def case_vd032_files(bench):
    limited(bench, "VD032", "--nofile=32")


def case_vd033_address_space(bench):
    limited(bench, "VD033", "--as=1000000000")


def case_vd034_kernel_devices(bench):
    in_namespace(bench, "VD034", ["-m"], f"""
        d={bench.dir}/class && mkdir -p $d/infiniband $d/net && mount --bind $d /sys/class""")


def case_emulated_devices(bench):
    if os.path.exists("/sys/class/infiniband"):
        raise LeftOut("the kernel has RDMA devices")
    findings = read(bench.verbena("run", "--", bench.tool(), "doctor", "--json"))
    want("VD034" not in findings, findings)


def case_bad_input(bench):
    for words in ["-x"], ["word"]:
        done = bench.verbena("doctor", *words, expect=2)
        want(len(done.err.splitlines()) == 1, done.describe())


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
