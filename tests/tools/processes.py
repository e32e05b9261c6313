# SPDX-License-Identifier: BSD-2-Clause
"""verbena ps and top: the objects and activity of processes; dead processes are not listed."""
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time

from holding import Holder
from tools import Failure, LeftOut, cases_of, main, want, want_equal

SENDS = 20


def findings(bench, port, run_dir=None):
    env = {"VERBENA_UDP_PORT": port, **({"VERBENA_DIR": run_dir} if run_dir else {})}
    done = bench.call([bench.tool(), "doctor", "--json"], env)
    return {f["code"]: f["seen"] for f in json.loads(done.out)["findings"]}


def case_another_run_directory(bench):
    """The doctor of the second process reports which process has the port (VD015); with a port of
    its own there is no finding."""
    port, other = bench.env()["VERBENA_UDP_PORT"], os.path.join(
        tempfile.mkdtemp(prefix="verbena-"), "run"
    )
    os.chmod(os.path.dirname(other), 0o777)
    try:
        with Holder(bench) as member, Holder(bench, {"VERBENA_DIR": other}) as outsider:
            seen = findings(bench, port, other).get("VD015", "")
            want(
                f"process {member.pid} " in seen
                and other in seen
                and str(outsider.pid) not in seen,
                seen,
            )
            want("VD015" not in findings(bench, port), "the first process has the port")
        with Holder(bench):
            want("VD015" not in findings(bench, port), "one directory")
    finally:
        shutil.rmtree(os.path.dirname(other))


def case_no_process(bench):
    want_equal(bench.verbena("ps", expect=0).out, "no process uses Verbena\n", "ps")
    want_equal(bench.json("ps"), [], "ps --json")


def case_ps(bench):
    with Holder(bench) as one, Holder(bench) as two:
        processes = {p["pid"]: p for p in bench.json("ps")}
        want_equal(sorted(processes), sorted([one.pid, two.pid]), "processes")
        p = processes[one.pid]
        want_equal((p["program"], p["n_qps"], p["n_cqs"], p["n_mrs"]), ("holder", 1, 1, 1), p)
        (qp,), (cq,), (mr,) = p["qps"], p["cqs"], p["mrs"]
        want_equal(
            (qp["qpn"], qp["type"], qp["state"], qp["peer_qpn"]),
            (one.qpn, "RC", "RTS", one.qpn),
            qp,
        )
        want(qp["send_depth"] >= 8 and qp["recv_depth"] >= 16 and qp["recvs_waiting"] == 3, qp)
        want_equal(
            (cq["entries"], cq["users"], qp["send_cq"], qp["recv_cq"]),
            (64, 2, cq["handle"], cq["handle"]),
            cq,
        )
        want_equal((mr["rkey"], mr["length"], mr["access"]), (one.rkey, 4096, 5), mr)
        text = bench.verbena("ps", str(one.pid), expect=0).out
        for word in (
            f"0x{one.qpn:06x} RC", "local-write remote-read", "RTS", "3/", f"0x{one.rkey:08x}",
        ):
            want(word in text, f"no {word!r} in\n{text}")
        want(str(two.pid) not in text, text)


def case_pid_namespace(bench):
    """As in a pod: those of another PID namespace are found by the PIDs that they have there."""
    ns = ["unshare", *(() if bench.as_root else ("-Ur",)), "-pf", "--kill-child"]
    if subprocess.run([*ns, "true"], capture_output=True, check=False).returncode:
        raise LeftOut("no namespaces here")
    with Holder(bench) as holder:
        inside = [*(bench.user_prefix() if bench.as_root else ()), bench.tool(), "ps"]
        text = bench.call([*ns, *inside], prefix=[], expect=0).out
        want(len(text.splitlines()) == 2 and str(holder.pid) in text, text)
        done = bench.call([*ns, *inside, str(holder.pid)], prefix=[], expect=0)
        want(f"0x{holder.qpn:06x}" in done.out, done.describe())
        done = bench.call([*ns, *inside, str(holder.pid + 1)], prefix=[], expect=1)
        want("does not use Verbena" in done.err, done.describe())


