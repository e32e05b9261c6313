# SPDX-License-Identifier: BSD-2-Clause
"""A program that is built with a sanitizer, over a library that is not: no report may come.

    sanitizers.py BUILD_DIR EXAMPLE_WITH_ADDRESS EXAMPLE_WITH_THREAD

Alone, and under "verbena run", which preloads a library. ThreadSanitizer needs an option, as the
library says.
"""
import sys

from tools import Failure, LeftOut, ToolBench, run_table, want

ADVICE = "set TSAN_OPTIONS=ignore_noninstrumented_modules=1"
ENOUGH = "ignore_noninstrumented_modules=1:"
# A report ends the program, and fails the pair.
FATAL = "halt_on_error=1:exitcode=66"
# An old runtime does not expect memory where this kernel places it.
UNFIT = "unexpected memory mapping"


def pair(bench, program, variable, options, prefix=()):
    """What the library advises to each side."""
    port = bench.ports.take()
    argv = [*prefix, program, "-p", str(port)]
    env = {variable: options}
    try:
        outputs = bench.pair(argv, [*argv, "127.0.0.1"], port, env, env)
    except Failure as failure:
        if UNFIT in str(failure):
            raise LeftOut(f"the runtime does not suit this kernel: {UNFIT}") from failure
        raise
    for output, text in zip(outputs, ("received 255 bytes in 8 messages", "sent 8 messages")):
        want(text in output, f"no {text!r} in\n{output}")
    return [output.count(ADVICE) for output in outputs]


def case(program, variable, options, run, advised):
    def check(bench):
        prefix = [bench.tool(), "run", "--"] if run else []
        told = pair(bench, bench.stage(program), variable, options, prefix)
        want(told == [advised, advised], f"advised {told} times, not {advised}")
    return check


def main():
    build, address, thread = sys.argv[1:4]
    cases = [
        ("AddressSanitizer", case(address, "ASAN_OPTIONS", FATAL, False, 0)),
        ("AddressSanitizer, verbena run", case(address, "ASAN_OPTIONS", FATAL, True, 0)),
        ("ThreadSanitizer, the option", case(thread, "TSAN_OPTIONS", ENOUGH + FATAL, False, 0)),
        ("ThreadSanitizer, verbena run", case(thread, "TSAN_OPTIONS", FATAL, True, 0)),
        ("ThreadSanitizer alone", case(thread, "TSAN_OPTIONS", "exitcode=0", False, 1)),
    ]
    with ToolBench(build) as bench:
        sys.exit(run_table(cases, bench))


if __name__ == "__main__":
    main()
