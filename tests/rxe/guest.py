#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A soft-RoCE peer to test against, on any machine with apt and QEMU: a Linux guest with an rxe
device.

    guest.py [--mtu N] [--kernel SUITE] [--root FOLDER] FOLDER -- COMMAND...

Fetches the kernel of this Debian (or of another SUITE of it) with apt from the mirror that apt is
configured for, unpacks it in FOLDER (it stays there for the next time), and boots it in QEMU.  The
guest's root is this machine's own, read-only: its programs and its rdma-core are the
distribution's.  Or it is another Debian's, which debootstrap has made
(--include=python3,ibverbs-providers,ibverbs-utils,iproute2,perftest,rdmacm-utils).  A tap device
in a network namespace of our own joins the two.  COMMAND runs in that namespace, with

    VERBENA_TEST_RXE_PEER    the guest's IPv4 address
    VERBENA_TEST_RXE_SHELL   what to put before a command that shall run there

and when it ends, so do guest and namespace.  Needs root.
"""
import argparse
import lzma
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
AGENT = os.path.join(HERE, "agent.py")
PORT = 4711
OURS = ("10.78.0.1/24", "fd78::1/64")
PEER = ("10.78.0.2/24", "fd78::2/64")
MODULES = (
    "virtio_pci", "virtio_net", "9pnet_virtio", "9p", "ib_uverbs", "rdma_ucm", "rdma_rxe",
)
# Soft RoCE asks for it by name, up to 6.14: then CRCs became part of the kernel.
CRC_MODULE = "crc32_generic"
BOOT_S = 240
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "modprobe": "kmod",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "ip": "iproute2",
}


def run(*argv, **options):
    done = subprocess.run(argv, check=False, text=True, capture_output=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


# ---- the kernel ----------------------------------------------------------------------------------

def apt_options(folder, suite):
    """For another suite than apt knows: the same mirror, in lists of its own."""
    if not suite:
        return []
    targets = run(
        "apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages",
    )
    site, release, _ = next(line for line in targets.splitlines() if line.endswith(" main")).split(
        " "
    )
    if release == suite:
        return []
    lists = os.path.join(folder, "apt")
    os.makedirs(os.path.join(lists, "partial"), exist_ok=True)
    sources = os.path.join(folder, "apt.list")
    with open(sources, "w", encoding="ascii") as out:
        out.write(f"deb {site} {suite} main\n")
    options = [
        "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null", "-o",
        f"Dir::State::lists={lists}", "-o", "Dir::Cache::pkgcache=", "-o",
        "Dir::Cache::srcpkgcache=",
    ]
    run("apt-get", *options, "update")
    return options


def fetch_kernel(folder, suite):
    """A folder with the newest kernel and its modules."""
    name = os.path.join(folder, suite or "kernel")
    if os.path.isdir(name):
        return name
    os.makedirs(folder, exist_ok=True)
    options = apt_options(folder, suite)
    machine = run("dpkg", "--print-architecture").strip()
    depends = run("apt-cache", *options, "depends", f"linux-image-{machine}")
    package = re.search(r"Depends: (linux-image-\S+)", depends).group(1)
    print(f"fetching {package}")
    # Newer releases have the kernel and its modules in packages of their own.
    depends = run("apt-cache", *options, "depends", package)
    packages = [package, *re.findall(r"Depends: (linux-(?:base|binary|modules)-\S+)", depends)]
    run("apt-get", *options, "-o", "APT::Sandbox::User=root", "download", *packages, cwd=folder)
    shutil.rmtree(name + ".new", ignore_errors=True)
    for package in packages:
        deb = next(file for file in os.listdir(folder) if file.startswith(package + "_"))
        run("dpkg", "-x", deb, name + ".new", cwd=folder)
        os.remove(os.path.join(folder, deb))
    modules = next_entry(name + ".new", "usr/lib/modules", "lib/modules")
    run(
        "depmod", "-b", os.path.dirname(os.path.dirname(os.path.dirname(modules))),
        os.path.basename(modules),
    )
    os.rename(name + ".new", name)
    return name


def next_entry(kernel, *folders):
    """The only entry of the first of these folders that exists."""
    for folder in folders:
        path = os.path.join(kernel, folder)
        if os.path.isdir(path):
            return os.path.join(path, os.listdir(path)[0])
    raise SystemExit(f"{kernel}: none of {folders}")


def pack(kernel, folder):
    """An initramfs: busybox, the modules in the order in which they load, and init."""
    root = os.path.join(folder, "initramfs")
    shutil.rmtree(root, ignore_errors=True)
    for sub in "bin", "modules", "dev":
        os.makedirs(os.path.join(root, sub))
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin/busybox"))
    shutil.copy(os.path.join(HERE, "init"), os.path.join(root, "init"))
    version = os.path.basename(next_entry(kernel, "usr/lib/modules", "lib/modules"))
    base = kernel if os.path.isdir(os.path.join(kernel, "lib")) else os.path.join(kernel, "usr")
    order = []
    modprobe = ["modprobe", "-d", base, "-S", version, "--show-depends"]
    has_crc = subprocess.run([*modprobe, CRC_MODULE], capture_output=True, check=False)
    for module in MODULES if has_crc.returncode else (CRC_MODULE, *MODULES):
        for line in run(*modprobe, module).splitlines():
            path = line.split()[1] if line.startswith("insmod") else None
            if path and path not in order:
                order.append(path)
    with open(os.path.join(root, "modules/order"), "w", encoding="ascii") as out:
        for path in order:
            name = os.path.basename(path).removesuffix(".xz")
            with (lzma.open if path.endswith(".xz") else open)(path, "rb") as module:
                with open(os.path.join(root, "modules", name), "wb") as copy:
                    shutil.copyfileobj(module, copy)
            out.write(name + "\n")
    image = os.path.join(folder, "initramfs.cpio")
    with open(image, "wb") as out:
        names = run("find", ".", cwd=root)
        subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc"], input=names.encode(), stdout=out, cwd=root,
            check=True,
        )
    return image


# ---- the guest -----------------------------------------------------------------------------------

class Guest:
    """A namespace with a tap device, and QEMU at its other end."""

    def __init__(self, kernel, folder, root, mtu):
        self.console = os.path.join(folder, "console")
        self.qemu = None
        self.holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "echo ready; exec cat"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )
        if self.holder.stdout.readline() != "ready\n":
            raise SystemExit("no network namespace can be made here")
        self.enter = ["nsenter", "-t", str(self.holder.pid), "-n", "--"]
        for words in (
            "link set lo up", "tuntap add mode tap name tap0",
            f"link set tap0 addrgenmode none mtu {mtu} up", f"addr add {OURS[0]} dev tap0",
            f"addr add {OURS[1]} dev tap0 nodad",
        ):
            run(*self.enter, "ip", *words.split())
        self.boot(kernel, folder, root, mtu)

    def boot(self, kernel, folder, root, mtu):
        words = [   # on a busy machine the check of the timer would fail
            "console=ttyS0 panic=-1 quiet mitigations=off no_timer_check", f"rxe.mtu={mtu}",
            f"rxe.addresses={','.join(PEER)}", f"rxe.agent={AGENT}", f"rxe.port={PORT}",
        ]
        shares = [
            "-fsdev", share("host", root), "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
        ]
        if root != "/":     # this project, at its own path
            os.makedirs(root + PROJECT, exist_ok=True)
            words.append(f"rxe.project={PROJECT}")
            shares += [
                "-fsdev", share("project", PROJECT), "-device",
                "virtio-9p-pci,fsdev=project,mount_tag=project",
            ]
        # Software emulation: what it needs runs everywhere, and it is fast enough for the counts of
        # the tests.
        argv = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m",
            "1G", "-nodefaults", "-no-reboot", "-display", "none", "-serial",
            f"file:{self.console}", "-kernel", vmlinuz(kernel),
            "-initrd", pack(kernel, folder), "-append", " ".join(words), *shares,
            "-netdev",
            "tap,id=net,ifname=tap0,script=no,downscript=no",
            "-device",
            f"virtio-net-pci,netdev=net,romfile=,host_mtu={max(mtu, 9000)}",
        ]
        # Whatever way this program ends, QEMU does not outlive it.
        self.qemu = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *self.enter, "nice", "-n", "10", *argv],
            stdin=subprocess.DEVNULL,
        )
        self.shell = ["python3", AGENT, PEER[0].split("/")[0], str(PORT), "--"]
        deadline = time.monotonic() + BOOT_S
        while subprocess.run(
            [*self.enter, *self.shell, "true"], capture_output=True, check=False
        ).returncode:
            if self.qemu.poll() is not None or time.monotonic() > deadline:
                with open(self.console, encoding="utf-8", errors="replace") as text:
                    raise SystemExit(f"the guest does not come up:\n{text.read()[-4000:]}")
            time.sleep(0.5)

    def env(self):
        return {
            "VERBENA_TEST_RXE_PEER": PEER[0].split("/")[0],
            "VERBENA_TEST_RXE_SHELL": shlex.join(self.shell),
        }

    def run(self, argv):
        return subprocess.run(
            [*self.enter, *argv], env={**os.environ, **self.env()}, check=False
        ).returncode

    def close(self):
        if self.qemu and self.qemu.poll() is None:
            self.qemu.terminate()
            self.qemu.wait()
        self.holder.stdin.close()
        self.holder.wait()


def share(name, path):
    return f"local,id={name},path={path},security_model=none,readonly=on,multidevs=remap"


def vmlinuz(kernel):
    return next(
        os.path.join(folder, name) for folder, _, names in os.walk(kernel) for name in names
        if name.startswith("vmlinuz")
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--kernel", metavar="SUITE")
    parser.add_argument("--root", metavar="FOLDER", default="/")
    parser.add_argument("folder")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    folder = os.path.abspath(args.folder)
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if missing or os.geteuid():
        raise SystemExit(f"needs {', '.join(missing)}" if missing else "needs root")
    guest = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        guest = Guest(
            fetch_kernel(folder, args.kernel), folder, os.path.abspath(args.root), args.mtu
        )
        return guest.run(args.command)
    finally:
        if guest:
            guest.close()


if __name__ == "__main__":
    sys.exit(main())
