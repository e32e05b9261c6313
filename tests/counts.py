# SPDX-License-Identifier: BSD-2-Clause
"""How tests are counted: cases that are left out are neither passed nor failed, and are added up.

    counts.py SOURCE_ROOT
"""
import contextlib
import io
import os
import sys

ROOT = sys.argv[1]
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "tests", "stock")]
import harness  # noqa: E402
import run_tests  # noqa: E402


def printed(function, *args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        value = function(*args)
    return value, out.getvalue().splitlines()


def passes(_bench):
    pass


def fails(_bench):
    raise harness.Failure("it failed")


def is_left_out(_bench):
    raise harness.LeftOut("not here")


def never_calibrated(_bench):
    raise harness.Failure(f"{harness.UNCALIBRATED} 0.8")


def calibrated_at_last():
    """A case in which perftest measures the clock at the last of its tries."""
    tries = iter([never_calibrated] * (harness.TRIES - 1) + [passes])

    def calibrated_late(bench):
        next(tries)(bench)
    return calibrated_late


def check_table(cases, status, *lines):
    """Which cases a table has, its exit status, and lines that it prints."""
    got, out = printed(harness.run_table, [(case.__name__, case) for case in cases], None)
    assert got == status, (cases, got, out)
    for line in lines:
        assert line in out, (line, out)


def check_sum():
    results = [
        {"name": "one", "stdout": "\nleft out: 2: no right\n[ SKIPPED ] case\n"},
        {
            "name": "two",
            "stdout": "ok\n",
            "stderr": "  left out: 1: no right\nleft out: 4: no IPv6 here",
        },
        {"name": "three", "stdout": "nothing is left out: 5 of 5\n"},
        {"name": "four"},
    ]
    _, out = printed(run_tests.report_left_out, results)
    assert out == ["left out: 4 in two: no IPv6 here", "left out: 3 in one, two: no right",
                   "7 cases inside tests were left out"], out


def check_report():
    """Of a table that failed, its first failed case is shown, whatever follows it."""
    most = run_tests.LINES_OF_FAILED
    passed = "".join(f"ok     case {i} (0.1 s)\n" for i in range(most))
    table = {"name": "table", "result": "FAIL",
             "stdout": f"{passed}FAILED that\nits reason\n{passed}"}
    _, out = printed(run_tests.report_failed, table)
    assert out[:3] == ["failed: table: FAIL", "failed:   FAILED that", "failed:   its reason"], out
    assert len(out) == 1 + most, out
    _, out = printed(run_tests.report_failed, {"name": "x", "result": "FAIL", "stdout": passed,
                                               "stderr": "its reason\n"})
    assert len(out) == 2 + most and out[-1] == "failed:   its reason", out


def main():
    check_table([passes, is_left_out], 0, "1 of 1 passed", "left out: 1: is_left_out: not here")
    check_table([passes, fails, is_left_out], 1, "1 of 2 passed")
    check_table([is_left_out], harness.SKIP)
    check_table([], 1)
    check_table([calibrated_at_last()], 0, "1 of 1 passed")
    check_table([never_calibrated], 1, "0 of 1 passed")
    check_sum()
    check_report()


if __name__ == "__main__":
    main()
