# SPDX-License-Identifier: BSD-2-Clause
"""verbena fault: rules are checked, and the rules of a running process are changed."""
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from holding import Holder
from tools import cases_of, filtered, main, want, want_equal

SWEPT, PEER = sys.argv.pop(), sys.argv.pop()

# For two processes. Rules on messages act before the message that reveals a loss, or where there is
# no loss, so that no retransmission depends on time.
RULES = (
    "verb ibv_reg_mr nth 2.. chance 1/3 fail ENOMEM", "wr tx chance 1/8 fail EAGAIN",
    "wr tx nth 20 stall 1ms", "message tx opcode SEND psn 2 nth 1 drop",
    "message tx opcode SEND psn 8..0x7fffff chance 1/6 duplicate",
    "message rx opcode SEND psn 8..0x7fffff chance 1/6 delay 1ms",
    "message tx opcode SEND psn 8..0x7fffff chance 1/9 reorder",
)


def fault(bench, *words, **options):
    return bench.verbena("fault", *words, **options)


def case_check(bench):
    want_equal(fault(bench, "check", "wr nth 3 fail ENOMEM", expect=0).out, "", "no news")
    done = fault(bench, "check", "wr nth 3; wr nth 2 kill", expect=2)
    want_equal(done.err, "verbena fault: rules:1:9: expected an action\n", "one line")


def case_check_file(bench):
    path = os.path.join(bench.dir, "rules")
    with open(path, "w", encoding="ascii") as rules:
        rules.write("# every hundredth\npacket tx every 100 dorp\n")
    os.chmod(path, 0o644)
    done = fault(bench, "check", "@" + path, expect=2)
    want(done.err.startswith(f"verbena fault: {path}:2:21: expected "), done.err)
    want_equal(fault(bench, "check", "@/nowhere", expect=2).out, "", "no such file")
    done = fault(bench, "check", "@/tmp", expect=2)
    want("/tmp: Is a directory" in done.err, done.describe())


def case_too_long(bench):
    """As a process refuses them; a file that never ends, too."""
    done = fault(bench, "check", "@/dev/zero", expect=2)
    want_equal(done.err, "verbena fault: /dev/zero: too many bytes of rules\n", "endless")
    done = fault(bench, "check", "#" * 16384, expect=2)
    want_equal(done.err, "verbena fault: rules: too many bytes of rules\n", "too long")
    fault(bench, "check", "#" * 16383, expect=0)


def case_environment(bench):
    done = bench.verbena("devices", env={"VERBENA_FAULTS": "wr nth x kill"}, expect=2)
    want(done.err.startswith("verbena devices: VERBENA_FAULTS:1:8: expected "), done.err)
    done = bench.verbena("devices", env={"VERBENA_FAULTS": "@/nowhere"}, expect=2)
    want(done.err.startswith("verbena devices: rules: /nowhere: No such file"), done.err)
    bench.verbena("devices", env={"VERBENA_FAULTS": "wr nth 1 kill"}, expect=0)


def case_environment_of_a_program(bench):
    """A program with invalid rules must end: a test with faults must not succeed without them."""
    rules = os.path.join(bench.dir, "bad")
    with open(rules, "w", encoding="ascii") as out:
        out.write("wr nth 1 kill\nwr nth 2 fial ENOMEM\n")
    os.chmod(rules, 0o644)
    for value, line in (
        ("wr nth x kill", "verbena: VERBENA_FAULTS:1:8: expected "),
        ("@" + rules, f"verbena: {rules}:2:10: expected "),
        ("@/nowhere", "verbena: VERBENA_FAULTS: /nowhere: No such file"),
        ("@/tmp", "verbena: VERBENA_FAULTS: /tmp: Is a directory"),
        ("#" * 16384, "verbena: VERBENA_FAULTS: too many bytes of rules"),
        ("@/dev/zero", "verbena: VERBENA_FAULTS: /dev/zero: too many bytes of rules"),
    ):
        done = bench.call([peer(bench), "0"], env={"VERBENA_FAULTS": value}, expect=2)
        want(done.err.startswith(line), done.describe())


