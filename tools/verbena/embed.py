# SPDX-License-Identifier: BSD-2-Clause
"""embed.py FILE NAME HEADER: the text of a file as a C string of that name."""
import json
import sys

source, name, header = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    lines = file.read().splitlines(keepends=True)
with open(header, "w", encoding="ascii") as out:
    out.write(f"static const char {name}[] =\n")
    for line in lines:
        # JSON's escapes of ASCII are those of C, but for a trigraph's and those of other letters.
        text = "".join(c if c < "\x80" else "".join(f"\\{b:03o}" for b in c.encode())
                       for c in json.dumps(line, ensure_ascii=False))
        out.write(text.replace("?", "\\?") + "\n")
    out.write(";\n")
