#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every example that names a release names the version of meson.build and the repository of
packaging/publisher."""
import os
import re
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PLACES = (
    "README.md", "action.yml", "docs/ci/README.md", "docs/ci/workflow.yml", "docs/ci/gitlab-ci.yml",
    "docs/ci/install.sh", "docs/ci/Dockerfile", "packaging/make-deb", "packaging/verbena.spec",
)


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as text:
        return text.read()


def complaints(name, text, version, publisher):
    for used in re.findall(r"[\w.-]+/verbena@\S*[\w)]", text):
        if used.rstrip(")`") != f"{publisher['REPOSITORY']}@v{version}":
            yield f"{name}: {used}"
    for named in re.findall(r"verbena_(\d[\d.]*)_|`v(\d[\d.]*)`|^Version:\s*(\d\S+)", text, re.M):
        if max(named) != version:
            yield f"{name}: version {max(named)}"
    for invented in re.findall(r"[\w.-]+@[\w-]+\.[\w.-]*[a-z]|github\.com/[\w./-]+", text):
        if not invented.startswith(("verbena@v", "checkout@v")):
            yield f"{name}: {invented}, which belongs into packaging/publisher"


def main():
    version = subprocess.run(
        [os.path.join(ROOT, "packaging", "version")], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    publisher = dict(re.findall(r'^(\w+)="?([^"\n]+)', read("packaging/publisher"), re.M))
    found = [line for name in PLACES for line in complaints(name, read(name), version, publisher)]
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.M)[1]
    if newest != version:
        found.append(f"CHANGELOG.md: version {newest}")
    print("\n".join(found))
    return bool(found)


sys.exit(main())