def case_usage(bench):
    for words in [], ["add"], ["add", "x"], ["add", "0", "wr kill"], ["list", "1", "2"], ["no"]:
        want(fault(bench, *words, expect=2).err.count("\n") == 1, str(words))
    for words in ["--help"], ["sweep", "--help"], ["add", "-h"]:
        want("--timeout" in fault(bench, *words, expect=0).out, str(words))


def case_running(bench):
    with Holder(bench) as holder:
        pid = str(holder.pid)
        want_equal(fault(bench, "list", pid, expect=0).out, "", "no rules")
        done = fault(bench, "add", pid, "wr", "nth", "100", "fail", "ENOMEM", expect=0)
        want_equal(done.out, "wr nth 100 fail ENOMEM # 0\n", "added")
        want_equal(fault(bench, "list", pid, expect=0).out, done.out, "listed")
        fault(bench, "add", pid, "wr nth", expect=2)
        want_equal(fault(bench, "list", pid, expect=0).out, done.out, "unchanged")
        want_equal(fault(bench, "clear", pid, expect=0).out, "", "cleared")
        holder.send()
    want("process" in fault(bench, "list", pid, expect=1).err, "a process that has ended")


def case_stopped(bench):
    """A request that was not answered is withdrawn; many of them do not block the next one."""
    with Holder(bench) as holder:
        pid = str(holder.pid)
        fault(bench, "add", pid, "wr nth 100 fail ENOMEM", expect=0)
        holder.popen.send_signal(signal.SIGSTOP)
        os.waitpid(holder.pid, os.WUNTRACED)
        running = [
            subprocess.Popen(
                [*bench.user_prefix(), bench.tool(), "fault", "add", pid, "wr kill"],
                env=bench.env(), stderr=subprocess.PIPE, text=True, cwd="/",
            )
            for _ in range(20)
        ]
        for process in running:
            err = process.communicate()[1]
            want(process.returncode == 1 and "the request is withdrawn" in err, err)
        holder.popen.send_signal(signal.SIGCONT)
        want_equal(fault(bench, "list", pid, expect=0).out, "wr nth 100 fail ENOMEM # 0\n",
                   "unchanged")


def case_open_contexts(bench):
    """Posting and polling in contexts that were open before there was a rule."""
    for rule, status in (
        ("verb ibv_post_send nth 2 fail ENOMEM", 6), ("verb ibv_poll_cq nth 2 fail EIO", 7),
        ("verb ibv_post_recv nth 2 fail ENOMEM", 5),
    ):
        with Holder(bench) as holder:
            fault(bench, "add", str(holder.pid), rule, expect=0)
            if "poll" not in rule:
                holder.send()
            holder.popen.stdin.write("\n")
            holder.popen.stdin.flush()
            want_equal(holder.popen.wait(), status, rule)


def case_clear_ends_a_stall(bench):
    with Holder(bench) as holder:
        fault(bench, "add", str(holder.pid), "wr tx nth 1 stall 3600s", expect=0)
        holder.popen.stdin.write("\n")
        holder.popen.stdin.flush()
        while "# 0" in fault(bench, "list", str(holder.pid), expect=0).out:
            pass
        fault(bench, "clear", str(holder.pid), expect=0)
        want_equal(holder.popen.stdout.readline(), "sent\n", "after the stall")
        holder.send()


def peer(bench):
    """The program of two processes."""
    copy = os.path.join(bench.bin, "fault_peer")
    if not os.path.exists(copy):
        shutil.copyfile(PEER, copy)
        os.chmod(copy, 0o755)
    return copy


def recorded_faults(bench, rules):
    """The faults of two processes in the order of the rules, without details that vary by run."""
    out = os.path.join(tempfile.mkdtemp(dir=bench.dir), "out")
    os.chmod(os.path.dirname(out), 0o777)
    bench.verbena(
        "record", "-o", out, "--", peer(bench), "0", expect=0,
        env={"VERBENA_FAULTS": rules, "VERBENA_TRANSPORT": "local"},
    )
    lines = bench.verbena("trace", "show", "--type", "fault", out, expect=0).out.splitlines()
    return sorted(line.split("rule ")[1] for line in lines)


