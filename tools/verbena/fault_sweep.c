/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena fault sweep: runs a program once per fault. A first run, whose faults do nothing, counts
 * the occasions of each kind; then the first, the second, … of each kind fails.
 *
 * The library logs faults, and the objects that are open at exit.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"
#include "fault/words.h"
#include "tool.h"
#include "util/compiler.h"

enum {
	SUBJECTS = 160,
	SURVEY_RULES = 60,	/* of one run; FAULT_RULES at most */
	RULE_LEN = 128,
	LINE_LEN = 512,
	DEFAULT_LIMIT = 20,
	DEFAULT_SECONDS = 30,
};

/* What is made to fail, how, and how often the program comes there. */
struct subject {
	char occasion[64];
	const char *action;
	bool ends_objects;	/* what it fails to destroy stays open */
	unsigned long long count;
};

/* NOT_STRUCK: the run did not come to its occasion, and says nothing about the program. */
enum verdict { HANDLED, HANG, CRASH, LEAK, WRONG, NOT_STRUCK, VERDICTS };

static const char *const verdict_names[] = {
	"handled", "hang", "crash", "leak", "wrong", "not struck",
};

struct sweep {
	char **command;
	const char *check;	/* shell command; NULL: only the program's exit status counts */
	unsigned int limit, seconds;
	bool verbose;
	char log[32];		/* file */
	struct subject subject[SUBJECTS];
	unsigned int n_subjects;
	unsigned int open_at_exit;	/* objects, of a run without faults */
	unsigned int runs, found[VERDICTS];
};

/* How a run ended. */
struct outcome {
	bool hung;
	int status;		/* of waitpid() */
	unsigned int open_at_exit;
	bool struck;
};

static void add(struct sweep *s, const char *occasion, const char *action, bool ends_objects)
{
	struct subject *subject = &s->subject[s->n_subjects];

	if (s->n_subjects == SUBJECTS)
		return;
	snprintf(subject->occasion, sizeof(subject->occasion), "%s", occasion);
	subject->action = action;
	subject->ends_objects = ends_objects;
	s->n_subjects++;
}

static bool ends_objects(const char *verb)
{
	return strstr(verb, "destroy") || strstr(verb, "dealloc") || strstr(verb, "dereg") ||
	       strstr(verb, "close") || strstr(verb, "free") || strstr(verb, "detach");
}

static void list_subjects(struct sweep *s)
{
	for (const struct fault_name *verb = fault_verbs; verb->name; verb++) {
		char occasion[64];

		snprintf(occasion, sizeof(occasion), "verb %s", verb->name);
		add(s, occasion, "fail ENOMEM", ends_objects(verb->name));
	}
	add(s, "wr tx", "fail ENOMEM", false);
	add(s, "wr rx", "fail ENOMEM", false);
	add(s, "completion tx", "status GENERAL_ERR", false);
	add(s, "completion rx", "status GENERAL_ERR", false);
	add(s, "message tx", "drop", false);
	add(s, "packet tx", "drop", false);
}

/* ---- a run ---- */

/* Its process group is its own, so that all of it can be ended. */
static pid_t start(const struct sweep *s, const char *rules)
{
	pid_t child = fork();
	int null;

	if (child)
		return child;
	setpgid(0, 0);
	setenv("VERBENA_FAULTS", rules, 1);
	setenv("VERBENA_LOG", "warn,fault=info", 1);
	setenv("VERBENA_LOG_FILE", s->log, 1);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0 && !s->verbose) {
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
	}
	execvp(s->command[0], s->command);
	_exit(EXIT_NOT_FOUND);
}

static void interrupt_wait(int signal)
{
}

/* Not by a pidfd, which not every kernel and container allows. */
static void wait_for(struct outcome *o, pid_t child, unsigned int seconds)
{
	const struct sigaction interrupt = { .sa_handler = interrupt_wait };
	/* again and again: the first may come before the wait */
	struct itimerval limit = { .it_value.tv_sec = seconds, .it_interval.tv_sec = 1 };
	siginfo_t ended;

	sigaction(SIGALRM, &interrupt, NULL);
	setitimer(ITIMER_REAL, &limit, NULL);
	o->hung = waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) < 0;
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	kill(-child, SIGKILL);
	while (waitpid(child, &o->status, 0) < 0 && errno == EINTR)
		;
}

