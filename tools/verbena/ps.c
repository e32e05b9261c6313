/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena ps: lists processes and their objects. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "ps_notes.h"
#include "query.h"
#include "tool.h"
#include "view.h"

struct wanted {
	int pid;		/* 0: all, summary only */
	struct json_object *all;	/* NULL: text */
	bool any;
};

/* An answer has a limited number of objects of a kind, and their total. */
static void print_rest(struct json_object *p, const char *total, const char *shown)
{
	long long rest = (long long)number(p, total) - (long long)list_length(list(p, shown));

	if (rest > 0)
		printf("  ... and %lld more\n", rest);
}

static void print_summary(struct json_object *p)
{
	printf("%7d  %-16s %4lld %5lld %6lld %6lld  %s\n", (int)number(p, "pid"),
	       text(p, "program"), (long long)number(p, "n_qps"), (long long)number(p, "n_cqs"),
	       (long long)number(p, "n_mrs"), (long long)number(p, "n_cm_ids"), devices_of(p));
}

/* Dropped messages, for which there is no completion. */
static void print_drops(struct json_object *q)
{
	static const struct {
		const char *name, *what;
	} drops[] = {
		{ "unreceived_msgs", "without a receive" },
		{ "broken_msgs", "with packets missing" },
		{ "refused_msgs", "refused" },
	};
	struct json_object *c = json_object_object_get(q, "counters");

	for (size_t i = 0; i < sizeof(drops) / sizeof(drops[0]); i++)
		if (number(c, drops[i].name))
			printf("           dropped: %lld messages %s\n",
			       (long long)number(c, drops[i].name), drops[i].what);
}

static void print_qps(struct json_object *p)
{
	struct json_object *qps = list(p, "qps");

	if (list_length(qps))
		printf("\n  %-8s %-8s %-5s %-12s %-8s %-26s %9s %9s\n", "QP", "type", "state",
		       "transport", "peer", "address", "sends", "receives");
	for (size_t i = 0; i < list_length(qps); i++) {
		struct json_object *q = json_object_array_get_idx(qps, i);

		printf("  0x%06llx %-8s %-5s %-12s 0x%06llx %-26s %4lld/%-4lld",
		       (long long)number(q, "qpn"), text(q, "type"), text(q, "state"),
		       text(q, "transport"), (long long)number(q, "peer_qpn"), text(q, "peer"),
		       (long long)number(q, "sends_waiting"), (long long)number(q, "send_depth"));
		if (json_object_get_boolean(json_object_object_get(q, "srq")))
			printf("       SRQ\n");
		else
			printf(" %4lld/%-4lld\n", (long long)number(q, "recvs_waiting"),
			       (long long)number(q, "recv_depth"));
		print_drops(q);
	}
	print_rest(p, "n_qps", "qps");
}

static const char *armed_text(struct json_object *c)
{
	if (json_object_get_boolean(json_object_object_get(c, "solicited")))
		return " armed for solicited";
	return json_object_get_boolean(json_object_object_get(c, "armed")) ? " armed" : "";
}

static void print_cqs(struct json_object *p)
{
	struct json_object *cqs = list(p, "cqs");

	if (list_length(cqs))
		printf("\n  %-8s %-8s %8s %8s %6s\n", "CQ", "device", "waiting", "entries",
		       "users");
	for (size_t i = 0; i < list_length(cqs); i++) {
		struct json_object *c = json_object_array_get_idx(cqs, i);

		printf("  %-8lld %-8s %8lld %8lld %6lld%s%s\n", (long long)number(c, "handle"),
		       text(c, "device"), (long long)number(c, "waiting"),
		       (long long)number(c, "entries"), (long long)number(c, "users"),
		       armed_text(c),
		       json_object_get_boolean(json_object_object_get(c, "overrun")) ? " OVERRUN"
										     : "");
	}
	print_rest(p, "n_cqs", "cqs");
}

static void print_mrs(struct json_object *p)
{
	struct json_object *mrs = list(p, "mrs");

	if (list_length(mrs))
		printf("\n  %-10s %-10s %-13s %-18s %12s  %s\n", "lkey", "rkey", "kind", "address",
		       "length", "access");
	for (size_t i = 0; i < list_length(mrs); i++) {
		struct json_object *m = json_object_array_get_idx(mrs, i);
		char rights[128];

		printf("  0x%08llx 0x%08llx %-13s 0x%-16llx %12llu  %s\n",
		       (long long)number(m, "lkey"), (long long)number(m, "rkey"), text(m, "kind"),
		       (unsigned long long)unsigned_number(m, "address"),
		       (unsigned long long)unsigned_number(m, "length"),
		       access_text((unsigned int)number(m, "access"), rights, sizeof(rights)));
	}
	print_rest(p, "n_mrs", "mrs");
}

static void print_ids(struct json_object *p)
{
	struct json_object *ids = list(p, "cm_ids");

	if (list_length(ids)) {
		printf("\n  ");
		print_cm_id_head();
	}
	for (size_t i = 0; i < list_length(ids); i++) {
		printf("  ");
		print_cm_id(json_object_array_get_idx(ids, i));
	}
	print_rest(p, "n_cm_ids", "cm_ids");
}

static bool show(struct json_object *p, void *arg)
{
	struct wanted *w = arg;

	if (w->all) {
		json_object_array_add(w->all, p);
		w->any = true;
		return false;
	}
	if (!w->any)
		printf("%7s  %-16s %4s %5s %6s %6s  %s\n", "PID", "PROGRAM", "QPS", "CQS", "MRS",
		       "CMIDS", "DEVICES");
	w->any = true;
	print_summary(p);
	if (w->pid) {
		print_qps(p);
		print_cqs(p);
		print_mrs(p);
		print_ids(p);
		print_notes(p);
	}
	return true;
}

int cmd_ps(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	struct wanted w = { 0 };
	int c, n, silent;

	while ((c = next_option(argc, argv, ":jh", options,
				"With a PID: each queue pair, completion queue, memory region and "
				"rdma_cm id of that process.\n"
				"Shows processes of the user that share this VERBENA_DIR.\n"
				"  -j, --json   machine-readable, always with the objects\n"
				"At most 4096 of a kind are listed, and all are counted.\n")) !=
	       -1) {
		if (c == '?')
			return EXIT_USAGE;
		w.all = w.all ? w.all : json_object_new_array();
	}
	if (optind < argc) {
		w.pid = query_pid(argv[optind]);
		if (!w.pid)
			return complain(EXIT_USAGE, "'%s' is not a process id", argv[optind]);
		if (!no_arguments(argc, argv, optind + 1))
			return EXIT_USAGE;
	}
	n = query_process(w.pid, show, &w, &silent);
	if (n < 0)
		return complain(EXIT_REFUSED, "the directory that processes share cannot be used; "
					      "verbena doctor says why");
	if (silent && w.pid && !w.any)
		return complain(EXIT_FAILED,
				"process %d uses Verbena but did not answer (stopped, as by a "
				"debugger, without progress thread, or without a CPU)",
				w.pid);
	if (silent)
		complain(0, "%d process%s did not answer (stopped, or without progress thread)",
			 silent, silent == 1 ? "" : "es");
	if (w.all)
		print_json(w.all);
	if (w.pid && !w.any)
		return complain(EXIT_FAILED,
				"process %d does not use Verbena, or not in this VERBENA_DIR",
				w.pid);
	if (!w.any && !w.all && !silent)
		printf("no process uses Verbena\n");
	return EXIT_OK;
}
