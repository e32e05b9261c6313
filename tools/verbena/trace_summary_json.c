/* SPDX-License-Identifier: BSD-2-Clause */
/* A summary as JSON. */
#include <json-c/json.h>

#include "tool.h"
#include "trace_summary.h"

static struct json_object *integer(uint64_t v)
{
	return json_object_new_uint64(v);
}

static void add(struct json_object *o, const char *name, uint64_t v)
{
	json_object_object_add(o, name, integer(v));
}

static void add_text(struct json_object *o, const char *name, const char *text)
{
	json_object_object_add(o, name, json_text(text));
}

/* Pairs of a time and how many took that long or longer, up to the next one. */
static struct json_object *histogram(const struct latency *l)
{
	struct json_object *all = json_object_new_array();

	for (unsigned int i = 0; i < BUCKETS; i++) {
		struct json_object *pair;

		if (!l->bucket[i])
			continue;
		pair = json_object_new_array();
		json_object_array_add(pair, integer(summary_bucket_time(i)));
		json_object_array_add(pair, integer(l->bucket[i]));
		json_object_array_add(all, pair);
	}
	return all;
}

static struct json_object *latency_json(const struct latency *l)
{
	struct json_object *o = json_object_new_object();

	add(o, "p50", summary_percentile(l, 0.5));
	add(o, "p99", summary_percentile(l, 0.99));
	add(o, "p999", summary_percentile(l, 0.999));
	add(o, "max", l->most);
	json_object_object_add(o, "histogram", histogram(l));
	return o;
}

static struct json_object *operations_json(const struct queue *q)
{
	struct json_object *all = json_object_new_object();

	for (unsigned int i = 0; i < OPCODES; i++) {
		const struct operation *op = &q->op[i];
		struct json_object *o;

		if (!op->posted && !op->completed)
			continue;
		o = json_object_new_object();
		add(o, "posted", op->posted);
		add(o, "bytes", op->bytes);
		add(o, "completed", op->completed);
		add(o, "failed", op->failed);
		add(o, "retransmitted", op->again);
		if (op->latency)
			json_object_object_add(o, "latency_ns", latency_json(op->latency));
		json_object_object_add(all, trace_wr_opcode(i), o);
	}
	return all;
}

/* All that kept it waiting. */
static struct json_object *waited_json(const struct summary *s, const struct queue *q)
{
	struct json_object *o = json_object_new_object();

	add(o, "peer_receives_ns", q->rnr_wait);
	add(o, "answers_missed", q->notes[NOTE_TIMEOUT]);
	add(o, "own_receives_ns", summary_empty_ns(s, q));
	add(o, "window_least", q->window_least);
	if (summary_waits_for(q)) {
		add_text(o, "now_for", summary_waits_for(q));
		add(o, "now_ns", summary_waits_ns(s, q));
		add(o, "now_requests", summary_open(q, OPCODES));
	}
	return o;
}

static struct json_object *queue_json(const struct summary *s, const struct queue *q)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "kind", trace_kind(q->kind));
	add(o, "number", q->number);
	add(o, "state", q->state);
	json_object_object_add(o, "requests", operations_json(q));
	add(o, "receives_posted", q->recvs);
	add(o, "received", q->received);
	add(o, "received_bytes", q->received_bytes);
	add(o, "receive_errors", q->receive_errors);
	add(o, "receive_queue_empty", q->emptied);
	add(o, "receive_queue_empty_ns", summary_empty_ns(s, q));
	add(o, "packets_out", q->out);
	add(o, "packets_out_bytes", q->out_bytes);
	add(o, "packets_in", q->in);
	add(o, "packets_in_bytes", q->in_bytes);
	add(o, "direct", q->direct);
	add(o, "retransmitted", q->notes[NOTE_RETRANSMIT]);
	add(o, "timeouts", q->notes[NOTE_TIMEOUT]);
	add(o, "probes", q->notes[NOTE_PROBE]);
	add(o, "naks_sent", q->notes[NOTE_NAK_SENT]);
	add(o, "naks_received", q->notes[NOTE_NAK_RCVD]);
	add(o, "rnr_sent", q->notes[NOTE_RNR_SENT]);
	add(o, "rnr_received", q->notes[NOTE_RNR_RCVD]);
	add(o, "rnr_wait_ns", q->rnr_wait);
	add(o, "cnps_sent", q->notes[NOTE_CNP_SENT]);
	add(o, "cnps_received", q->notes[NOTE_CNP_RCVD]);
	add(o, "duplicates", q->notes[NOTE_DUPLICATE]);
	add(o, "dropped", q->notes[NOTE_DROP]);
	add(o, "faults", q->faults);
	add(o, "window", q->window);
	json_object_object_add(o, "waited", waited_json(s, q));
	return o;
}

static struct json_object *verbs_json(const struct process *p)
{
	struct json_object *all = json_object_new_object();

	for (unsigned int i = 0; i < VERB_END; i++) {
		struct json_object *o;

		if (!p->verbs[i])
			continue;
		o = json_object_new_object();
		add(o, "calls", p->verbs[i]);
		add(o, "failed", p->failed[i]);
		add(o, "took_ns", p->took[i]);
		add(o, "most_ns", p->most[i]);
		json_object_object_add(all, record_verb_name(i), o);
	}
	return all;
}

static struct json_object *faults_json(const struct process *p)
{
	struct json_object *all = json_object_new_object();

	for (const struct struck *f = p->faults; f; f = f->next) {
		struct json_object *rule = json_text(f->rule);

		add(all, json_object_get_string(rule), f->times);
		json_object_put(rule);
	}
	return all;
}

static struct json_object *cqs_json(const struct summary *s, size_t file)
{
	struct json_object *all = json_object_new_array();

	for (const struct cq *c = s->cqs; c; c = c->next) {
		struct json_object *o;

		if (c->file != file)
			continue;
		o = json_object_new_object();
		add(o, "number", c->number);
		add(o, "completions", c->completions);
		add(o, "polled", c->polled);
		add(o, "high_water", c->high);
		add(o, "not_taken", summary_not_taken(c));
		json_object_array_add(all, o);
	}
	return all;
}

struct json_object *summary_json(const struct summary *s, size_t file)
{
	const struct record_file *f = record_reader_file(s->t.reader, file);
	const struct process *p = &s->process[file];
	struct json_object *o = json_object_new_object(), *queues = json_object_new_array();

	add_text(o, "name", s->t.label[file]);
	add_text(o, "host", f->origin.host);
	add_text(o, "command", f->origin.command);
	add(o, "pid", f->origin.pid);
	add(o, "records", p->records);
	add(o, "lost", f->lost);
	add(o, "torn", f->torn);
	add(o, "bad", f->bad);
	add(o, "time_ns", p->last - p->first);
	json_object_object_add(o, "verbs", verbs_json(p));
	json_object_object_add(o, "faults", faults_json(p));
	json_object_object_add(o, "cqs", cqs_json(s, file));
	for (const struct queue *q = s->queues; q; q = q->next)
		if (q->file == file)
			json_object_array_add(queues, queue_json(s, q));
	json_object_object_add(o, "queues", queues);
	return o;
}
