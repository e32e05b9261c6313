/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena fault: checks rules, and changes those of a process that runs (the other end is
 * core/fault/control.h).
 */
#include "fault.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault/parse.h"
#include "fault/print.h"
#include "query.h"
#include "tool.h"
#include "util/compiler.h"

enum {
	ANSWER_MAX = 1 << 16,
};

static struct fault_plan plan;

static int no_memory(void)
{
	return complain(EXIT_FAILED, "out of memory");
}

/* Appends a file to f, as far as rules may be long.  Returns 0 or an errno value. */
static int copy_file(FILE *f, const char *name)
{
	FILE *from = fopen(name, "re");
	char text[FAULT_TEXT];
	int err;

	if (!from)
		return errno;
	fwrite(text, 1, fread(text, 1, sizeof(text), from), f);
	err = ferror(from) ? errno : 0;
	fclose(from);
	return err;
}

int fault_rules_read(struct fault_rules *rules, char **words)
{
	const char *file = words[0] && !words[1] && words[0][0] == '@' ? words[0] + 1 : NULL;
	int err = 0;
	FILE *f;

	*rules = (struct fault_rules){ .source = file ? file : "rules" };
	f = open_memstream(&rules->text, &rules->len);
	if (!f)
		return no_memory();
	if (file)
		err = copy_file(f, file);
	for (; !file && *words; words++)
		fprintf(f, "%s%s", *words, words[1] ? " " : "");
	if (fclose(f))
		return no_memory();
	if (err)
		return complain(EXIT_USAGE, "rules: %s: %s", file, strerror(err));
	if (rules->len >= FAULT_TEXT)
		return complain(EXIT_USAGE, "%s: too many bytes of rules", rules->source);
	return EXIT_OK;
}

int fault_rules_check(const struct fault_rules *rules)
{
	struct fault_error error;
	char line[512];

	fault_plan_init(&plan);
	if (fault_parse(&plan, rules->text, rules->len, &error))
		return EXIT_OK;
	fault_error_print(line, sizeof(line), rules->source, &error);
	return complain(EXIT_USAGE, "%s", line);
}

bool fault_environment_is_bad(void)
{
	char *value = getenv("VERBENA_FAULTS"), *words[] = { value, NULL };
	struct fault_rules rules;
	bool bad;

	if (!value || !*value)
		return false;
	bad = fault_rules_read(&rules, words);
	if (!bad && value[0] != '@')
		rules.source = "VERBENA_FAULTS";
	bad = bad || fault_rules_check(&rules);
	free(rules.text);
	return bad;
}

/* A rule that is a sentence of its own in the file that `list` makes. */
static int check(int argc, char **argv)
{
	struct fault_rules rules;
	int status;

	if (argc < 2)
		return complain(EXIT_USAGE, "no rules given: verbena fault check RULES|@FILE");
	status = fault_rules_read(&rules, argv + 1);
	if (!status)
		status = fault_rules_check(&rules);
	free(rules.text);
	return status;
}

static const char *why_no_answer(int err)
{
	switch (err) {
	case ESRCH:
		return "none of this user's processes on Verbena";
	case ETIMEDOUT:
		return "stopped, or without a CPU; the request is withdrawn, its rules stay as "
		       "they are";
	default:
		return strerror(err);
	}
}

/* Prints the answer of the process: "ok" and the rules, or a syntax error. */
static int ask(int pid, const char *request, size_t len)
{
	char *answer = malloc(ANSWER_MAX);
	ssize_t n = -1;
	int status;

	if (answer)
		n = query_request(pid, "faults", request, len, answer, ANSWER_MAX - 1);
	if (n < 0) {
		status = complain(EXIT_FAILED, "process %d does not answer: %s", pid,
				  why_no_answer(errno));
	} else {
		answer[n] = '\0';
		if (strncmp(answer, "ok\n", 3) == 0)
			status = fputs(answer + 3, stdout) < 0 ? EXIT_FAILED : EXIT_OK;
		else
			status = complain(EXIT_FAILED, "process %d: %s", pid, answer);
	}
	free(answer);
	return status;
}

static int request(int argc, char **argv)
{
	int pid = argc > 1 ? query_pid(argv[1]) : 0, status, n;
	struct fault_rules rules = { 0 };
	char *text;

	if (!pid)
		return complain(EXIT_USAGE, "%s needs the PID of a process", argv[0]);
	if (strcmp(argv[0], "add") == 0) {
		if (argc < 3)
			return complain(EXIT_USAGE,
					"no rules given: verbena fault add PID RULES");
		status = fault_rules_read(&rules, argv + 2);
		if (!status)
			status = fault_rules_check(&rules);
		if (status)
			goto out;
	} else if (argc > 2) {
		return complain(EXIT_USAGE, "unexpected argument '%s'; try --help", argv[2]);
	}
	n = asprintf(&text, "%s\n%s", argv[0], rules.text ? rules.text : "");
	if (n < 0) {
		status = no_memory();
		goto out;
	}
	status = ask(pid, text, (size_t)n);
	free(text);
out:
	free(rules.text);
	return status;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} actions[] = {
	{ "add", request },
	{ "list", request },
	{ "clear", request },
	{ "check", check },
	{ "sweep", fault_sweep },
};

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int cmd_fault(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	static const char help[] =
		"  add PID RULES|@FILE   adds rules to those of a process; its counts begin anew\n"
		"  list PID              prints the rules of a process, and how often each struck\n"
		"  clear PID             removes all rules of a process\n"
		"  check RULES|@FILE     says where rules are wrong\n"
		"  sweep [options] -- COMMAND   runs a program once per fault, and reports runs\n"
		"                        that hang, crash, leak or give wrong data\n"
		"    -c, --check CMD     exits 0 if the data of a run that succeeded are right\n"
		"    -l, --limit N       the first N of each occasion only (20)\n"
		"    -o, --only OCCASION those that begin so: verb, \"verb ibv_reg_mr\", wr, ...\n"
		"    -t, --timeout SEC   a run that takes longer hangs (30)\n"
		"    -v, --verbose       prints every run, and what the program prints\n"
		"Rules are written as in $VERBENA_FAULTS, see docs/FAULTS.md.\n";
	int c = next_option(argc, argv, "+h", options, help);

	if (c == '?')
		return EXIT_USAGE;
	if (optind + 1 < argc && is_help(argv[optind + 1])) {
		print_help(help);
		return EXIT_OK;
	}
	for (unsigned int i = 0; optind < argc && i < ARRAY_SIZE(actions); i++)
		if (strcmp(argv[optind], actions[i].name) == 0)
			return actions[i].run(argc - optind, argv + optind);
	if (optind < argc)
		return complain(EXIT_USAGE, "no action '%s'; try --help", argv[optind]);
	return complain(EXIT_USAGE, "no action given; try --help");
}