def case_same_seed_same_faults(bench):
    """The same program with the same seed, in two processes, however busy the machine is."""
    rules = "; ".join(("seed 11", *RULES))
    quiet = recorded_faults(bench, rules)
    for rule in range(1, len(RULES) + 1):
        want(any(line.startswith(f"{rule} (") for line in quiet), f"no fault of rule {rule}")
    for spinning in 1, 3:
        spinners = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(spinning)
        ]
        try:
            busy = recorded_faults(bench, rules)
        finally:
            for spinner in spinners:
                spinner.kill()
                spinner.wait()
        want_equal("\n".join(busy), "\n".join(quiet), f"beside {spinning}")
    want(recorded_faults(bench, rules.replace("seed 11", "seed 12")) != quiet, "another seed")


def sweep(bench, *words, expect, prefix=()):
    """A copy of the swept program, which writes to a file; the check compares that."""
    program = os.path.join(bench.dir, "swept")
    if not os.path.exists(program):
        bench.stage(SWEPT)
        os.rename(os.path.join(bench.dir, os.path.basename(SWEPT)), program)
    arrived = os.path.join(bench.dir, "arrived")
    with open(arrived, "w", encoding="ascii"):
        os.chmod(arrived, 0o666)
    check = f"test \"$(cat {arrived})\" = 'what was sent has arrived'"
    bug = words[:1] if words and not words[0].startswith("-") else ()
    return bench.call(
        [*prefix, bench.tool(), "fault", "sweep", "-c", check, *words[len(bug):], "--", program,
         arrived, *bug],
        expect=expect, limit=600,
    ).out


def case_sweep(bench):
    """Each call, work request, completion and message of a careful program fails once."""
    out = sweep(bench, "-v", "-l", "1000000", expect=0)
    for occasion in (
        "verb ibv_get_device_list nth 1", "verb ibv_open_device nth 1", "verb ibv_query_gid nth 1",
        "verb ibv_alloc_pd nth 1", "verb ibv_reg_mr nth 1", "verb ibv_create_comp_channel nth 1",
        "verb ibv_create_cq nth 1", "verb ibv_create_qp nth 1", "verb ibv_create_qp nth 2",
        "verb ibv_req_notify_cq nth 1", "verb ibv_modify_qp nth 1", "verb ibv_modify_qp nth 2",
        "verb ibv_modify_qp nth 3", "verb ibv_modify_qp nth 4", "verb ibv_modify_qp nth 5",
        "verb ibv_modify_qp nth 6", "verb ibv_post_recv nth 1", "verb ibv_post_send nth 1",
        "verb ibv_poll_cq nth 1", "wr rx nth 1", "wr tx nth 1", "completion tx nth 1",
        "completion rx nth 1", "verb ibv_destroy_qp nth 1", "verb ibv_destroy_qp nth 2",
        "verb ibv_destroy_cq nth 1", "verb ibv_destroy_comp_channel nth 1",
        "verb ibv_dereg_mr nth 1", "verb ibv_dealloc_pd nth 1", "verb ibv_close_device nth 1",
    ):
        want(f"handled    {occasion} " in out, f"no run of {occasion}:\n{out}")
    want("0 hang, 0 crash, 0 leak, 0 wrong, " in out.splitlines()[-1], out)


def case_sweep_messages(bench):
    """Each of the first messages between two processes is lost once: the data arrive all the same,
    which the program compares."""
    out = bench.call(
        [bench.tool(), "fault", "sweep", "-v", "-l", "12", "-o", "message", "--", peer(bench), "8"],
        env={"VERBENA_TRANSPORT": "local"}, expect=0, limit=600,
    ).out
    want("handled    message tx nth 3 drop" in out, out)
    want(out.splitlines()[-1].startswith("12 runs, each with one fault: 12 handled"), out)


