/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: verbena trace. Input: one byte of choices, then one or two recordings, of one clock
 * or of two. Each way of showing them ends with success: records with any contents are shown.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>

#include "fuzz/record_input.h"
#include "verbena/tool.h"

enum { CHOICE_RAW = 1, CHOICE_TWO_FILES = 2, CHOICE_TWO_CLOCKS = 4 };

/* The tool's table of subcommands, which its help names. */
const struct command commands[] = { { 0 } };

/* Another time namespace. */
static void change_clock(int fd)
{
	uint32_t ns = 7;

	FUZZ_CHECK(pwrite(fd, &ns, sizeof(ns),
			  offsetof(struct record_file_header, origin.time_ns)) == sizeof(ns));
}

/* What it prints goes nowhere. Only a raw file may be no recording. */
static void run(char **argv, bool raw)
{
	int status, argc = 0, out, none = open("/dev/null", O_WRONLY | O_CLOEXEC);

	while (argv[argc])
		argc++;
	fflush(stdout);
	out = dup(STDOUT_FILENO);
	FUZZ_CHECK(none >= 0 && out >= 0 && dup2(none, STDOUT_FILENO) >= 0);
	optind = 0;
	status = cmd_trace(argc, argv);
	fflush(stdout);
	FUZZ_CHECK(status == EXIT_OK || (raw && status == EXIT_FAILED));
	FUZZ_CHECK(dup2(out, STDOUT_FILENO) >= 0);
	close(out);
	close(none);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const actions[][3] = {
		{ "show", NULL }, { "show", "-e", NULL }, { "summary", NULL },
		{ "summary", "--json", NULL }, { "pcapng", NULL }, { "perfetto", NULL },
		{ "html", NULL },
	};
	static bool quiet;
	struct input in = { data, data + size };
	uint8_t choice = byte(&in);
	char path[2][32];
	int fd[2], n = choice & CHOICE_TWO_FILES ? 2 : 1;

	if (!quiet)
		FUZZ_CHECK(freopen("/dev/null", "w", stderr) != NULL);
	quiet = true;
	for (int i = 0; i < n; i++) {
		fd[i] = make_file(&in, choice & CHOICE_RAW);
		if (i && choice & CHOICE_TWO_CLOCKS)
			change_clock(fd[i]);
		snprintf(path[i], sizeof(path[i]), "/proc/self/fd/%d", fd[i]);
	}
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		char *argv[8] = { (char *)"trace" };
		int argc = 1;

		for (int k = 0; actions[i][k]; k++)
			argv[argc++] = (char *)actions[i][k];
		for (int k = 0; k < n; k++)
			argv[argc++] = path[k];
		run(argv, choice & CHOICE_RAW);
	}
	for (int i = 0; i < n; i++)
		close(fd[i]);
	return 0;
}
