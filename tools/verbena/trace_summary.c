/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena trace summary: counts; see trace_summary.h. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <json-c/json.h>

#include "tool.h"
#include "trace_summary.h"
#include "trace_tie.h"
#include "util/compiler.h"
#include "wq/note.h"

enum { RC_ACKNOWLEDGE = 0x11 };

static void *need(void *p)
{
	if (!p)
		exit(complain(EXIT_FAILED, "out of memory"));
	return p;
}

/* ---------------------------------------------------------------- times */

static unsigned int bucket_of(uint64_t ns)
{
	unsigned int shift;

	if (ns < PARTS)
		return (unsigned int)ns;
	shift = 63 - (unsigned int)__builtin_clzll(ns) - 4;
	return min((shift + 1) * PARTS + (unsigned int)(ns >> shift & (PARTS - 1)), BUCKETS - 1u);
}

static void add_latency(struct operation *op, uint64_t ns)
{
	if (!op->latency)
		op->latency = need(calloc(1, sizeof(*op->latency)));
	op->latency->n++;
	op->latency->most = max(op->latency->most, ns);
	op->latency->bucket[bucket_of(ns)]++;
}

/* ---------------------------------------------------------------- counting */

static struct queue *queue_of(struct summary *s, const struct record *r, unsigned int kind,
			      uint32_t number)
{
	struct queue *q = s->recent;

	if (q && q->file == r->file && q->number == number && q->kind == kind)
		return q;
	for (q = s->queues; q; q = q->next)
		if (q->file == r->file && q->number == number && q->kind == kind)
			return s->recent = q;
	q = need(calloc(1, sizeof(*q)));
	q->file = r->file;
	q->kind = (uint16_t)kind;
	q->number = number;
	*s->last_queue = q;
	s->last_queue = &q->next;
	return q;
}

static struct cq *cq_of(struct summary *s, const struct record *r, uint32_t number)
{
	struct cq *c;

	for (c = s->cqs; c; c = c->next)
		if (c->file == r->file && c->number == number)
			return c;
	c = need(calloc(1, sizeof(*c)));
	c->file = r->file;
	c->number = number;
	*s->last_cq = c;
	s->last_cq = &c->next;
	return c;
}

static void count_verb(struct summary *s, const struct record *r)
{
	const struct record_verb *v = r->body;
	struct process *p = &s->process[r->file];
	uint64_t arg[3] = { 0 };

	if (v->verb >= VERB_END || !record_verb_name(v->verb))	/* there are holes */
		return;
	p->verbs[v->verb]++;
	p->failed[v->verb] += v->result != 0;
	p->took[v->verb] += v->took;
	p->most[v->verb] = max(p->most[v->verb], v->took);
	memcpy(arg, r->tail, min(r->tail_len, sizeof(arg)));
	if (v->verb == VERB_start_poll || v->verb == VERB_next_poll)
		arg[2] = !v->result;
	else if (v->verb != VERB_poll_cq)
		return;
	for (struct cq *c = s->cqs; c; c = c->next) {
		if (c->file != r->file || c->handle != arg[0])
			continue;
		c->polled += arg[2];
		c->waiting_since = r->time;
	}
}

static void count_object(struct summary *s, const struct record *r)
{
	const struct record_object *o = r->body;
	struct queue *q;

	if (o->kind == RECORD_CQ && o->change != RECORD_STATE)	/* another may have it later */
		cq_of(s, r, o->number)->handle =
			o->change == RECORD_CREATED ? o->handle : 0;
	if (o->kind != RECORD_QP)
		return;
	q = queue_of(s, r, RECORD_QP, o->number);
	q->type = (uint16_t)o->reason;
	q->state = (uint16_t)o->state;
}

static void count_send(struct summary *s, const struct record *r)
{
	const struct record_send *send = r->body;
	struct queue *q = queue_of(s, r, RECORD_QP, send->qpn);
	struct operation *op = &q->op[min(send->opcode, OPCODES - 1)];

	op->posted++;
	op->bytes += send->length;
	if (q->first + q->n == q->room && q->first > q->room / 2) {
		memmove(q->posted, q->posted + q->first, q->n * sizeof(*q->posted));
		q->first = 0;
	} else if (q->first + q->n == q->room) {
		q->room = max(2 * q->room, (size_t)64);
		q->posted = need(realloc(q->posted, q->room * sizeof(*q->posted)));
	}
	q->posted[q->first + q->n++] = (struct posted){
		.time = r->time,
		.wr_id = send->wr_id,
		.index = send->index,
		.length = send->length,
		.opcode = (uint16_t)min(send->opcode, OPCODES - 1),
		.signaled = send->flags & IBV_SEND_SIGNALED,
	};
}

