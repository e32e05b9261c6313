# SPDX-License-Identifier: BSD-2-Clause
"""verbena record and verbena trace: a program's recording, its numbers, its log and its packets."""
import collections
import glob
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

from browser import WIDTH, Opened, screenshot
from tools import LeftOut, cases_of, main, want, want_equal
import netns

PROGRAM, PAIR = sys.argv.pop(2), sys.argv.pop(2)
MESSAGES = 10
MANY, AT_ONCE = 64, 8       # processes
PAIRED = 8                  # messages of PAIR
FILES = 64                  # files beside a recording
DAY = 86400                 # by which the clock of the second host is off, seconds
HEADER, CHUNK_HEADER, MASK = 4096, 32, (1 << 64) - 1


def folder(bench):
    """A place of its own that the ordinary user can write to."""
    name = tempfile.mkdtemp(dir=bench.dir)
    os.chmod(name, 0o777)
    return os.path.join(name, "out")


def program(bench):
    copy = os.path.join(bench.bin, "recorded")
    if not os.path.exists(copy):
        shutil.copyfile(PROGRAM, copy)
        os.chmod(copy, 0o755)
    return copy


def record(bench, role, *options, **kwargs):
    out = folder(bench)
    bench.verbena("record", "-o", out, *options, "--", program(bench), role,
                  **{"expect": 0, **kwargs})
    # An ordinary user records, so an ordinary user must read.
    return out


def trace(bench, *words, **kwargs):
    return bench.verbena("trace", *words, **{"expect": 0, **kwargs})


def summary(bench, out):
    return json.loads(trace(bench, "summary", "--json", out).out)["processes"]


def shown(bench, out, *words):
    """The lines of the log: time, process, text."""
    lines = [line.split(maxsplit=2) for line in
             trace(bench, "show", *words, out).out.splitlines()]
    return [(float(time), process.split("/")[-2], text) for time, process, text in lines]


def case_summary(bench):
    out = record(bench, "plain")
    (process,) = summary(bench, out)
    want_equal(process["verbs"]["create_qp"]["calls"], 2, "create_qp")
    want_equal(process["verbs"]["reg_mr"], {**process["verbs"]["reg_mr"], "calls": 3, "failed": 1},
               "reg_mr")
    want_equal((process["lost"], process["bad"]), (0, 0), "lost, bad")
    sender, = [q for q in process["queues"] if q["requests"]]
    sends = sender["requests"]["SEND"]
    want_equal([sends[k] for k in ("posted", "bytes", "completed", "failed")],
               [MESSAGES, 64 * MESSAGES, MESSAGES, 0], "SEND")
    latency = sends["latency_ns"]
    want_equal(sum(n for _, n in latency["histogram"]), MESSAGES, "histogram")
    want(0 < latency["p50"] <= latency["p99"] <= latency["max"], str(latency))
    receiver, = [q for q in process["queues"] if q["receives_posted"]]
    want_equal(receiver["received"], MESSAGES, "received")
    want(sender["packets_out"] >= MESSAGES, "packets out")
    want_equal(sender["packets_out"] + receiver["packets_out"],
               sender["packets_in"] + receiver["packets_in"], "packets out and in")
    (cq,) = process["cqs"]
    want_equal((cq["completions"], cq["polled"]), (2 * MESSAGES, 2 * MESSAGES), "CQ")
    want_equal(cq["not_taken"], 0, "not taken")
    want("now_for" not in sender["waited"], str(sender["waited"]))
    want(receiver["waited"]["own_receives_ns"] > 0, str(receiver["waited"]))
    text = trace(bench, "summary", out).out
    want("SEND" in text and "create_qp" in text, text)
    want(re.search(r"create_qp .* failed  [\d.]+ us in all, most ", text), text)
    want(re.search(r"poll_cq +\d+ calls +0 failed$", text, re.M), text)
    (line,) = [line for line in text.splitlines() if "histogram" in line]
    want_equal(sum(int(n) for n in re.findall(r": (\d+)", line)), MESSAGES, "histogram in text")


