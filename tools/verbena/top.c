/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena top: what the user's processes do, repeatedly.  Rates are differences between two answers
 * of the same process and QP; new ones have none.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <json-c/json.h>

#include "query.h"
#include "tool.h"
#include "view.h"

struct rates {
	bool known;
	double sends, recvs, out_bytes, in_bytes, packets, retries;
};

static struct json_object *previous;	/* array of processes, or NULL */

static bool keep(struct json_object *p, void *arg)
{
	json_object_array_add(arg, p);
	return false;
}

static struct json_object *find(struct json_object *all, const char *key, int64_t value)
{
	for (size_t i = 0; i < list_length(all); i++)
		if (number(json_object_array_get_idx(all, i), key) == value)
			return json_object_array_get_idx(all, i);
	return NULL;
}

/* Queue indices wrap at 32 bits. */
static double per_second(struct json_object *now, struct json_object *then, const char *key,
			 double seconds)
{
	return (uint32_t)(number(now, key) - number(then, key)) / seconds;
}

static double counted(struct json_object *now, struct json_object *then, const char *key,
		      double seconds)
{
	struct json_object *a = json_object_object_get(now, "counters");
	struct json_object *b = json_object_object_get(then, "counters");
	int64_t grown = number(a, key) - number(b, key);

	return grown > 0 ? (double)grown / seconds : 0;
}

/* Rates of a QP of process p since the previous round. */
static struct rates rates_of(struct json_object *p, struct json_object *q)
{
	struct json_object *old = find(previous, "pid", number(p, "pid"));
	struct json_object *then = old ? find(list(old, "qps"), "qpn", number(q, "qpn")) : NULL;
	double seconds = old ? (double)(number(p, "time_ns") - number(old, "time_ns")) / 1e9 : 0;

	if (!then || seconds <= 0)
		return (struct rates){ 0 };
	return (struct rates){
		.known = true,
		.sends = per_second(q, then, "sends_done", seconds),
		.recvs = per_second(q, then, "recvs_taken", seconds),
		.out_bytes = counted(q, then, "sent_bytes", seconds),
		.in_bytes = counted(q, then, "rcvd_bytes", seconds),
		.packets = counted(q, then, "sent_pkts", seconds) +
			   counted(q, then, "rcvd_pkts", seconds),
		.retries = counted(q, then, "retransmitted_pkts", seconds),
	};
}

static void add_double(struct json_object *o, const char *key, double v)
{
	json_object_object_add(o, key, json_object_new_double(v));
}

/* Adds a "rates" object to each QP whose rates are known. */
static void add_rates(struct json_object *all)
{
	for (size_t i = 0; i < list_length(all); i++) {
		struct json_object *p = json_object_array_get_idx(all, i), *qps = list(p, "qps");

		for (size_t j = 0; j < list_length(qps); j++) {
			struct json_object *q = json_object_array_get_idx(qps, j), *o;
			struct rates r = rates_of(p, q);

			if (!r.known)
				continue;
			o = json_object_new_object();
			add_double(o, "sends", r.sends);
			add_double(o, "receives", r.recvs);
			add_double(o, "out_bytes", r.out_bytes);
			add_double(o, "in_bytes", r.in_bytes);
			add_double(o, "packets", r.packets);
			add_double(o, "retransmitted", r.retries);
			json_object_object_add(q, "rates", o);
		}
	}
}

/* "12.3M" */
static const char *scaled(double v)
{
	static char kept[6][16];
	static unsigned int next;
	static const char units[] = " kMGT";
	char *to = kept[next++ % 6];
	unsigned int u = 0;

	while (v >= 999.5 && units[u + 1]) {
		v /= 1000;
		u++;
	}
	snprintf(to, sizeof(kept[0]), v < 10 && u ? "%.1f%c" : "%.0f%c", v, units[u]);
	return to;
}

static int rows_of_terminal(void)
{
	struct winsize w;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row
		       ? w.ws_row
		       : 1 << 30;
}

static void print_qp(struct json_object *p, struct json_object *q)
{
	struct rates r = rates_of(p, q);

	printf("%7lld %-14.14s 0x%06llx %-4.4s %-5s %-12s %4lld/%-4lld",
	       (long long)number(p, "pid"), text(p, "program"), (long long)number(q, "qpn"),
	       text(q, "type"), text(q, "state"), text(q, "transport"),
	       (long long)number(q, "sends_waiting"), (long long)number(q, "send_depth"));
	if (r.known)
		printf(" %7s %7s %7s %7s %7s\n", scaled(r.sends), scaled(r.recvs),
		       scaled(r.out_bytes), scaled(r.in_bytes), scaled(r.retries));
	else
		printf(" %7s %7s %7s %7s %7s\n", "-", "-", "-", "-", "-");
}

static void print_qps(struct json_object *all, int *room)
{
	printf("%s%7s %-14s %-8s %-4s %-5s %-12s %-9s %7s %7s %7s %7s %7s%s\n", BOLD, "PID",
	       "PROGRAM", "QP", "TYPE", "STATE", "TRANSPORT", "SENDS", "send/s", "recv/s",
	       "out B/s", "in B/s", "again/s", PLAIN);
	for (size_t i = 0; i < list_length(all); i++) {
		struct json_object *p = json_object_array_get_idx(all, i), *l = list(p, "qps");

		for (size_t j = 0; j < list_length(l); j++)
			if ((*room)-- > 0)
				print_qp(p, json_object_array_get_idx(l, j));
	}
}