static void receives_changed(struct queue *q, int by, uint64_t now)
{
	q->receives += by;
	if (by < 0 && q->receives == 0) {
		q->emptied++;
		q->empty_since = now;
	} else if (by > 0 && q->receives == 1 && q->empty_since) {
		q->empty_time += now - q->empty_since;
		q->empty_since = 0;
	}
}

/* Those before it in the queue are complete, too; unsignaled ones have no completion. */
static void count_sent(struct queue *q, const struct record *r, const struct record_completion *c)
{
	while (q->n) {
		struct posted *p = &q->posted[q->first];
		struct operation *op = &q->op[min(p->opcode, OPCODES - 1)];
		bool last = p->index == c->index;

		if ((int32_t)(p->index - c->index) > 0)
			return;
		q->first++;
		q->n--;
		q->waits = 0;
		op->completed++;
		if (!last)
			continue;
		if (c->status)
			op->failed++;
		else
			add_latency(op, r->time - p->time);
		return;
	}
}

static void count_completion(struct summary *s, const struct record *r)
{
	const struct record_completion *c = r->body;
	struct queue *q = queue_of(s, r, c->kind, c->number);
	struct cq *cq = cq_of(s, r, c->cqn);

	if (cq->completions++ <= cq->polled)
		cq->waiting_since = r->time;
	cq->high = max(cq->high, cq->completions - min(cq->polled, cq->completions));
	if (!trace_is_receive(c)) {
		count_sent(q, r, c);
		return;
	}
	receives_changed(q, -1, r->time);
	if (c->status) {
		q->receive_errors++;
		return;
	}
	q->received++;
	q->received_bytes += c->length;
}

/* The packet that the engine said would leave again: which request it is part of. */
static void count_again(struct queue *q, const struct record *r)
{
	const struct record_packet *p = r->body;

	if (!q->leaves_again || r->tail_len < TRACE_BTH || trace_bth_psn(r->tail) != q->again)
		return;
	q->leaves_again = false;
	for (size_t i = 0; p->kind && i < q->n; i++) {
		const struct posted *x = &q->posted[q->first + i];

		if (x->index == p->index)
			q->op[min(x->opcode, OPCODES - 1)].again++;
	}
}

/* An ACK, and no NAK of any kind. */
static bool is_ack(const struct record *r)
{
	const uint8_t *bth = r->tail;

	return r->tail_len > TRACE_BTH && bth[0] == RC_ACKNOWLEDGE && !(bth[TRACE_BTH] >> 5 & 3);
}

static void count_packet(struct summary *s, const struct record *r)
{
	const struct record_packet *p = r->body;
	struct queue *q = queue_of(s, r, RECORD_QP, p->qpn);

	if (p->way == RECORD_OUT) {
		q->out++;
		q->out_bytes += p->length;
		count_again(q, r);
	} else {
		q->in++;
		q->in_bytes += p->length;
		if (is_ack(r))
			q->waits = 0;
	}
}

static void count_engine(struct summary *s, const struct record *r)
{
	const struct record_engine *e = r->body;
	struct queue *q = queue_of(s, r, RECORD_QP, e->qpn);

	if (e->what < NOTES)
		q->notes[e->what]++;
	if (e->what == NOTE_DIRECT)
		q->direct += e->value;
	if (e->what == NOTE_RNR_RCVD)
		q->rnr_wait += e->value;
	if (e->what == NOTE_ERROR)
		q->state = IBV_QPS_ERR;
	if (e->what == NOTE_RNR_RCVD || e->what == NOTE_TIMEOUT)
		q->waits = e->what;
	if (e->what == NOTE_WINDOW) {
		q->window = e->value;
		q->window_least = q->window_least ? min(q->window_least, e->value) : e->value;
	}
	if (e->what == NOTE_RETRANSMIT || e->what == NOTE_PROBE) {
		q->leaves_again = true;
		q->again = e->psn;
	}
}

static void count_fault(struct summary *s, const struct record *r)
{
	const struct record_fault *f = r->body;
	struct struck **at = &s->process[r->file].faults, *new;

	if (f->qpn)
		queue_of(s, r, RECORD_QP, f->qpn)->faults++;
	for (; *at; at = &(*at)->next) {
		if ((*at)->len == r->tail_len && !memcmp((*at)->rule, r->tail, r->tail_len)) {
			(*at)->times++;
			return;
		}
	}
	new = need(calloc(1, sizeof(*new) + r->tail_len + 1));
	new->times = 1;
	new->len = r->tail_len;
	memcpy(new->rule, r->tail, r->tail_len);
	*at = new;
}