/* "... rule 3 (verb ibv_reg_mr nth 1 ...) strikes its number 7" */
static bool is_strike(const char *line, unsigned int *rule, unsigned long long *number)
{
	const char *at = strstr(line, " fault: "), *n = strstr(line, ") strikes its number ");

	at = at ? strstr(at, "rule ") : NULL;
	return at && n && sscanf(at, "rule %u (", rule) == 1 &&
	       sscanf(n, ") strikes its number %llu", number) == 1;
}

/* counts: of the rules, may be NULL. */
static void read_log(const struct sweep *s, struct outcome *o, unsigned long long *counts)
{
	FILE *f = fopen(s->log, "re");
	char line[LINE_LEN];

	while (f && fgets(line, sizeof(line), f)) {
		const char *exit_line = strstr(line, " fault: exit: ");
		unsigned long long number;
		unsigned int rule;

		if (exit_line)
			o->open_at_exit += (unsigned int)strtoul(exit_line + 14, NULL, 10);
		if (!is_strike(line, &rule, &number))
			continue;
		o->struck = true;
		if (counts && rule >= 1 && rule <= SURVEY_RULES && number > counts[rule - 1])
			counts[rule - 1] = number;
	}
	if (f)
		fclose(f);
}

static struct outcome run(const struct sweep *s, const char *rules, unsigned long long *counts)
{
	struct outcome o = { 0 };
	pid_t child;

	/* Not removed: in a folder of all users, another could make it in the meantime. */
	if (truncate(s->log, 0) < 0)
		complain(0, "%s: %s", s->log, strerror(errno));
	child = start(s, rules);
	if (child < 0) {
		o.status = EXIT_FAILED << 8;
		return o;
	}
	wait_for(&o, child, s->seconds);
	read_log(s, &o, counts);
	return o;
}

/* ---- the survey ---- */

static bool data_is_right(const struct sweep *s)
{
	return !s->check || system(s->check) == 0;
}

/* Counts occasions of subjects [first, end), by faults that do nothing. An exit status. */
static int survey(struct sweep *s, unsigned int first, unsigned int end)
{
	unsigned long long counts[SURVEY_RULES] = { 0 };
	char *rules = NULL;
	size_t len;
	FILE *f = open_memstream(&rules, &len);
	struct outcome o;

	for (unsigned int i = first; f && i < end; i++)
		fprintf(f, "%s stall 1ns;", s->subject[i].occasion);
	if (!f || fclose(f)) {
		free(rules);
		return complain(EXIT_FAILED, "out of memory");
	}
	o = run(s, rules, counts);
	free(rules);
	if (o.hung || o.status || !data_is_right(s))
		return complain(EXIT_FAILED, "%s fails without any fault (%s)", s->command[0],
				o.hung ? "it hangs" : o.status ? "its exit status" : "its data");
	s->open_at_exit = o.open_at_exit;
	for (unsigned int i = first; i < end; i++)
		s->subject[i].count = counts[i - first];
	return EXIT_OK;
}

static int survey_all(struct sweep *s)
{
	int status = EXIT_OK;

	for (unsigned int i = 0; i < s->n_subjects && !status; i += SURVEY_RULES)
		status = survey(s, i, min(s->n_subjects, i + SURVEY_RULES));
	return status;
}

/* ---- the sweep ---- */

/* Of the program itself, or of one that a shell has started for it. */
static bool crashed(int status)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE };

	if (WIFSIGNALED(status))
		return true;
	for (unsigned int i = 0; i < ARRAY_SIZE(signals); i++)
		if (WEXITSTATUS(status) == 128 + signals[i])
			return true;
	return false;
}