def case_notes(bench):
    """What a program waits for in vain."""
    words = (
        "its sends are done, without completions",
        "completions not polled: 1; armed for solicited ones only",
        "sends that wait for the peer to post a receive: 1",
        "has no receive posted, and its peer sends",
        "no queue uses it",
        "ibv_wr_start() without ibv_wr_complete()",
        "messages dropped so far for want of one: 1",
        "is in INIT; packets dropped so far: 1",
        "packets so far for a QP that was not in RTR: ",
        "rdma_accept() waits for the peer: there rdma_get_cm_event() is missing",
        "the peer has accepted: rdma_get_cm_event() is missing, or, as the id has no QP, ",
    )
    with Holder(bench, {"HOLDER_MISTAKES": "1"}) as holder:
        for _ in range(100):
            text = bench.verbena("ps", str(holder.pid), expect=0).out
            if all(word in text for word in words):
                break
            time.sleep(0.1)
        for word in words:
            want(word in text, f"no {word!r} in\n{text}")
    with Holder(bench) as holder:
        text = bench.verbena("ps", str(holder.pid), expect=0).out
        want("At this moment" not in text, text)


def case_many(bench):
    """What does not fit into an answer is told."""
    with Holder(bench, {"HOLDER_MORE": "4100"}) as holder:
        lines = bench.verbena("ps", str(holder.pid), expect=0).out.splitlines()
        want_equal(lines[-1], "  ... and 5 more", "regions")
        want_equal(sum(line.startswith("  ...") for line in lines), 1, "of regions only")


def case_any_name(bench):
    """A program's name may be any bytes; the answer is JSON all the same."""
    for name, shown in (
        ("Grüße€😀".encode(), "Grüße€😀"),
        (b'a"b\\c\nd', 'a"b\\c\nd'),
        (b"cut\xc3", "cut\ufffd"),
        (b"long\xc0\xafhalf\xed\xa0\x80", "long\ufffd\ufffdhalf\ufffd\ufffd\ufffd"),
    ):
        with Holder(bench, name=name):
            want_equal([p["program"] for p in bench.json("ps")], [shown], "ps")
            (sample,) = bench.verbena("top", "--json", "-n", "1", expect=0).out.splitlines()
            want_equal([p["program"] for p in json.loads(sample)], [shown], "top")


def case_transport(bench):
    with Holder(bench, {"VERBENA_TRANSPORT": "udp"}) as holder:
        holder.send()
        (p,) = bench.json("ps")
        want_equal((p["qps"][0]["transport"], p["local"]), ("udp", False), "VERBENA_TRANSPORT=udp")
        want(p["qps"][0]["counters"]["sent_pkts"] >= 5, p)
    with Holder(bench) as holder:
        holder.send()
        (p,) = bench.json("ps")
        want(not p["local"] or p["qps"][0]["transport"].startswith("local"), p)


