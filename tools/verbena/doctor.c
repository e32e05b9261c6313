/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena doctor: runs the checks and prints their findings. */
#include "doctor.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "run/config.h"
#include "tool.h"
#include "util/compiler.h"

enum severity { NOTE, PROBLEM };

static const struct finding {
	unsigned int number;
	enum severity severity;
	const char *name, *title, *causes, *advice;
} findings[] = {
#define FINDING(number, severity, title, causes, advice)                                           \
	{ number, severity, "VD" #number, title, causes, advice },
#include "doctor.def"
#undef FINDING
};

static void (*const checks[])(void) = {
	check_environment, check_library, check_system_files, check_devices,	check_netlink,
	check_ipv6,        check_mtu,     check_port,         check_port_users, check_directory,
	check_version,     check_processes, check_attach,     check_limits,
};

static struct json_object *report;	/* NULL: text */
static unsigned int counts[2];
static bool brief;
static struct config config;

static const struct finding *find(unsigned int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(findings); i++)
		if (findings[i].number == number)
			return &findings[i];
	return &findings[0];
}

static void print_lines(const char *label, const char *text)
{
	printf("        %s%s\n", label, text);
}

void found(unsigned int number, const char *fmt, ...)
{
	const struct finding *f = find(number);
	char detail[512], code[8];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	snprintf(code, sizeof(code), "VD%03u", number);
	counts[f->severity]++;
	if (report) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "code", json_object_new_string(code));
		json_object_object_add(o, "severity",
				       json_object_new_string(f->severity == PROBLEM ? "problem"
										     : "note"));
		json_object_object_add(o, "what", json_object_new_string(f->title));
		json_object_object_add(o, "seen", json_text(detail));
		json_object_object_add(o, "causes", json_object_new_string(f->causes));
		json_object_object_add(o, "do", json_object_new_string(f->advice));
		json_object_array_add(report, o);
		return;
	}
	printf("%s%s%s %s %s\n", f->severity == PROBLEM ? RED : YELLOW,
	       f->severity == PROBLEM ? "problem" : "note   ", PLAIN, code, f->title);
	print_lines("seen:  ", detail);
	print_lines("cause: ", f->causes);
	print_lines("do:    ", f->advice);
}

void fine(const char *fmt, ...)
{
	va_list ap;

	if (report || brief)
		return;
	printf("%sok%s      ", GREEN, PLAIN);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

struct environment {
	const char *known[32];	/* the library's variables, as config_parse() asks for them */
	unsigned int n_known, bad;
};

static const char *from_environment(void *arg, const char *name)
{
	struct environment *e = arg;

	if (e->n_known < ARRAY_SIZE(e->known))
		e->known[e->n_known++] = name;
	return getenv(name);
}

static void note_complaint(void *arg, const char *line)
{
	struct environment *e = arg;

	e->bad++;
	found(8, "%s", line);
}

/* A variable of ours, by its name's beginning, that neither library nor tests read. */
static bool is_unknown(const struct environment *e, const char *name, size_t len)
{
	if (strncmp(name, "VERBENA_", 8) != 0 || strncmp(name, "VERBENA_TEST_", 13) == 0)
		return false;
	for (unsigned int i = 0; i < e->n_known; i++)
		if (strlen(e->known[i]) == len && strncmp(name, e->known[i], len) == 0)
			return false;
	return true;
}

void check_environment(void)
{
	/* librdmacm reads this one. */
	struct environment e = { .known = { "VERBENA_RSOCKET_DIR" }, .n_known = 1 };

	config_parse(&config, from_environment, note_complaint, &e);
	for (char **v = environ; *v; v++) {
		size_t len = strcspn(*v, "=");

		if (!is_unknown(&e, *v, len))
			continue;
		e.bad++;
		found(35, "%.*s", (int)len, *v);
	}
	if (!e.bad)
		fine("the environment variables are valid");
	/* The library's own warnings would repeat the findings. */
	setenv("VERBENA_LOG", "off", 1);
}

const struct config *doctor_config(void)
{
	return &config;
}

size_t doctor_topics(void)
{
	return ARRAY_SIZE(findings);
}

struct topic doctor_topic(size_t i)
{
	static char name[8];
	const struct finding *f = &findings[i];

	snprintf(name, sizeof(name), "VD%03u", f->number);
	return (struct topic){ .kind = "finding",
			       .number = (int)f->number,
			       .name = name,
			       .prefix = "",
			       .meaning = f->title,
			       .causes = f->causes,
			       .look = f->advice };
}

static void print_result(void)
{
	if (report) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "problems", json_object_new_int((int)counts[PROBLEM]));
		json_object_object_add(o, "notes", json_object_new_int((int)counts[NOTE]));
		json_object_object_add(o, "findings", report);
		print_json(o);
		return;
	}
	if (counts[PROBLEM])
		printf("%u problem%s, %u note%s; docs/TROUBLESHOOTING.md has a section for each "
		       "code\n",
		       counts[PROBLEM], counts[PROBLEM] == 1 ? "" : "s", counts[NOTE],
		       counts[NOTE] == 1 ? "" : "s");
	else
		printf("Verbena works here (%u note%s)\n", counts[NOTE],
		       counts[NOTE] == 1 ? "" : "s");
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = { { "quiet", no_argument, NULL, 'q' },
						 { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	int c;

	while ((c = next_option(argc, argv, ":qjh", options,
				"Exit status 1 if there is a problem; notes alone give 0.\n"
				"  -q, --quiet   findings only\n"
				"  -j, --json    machine-readable\n")) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		if (c == 'q')
			brief = true;
		else
			report = report ? report : json_object_new_array();
	}
	if (!no_arguments(argc, argv, optind))
		return EXIT_USAGE;
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		checks[i]();
		fflush(stdout);
	}
	print_result();
	return counts[PROBLEM] ? EXIT_FAILED : EXIT_OK;
}
