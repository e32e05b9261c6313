#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The packages as users get them: `make test-package`.

    package.py [part of a case's name]

Builds the Debian package, the source release and, from that and without git, the RPM; looks into
them; then installs, uses and removes the Debian package in a fresh system of each release below,
which debootstrap makes.  Needs root, and a mirror of the distribution.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "stock"))
sys.dont_write_bytecode = True
from harness import Failure, LeftOut, run_table  # noqa: E402

SUITES = ("bookworm", "trixie")

# Of a system without Verbena: what an ordinary user of RDMA has.
STOCK = ("ibverbs-utils", "perftest")


def want(condition, text):
    if not condition:
        raise Failure(text)


def run(*argv, expect=0, **options):
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if expect is not None and done.returncode != expect:
        raise Failure(f"$ {' '.join(argv)}\n{done.stdout}[exit status {done.returncode}]")
    return done.stdout


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise LeftOut(f"{program} is not installed (scripts/setup package-test installs it)")


def version():
    return run(os.path.join(ROOT, "packaging", "version")).strip()


def deb():
    arch = run("dpkg", "--print-architecture").strip()
    return os.path.join(ROOT, "build-deb", f"verbena_{version()}_{arch}.deb")


def tarball():
    return os.path.join(ROOT, "build-dist", f"verbena-{version()}.tar.gz")


# ---- built and looked at -------------------------------------------------------------------------

def case_changelog_is_of_this_version(_):
    with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as text:
        newest = re.search(r"^## (\S+)", text.read(), re.M)
    with open(os.path.join(ROOT, "packaging", "verbena.spec"), encoding="utf-8") as text:
        spec = re.search(r"^Version:\s*(\S+)", text.read(), re.M)
    want(
        newest[1] == spec[1] == version(),
        f"CHANGELOG.md has {newest[1]}, the spec {spec[1]}, meson.build {version()}",
    )


def case_deb(_):
    need("dpkg-shlibdeps")
    run("make", "-C", ROOT, "deb")
    depends = run("dpkg", "-f", deb(), "Depends").strip()
    names = [entry.split()[0] for entry in depends.split(", ")]
    want(
        "libc6" in names and all("(>= " in entry for entry in depends.split(", ")),
        f"versions: {depends}",
    )
    want(
        not {"libibverbs1", "librdmacm1", "librdmacm1t64", "libsystemd0"} & set(names),
        f"not what our files name themselves: {depends}",
    )


def case_lintian(_):
    need("lintian")
    said = run("lintian", "--fail-on", "error,warning", "--allow-root", deb())
    want(not said.strip(), said)


def case_documents(_):
    """README.md's links, and the files that the tool and the manual pages name."""
    listed = run("dpkg-deb", "-c", deb())
    for name in "docs/FAULTS.md", "docs/TROUBLESHOOTING.md", "examples/common.c":
        want(f" ./usr/share/doc/verbena/{name}\n" in listed, name)


def case_release_build(_):
    """Without assertions, and nothing of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        run("dpkg-deb", "-x", deb(), folder)
        lib = os.path.join(folder, "usr", "lib", "verbena")
        symbols = run("nm", "-D", os.path.join(lib, "libibverbs.so.1"))
        want(
            "ibv_open_device" in symbols and "__assert_fail" not in symbols,
            "libibverbs.so.1 has assertions",
        )
        files = run("find", folder, "-path", "*/share/doc", "-prune", "-o",
                    "(", "-name", "*example*", "-o", "-name", "*_test*", ")", "-print")
        want(not files, files)


def case_rpm_from_source_release(_):
    """The source release builds without git, and the RPM has the files that the Debian package has.
    Not optimised, as the Debian package is, which takes minutes."""
    need("rpmbuild")
    run("make", "-C", ROOT, "dist")
    with tempfile.TemporaryDirectory() as top:
        away = os.path.join(top, "bin")
        os.mkdir(away)
        os.symlink("/bin/false", os.path.join(away, "git"))
        run("rpmbuild", "-tb", "--nodeps", "--define", f"_topdir {top}",
            "--define", "optflags -O0 -w", "--define", "stage_args -Db_lto=false", tarball(),
            env={**os.environ, "PATH": f"{away}:{os.environ['PATH']}"})
        (rpm,) = run("find", os.path.join(top, "RPMS"), "-name", "*.rpm").split()
        of_rpm = {
            name
            for name in run("rpm", "-qlp", rpm).splitlines()
            if not name.startswith("/usr/share/doc")
        }
    listed = run("sh", "-c", f"dpkg-deb --fsys-tarfile {deb()} | tar t").splitlines()
    of_deb = {name[1:] for name in listed if not name.endswith("/") and "/share/doc/" not in name}
    bare = {re.sub(r"\.gz$", "", name) for name in of_rpm}
    lacking = {name for name in of_deb if re.sub(r"\.gz$", "", name) not in bare}
    want(not lacking, f"only in the Debian package: {sorted(lacking)}")


# ---- installed, used, removed --------------------------------------------------------------------

# $0: the system's root. Mounts end with the mount namespace; the devices are those of any
# container.
ENTER = """
mount -t proc proc "$0/proc" && mount -t tmpfs none "$0/dev" && mkdir "$0/dev/shm" &&
mount -t tmpfs -o mode=1777 none "$0/dev/shm" &&
for d in null zero full random urandom; do
    touch "$0/dev/$d" && mount --bind "/dev/$d" "$0/dev/$d" || exit
