/* SPDX-License-Identifier: BSD-2-Clause */
/* See ps_notes.h. */
#include "ps_notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "query.h"
#include "view.h"

static void note(bool *any, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void note(bool *any, const char *fmt, ...)
{
	va_list ap;

	if (!*any)
		printf("\n  At this moment:\n");
	*any = true;
	printf("    ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static bool is(struct json_object *o, const char *name)
{
	return json_object_get_boolean(json_object_object_get(o, name));
}

/* Completions that a CQ has had; -1: it is not listed. */
static int64_t completions_of(struct json_object *process, struct json_object *qp)
{
	struct json_object *cqs = list(process, "cqs");

	for (size_t i = 0; i < list_length(cqs); i++) {
		struct json_object *c = json_object_array_get_idx(cqs, i);

		if (number(c, "handle") == number(qp, "send_cq") &&
		    strcmp(text(c, "device"), text(qp, "device")) == 0)
			return number(c, "completions");
	}
	return -1;
}

static void note_sends(bool *any, struct json_object *process, struct json_object *q)
{
	struct json_object *counters = json_object_object_get(q, "counters");
	long long qpn = (long long)number(q, "qpn"),
		  waiting = (long long)number(q, "sends_waiting");

	if (waiting && number(counters, "rcvd_rnr_err"))
		note(any, "QP 0x%06llx: sends that wait for the peer to post a receive: %lld",
		     qpn, waiting);
	else if (waiting)
		note(any, "QP 0x%06llx: sends without an answer from QP 0x%06llx at %s: %lld%s",
		     qpn, (long long)number(q, "peer_qpn"), text(q, "peer"), waiting,
		     strcmp(text(q, "type"), "RC") == 0 && !number(q, "timeout")
			     ? "; timeout is 0: they wait for ever" : "");
	else if (number(q, "sends_done") && completions_of(process, q) == 0)
		note(any, "QP 0x%06llx: its sends are done, without completions: they had no "
			  "IBV_SEND_SIGNALED", qpn);
}

/* It drops what comes. */
static bool is_unready(struct json_object *q)
{
	return strcmp(text(q, "state"), "RESET") == 0 || strcmp(text(q, "state"), "INIT") == 0;
}

static void note_qp(bool *any, struct json_object *process, struct json_object *q)
{
	struct json_object *counters = json_object_object_get(q, "counters");
	long long qpn = (long long)number(q, "qpn");

	note_sends(any, process, q);
	if (is_unready(q) && number(counters, "dropped_pkts"))
		note(any, "QP 0x%06llx is in %s; packets dropped so far: %lld", qpn,
		     text(q, "state"), (long long)number(counters, "dropped_pkts"));
	if (strcmp(text(q, "state"), "ERR") == 0)
		note(any, "QP 0x%06llx is in error: its first failed completion, or the log, says "
			  "why", qpn);
	else if (number(counters, "send_rnr_err") && !is(q, "srq") && !number(q, "recvs_waiting"))
		note(any, "QP 0x%06llx has no receive posted, and its peer sends", qpn);
	else if (number(counters, "unreceived_msgs") && !is(q, "srq") &&
		 !number(q, "recvs_waiting"))
		note(any, "QP 0x%06llx has no receive posted; messages dropped so far for want of "
			  "one: %lld", qpn, (long long)number(counters, "unreceived_msgs"));
	if (is(q, "building"))
		note(any, "QP 0x%06llx: requests are being built: ibv_wr_start() without "
			  "ibv_wr_complete() or ibv_wr_abort()", qpn);
}

static void note_cq(bool *any, struct json_object *c)
{
	long long handle = (long long)number(c, "handle"),
		  waiting = (long long)number(c, "waiting");
	const char *events = "";

	if (is(c, "solicited"))
		events = "; armed for solicited ones only, sent with IBV_SEND_SOLICITED";
	else if (is(c, "events") && !is(c, "armed"))
		events = "; not armed (ibv_req_notify_cq), so more will raise no event";
	if (waiting)
		note(any, "CQ %lld: completions not polled: %lld%s", handle, waiting, events);
	if (!number(c, "users"))
		note(any, "CQ %lld: no queue uses it, so no completion will come", handle);
	if (is(c, "polling"))
		note(any, "CQ %lld is being polled: ibv_start_poll() without ibv_end_poll()",
		     handle);
}

#define NO_RTU                                                                                     \
	" waits for the peer: there rdma_get_cm_event() is missing, or, of an id without a QP, "   \
	"rdma_establish()"

static void note_id(bool *any, struct json_object *id)
{
	static const struct {
		const char *state, *what;
	} rows[] = {
		{ "REQ_SENT", "rdma_connect() has no answer yet" },
		{ "SIDR_REQ_SENT", "rdma_connect() has no answer yet" },
		{ "MRA_REQ_RCVD", "the peer has the request, and has not called rdma_accept()" },
		{ "REQ_RCVD", "a request waits for rdma_get_cm_event() and rdma_accept()" },
		{ "SIDR_REQ_RCVD", "a request waits for rdma_get_cm_event() and rdma_accept()" },
		{ "REP_RCVD", "the peer has accepted: rdma_get_cm_event() is missing, or, as the "
			      "id has no QP, rdma_establish()" },
		{ "REP_SENT", "rdma_accept()" NO_RTU },
		{ "MRA_REP_RCVD", "rdma_accept()" NO_RTU },
		{ "DESTROYING", "rdma_destroy_id() waits for rdma_ack_cm_event()" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(text(id, "exchange"), rows[i].state) == 0 ||
		    strcmp(text(id, "state"), rows[i].state) == 0)
			note(any, "CM id of port %lld: %s", (long long)number(id, "src_port"),
			     rows[i].what);
}

/* The first QP that is not in RTR yet; NULL: none. */
static struct json_object *unready_qp(struct json_object *process)
{
	struct json_object *qps = list(process, "qps");

	for (size_t i = 0; i < list_length(qps); i++) {
		struct json_object *q = json_object_array_get_idx(qps, i);

		if (is_unready(q))
			return q;
	}
	return NULL;
}

/* Only while it lasts: a peer that is ready sooner sends again. */
static void note_unready(bool *any, struct json_object *process)
{
	struct json_object *q = unready_qp(process);
	long long packets = (long long)number(process, "not_ready");

	if (q && packets)
		note(any, "packets so far for a QP that was not in RTR: %lld; QP 0x%06llx is in %s",
		     packets, (long long)number(q, "qpn"), text(q, "state"));
}

void print_notes(struct json_object *process)
{
	struct json_object *qps = list(process, "qps"), *cqs = list(process, "cqs"),
			   *ids = list(process, "cm_ids");
	long long unknown = (long long)number(process, "unknown_qp"),
		  other = (long long)number(process, "wrong_path");
	bool any = false;

	if (unknown)
		note(&any, "packets so far for a QP that does not exist, or no more: %lld",
		     unknown);
	if (other)
		note(&any, "packets so far for a QP that is connected to another peer: %lld",
		     other);
	note_unready(&any, process);
	for (size_t i = 0; i < list_length(qps); i++)
		note_qp(&any, process, json_object_array_get_idx(qps, i));
	for (size_t i = 0; i < list_length(cqs); i++)
		note_cq(&any, json_object_array_get_idx(cqs, i));
	for (size_t i = 0; i < list_length(ids); i++)
		note_id(&any, json_object_array_get_idx(ids, i));
}