def case_any_command(bench):
    """A command is cut by bytes, and may have any; the summary is JSON all the same."""
    for cut in "a", "ab":
        out = folder(bench)
        bench.verbena("record", "-o", out, "--", program(bench), "plain", cut + "é" * 200,
                      expect=0)
        (process,) = summary(bench, out)
        want("é" in process["command"], process["command"])


def case_show(bench):
    out = record(bench, "plain")
    lines = trace(bench, "show", out).out.splitlines()
    times = [float(line.split()[0]) for line in lines]
    want_equal(times, sorted(times), "times")
    sends = trace(bench, "show", "--type", "send", out).out.splitlines()
    want_equal(len(sends), MESSAGES, "sends")
    one = trace(bench, "show", "--wr-id", "103", out).out.splitlines()
    want_equal(sorted(line.split()[2] for line in one),
               ["completion", "completion", "recv", "send"], "wr_id 103")
    errors = trace(bench, "show", "--errors", "--type", "verb", out).out.splitlines()
    want(len(errors) == 1 and "ibv_reg_mr" in errors[0] and "EINVAL" in errors[0], str(errors))


def case_show_selects(bench):
    """By QP, opcode, time and errors; what fits several, all at once."""
    out = record(bench, "plain")
    lines = shown(bench, out)
    sends = [line for line in lines if re.match(r"send .* SEND", line[2])]
    (qpn,) = {line[2].split()[2] for line in sends}
    for _, _, text in shown(bench, out, "--qp", qpn):
        want(f"{qpn} " in text or text.endswith(qpn), text)
    want_equal(shown(bench, out, "--opcode", "RC_SEND_ONLY"),
               [line for line in lines if "RC_SEND_ONLY" in line[2]], "opcode")
    first, last = sends[2][0], sends[6][0]
    window = ["--since", f"{first:.9f}", "--until", f"{last:.9f}"]
    want_equal(shown(bench, out, *window), [line for line in lines if first <= line[0] <= last],
               "time")
    want_equal(shown(bench, out, *window, "--type", "send", "--qp", qpn), sends[2:7], "all")
    (error,) = shown(bench, out, "--errors")
    want("ibv_reg_mr" in error[2], error[2])


def case_stacks(bench):
    """Each post is followed by its stack, by symbols while the program is there."""
    out = record(bench, "plain", "--what", "verbs,stacks")
    stacks = shown(bench, out, "--type", "stack")
    want_equal(len(stacks), 2 * MESSAGES, "stacks")
    for _, _, text in stacks:
        want(re.match(r"stack +world_(recv|post)\+0x\w+ \(recorded\+0x\w+\) < ", text) and
             " < message+0x" in text and " < role_plain+0x" in text, text)
    one = [text.split()[0] for _, _, text in shown(bench, out, "--wr-id", "103")]
    want_equal(one, ["recv", "stack", "send", "stack", "completion", "completion"], "wr_id 103")
    page = page_of(bench, out)
    want("role_plain+0x" in Opened(page, "find=post SEND").text("details"), "stack in the page")
    os.rename(program(bench), program(bench) + ".gone")
    try:
        text = shown(bench, out, "--type", "stack")[0][2]
        want(re.match(r"stack +recorded\+0x\w+ < recorded\+0x\w+ < ", text), text)
    finally:
        os.rename(program(bench) + ".gone", program(bench))
    want_equal(shown(bench, record(bench, "plain"), "--type", "stack,module"), [], "off")