static void print_cm_ids(struct json_object *all, int *room)
{
	if (*room > 0) {
		(*room)--;
		printf("%s%7s %-14s ", BOLD, "PID", "PROGRAM");
		print_cm_id_head();
		printf("%s", PLAIN);
	}
	for (size_t i = 0; i < list_length(all); i++) {
		struct json_object *p = json_object_array_get_idx(all, i), *l = list(p, "cm_ids");

		for (size_t j = 0; j < list_length(l); j++) {
			if ((*room)-- <= 0)
				continue;
			printf("%7lld %-14.14s ", (long long)number(p, "pid"), text(p, "program"));
			print_cm_id(json_object_array_get_idx(l, j));
		}
	}
}

static void print_screen(struct json_object *all, int silent)
{
	long long qps = 0, cqs = 0, mrs = 0, ids = 0;
	int room = rows_of_terminal() - 4;
	size_t n = list_length(all);

	for (size_t i = 0; i < n; i++) {
		struct json_object *p = json_object_array_get_idx(all, i);

		qps += number(p, "n_qps");
		cqs += number(p, "n_cqs");
		mrs += number(p, "n_mrs");
		ids += number(p, "n_cm_ids");
	}
	printf("%zu process%s, %lld QPs, %lld CQs, %lld MRs, %lld CM ids", n, n == 1 ? "" : "es",
	       qps, cqs, mrs, ids);
	if (silent)
		printf("; %d do not answer", silent);
	printf("\n");
	print_qps(all, &room);
	if (ids)
		print_cm_ids(all, &room);
	if (room < 0)
		printf("... and %d more\n", -room);
}

/* Else the end of a pipe's reader would end us with the terminal as it should not stay. */
static bool takes_keys(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

/* Waits; true if the user typed q. */
static bool pause_for(double seconds)
{
	struct pollfd pfd = { .fd = STDIN_FILENO, .events = POLLIN };
	char key = 0;

	if (!takes_keys()) {
		poll(NULL, 0, (int)(seconds * 1000));
		return false;
	}
	return poll(&pfd, 1, (int)(seconds * 1000)) > 0 && read(STDIN_FILENO, &key, 1) == 1 &&
	       (key == 'q' || key == 'Q');
}

static struct termios saved;

static void restore(void)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &saved);
}

/* The signal's default action follows. */
static void restore_and_end(int signal)
{
	restore();
	raise(signal);
}

static void take_keys(void)
{
	const struct sigaction end = { .sa_handler = restore_and_end, .sa_flags = SA_RESETHAND };
	struct termios raw;

	if (!takes_keys() || tcgetattr(STDIN_FILENO, &saved) < 0)
		return;
	atexit(restore);
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	raw = saved;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

static int round_once(bool json, int nth)
{
	struct json_object *all = json_object_new_array();
	int silent;

	if (query_all(keep, all, &silent) < 0) {
		json_object_put(all);
		return complain(EXIT_REFUSED, "the directory that processes share cannot be used; "
					      "verbena doctor says why");
	}
	if (json) {
		add_rates(all);
		puts(json_object_to_json_string_ext(all, JSON_C_TO_STRING_PLAIN));
	} else {
		printf("%s", isatty(STDOUT_FILENO) ? "\033[H\033[J" : nth ? "\n" : "");
		print_screen(all, silent);
	}
	fflush(stdout);
	if (previous)
		json_object_put(previous);
	previous = all;
	return EXIT_OK;
}

int cmd_top(int argc, char **argv)
{
	static const struct option options[] = { { "times", required_argument, NULL, 'n' },
						 { "interval", required_argument, NULL, 'i' },
						 { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	double interval = 1;
	bool json = false;
	long times = 0;
	const char *nothing = "";
	char *end = (char *)nothing;
	int c, status = EXIT_OK;

	while ((c = next_option(argc, argv, ":n:i:jh", options,
				"Ends with q, ^C or after -n rounds.\n"
				"  -n, --times N          how many rounds; for ever if not given\n"
				"  -i, --interval SECONDS between two rounds, 1 if not given\n"
				"  -j, --json             one line with everything a round\n")) !=
	       -1) {
		if (c == '?')
			return EXIT_USAGE;
		if (c == 'j')
			json = true;
		else if (c == 'n')
			times = strtol(optarg, &end, 10);
		else
			interval = strtod(optarg, &end);
		if (*end || times < 0 || !(interval >= 0.05 && interval <= 3600))
			return complain(EXIT_USAGE, "'%s' is not a number, or out of range",
					optarg);
	}
	if (!no_arguments(argc, argv, optind))
		return EXIT_USAGE;
	if (!json)
		take_keys();
	for (long i = 0; !status; i++) {
		status = round_once(json, (int)i);
		if (status || (times && i + 1 == times) || pause_for(interval))
			break;
	}
	return status;
}
