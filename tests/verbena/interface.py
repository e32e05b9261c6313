#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""libverbena's interface is one thing in five places: header, library, version script, manual
pages, documentation.

    interface.py SOURCE_ROOT BUILD_ROOT

Programs in C and C++ that use both forms of the calls that go by type are compiled with every
warning an error, linked and run; the example of verbena(3) is compiled and linked.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAM = r'''
#include <stdio.h>
#include <string.h>
#include <verbena/verbena.h>

static int on_send(struct ibv_wc *, int, struct ibv_send_wr *, void *);
static int on_send(struct ibv_wc *wcs, int num_wc, struct ibv_send_wr *wrs, void *arg)
{
	(void)wcs; (void)num_wc; (void)wrs; (void)arg;
	return -1;
}

static int on_recv(struct ibv_wc *wcs, int num_wc, struct ibv_recv_wr *wrs, void *arg)
{
	(void)wcs; (void)num_wc; (void)wrs; (void)arg;
	return -1;
}

int main(void)
{
	struct verbena_context_options options;
	struct ibv_send_wr *sends = NULL;
	struct ibv_recv_wr *recvs = NULL;
	int failed = 0;

	failed += verbena_context_options_init(&options, sizeof(options)) == 0;
	failed += verbena_post_wrs(NULL, sends, false) == -1;
	failed += verbena_post_wrs(NULL, recvs, true) == -1;
	failed += verbena_repost_loop(on_send, NULL, sends, 1, 0, NULL) == -1;
	failed += verbena_repost_loop(on_recv, NULL, recvs, 1, 0, NULL) == -1;
	failed += strcmp(verbena_error(),
			 "verbena_repost_recv_loop: NULL argument or no requests: "
			 "Invalid argument") == 0;
	printf("%d\n", failed);
	return failed != 6;
}
'''
STRICT = ["-Wall", "-Wextra", "-Werror"]
COMPILERS = [(cc, [f"-std={std}"]) for cc in ("gcc", "clang") for std in ("c11", "gnu17")] + [
    (cxx, [f"-std={std}"]) for cxx in ("g++", "clang++") for std in ("c++11", "c++17", "c++20")
]
SANITIZERS = {"libasan": "address", "libtsan": "thread", "libubsan": "undefined"}


def output(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as text:
        return text.read()


def declared(header):
    return set(
        re.findall(
            r"\b(verbena_\w+)\(",
            re.sub(r"/\*.*?\*/", "", header.split("#ifdef __cplusplus\n}")[0], flags=re.S),
        )
    )


def page_names(root, build):
    """Every name with a page of its own or one that leads to the page of its group."""
    pages = glob.glob(os.path.join(root, "man", "*.3")) + glob.glob(
        os.path.join(build, "man", "*.3")
    )
    for page in pages:
        target = re.match(r"\.so man3/(\S+)", read(page))
        if target and not os.path.exists(os.path.join(root, "man", target.group(1))):
            sys.exit(f"{page} leads nowhere")
    return {os.path.basename(page)[:-2] for page in pages}


def check_names(root, build):
    library = os.path.join(build, "lib", "libverbena.so.0")
    names = declared(read(root, "include", "verbena", "verbena.h"))
    places = {
        "the library": set(
            re.findall(
                r" T (verbena_\w+)@@VERBENA_0\.1$",
                output("nm", "-D", "--defined-only", library),
                re.M,
            )
        ),
        "the version script": set(
            re.findall(r"(verbena_\w+);", read(root, "lib", "libverbena.map"))
        ),
        "manual pages": page_names(root, build) & names,
        "synopses of manual pages": {
            name
            for page in glob.glob(os.path.join(root, "man", "*.3"))
            for name in re.findall(r"\b(verbena_\w+)\(", read(page))
        }
        & names,
        "docs/VERBENA_API.md": set(
            re.findall(r"\b(verbena_\w+)\b", read(root, "docs", "VERBENA_API.md"))
        )
        & names,
    }
    wrong = {place: sorted(names ^ found) for place, found in places.items() if names != found}
    others = (
        set(re.findall(r" [A-Z] (\w+)", output("nm", "-D", "--defined-only", library)))
        - names
        - {"VERBENA_0"}
    )
    if wrong or others or len(names) < 20:
        sys.exit(
            f"{len(names)} functions are declared; elsewhere: {wrong}; "
            f"exported too: {sorted(others)}"
        )
    print(f"{len(names)} functions: declared, exported, documented")


def check_needs(build):
    """Whom the library leans on; sanitizers bring their own."""
    listing = output("readelf", "-d", os.path.join(build, "lib", "libverbena.so.0"))
    needed = re.findall(r"NEEDED.*\[(.*?)\]", listing)
    extra = [
        n for n in needed if not re.match(r"libibverbs\.so\.1|libc\.so|ld-linux|lib(a|t|ub)san", n)
    ]
    if extra or "SONAME" not in listing or "libverbena.so.0" not in listing:
        sys.exit(f"libverbena needs {extra}")
    return [
        f"-fsanitize={name}"
        for lib, name in SANITIZERS.items()
        if any(n.startswith(lib) for n in needed)
    ]


def manual_example(root):
    text = read(root, "man", "verbena.3").split(".EX\n")[1].split(".EE\n")[0]
    return text.replace("\\-", "-").replace("\\e", "\\")


def check_programs(root, build, sanitize):
    lib = os.path.join(build, "lib")
    ran = 0
    with tempfile.TemporaryDirectory() as tmp:
        for compiler, flags in COMPILERS:
            if not shutil.which(compiler):
                print(f"left out: 1: {compiler} is not installed")
                continue
            if sanitize and "clang" in compiler:
                print(f"left out: 1: {compiler} has a sanitizer's run-time of its own")
                continue
            source = os.path.join(tmp, "program.cc" if "+" in compiler else "program.c")
            with open(source, "w", encoding="utf-8") as text:
                text.write(PROGRAM)
            program = os.path.join(tmp, "program")
            command = [
                compiler, *flags, *STRICT, *sanitize, "-I", os.path.join(root, "include"), source,
                "-o", program, "-L", lib, "-lverbena", "-libverbs",
            ]
            subprocess.run(command, check=True)
            subprocess.run(
                [program],
                check=True,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "LD_LIBRARY_PATH": lib},
            )
            ran += 1
            if "+" not in compiler:
                with open(source, "w", encoding="utf-8") as text:
                    text.write(manual_example(root))
                # Its callback has parameters that it does not look at.
                subprocess.run([*command, "-Wno-unused-parameter"], check=True)
    print(f"{ran} compilers and standards")
    return ran


def main():
    root, build = sys.argv[1:3]
    check_names(root, build)
    if not check_programs(root, build, check_needs(build)):
        print("no compiler found")
        sys.exit(77)


if __name__ == "__main__":
    main()