def case_rdma_resource(bench):
    """The same objects as iproute2 shows them."""
    if not shutil.which("rdma", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
        raise LeftOut("iproute2's rdma is not installed")
    with Holder(bench) as one, Holder(bench) as two:
        (p,) = [p for p in bench.json("ps") if p["pid"] == one.pid]
        device = p["contexts"][0]["device"]
        (summary,) = [
            d
            for d in json.loads(bench.verbena("rdma", "resource", "show", "-j", expect=0).out)
            if d["ifname"] == device
        ]
        want_equal(
            [summary[kind] for kind in ("pd", "cq", "qp", "mr", "ctx", "srq")],
            [2, 2, 2, 2, 2, 0],
            summary,
        )
        qps = json.loads(bench.verbena("rdma", "resource", "show", "qp", "-j", expect=0).out)
        want_equal(sorted((q["pid"], q["lqpn"], q["rqpn"], q["type"], q["state"]) for q in qps),
                   sorted((h.pid, h.qpn, h.qpn, "RC", "RTS") for h in (one, two)), qps)
        cqs = json.loads(bench.verbena("rdma", "resource", "show", "cq", "-j", expect=0).out)
        want_equal(
            sorted((c["pid"], c["cqe"], c["users"]) for c in cqs),
            sorted((h.pid, p["cqs"][0]["entries"], p["cqs"][0]["users"]) for h in (one, two)),
            cqs,
        )


def case_cm_ids(bench):
    """Ids of rdma_cm, as verbena and iproute2 show them: a listener everywhere, and both ends of a
    connection."""
    if not shutil.which("rping"):
        raise LeftOut("rping is not installed")
    prefix, env = bench.user_prefix(), bench.env()
    server = subprocess.Popen(
        [*prefix, "rping", "-s", "-a", "0.0.0.0", "-p", "7999"], env=env, stdout=subprocess.DEVNULL
    )
    client = None
    try:
        ids = []
        for _ in range(200):
            ids = [i for p in bench.json("ps") for i in p["cm_ids"]]
            if ids and ids[0]["state"] == "LISTEN":
                break
        want_equal(
            [(i["device"], i["port_space"], i["src"], i["src_port"], i["qpn"]) for i in ids],
            [("", "TCP", "*", 7999, 0)],
            ids,
        )
        client = subprocess.Popen(
            [*prefix, "rping", "-c", "-a", "127.0.0.1", "-p", "7999"],
            env=env,
            stdout=subprocess.DEVNULL,
        )
        for _ in range(200):
            processes = {p["pid"]: p for p in bench.json("ps")}
            both = [
                i for p in processes.values() for i in p["cm_ids"] if i["exchange"] == "ESTABLISHED"
            ]
            if len(both) == 2:
                break
        want_equal(
            {(i["state"], i["type"], i["src"], i["dst"]) for i in both},
            {("CONNECT", "RC", "127.0.0.1", "127.0.0.1")},
            both,
        )
        want_equal(
            sorted(i["qpn"] for i in both),
            sorted(q["qpn"] for p in processes.values() for q in p["qps"]),
            processes,
        )
        text = bench.verbena("ps", str(server.pid), expect=0).out
        for word in "*:7999", "LISTEN", "ESTABLISHED", f"127.0.0.1:{both[0]['src_port']}":
            want(word in text, f"no {word!r} in\n{text}")
        text = bench.verbena("top", "-n", "1", expect=0).out
        for word in "3 CM ids", "*:7999", "LISTEN", f"127.0.0.1:{both[0]['src_port']}":
            want(word in text, f"no {word!r} in\n{text}")
        if shutil.which("rdma", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            rows = json.loads(
                bench.verbena("rdma", "resource", "show", "cm_id", "-j", expect=0).out
            )
            want_equal(
                {(r["state"], r["pid"]) for r in rows},
                {("LISTEN", server.pid), ("CONNECT", server.pid), ("CONNECT", client.pid)},
                rows,
            )
            want_equal(
                {r["lqpn"] for r in rows if r["state"] == "CONNECT"}, {i["qpn"] for i in both}, rows
            )
    finally:
        for process in filter(None, (client, server)):
            process.kill()
            process.wait()


def case_counts(bench):
    with Holder(bench) as holder:
        for _ in range(5):
            holder.send()
        (qp,) = bench.json("ps")[0]["qps"]
        want_equal(
            (qp["sends_posted"], qp["sends_done"], qp["recvs_taken"], qp["recvs_waiting"]),
            (5, 5, 5, 3),
            qp,
        )
        (cq,) = bench.json("ps")[0]["cqs"]
        want_equal((cq["completions"], cq["waiting"]), (10, 0), cq)


def samples(watcher):
    """The samples that top prints, in order."""
    while line := watcher.stdout.readline():
        yield json.loads(line)[0]


def sum_of_rates(samples_of_top, sends):
    """The sum of rates times seconds, from the first sample to the one that includes all sends."""
    told, before = 0, None
    for sample in samples_of_top:
        qp = sample["qps"][0]
        if before:
            told += qp["rates"]["sends"] * (sample["time_ns"] - before["time_ns"]) / 1e9
        else:
            want("rates" not in qp, sample)
            sends()
        before = sample
        if qp["sends_posted"] == SENDS:
            return told
    raise Failure("top ended")


def case_top(bench):
    with Holder(bench) as holder:
        watcher = subprocess.Popen(
            [*bench.user_prefix(), bench.tool(), "top", "--json", "-n", "100000", "-i", "0.3"],
            env=bench.env(),
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        try:
            told = sum_of_rates(samples(watcher), lambda: [holder.send() for _ in range(SENDS)])
        finally:
            watcher.kill()
            watcher.wait()
            watcher.stdout.close()
        want(SENDS - 0.1 <= told <= SENDS + 0.1, f"the rates add up to {told} sends")
        want_equal(
            len(bench.verbena("top", "--json", "-n", "3", "-i", "0.1", expect=0).out.splitlines()),
            3,
            "samples",
        )
        text = bench.verbena("top", "-n", "1", expect=0).out
        want(
            f"0x{holder.qpn:06x}" in text and "\033" not in text and "1 process, 1 QPs" in text,
            text,
        )


def case_top_interrupted(bench):
    """^C leaves the terminal as it was."""
    ours, its = pty.openpty()
    before = termios.tcgetattr(its)
    watcher = subprocess.Popen(
        [*bench.user_prefix(), bench.tool(), "top"], env=bench.env(), stdin=its, stdout=its,
        cwd="/", start_new_session=True,
    )
    try:
        shown = b""
        while b"PROGRAM" not in shown:
            shown += os.read(ours, 4096)
        want(termios.tcgetattr(its) != before, "top reads single keys")
        watcher.send_signal(signal.SIGINT)
        want_equal(watcher.wait(), -signal.SIGINT, "status")
        want_equal(termios.tcgetattr(its), before, "the terminal")
    finally:
        watcher.kill()
        watcher.wait()
        os.close(ours)
        os.close(its)


def case_vanished(bench):
    """A process that was killed is not listed, although its files are still there."""
    with Holder(bench) as holder:
        holder.popen.kill()
        holder.popen.wait()
        want(
            any(name.endswith(".query") for name in os.listdir(bench.run_dir)),
            "the dead process left no socket",
        )
        want_equal(bench.json("ps"), [], "ps after a kill")
        done = bench.verbena("ps", str(holder.pid), expect=1)
        want("does not use Verbena" in done.err, done.describe())


def case_stopped(bench):
    """A process that does not reply is counted, and not listed."""
    with Holder(bench) as holder:
        holder.popen.send_signal(signal.SIGSTOP)
        os.waitpid(holder.pid, os.WUNTRACED)
        done = bench.verbena("ps", expect=0)
        want("1 process did not answer" in done.err and not done.out, done.describe())
        done = bench.verbena("ps", str(holder.pid), expect=1)
        want("uses Verbena but did not answer" in done.err, done.describe())
        holder.popen.send_signal(signal.SIGCONT)
        want_equal(bench.json("ps")[0]["pid"], holder.pid, "after SIGCONT")


def case_bad_input(bench):
    for words, status in (
        (["ps", "x"], 2), (["ps", "-1"], 2), (["ps", "1", "2"], 2), (["ps", "1"], 1),
        (["ps", "4294967297"], 2), (["ps", "99999999999999999999"], 2), (["ps", ""], 2),
        (["top", "-n", "x"], 2), (["top", "-i", "0"], 2), (["top", "x"], 2),
    ):
        done = bench.verbena(*words, expect=status)
        want(len(done.err.splitlines()) == 1, done.describe())
    done = bench.verbena("ps", env={"VERBENA_DIR": "/proc"}, expect=0)
    want("no process" in done.out, done.describe())


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
