# SPDX-License-Identifier: BSD-2-Clause
"""Pages in headless Chromium: their contents after the scripts ran, and screenshots."""
import html
import os
import re
import shutil
import struct
import subprocess
import tempfile
import zlib

from tools import LeftOut

WIDTH, HEIGHT = 900, 400


def chromium(page, fragment, *words):
    """Opens file `page` and returns the browser's output. Each run has a profile of its own."""
    if not shutil.which("chromium"):
        raise LeftOut("no chromium")
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={home}/profile", f"--window-size={WIDTH},{HEIGHT}", *words,
             f"file://{page}#{fragment}"],
            env={**os.environ, "HOME": home}, capture_output=True, text=True, timeout=200,
            check=True,
        ).stdout


class Opened:
    """The page after its scripts ran."""

    def __init__(self, page, fragment=""):
        self.dom = chromium(page, fragment, "--dump-dom")

    def text(self, element):
        """The text of the element with that id, which contains no other element."""
        return html.unescape(re.search(rf'id="{element}"[^>]*>([^<]*)<', self.dom)[1])

    def data(self, name):
        """A value that a script put into the dataset of the body."""
        return html.unescape(re.search(rf'<body[^>]* data-{name}="([^"]*)"', self.dom)[1])

    def counts(self):
        return {name: int(n) for name, n in re.findall(r'data-count="([^"]*)">(\d+)<', self.dom)}


def screenshot(page, fragment=""):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.png")
        chromium(page, fragment, f"--screenshot={path}")
        with open(path, "rb") as file:
            return rows_of(file.read())


def paeth(a, b, c):
    return min((a, b, c), key=lambda v: abs(a + b - c - v))


def rows_of(png):
    """The rows of a PNG of 8 bits a sample, each a list of tuples (the PNG specification, 9.2)."""
    at, packed = 8, b""
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack_from(">IIBB", body)
            step = {2: 3, 6: 4}[colour]
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    data, above, rows = zlib.decompress(packed), bytes(width * step), []
    for y in range(height):
        start = y * (width * step + 1)
        method, row = data[start], bytearray(data[start + 1:start + 1 + width * step])
        for i in range(len(row) if method else 0):
            left = row[i - step] if i >= step else 0
            corner = above[i - step] if i >= step else 0
            row[i] = (row[i] + (0, left, above[i], (left + above[i]) // 2,
                                paeth(left, above[i], corner))[method]) & 0xff
        rows.append([tuple(row[i:i + 3]) for i in range(0, len(row), step)])
        above = row
    return rows