def case_sweep_finds(bench):
    for bug, only, found in (
        ("leak", "verb ibv_create_cq", "leak       verb ibv_create_cq nth 1 fail ENOMEM"),
        ("crash", "verb ibv_reg_mr", "crash      verb ibv_reg_mr nth 1 fail ENOMEM"),
        ("hang", "completion rx", "hang       completion rx nth 1 status GENERAL_ERR"),
        ("wrong", "completion rx", "wrong      completion rx nth 1 status GENERAL_ERR"),
    ):
        out = sweep(bench, bug, "-t", "10", "-o", only, expect=1)
        want(found in out.splitlines(), f"{bug}:\n{out}")


def case_sweep_without_pidfd(bench):
    """On kernels and in containers that refuse it."""
    out = sweep(bench, "-t", "10", "-o", "verb ibv_alloc_pd", expect=0,
                prefix=filtered(bench, "pidfd_open", errno.EPERM))
    want("0 hang, 0 crash, 0 leak, 0 wrong, " in out.splitlines()[-1], out)


def case_sweep_not_struck(bench):
    """Only the survey comes to the second PD: the run that was to refuse it says nothing."""
    done = sweep(bench, "once", "-v", "-o", "verb ibv_alloc_pd", expect=0)
    lines = done.splitlines()
    want_equal(lines[0], "handled    verb ibv_alloc_pd nth 1 fail ENOMEM", "the first PD")
    want_equal(lines[1], "not struck verb ibv_alloc_pd nth 2 fail ENOMEM", "the second")
    want("1 handled" in lines[2] and lines[2].endswith(", 1 not struck"), lines[2])


def ten_lines():
    """The commands of the example in docs/FAULTS.md."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(os.path.join(root, "docs", "FAULTS.md"), encoding="utf-8") as text:
        lines = text.read().split("    jobs:\n")[1].split("\n\n")[0].splitlines()
    want(len(lines) + 1 <= 10, f"{len(lines) + 1} lines")
    return " ".join(line.strip() for line in lines).split(" - run: ")[1:]


def case_ten_lines(bench):
    """The example of the documentation, with a program that handles errors and one that does not;
    `make` builds ./transfer as in the example."""
    commands = ten_lines()
    want(len(commands) == 2 and commands[0] == "make", str(commands))
    for bug, status in ("", 0), ("wrong", 1):
        place = tempfile.mkdtemp(dir=bench.dir)
        os.chmod(place, 0o777)
        program = os.path.join(place, "program")
        shutil.copyfile(SWEPT, program)
        os.chmod(program, 0o755)
        with open(os.path.join(place, "in.dat"), "w", encoding="ascii") as data:
            data.write("what was sent has arrived")
        with open(os.path.join(place, "Makefile"), "w", encoding="ascii") as make:
            make.write(f"transfer:\n\techo 'exec {program} $$2 {bug}' > $@; chmod 755 $@\n")
        for name in "in.dat", "Makefile":
            os.chmod(os.path.join(place, name), 0o644)
        path = os.path.dirname(bench.tool()) + ":" + os.environ["PATH"]
        for command, expected in (commands[0], 0), (commands[1], status):
            bench.call(["sh", "-c", f"cd {place} && {command}"], env={"PATH": path},
                       expect=expected, limit=300)


def case_sweep_usage(bench):
    fault(bench, "sweep", expect=2)
    fault(bench, "sweep", "-l", "0", "--", "true", expect=2)
    done = fault(bench, "sweep", "-o", "verb ibv_reg_mrs", "--", "true", expect=2)
    want("no occasion" in done.err, done.describe())
    done = fault(bench, "sweep", "-o", "wr", "--", "true", expect=1)
    want("does it run on Verbena" in done.err, done.describe())
    want("fails without any fault" in fault(bench, "sweep", "--", "false", expect=1).err, "false")


if __name__ == "__main__":
    main(cases_of(sys.modules[__name__]))
