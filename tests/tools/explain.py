# SPDX-License-Identifier: BSD-2-Clause
"""verbena explain: finds every status, event and reason by number and by name, and errno values,
codes and messages."""
import os
import re
import sys

from tools import cases_of, main, want, want_equal

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def rows(path, pattern):
    with open(os.path.join(ROOT, path), encoding="utf-8") as text:
        return re.findall(pattern, text.read(), re.M)


def case_every_reason(bench):
    known = {
        (t["number"], t["name"]): t
        for t in bench.json("explain", "--all")
        if t["kind"] == "vendor_err"
    }
    for name, number, sentence in rows("src/wq/reason.def", r'^REASON\((\w+), (\d+),\s+"(.*)"\)'):
        topic = known.get((int(number), name))
        want(topic, f"no row for {name}")
        want_equal(topic["meaning"], sentence, name)
        want(name == "NONE" or (topic["causes"] and topic["look_at"]), f"{name} has no causes")


def case_unmapped(bench):
    """Such accesses fail, too, where mprotect(2) has taken a right away."""
    for number in "104", "204":
        (topic,) = bench.json("explain", number)
        want("protected" in topic["meaning"] and "mprotect()" in topic["look_at"], topic)


def case_every_status_and_event(bench):
    topics = {t["name"]: t["number"] for t in bench.json("explain", "--all")}
    values = rows("include/infiniband/verbs/cq.h", r"^\s+(IBV_WC_[A-Z_]+_ERR|IBV_WC_SUCCESS)\b")
    want(len(values) >= 20, values)
    for name in values:
        want(name in topics, f"{name} is missing")
    events = [t for t in bench.json("explain", "--all") if t["kind"] == "event"]
    want_equal(sorted(t["number"] for t in events), list(range(20)), "events")


def case_every_finding(bench):
    troubles = open(os.path.join(ROOT, "docs/TROUBLESHOOTING.md"), encoding="utf-8").read()
    numbers = rows("tools/verbena/doctor.def", r"^FINDING\((\d+),")
    want(len(numbers) >= 20, numbers)
    for number in numbers:
        code = f"VD{int(number):03d}"
        (topic,) = bench.json("explain", code)
        want_equal(topic["kind"], "finding", code)
        want(f"## {code}" in troubles, f"docs/TROUBLESHOOTING.md has no section {code}")


def case_every_reason_of_rej_and_cm_event(bench):
    topics = bench.json("explain", "--all")
    numbers = sorted(t["number"] for t in topics if t["kind"] == "rej")
    want_equal(numbers, [*range(1, 34), 35], "reasons of REJ")
    sent = {4, 6, 8, 9, 10, 12, 26, 28, 35}  # by src/cm and src/rdmacm
    denied = [t["number"] for t in topics if t["kind"] == "rej"
              and "Linux and Verbena do not send it" in t["causes"]]
    want(not sent & set(denied), denied)
    named = {t["name"]: t["number"] for t in topics if t["kind"] == "cm_event"}
    values = rows("include/rdma/rdma_cma.h", r"^\s+(RDMA_CM_EVENT_\w+)")
    want(len(values) >= 20, values)
    want_equal(
        sorted(named, key=named.get), sorted(set(values), key=values.index), "events of rdma_cm"
    )


def case_words(bench):
    for word, name in (
        ("IBV_WC_RETRY_EXC_ERR", "IBV_WC_RETRY_EXC_ERR"), ("retry_exc_err", "IBV_WC_RETRY_EXC_ERR"),
        ("status:12", "IBV_WC_RETRY_EXC_ERR"), ("vendor_err:203", "RKEY_ACCESS"),
        ("203", "RKEY_ACCESS"), ("0xcb", "RKEY_ACCESS"), ("REASON_RKEY_ACCESS", "RKEY_ACCESS"),
        ("event:18", "IBV_EVENT_GID_CHANGE"), ("GID_CHANGE", "IBV_EVENT_GID_CHANGE"),
        ("rej:8", "IB_CM_REJ_INVALID_SERVICE_ID"),
        ("RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_REJECTED"),
        ("cm_event:7", "RDMA_CM_EVENT_UNREACHABLE"), ("enomem", "ENOMEM"), ("-12", "ENOMEM"),
        ("vd010", "VD010"), ("transport retry counter exceeded", "IBV_WC_RETRY_EXC_ERR"),
        ("Function not implemented", "ENOSYS"),
    ):
        topics = bench.json("explain", word) if word[0] != "-" else None
        if topics is None:
            want(bench.verbena("explain", word, expect=0).out.startswith(name), word)
        else:
            want_equal({t["name"] for t in topics}, {name}, word)
    want(
        {t["kind"] for t in bench.json("explain", "12")}
        >= {"status", "vendor_err", "event", "errno"},
        "12",
    )
    want("Broken pipe" in bench.verbena("explain", "EPIPE", expect=0).out, "EPIPE")


def case_bad_input(bench):
    for words, status in (
        ([], 2), (["-x"], 2), (["a", "b"], 2), (["nonsense"], 1), (["99999"], 1), (["1e9"], 1),
        (["status:nonsense"], 1), (["\x01"], 1), (["12x"], 1),
    ):
        done = bench.verbena("explain", *words, expect=status)
        want(len(done.err.splitlines()) == 1 and not done.out, done.describe())


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
