# SPDX-License-Identifier: BSD-2-Clause
"""Rows of services other than RC, and of options other than sizes and depths."""
import os

import harness

# All options of ibv_rc_pingpong, single and in valid combinations: -P requires -o, and -j excludes
# -o. With -t and -e together the program fails: it treats an event whose completion it has already
# polled as a failed poll.
RC_OPTIONS = [
    ("rc_pingpong -N", "ibv_rc_pingpong", "-N -c -n 100"),
    ("rc_pingpong -t", "ibv_rc_pingpong", "-t -c -n 100"),
    ("rc_pingpong -o", "ibv_rc_pingpong", "-o -c -n 100"),
    ("rc_pingpong -o -P", "ibv_rc_pingpong", "-o -P -c -n 100"),
    ("rc_pingpong -O", "ibv_rc_pingpong", "-O -c -n 100"),
    ("rc_pingpong -O -P -N -e", "ibv_rc_pingpong", "-O -P -N -e -c -n 100"),
    ("rc_pingpong -j", "ibv_rc_pingpong", "-j -c -n 100"),
    ("rc_pingpong -j -N -t", "ibv_rc_pingpong", "-j -N -t -c -n 100"),
    ("rc_pingpong -o -P -t -N", "ibv_rc_pingpong", "-o -P -t -N -c -n 100"),
]

PINGPONGS = [
    ("uc_pingpong", "ibv_uc_pingpong", "-c -n 200"),
    ("uc_pingpong -e", "ibv_uc_pingpong", "-c -e -n 100 -s 9000 -m 512"),
    ("ud_pingpong", "ibv_ud_pingpong", "-c -n 200"),
    ("ud_pingpong -e", "ibv_ud_pingpong", "-c -e -n 100 -s 900"),
    ("srq_pingpong -o -e", "ibv_srq_pingpong", "-o -e -c -q 3 -n 50"),
    ("xsrq_pingpong", "ibv_xsrq_pingpong", "-c 1 -n 50"),
    ("xsrq_pingpong -e -o", "ibv_xsrq_pingpong", "-c 1 -e -o -n 50 -s 5000 -m 512"),
    ("xsrq_pingpong -g -l", "ibv_xsrq_pingpong", "-c 1 -g {v4} -l 3 -i 1 -n 50"),
]

# ib_send_bw hangs if an unreliable service loses a message. So the messages of its rows fit into a
# socket buffer of the default size (425,984 bytes, of which a datagram of 1,000 takes 2,304), even
# if the receiver gets no CPU meanwhile. Its rows with UC are in stock.py's group `unreliable`.
PERFTEST = [
    *[
        (f"{program} -c {kind}", program, f"-c {kind} -n {count} -s {size}")
        for kind, count, size, programs in (
            ("UC", 200, 5000, ("ib_send_lat", "ib_write_bw", "ib_write_lat")),
            ("UD", 100, 1000, ("ib_send_bw", "ib_send_lat")),
            (
                "XRC",
                200,
                5000,
                ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_read_bw", "ib_read_lat"),
            ),
        )
        for program in programs
    ],
    ("ib_atomic_bw -c XRC", "ib_atomic_bw", "-c XRC -n 200"),
    ("ib_write_bw -c XRC -q 4 -b", "ib_write_bw", "-c XRC -q 4 -b -n 200 -s 4096"),
    ("ib_send_bw -c UD -q 4", "ib_send_bw", "-c UD -q 4 -n 40 -s 500"),
    ("ib_send_bw -c UD -e", "ib_send_bw", "-c UD -e -n 100 -s 1000"),
    ("ib_send_bw -c XRC -e", "ib_send_bw", "-c XRC -e -n 200"),
    ("ib_send_bw -c UD --use-srq", "ib_send_bw", "-c UD --use-srq -n 100 -s 1000"),
    ("ib_send_lat --use-srq", "ib_send_lat", "--use-srq -n 200"),
    *[
        (f"ib_send_bw -I {size}", "ib_send_bw", f"-I {size} -s {size} -n 200")
        for size in (1, 64, 512, 900)
    ],
    ("ib_write_lat -I 220", "ib_write_lat", "-I 220 -s 220 -n 200"),
    ("ib_send_lat -c UD -I 100", "ib_send_lat", "-c UD -I 100 -s 100 -n 200"),
    ("ib_write_bw --odp", "ib_write_bw", "--odp -n 200"),
]

# perftest's default group, in ff01::/16, is interface-local.
IPV6_GROUP = "-M 255:2:0:0:0:0:0:0:0:0:0:0:0:77:2:{group}"
IPV4_GROUP = "-M 0:0:0:0:0:0:0:0:0:0:255:255:239:77:2:{group}"
MULTICAST = [
    ("ib_send_bw multicast", "ib_send_bw", f"-c UD -g {IPV4_GROUP} -x {{v4}} -n 100 -s 1000"),
    ("ib_send_lat multicast", "ib_send_lat", f"-c UD -g {IPV4_GROUP} -x {{v4}} -n 200 -s 64"),
]
MULTICAST_IPV6 = [
    ("ib_send_bw multicast, IPv6", "ib_send_bw", f"-c UD -g {IPV6_GROUP} -x {{v6}} -n 100 -s 1000"),
]

ONE_HOST = [*RC_OPTIONS, *PINGPONGS, *PERFTEST, *MULTICAST]

# Rows of each kind between two hosts; perftest gets the GID index, the other programs use LIDs.
BETWEEN_HOSTS = [
    *[row for row in RC_OPTIONS if len(row[0].split()) > 3],
    *PINGPONGS,
    *[(name, program, f"{args} -x {{v4}}") for name, program, args in PERFTEST
      if "-c" in args and "-I" not in args],
    *MULTICAST,
    *MULTICAST_IPV6,
]

# ibv_xsrq_pingpong with several clients at a time: their number, and the arguments of all.
XSRQ_CLIENTS = [(2, "-n 50"), (4, "-e -n 30 -s 20000"), (3, "-o -n 30 -m 256 -s 3000")]

# The files of these programs' XRC domains; only their owner can read them.
XRC_FILES = "/tmp/xrc_domain_server", "/tmp/xrc_domain_client"


def has_xrc(rows):
    return any("-c XRC" in args or program == "ibv_xsrq_pingpong" for _, program, args in rows)


def runnable(rows, uid, own_tmp):
    """The rows without those that fail because XRC files of another user exist, unless the programs
    have a private /tmp."""
    foreign = [name for name in XRC_FILES if os.path.exists(name) and os.stat(name).st_uid != uid]
    if foreign and not own_tmp and has_xrc(rows):
        kept = [row for row in rows if "-c XRC" not in row[2]]
        harness.left_out(len(rows) - len(kept), f"{foreign[0]} belongs to another user")
        return kept
    return rows