static enum verdict judge(const struct sweep *s, const struct subject *subject,
			  const struct outcome *o)
{
	if (o->hung)
		return HANG;
	if (crashed(o->status))
		return CRASH;
	if (WEXITSTATUS(o->status) == 0 && !data_is_right(s))
		return WRONG;
	if (o->open_at_exit > s->open_at_exit && !subject->ends_objects)
		return LEAK;
	return o->struck ? HANDLED : NOT_STRUCK;
}

static void sweep_subject(struct sweep *s, const struct subject *subject)
{
	for (unsigned long long n = 1; n <= subject->count && n <= s->limit; n++) {
		char rule[RULE_LEN];
		struct outcome o;
		enum verdict verdict;

		snprintf(rule, sizeof(rule), "%s nth %llu %s", subject->occasion, n,
			 subject->action);
		o = run(s, rule, NULL);
		verdict = judge(s, subject, &o);
		s->runs++;
		s->found[verdict]++;
		if (verdict != HANDLED || s->verbose)
			printf("%-10s %s\n", verdict_names[verdict], rule);
		fflush(stdout);
	}
}

static int sweep_all(struct sweep *s)
{
	unsigned int good;

	for (unsigned int i = 0; i < s->n_subjects; i++)
		sweep_subject(s, &s->subject[i]);
	if (!s->runs)
		return complain(EXIT_FAILED, "%s comes to none of these occasions; does it run on "
				"Verbena?", s->command[0]);
	good = s->found[HANDLED] + s->found[NOT_STRUCK];
	printf("%u runs, each with one fault: %u handled", s->runs, s->found[HANDLED]);
	for (unsigned int i = HANG; i < VERDICTS; i++)
		printf(", %u %s", s->found[i], verdict_names[i]);
	putchar('\n');
	return good == s->runs && s->found[HANDLED] ? EXIT_OK : EXIT_FAILED;
}

static bool parse_number(const char *word, unsigned int *value)
{
	char *end;
	unsigned long v = strtoul(word, &end, 10);

	*value = (unsigned int)v;
	return *word >= '0' && *word <= '9' && !*end && v >= 1 && v <= 1000000;
}

/* Only those that are named: "verb ibv_reg_mr", "wr". */
static void select_subjects(struct sweep *s, const char *wanted)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < s->n_subjects; i++)
		if (strncmp(s->subject[i].occasion, wanted, strlen(wanted)) == 0)
			s->subject[n++] = s->subject[i];
	s->n_subjects = n;
}

static int sweep(struct sweep *s)
{
	int fd, status;

	strcpy(s->log, "/tmp/verbena-sweep-XXXXXX");
	fd = mkstemp(s->log);
	if (fd < 0)
		return complain(EXIT_FAILED, "%s: %s", s->log, strerror(errno));
	close(fd);
	status = survey_all(s);
	if (!status)
		status = sweep_all(s);
	unlink(s->log);
	return status;
}

int fault_sweep(int argc, char **argv)
{
	static const struct option options[] = {
		{ "check", required_argument, NULL, 'c' },
		{ "limit", required_argument, NULL, 'l' },
		{ "only", required_argument, NULL, 'o' },
		{ "timeout", required_argument, NULL, 't' },
		{ "verbose", no_argument, NULL, 'v' },
		{ 0 },
	};
	static struct sweep s = { .limit = DEFAULT_LIMIT, .seconds = DEFAULT_SECONDS };
	int c;

	list_subjects(&s);
	optind = 0;
	while ((c = next_option(argc, argv, "+:c:l:o:t:v", options, "")) != -1) {
		if (c == 'c')
			s.check = optarg;
		else if (c == 'o')
			select_subjects(&s, optarg);
		else if (c == 'v')
			s.verbose = true;
		else if (c == '?')
			return EXIT_USAGE;
		else if (!parse_number(optarg, c == 'l' ? &s.limit : &s.seconds))
			return complain(EXIT_USAGE, "'%s' is not a number of 1 or more", optarg);
	}
	if (!s.n_subjects)
		return complain(EXIT_USAGE, "no occasion of a sweep begins so");
	if (optind >= argc)
		return complain(EXIT_USAGE, "no program given: verbena fault sweep -- COMMAND");
	s.command = argv + optind;
	return sweep(&s);
}