done
exec chroot "$0" "$@"
"""

PINGPONG = """
VERBENA_UDP_PORT={port}; export VERBENA_UDP_PORT
verbena run -- ibv_rc_pingpong -p {port} -c >/tmp/server & server=$!
for i in $(seq 600); do
    verbena run -- ibv_rc_pingpong -p {port} -c 127.0.0.1 && break
    sleep 0.1
done && wait $server && cat /tmp/server && rm /tmp/server
"""


class System:
    """A fresh system in a folder, which knows the mirror that debootstrap knows."""

    def __init__(self, suite):
        if os.geteuid() != 0:
            raise LeftOut("only root can make a system")
        need("debootstrap", "unshare", "chroot")
        self.root = tempfile.mkdtemp(prefix="verbena-system-")
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", suite, self.root], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )
        if done.returncode:
            self.remove()
            raise LeftOut(
                f"no system of {suite}: {(done.stdout.strip().splitlines() or ['?'])[-1]}"
            )

    def __enter__(self):
        os.chmod(self.root, 0o755)
        shutil.copy("/etc/resolv.conf", os.path.join(self.root, "etc", "resolv.conf"))
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, *argv, expect=0):
        env = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C.UTF-8",
            "HOME": "/root",
            **{
                name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")
            },
        }
        return run("unshare", "-mpf", "sh", "-c", ENTER, self.root, *argv, expect=expect, env=env)

    def install(self, *packages):
        self.run("apt-get", "-qq", "install", "-y", "--no-install-recommends", *packages)

    def files(self):
        """All but what the package manager notes for itself."""
        found = run("find", self.root, "-xdev", "-not", "-type", "d", "-printf", "/%P\n")
        return {
            name
            for name in found.splitlines()
            if not name.startswith(("/var/lib/dpkg/", "/var/lib/apt/", "/var/cache/", "/var/log/"))
        }


def free_port():
    return 20000 + os.getpid() % 12000


def use(system):
    """Stock programs find devices by `verbena run`, and only by that."""
    want(
        "vrb" not in system.run("ibv_devices", expect=None),
        "rdma-core's library is not in its place",
    )
    devices = system.run("verbena", "run", "--", "ibv_devices")
    want("vrb" in devices, devices)
    said = system.run("verbena", "doctor", expect=None)
    want("Verbena works here" in said or "problem" not in said, said)
    said = system.run("sh", "-c", PINGPONG.format(port=free_port()))
    want(said.count("1000 iters") == 2, said)
    want(system.run("verbena", "--version").strip().endswith(version()), "verbena --version")


def life_of_a_package(suite):
    with System(suite) as system:
        system.run("apt-get", "-qq", "update")
        system.install(*STOCK)
        shutil.copy(deb(), os.path.join(system.root, "verbena.deb"))
        system.install("/verbena.deb")       # with what it depends on, which stays
        use(system)
        system.run("apt-get", "-qq", "purge", "-y", "verbena")
        before = system.files()
        want(
            not [name for name in before if "verbena" in name and name != "/verbena.deb"],
            sorted(before),
        )
        shutil.copy(
            os.path.join(ROOT, "docs", "ci", "install.sh"), os.path.join(system.root, "install.sh")
        )
        system.run("sh", "/install.sh", "/verbena.deb")
        use(system)
        system.run("apt-get", "-qq", "purge", "-y", "verbena")
        os.unlink(os.path.join(system.root, "install.sh"))
        after = system.files()
        want(after == before, f"left: {sorted(after - before)}, taken: {sorted(before - after)}")


CASES = [
    (name[5:], function) for name, function in list(globals().items()) if name.startswith("case_")
]
CASES += [(f"life on {suite}", lambda _, suite=suite: life_of_a_package(suite)) for suite in SUITES]

if __name__ == "__main__":
    sys.exit(run_table(CASES, None, sys.argv[1] if len(sys.argv) > 1 else None))
