/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena explain: looks up explain.def, reason.def and the doctor's findings by number, name or
 * message.
 */
#include "explain.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>
#include <rdma/rdma_cma.h>

#include "doctor.h"
#include "tool.h"
#include "util/compiler.h"
#include "wq/reason.h"

static const struct topic topics[] = {
#define STATUS(name, meaning, causes, look)                                                        \
	{ "status", IBV_WC_##name, #name, "IBV_WC_", NULL, meaning, causes, look },
#define WHY(name, causes, look)                                                                    \
	{ "vendor_err", REASON_##name, #name, "", NULL, NULL, causes, look },
#define EVENT(name, meaning, causes, look)                                                         \
	{ "event", IBV_EVENT_##name, #name, "IBV_EVENT_", NULL, meaning, causes, look },
#define CALL(name, verbs, meaning, look) { "errno", name, #name, "", verbs, meaning, "", look },
#define REJ(number, name, meaning, causes, look)                                                   \
	{ "rej", number, #name, "IB_CM_REJ_", NULL, meaning, causes, look },
#define CM_EVENT(name, meaning, causes, look)                                                      \
	{ "cm_event", RDMA_CM_EVENT_##name, #name, "RDMA_CM_EVENT_", NULL, meaning, causes, look },
#include "explain.def"
#undef STATUS
#undef WHY
#undef EVENT
#undef CALL
#undef REJ
#undef CM_EVENT
};

/* The meaning; for a reason its text in reason.def. */
static const char *meaning(const struct topic *t)
{
	return t->meaning ? t->meaning : reason_str((unsigned int)t->number);
}

/* What the library or libc prints for it. */
static const char *message(const struct topic *t)
{
	if (strcmp(t->kind, "status") == 0)
		return ibv_wc_status_str((enum ibv_wc_status)t->number);
	if (strcmp(t->kind, "event") == 0)
		return ibv_event_type_str((enum ibv_event_type)t->number);
	return strcmp(t->kind, "errno") == 0 ? strerror(t->number) : meaning(t);
}

/* "12", "0xc" */
static bool is_number(const char *s, int *value)
{
	char *end;
	long v;

	if (!isdigit((unsigned char)s[0]))
		return false;
	v = strtol(s, &end, 0);
	*value = (int)v;
	return !*end && v < 100000;
}

static bool matches(const struct topic *t, const char *kind, const char *word)
{
	size_t prefix = strlen(t->prefix);
	int value;

	if (kind && strcmp(kind, t->kind) != 0)
		return false;
	if (is_number(word, &value))
		return value == t->number && strcmp(t->kind, "finding") != 0;
	return strcasecmp(word, t->name) == 0 || strcasecmp(word, message(t)) == 0 ||
	       (prefix && strncasecmp(word, t->prefix, prefix) == 0 &&
		strcasecmp(word + prefix, t->name) == 0) ||
	       (strncasecmp(word, "REASON_", 7) == 0 && strcmp(t->kind, "vendor_err") == 0 &&
		strcasecmp(word + 7, t->name) == 0);
}

static void print_list(const char *label, const char *text)
{
	const char *end;

	if (!*text)
		return;
	printf("  %s%s%s\n", BOLD, label, PLAIN);
	for (; text; text = end ? end + 2 : NULL) {
		end = strstr(text, "; ");
		printf("    - %.*s\n", end ? (int)(end - text) : (int)strlen(text), text);
	}
}

static void print_topic(const struct topic *t)
{
	if (strcmp(t->kind, "finding") == 0)
		printf("%s%s%s (verbena doctor)\n", BOLD, t->name, PLAIN);
	else
		printf("%s%s%s%s (%s %d%s%s)\n", BOLD, t->prefix, t->name, PLAIN, t->kind,
		       t->number, t->of ? " of " : "", t->of ? t->of : "");
	printf("  %s\n", meaning(t));
	print_list("likely causes", t->causes);
	print_list("look at", t->look);
}

static struct json_object *topic_json(const struct topic *t)
{
	struct json_object *o = json_object_new_object();
	char name[64];

	snprintf(name, sizeof(name), "%s%s", t->prefix, t->name);
	json_object_object_add(o, "kind", json_object_new_string(t->kind));
	json_object_object_add(o, "number", json_object_new_int(t->number));
	json_object_object_add(o, "name", json_object_new_string(name));
	if (t->of)
		json_object_object_add(o, "verbs", json_object_new_string(t->of));
	json_object_object_add(o, "meaning", json_object_new_string(meaning(t)));
	json_object_object_add(o, "causes", json_object_new_string(t->causes));
	json_object_object_add(o, "look_at", json_object_new_string(t->look));
	return o;
}

static void tell(const struct topic *t, struct json_object *all, int count)
{
	if (all) {
		json_object_array_add(all, topic_json(t));
		return;
	}
	if (count)
		printf("\n");
	print_topic(t);
}

static int explain(const char *kind, const char *word, struct json_object *all)
{
	int found = 0;

	for (size_t i = 0; i < ARRAY_SIZE(topics); i++)
		if (matches(&topics[i], kind, word))
			tell(&topics[i], all, found++);
	for (size_t i = 0; i < doctor_topics(); i++) {
		struct topic t = doctor_topic(i);

		if (matches(&t, kind, word))
			tell(&t, all, found++);
	}
	return found;
}

/* An errno value without a special meaning for any verb. */
static bool plain_errno(const char *word)
{
	int value;

	if (is_number(word, &value))
		return value > 0 && value < 134 &&
		       printf("errno %d: %s\n", value, strerror(value)) > 0;
	for (value = 1; value < 134; value++)
		if (tool_errno_name(value) && strcasecmp(tool_errno_name(value), word) == 0)
			return printf("%s (errno %d): %s\n", word, value, strerror(value)) > 0;
	return false;
}

static int print_all(struct json_object *all)
{
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(topics); i++) {
		if (all)
			tell(&topics[i], all, 0);
		else
			printf("%-10s %4d  %s%s\n", topics[i].kind, topics[i].number,
			       topics[i].prefix, topics[i].name);
		n++;
	}
	return n;
}

static const char help[] =
	"  STATUS   a completion's status: 12, IBV_WC_RETRY_EXC_ERR, RETRY_EXC_ERR\n"
	"  CODE     a completion's vendor_err (301, NAK_REMOTE_ACCESS), or the doctor's (VD001)\n"
	"  ERRNO    what a verb returned or set: ENOMEM, 12, -12\n"
	"  EVENT    an asynchronous event: IBV_EVENT_GID_CHANGE, GID_CHANGE, 18\n"
	"  CM EVENT of rdma_cm: RDMA_CM_EVENT_UNREACHABLE, UNREACHABLE, cm_event:7\n"
	"  REJ      why a connection was refused, the status of RDMA_CM_EVENT_REJECTED: rej:8\n"
	"A number may be several of these; status:12, vendor_err:12, errno:12, event:12, rej:12, "
	"cm_event:12\n"
	"say which.\n"
	"A message works as well: \"transport retry counter exceeded\".\n"
	"  -a, --all    list everything that can be explained\n"
	"  -j, --json   machine-readable\n";

/* "-12" is a value returned by a verb, not an option. */
static void name_errnos(int argc, char **argv)
{
	static char word[24];

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-' || !isdigit((unsigned char)argv[i][1]))
			continue;
		snprintf(word, sizeof(word), "errno:%s", argv[i] + 1);
		argv[i] = word;
	}
}

int cmd_explain(int argc, char **argv)
{
	static const struct option options[] = { { "all", no_argument, NULL, 'a' },
						 { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	static char kind[16];
	struct json_object *all = NULL;
	bool everything = false;
	const char *word, *colon;
	int c, found;

	name_errnos(argc, argv);
	while ((c = next_option(argc, argv, ":ajh", options, help)) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		if (c == 'a')
			everything = true;
		else
			all = all ? all : json_object_new_array();
	}
	word = argv[optind];
	if (!word && !everything)
		return complain(
			EXIT_USAGE,
			"explain what? a status, vendor_err, errno, event or reason; try --help");
	if (!no_arguments(argc, argv, everything ? optind : optind + 1))
		return EXIT_USAGE;
	colon = word ? strchr(word, ':') : NULL;
	if (colon && (size_t)(colon - word) < sizeof(kind)) {
		memcpy(kind, word, (size_t)(colon - word));
		word = colon + 1;
	}
	found = everything ? print_all(all) : explain(kind[0] ? kind : NULL, word, all);
	if (!found && !all && (!kind[0] || strcmp(kind, "errno") == 0) && plain_errno(word))
		return EXIT_OK;
	if (!found)
		return complain(EXIT_FAILED,
				"unknown: '%s'; verbena explain --all lists what can be explained",
				word);
	if (all)
		print_json(all);
	return EXIT_OK;
}