static void count(struct summary *s, const struct record *r)
{
	struct process *p = &s->process[r->file];
	const struct record_recv *v = r->body;
	struct queue *q;

	if (!p->records++)
		p->first = r->time;
	p->last = r->time;
	switch (r->type) {
	case RECORD_VERB:
		count_verb(s, r);
		break;
	case RECORD_OBJECT:
		count_object(s, r);
		break;
	case RECORD_SEND:
		count_send(s, r);
		break;
	case RECORD_RECV:
		q = queue_of(s, r, v->kind, v->number);
		q->recvs++;
		receives_changed(q, 1, r->time);
		break;
	case RECORD_COMPLETION:
		count_completion(s, r);
		break;
	case RECORD_PACKET:
		count_packet(s, r);
		break;
	case RECORD_ENGINE:
		count_engine(s, r);
		break;
	case RECORD_FAULT:
		count_fault(s, r);
		break;
	}
}

/* ---------------------------------------------------------------- answers */

uint64_t summary_bucket_time(unsigned int i)
{
	return i < PARTS ? i : (uint64_t)(PARTS + i % PARTS) << (i / PARTS - 1);
}

uint64_t summary_percentile(const struct latency *l, double part)
{
	uint64_t rank = (uint64_t)(part * (double)(l->n - 1)), n = 0;

	for (unsigned int i = 0; i < BUCKETS; i++) {
		n += l->bucket[i];
		if (n > rank)
			return summary_bucket_time(i);
	}
	return l->most;
}

const struct posted *summary_waiting(const struct queue *q)
{
	if (q->state == IBV_QPS_ERR || q->state == IBV_QPS_RESET)
		return NULL;
	for (size_t i = 0; i < q->n; i++)
		if (q->waits || q->posted[q->first + i].signaled)
			return &q->posted[q->first + i];
	return NULL;
}

const char *summary_waits_for(const struct queue *q)
{
	if (!summary_waiting(q))
		return NULL;
	switch (q->waits) {
	case NOTE_RNR_RCVD:
		return "a receive of the peer";
	case NOTE_TIMEOUT:
		return "an answer: there was none in time";
	default:
		return q->out ? "an answer" : "its turn";
	}
}

uint64_t summary_waits_ns(const struct summary *s, const struct queue *q)
{
	const struct posted *p = summary_waiting(q);
	uint64_t last = s->process[q->file].last;

	return p ? last - min(p->time, last) : 0;
}

uint64_t summary_open(const struct queue *q, unsigned int opcode)
{
	uint64_t n = 0;

	for (size_t i = 0; i < q->n; i++)
		n += q->posted[q->first + i].signaled &&
		     (opcode == OPCODES || q->posted[q->first + i].opcode == opcode);
	return n;
}

uint64_t summary_empty_ns(const struct summary *s, const struct queue *q)
{
	uint64_t last = s->process[q->file].last;

	return q->empty_time + (q->empty_since ? last - min(q->empty_since, last) : 0);
}

uint64_t summary_not_taken(const struct cq *c)
{
	return c->completions - min(c->polled, c->completions);
}

/* ---------------------------------------------------------------- the command */

static void print_all(const struct summary *s, bool json)
{
	struct json_object *top = json ? json_object_new_object() : NULL;
	struct json_object *processes = json ? json_object_new_array() : NULL;

	for (size_t i = 0; i < s->t.files; i++)
		if (json)
			json_object_array_add(processes, summary_json(s, i));
		else
			summary_print(s, i);
	if (!json)
		return;
	json_object_object_add(top, "processes", processes);
	print_json(top);
}

static void free_all(struct summary *s)
{
	while (s->queues) {
		struct queue *q = s->queues;

		s->queues = q->next;
		for (unsigned int i = 0; i < OPCODES; i++)
			free(q->op[i].latency);
		free(q->posted);
		free(q);
	}
	while (s->cqs) {
		struct cq *c = s->cqs;

		s->cqs = c->next;
		free(c);
	}
	for (size_t i = 0; i < s->t.files; i++) {
		while (s->process[i].faults) {
			struct struck *f = s->process[i].faults;

			s->process[i].faults = f->next;
			free(f);
		}
	}
	free(s->process);
	trace_close(&s->t);
}

int trace_summary(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { 0 }
	};
	struct summary s = { 0 };
	bool json = false;
	struct record r;
	int c, status;

	while ((c = next_option(argc, argv, ":jh", options,
				"  FILE...      recordings, or folders of them\n"
				"  -j, --json   for programs\n")) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		json = true;
	}
	status = trace_open(&s.t, argv + optind);
	if (status)
		return status;
	s.process = need(calloc(s.t.files, sizeof(*s.process)));
	s.last_queue = &s.queues;
	s.last_cq = &s.cqs;
	while (trace_next(&s.t, &r, &status))
		count(&s, &r);
	print_all(&s, json);
	free_all(&s);
	return status;
}