def case_stacks_damaged(bench):
    """Stacks are shown even if the program's file is damaged."""
    out = record(bench, "plain", "--what", "verbs,stacks")
    with open(program(bench), "rb") as file:
        whole = file.read()
    sections, = struct.unpack_from("<Q", whole, 0x28)   # e_shoff
    places = [*range(0, 64, 3), *range(sections, len(whole), 29)]
    try:
        for i, at in enumerate(places[:80]):
            data = bytearray(whole[:len(whole) // 2] if i % 7 == 0 else whole)
            for place in range(at, min(at + 1 + i % 8, len(data))):
                data[place] ^= 0xff if i % 2 else 0x10 << i % 4
            with open(program(bench), "wb") as file:
                file.write(data)
            want_equal(len(shown(bench, out, "--type", "stack")), 2 * MESSAGES, f"byte {at}")
    finally:
        with open(program(bench), "wb") as file:
            file.write(whole)


def case_extended(bench):
    """Polls of the extended form take completions; those of an SRQ have arrows from their posts."""
    out = record(bench, "extended", env={"VERBENA_FAULTS": "wr tx nth 12 fail ENOMEM"})
    (process,) = summary(bench, out)
    (cq,) = process["cqs"]
    want_equal((cq["completions"], cq["polled"], cq["not_taken"]), (20, 20, 0), "CQ")
    want_equal([(q["kind"], q["received"]) for q in process["queues"] if q["received"]],
               [("SRQ", 10)], "received")
    path = os.path.join(os.path.dirname(out), "x.json")
    trace(bench, "perfetto", "-o", path, out)
    with open(path, encoding="ascii") as file:
        events = json.load(file)["traceEvents"]
    want_equal(len([e for e in events if e["ph"] == "s" and e["cat"] == "completed"]), 20, "arrows")


def case_window(bench):
    out = record(bench, "faulty", env={"VERBENA_FAULTS": "packet tx opcode SEND nth 5 drop",
                                       "VERBENA_TRANSPORT": "udp"})
    texts = [text for _, _, text in shown(bench, out, "--type", "engine")]
    want(any(re.search(r"changes its window, PSN \d+: \d+ packets", text) for text in texts),
         str(texts))
    (process,) = summary(bench, out)
    queue, = [q for q in process["queues"] if q["requests"]]
    want_equal(queue["requests"]["SEND"]["retransmitted"], queue["retransmitted"],
               "packets that left again")
    want(queue["waited"]["window_least"] > 0, str(queue["waited"]))


def case_faults(bench):
    """Each fault is in the log where it occurred, and is counted."""
    rules = "wr tx nth 3 fail ENOMEM; message tx opcode SEND nth 5 drop"
    out = record(bench, "faulty", env={"VERBENA_FAULTS": rules, "VERBENA_TRANSPORT": "local"})
    marks = trace(bench, "show", "--type", "fault", out).out.splitlines()
    want_equal(len(marks), 2, "marks")
    want("(wr tx nth 3 fail ENOMEM) strikes its number 3" in marks[0], marks[0])
    want("drop) strikes its number 5: out RC_SEND_ONLY PSN" in marks[1], marks[1])
    (process,) = summary(bench, out)
    want_equal(list(process["faults"].values()), [1, 1], "faults")
    want_equal(sorted(q["faults"] for q in process["queues"]), [0, 2], "faults of QPs")
    want_equal(sum(q["retransmitted"] for q in process["queues"]) > 0, True, "retransmitted")
    want(trace(bench, "summary", out).out.count("fault '") == 2, "summary")


def case_reason(bench):
    """A wrong rkey: the log says who refused what, and why."""
    out = record(bench, "refused")
    errors = trace(bench, "show", "--errors", out).out
    for text in "sends a NAK", "the rkey names no memory region", "got a NAK", "wr_id 0x5":
        want(text in errors, f"no {text!r} in\n{errors}")


def case_run_is_not_recorded(bench):
    # The tool opens devices itself; rules and recording apply to the program only.
    out = folder(bench)
    bench.verbena("run", "--faults", "verb ibv_get_device_list nth 1 kill", "--", "true",
                  env={"VERBENA_RECORD": out}, expect=0)
    want(not os.path.exists(out), "a recording of the tool")
    bench.verbena("run", "--", program(bench), "plain", env={"VERBENA_RECORD": out}, expect=0)
    want_equal(len(glob.glob(os.path.join(out, "*.vrec"))), 1, "recordings")


def case_what(bench):
    out = record(bench, "plain", "--what", "verbs")
    (process,) = summary(bench, out)
    want(not any(q["packets_out"] for q in process["queues"]), "packets were not asked for")


def case_fork(bench):
    first, second = summary(bench, record(bench, "forked"))
    want(first["pid"] != second["pid"], "one process")
    sent = [sum(q["requests"].get("SEND", {"posted": 0})["posted"] for q in p["queues"])
            for p in (first, second)]
    want_equal(sorted(sent), [1, 2], "sends of parent and child")


def case_exec(bench):
    first, second = summary(bench, record(bench, "exec"))
    want_equal(first["pid"], second["pid"], "process")
    sent = [sum(q["requests"].get("SEND", {"posted": 0})["posted"] for q in p["queues"])
            for p in (first, second)]
    want_equal(sorted(sent), [1, MESSAGES], "sends of each program")


def case_size(bench):
    """A ring keeps the latest records; `all` keeps everything."""
    ids = {}
    for size in "1", "all":
        out = record(bench, "long", "--size", size)
        (process,) = summary(bench, out)
        want_equal((process["lost"], process["bad"]), (0, 0), "lost, bad")
        ids[size] = [int(re.search(r"wr_id 0x(\w+)", text)[1], 16)
                     for _, _, text in shown(bench, out, "--type", "send")]
    count = len(ids["all"])
    want_equal(ids["all"], list(range(count)), "all")
    want(0 < len(ids["1"]) < count, "a part of them")
    want_equal(ids["1"], list(range(count - len(ids["1"]), count)), "the last")


def case_many(bench):
    """The recordings of all processes of a job, read together."""
    out = folder(bench)
    script = f'for i in $(seq {MANY // AT_ONCE}); do for j in $(seq {AT_ONCE}); do "$0" plain & ' \
        'done; wait; done'
    bench.verbena("record", "-o", out, "--size", "1", "--", "sh", "-c", script, program(bench),
                  expect=0)
    processes = summary(bench, out)
    want_equal(len(processes), MANY, "processes")
    want_equal(len({p["pid"] for p in processes}), MANY, "numbers")
    for p in processes:
        want_equal(sum(q["received"] for q in p["queues"]), MESSAGES, p["name"])
    lines = shown(bench, out, "--type", "send")
    want_equal(len(lines), MANY * MESSAGES, "sends")
    want_equal([line[0] for line in lines], sorted(line[0] for line in lines), "times")
    opened = Opened(page_of(bench, out))
    want_equal(opened.text("error"), "", "error")
    want_equal(opened.counts()["sends"], MANY * MESSAGES, "sends in the page")


def case_follow(bench):
    """The log follows a running program."""
    out = folder(bench)
    prefix, env = bench.user_prefix(), bench.env(None)
    with subprocess.Popen(
        [*prefix, bench.tool(), "record", "-o", out, "--", program(bench), "steps"],
        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as running:
        def step():
            running.stdin.write(b".")
            running.stdin.flush()
            want_equal(running.stdout.read(1), b"!", "its output")

        step()
        with subprocess.Popen(
            [*prefix, bench.tool(), "trace", "show", "--follow", "--type", "send", out],
            env=env, stdout=subprocess.PIPE, text=True,
        ) as following:
            for n in range(1, 5):
                want(f"wr_id 0x{n} SEND" in following.stdout.readline(), f"message {n}")
                step()
            os.kill(following.pid, signal.SIGTERM)
        running.stdin.close()
        want_equal(running.wait(), 0, "exit status")


def time_is_apart(prefix):
    """A command prefix that gives a program another clock, as on another host; or []."""
    apart = ["unshare", "--time", "--monotonic", str(DAY)]
    done = subprocess.run([*prefix, *apart, "true"], capture_output=True, check=False)
    return apart if done.returncode == 0 else []


def pairs_in_order(lines):
    """Checks that each packet arrives after it was sent by the other process; returns how many."""
    left, came = {}, 0
    for time, process, text in lines:
        way, key = text.split()[1], re.search(r"wire (\S+ PSN \d+ to QP \w+)", text)[1]
        if way == "out":
            left.setdefault(key, (time, process))
            continue
        want(key in left, f"{key} came before it left")
        want(left[key][0] <= time and left[key][1] != process, f"{key}: {left[key]}, {time}")
        came += 1
    return came


def case_two_hosts(bench):
    """Recordings of two hosts with clocks a day apart are merged in the true order of events."""
    try:
        hosts = netns.TwoHosts()
    except netns.Unavailable as reason:
        raise LeftOut(f"no network namespaces: {reason}") from reason
    with hosts:
        apart = time_is_apart(hosts.enter(1))
        if not apart:
            raise LeftOut("no time namespaces")
        out, port = folder(bench), bench.ports.take()
        argv = [bench.stage(PAIR), "-d", "vrb0", "-p", str(port)]
        envs = [bench.env({"VERBENA_RECORD": out}) for _ in range(2)]
        bench.pair(argv, [*argv, hosts.address(0)], port, *envs, hosts.prefix(
            0, bench.user_prefix()), [*hosts.enter(1), *apart, *bench.user_prefix()])
        lines = shown(bench, out, "--type", "packet")
        want_equal([line[0] for line in lines], sorted(line[0] for line in lines), "times")
        want(lines[-1][0] < DAY / 2, "one time")
        want(pairs_in_order(lines) >= PAIRED, "packets")
        check_capture(bench, out, 2)


def case_killed(bench):
    out = folder(bench)
    argv = [*bench.user_prefix(), bench.tool(), "record", "-o", out, "--", program(bench), "killed"]
    with subprocess.Popen(argv, env=bench.env(None), stdout=subprocess.PIPE) as running:
        want_equal(running.stdout.read(1), b"!", "its output")
        (name,) = glob.glob(os.path.join(out, "*.vrec"))
        os.kill(int(name.split(".")[-2]), signal.SIGKILL)
    (process,) = summary(bench, out)
    want_equal(process["bad"], 0, "bad records")
    want(process["verbs"]["create_qp"]["calls"] == 2, "create_qp")


def tshark(path, *words):
    return subprocess.run(["tshark", "-r", path, *words], capture_output=True, text=True,
                          check=True).stdout.splitlines()


def check_capture(bench, out, interfaces):
    """Every packet that summary counts, none malformed; an interface per device, a comment each."""
    if not shutil.which("tshark"):
        raise LeftOut("no tshark")
    path = os.path.join(os.path.dirname(out), "x.pcapng")
    trace(bench, "pcapng", "-o", path, out)
    queues = [q for process in summary(bench, out) for q in process["queues"]]
    counted = sum(q["packets_out"] + q["packets_in"] for q in queues)
    want_equal(len(tshark(path)), counted, "packets")
    want_equal(len(tshark(path, "-Y", "infiniband.bth")), counted, "RoCE packets")
    want_equal(tshark(path, "-Y", "_ws.malformed || _ws.short"), [], "malformed")
    rows = [row.split("\t") for row in tshark(
        path, "-T", "fields", "-e", "frame.interface_id", "-e", "frame.interface_name",
        "-e", "infiniband.bth.opcode", "-e", "frame.comment")]
    want_equal(len({row[0] for row in rows}), interfaces, "interfaces")
    names = {device["name"] for device in bench.json("devices")} | {"vrb0"}
    want({row[1] for row in rows} <= names, f"names of devices: {[row[1] for row in rows]}")
    missing = []
    for _, _, opcode, comment in rows:
        want(re.match(r"\S+ QP 0x\w+ (wire|local)", comment), comment)
        if int(opcode) <= 5 and " wr_id 0x" not in comment:     # a SEND, out or in
            missing.append(comment)
    # A retransmitted packet may be sent when its request is complete.
    again = sum(q["retransmitted"] + q["probes"] + q["duplicates"] for q in queues)
    want(len(missing) <= 2 * again, f"without wr_id: {missing}")
    return rows


def case_pcapng(bench):
    rows = check_capture(bench, record(bench, "plain"), 1)
    want(any("wr_id 0x64" in row[3] for row in rows), str(rows))
    rows = check_capture(bench, record(bench, "plain", env={"VERBENA_TRANSPORT": "udp"}), 1)
    want(all(" wire" in row[3] for row in rows), str(rows))


def case_perfetto(bench):
    """A slice for everything that the summary counts; each arrow ends after it began."""
    out = record(bench, "plain")
    path = os.path.join(os.path.dirname(out), "x.json")
    trace(bench, "perfetto", "-o", path, out)
    with open(path, encoding="ascii") as file:
        events = json.load(file)["traceEvents"]
    (process,) = summary(bench, out)
    for category, count in (
        ("verb", sum(verb["calls"] for verb in process["verbs"].values())),
        ("send", MESSAGES), ("recv", MESSAGES), ("completion", 2 * MESSAGES),
        ("packet", sum(q["packets_out"] + q["packets_in"] for q in process["queues"])),
    ):
        found = [e for e in events if e["ph"] == "X" and e["cat"] == category]
        want_equal(len(found), count, category)
    tracks = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    want({(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= tracks, "tracks have names")
    for category, count in (
        ("completed", 2 * MESSAGES), ("sent", sum(q["packets_in"] for q in process["queues"])),
    ):
        begins, ends = ({e["id"]: e["ts"] for e in events if e["ph"] == ph and e["cat"] == category}
                        for ph in "sf")
        want_equal(len(begins), count, category)
        want_equal(begins.keys(), ends.keys(), "arrows " + category)
        want(all(begins[i] <= ends[i] for i in begins), "time goes forward")


def fold(a, b):
    product = (a & MASK) * (b & MASK)
    return product & MASK ^ product >> 64


def check_of(chunk, record):
    """record_check() of src/record/format.h, for a record in a chunk."""
    state, time, tid = struct.unpack_from("<QQI", chunk)
    odd = 0x94D049BB133111EB
    seed = fold((state | 1) ^ 0x9E3779B97F4A7C15, fold(time ^ 0xBF58476D1CE4E5B9, tid ^ odd) | 1)
    words = [w[0] for w in struct.iter_unpack("<Q", record)]
    total = fold(words[0] & 0xFFFFFFFF ^ seed, words[1] ^ odd)
    for i in range(2, len(words), 2):
        total += fold(words[i] ^ seed, words[i + 1] ^ odd + 8 * i)
    return (total ^ (total & MASK) >> 32) & 0xFFFFFFFF


def case_forged(bench):
    """A forged record of a call with an unknown verb number and a correct checksum."""
    out = record(bench, "plain")
    forged = os.path.join(os.path.dirname(out), "forged.vrec")
    (whole,) = glob.glob(os.path.join(out, "*.vrec"))
    data = bytearray(subprocess.run([*bench.user_prefix(), "cat", whole], capture_output=True,
                                    check=True).stdout)
    at = HEADER + CHUNK_HEADER
    size, kind = struct.unpack_from("<HB", data, at)
    want_equal(kind, 1, "the first record is a call")
    chunk = data[HEADER:at]
    want_equal(struct.unpack_from("<I", data, at + 4)[0], check_of(chunk, data[at:at + size]),
               "check")
    struct.pack_into("<H", data, at + 16, 0)
    struct.pack_into("<I", data, at + 4, check_of(chunk, data[at:at + size]))
    with open(forged, "wb") as file:
        file.write(data)
    os.chmod(forged, 0o644)
    (process,) = summary(bench, forged)
    want_equal((process["lost"], process["bad"]), (0, 0), "lost, bad")
    want("null" not in trace(bench, "summary", forged).out, "a verb without a name")
    want("ibv_0(" in trace(bench, "show", forged).out, "its number")


def page_of(bench, out):
    path = os.path.join(os.path.dirname(out), "x.html")
    trace(bench, "html", "-o", path, out)
    return path


def case_html(bench):
    """The page opens without an error, has the summary's counts, and shows the lost message."""
    rules = "message tx opcode SEND nth 5 drop"
    out = record(bench, "faulty", env={"VERBENA_FAULTS": rules, "VERBENA_TRANSPORT": "local"})
    page = page_of(bench, out)
    with open(page, encoding="utf-8") as file:
        want(not re.search(r"\b(src|href)=|@import|url\(", file.read()), "nothing from elsewhere")
    opened = Opened(page, "find=dropped")
    (process,) = summary(bench, out)
    queues = process["queues"]

    def of_queues(name):
        return sum(q[name] for q in queues)

    want_equal(opened.text("error"), "", "error")
    want_equal(opened.counts(), {
        "sends": sum(r["posted"] for q in queues for r in q["requests"].values()),
        "receives": of_queues("receives_posted"),
        "completions": sum(cq["completions"] for cq in process["cqs"]),
        "failed": of_queues("receive_errors"), "packets out": of_queues("packets_out"),
        "packets in": of_queues("packets_in"), "retransmitted": of_queues("retransmitted"),
        # of a packet each, and on a busy machine more than the lost one goes out again
        "faults": 1, "messages": MESSAGES + of_queues("retransmitted"), "lost": 1,
    }, "counts")
    want("dropped on purpose" in opened.text("details"), opened.text("details"))
    again = Opened(page, "find=,+again").text("details")
    for text in "Work request", "post SEND wr_id 0x4, 64 bytes", "completion wr_id 0x4 success":
        want(text in again, again)


def case_html_looks(bench):
    """Lines, and text of several colours, in the diagram, left of the details."""
    rows = screenshot(page_of(bench, record(bench, "refused")))
    seen = collections.Counter(pixel for row in rows[80:] for pixel in row[:WIDTH - 400])
    want(len(seen) > 20 and 0.01 < 1 - seen[255, 255, 255] / seen.total() < 0.5,
         f"{len(seen)} colours, {seen.most_common(3)}")


HANDS = """
<script>
const tell = (name, value) => { document.body.dataset[name] = value; };
const wheel = ctrlKey => canvas.onwheel({ preventDefault() {}, ctrlKey, deltaY: -1, deltaX: 0,
                                         offsetY: 200 });
const press = (offsetX, offsetY) => {
  canvas.setPointerCapture = () => {};
  canvas.onpointerdown({ offsetX, offsetY });
  canvas.onpointerup({ offsetX, offsetY });
};
const all = shown.length, before = zoom;
wheel(true);
tell("zoomed", zoom > before);
$("find").value = "SEND";
$("find").onkeydown({ key: "Enter" });
tell("found", $("found").textContent);
$("find").onkeydown({ key: "Enter" });
tell("next", $("found").textContent);
choose(null);
$("details").textContent = "";
const item = shown.find(i => isMessage(i) && !isAck(i));
moveTo(at[item.first], 0);
const [x0, y0, x1, y1] = placeOf(item);
press((x0 + x1) / 2, (y0 + y1) / 2);
tell("clicked", $("details").textContent.includes("Work request"));
$("acks").checked = false;
$("acks").onchange();
tell("filtered", all - shown.length);
$("problems").checked = true;
$("problems").onchange();
tell("problems", shown.length);
$("problems").checked = false;
$("lanes").selectedIndex = 1;
$("lanes").onchange();
tell("lanes", lanes.length);
press(xOf(0), 5);
tell("only", only);
</script>
"""


def with_script(page, script):
    """A copy of the page with the script at its end."""
    copy = page.replace(".html", "-driven.html")
    with open(page, encoding="utf-8") as file, open(copy, "w", encoding="utf-8") as to:
        to.write(file.read() + script)
    os.chmod(copy, 0o644)
    return Opened(copy)


def case_html_hands(bench):
    """Zoom, search, filters, a click on a message and on the name of a lane."""
    opened = with_script(page_of(bench, record(bench, "plain")), HANDS)
    want_equal(opened.text("error"), "", "error")
    counts = opened.counts()
    found = re.match(r"1 of (\d+)", opened.data("found"))
    want(found and int(found[1]) >= MESSAGES, opened.data("found"))
    want_equal(opened.data("next"), f"2 of {found[1]}", "next")
    want_equal([opened.data(name) for name in ("zoomed", "clicked", "lanes", "only")],
               ["true", "true", "1", "0"], "zoom, click, lanes, one lane")
    want_equal(int(opened.data("filtered")), counts["packets out"] - MESSAGES, "filtered ACKs")
    want_equal(opened.data("problems"), "1", "problems: the call that failed")


FLUENT = """
<script>
let strokes = 0;
const stroke = CanvasRenderingContext2D.prototype.stroke;
CanvasRenderingContext2D.prototype.stroke = function () { strokes++; stroke.call(this); };
const frame = () => { strokes = 0; drawNow(); return strokes; };
const drawn = [frame()];
zoom = (canvas.clientHeight - HEAD) / end;
moveTo(0, 0);
drawn.push(frame());
moveTo(end / 2, 0);
drawn.push(frame());
document.body.dataset.drawn = Math.max(...drawn);
</script>
"""


def case_html_many(bench):
    """100,000 messages: the cost of drawing depends on the number of pixels, at any zoom."""
    out = record(bench, "crowd", "--what", "packets", "--size", "all")
    page = page_of(bench, out)
    opened = with_script(page, FLUENT)
    want_equal(opened.text("error"), "", "error")
    counts = opened.counts()
    (process,) = summary(bench, out)
    want_equal(counts["packets out"], sum(q["packets_out"] for q in process["queues"]), "packets")
    want_equal(counts["messages"], 100000, "messages")
    want(0 < int(opened.data("drawn")) < 10000, opened.data("drawn") + " strokes")


def case_html_reason(bench):
    details = Opened(page_of(bench, record(bench, "refused")), "find=NAK").text("details")
    want("NAK" in details, details)


def case_folder_with_others(bench):
    """A file in a folder that cannot be read is named, and the others are shown."""
    out = record(bench, "plain")
    empty = os.path.join(out, "a.vrec")
    subprocess.run([*bench.user_prefix(), "touch", empty], check=True)
    done = trace(bench, "summary", "--json", out)
    want_equal(done.err, f"verbena trace: {empty} is no recording\n", "the other file")
    want_equal(len(json.loads(done.out)["processes"]), 1, "processes")
    trace(bench, "summary", empty, expect=1)
    # However many they are: none stays open.
    subprocess.run(
        [*bench.user_prefix(), "touch", *(os.path.join(out, f"{i}.vrec") for i in range(FILES))],
        check=True,
    )
    few = bench.call(
        ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", bench.tool(), "trace", "summary",
         "--json", out], expect=0,
    )
    want_equal(len(json.loads(few.out)["processes"]), 1, "processes")


def case_bad_input(bench):
    out = record(bench, "plain")
    broken = os.path.join(os.path.dirname(out), "broken.vrec")
    (whole,) = glob.glob(os.path.join(out, "*.vrec"))
    data = subprocess.run([*bench.user_prefix(), "cat", whole], capture_output=True, check=True)
    with open(broken, "wb") as file:
        file.write(data.stdout[:100000])
    os.chmod(broken, 0o644)
    trace(bench, "summary", broken)
    for words, status in (
        (["trace"], 2), (["trace", "count"], 2), (["trace", "show"], 2),
        (["trace", "show", "--qp", "x", out], 2), (["trace", "show", "--type", "x", out], 2),
        (["trace", "summary", "/etc/passwd"], 1), (["trace", "summary", "/nowhere"], 1),
        (["trace", "summary", "/etc"], 1), (["record"], 2), (["record", "--what", "x", "true"], 2),
        (["record", "--size", "0", "true"], 2), (["record", "-o", out, "true"], 1),
    ):
        done = bench.verbena(*words, expect=status)
        want(len(done.err.splitlines()) == 1, done.describe())


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
