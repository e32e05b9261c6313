/* SPDX-License-Identifier: BSD-2-Clause */
/* A summary as text. */
#include <inttypes.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#include "tool.h"
#include "trace_summary.h"
#include "util/compiler.h"

/* How many took so long or less, by doublings. */
static void print_histogram(const struct latency *l)
{
	uint64_t n = 0;

	printf("      histogram, us:");
	for (unsigned int i = 0; i < BUCKETS; i++) {
		n += l->bucket[i];
		if ((i + 1) % PARTS || !n)
			continue;
		printf("  < %.3g: %" PRIu64, (double)summary_bucket_time(i + 1) / 1e3, n);
		n = 0;
	}
	if (n)
		printf("  more: %" PRIu64, n);
	putchar('\n');
}

static void print_operations(const struct queue *q)
{
	for (unsigned int i = 0; i < OPCODES; i++) {
		const struct operation *op = &q->op[i];

		if (!op->posted && !op->completed)
			continue;
		printf("    %-22s %9" PRIu64 " posted %12" PRIu64 " bytes", trace_wr_opcode(i),
		       op->posted, op->bytes);
		if (summary_open(q, i))
			printf("  %s%" PRIu64 " not complete%s", YELLOW, summary_open(q, i),
			       PLAIN);
		if (op->failed)
			printf("  %s%" PRIu64 " failed%s", RED, op->failed, PLAIN);
		if (op->again)
			printf("  %s%" PRIu64 " packets again%s", YELLOW, op->again, PLAIN);
		if (op->latency)
			printf("  us: p50 %.1f, p99 %.1f, p99.9 %.1f, most %.1f",
			       (double)summary_percentile(op->latency, 0.5) / 1e3,
			       (double)summary_percentile(op->latency, 0.99) / 1e3,
			       (double)summary_percentile(op->latency, 0.999) / 1e3,
			       (double)op->latency->most / 1e3);
		putchar('\n');
		if (op->latency)
			print_histogram(op->latency);
	}
}

static void print_notes(const struct summary *s, const struct queue *q)
{
	for (unsigned int i = 1; i < NOTES; i++)
		if (q->notes[i] && !trace_is_quiet(i))
			printf("    %s%-38s %6" PRIu64 " times%s\n", YELLOW, trace_note(i),
			       q->notes[i], PLAIN);
	if (q->window)
		printf("    window of congestion control: %u packets, %u at least\n", q->window,
		       q->window_least);
	if (q->rnr_wait)
		printf("    waited for receives of the peer: %.3f ms\n",
		       (double)q->rnr_wait / 1e6);
	if (summary_waits_for(q))
		printf("    %swaits for %s: wr_id 0x%" PRIx64 ", for %.3f ms%s\n", YELLOW,
		       summary_waits_for(q), summary_waiting(q)->wr_id,
		       (double)summary_waits_ns(s, q) / 1e6, PLAIN);
}

static void print_queue(const struct summary *s, const struct queue *q)
{
	printf("  %s 0x%x%s\n", trace_kind(q->kind), q->number,
	       q->kind == RECORD_QP && q->state == IBV_QPS_ERR ? "  in error" : "");
	print_operations(q);
	if (q->recvs || q->received)
		printf("    %-22s %9" PRIu64 " posted %12" PRIu64 " bytes  %" PRIu64
		       " received, %" PRIu64 " failed; empty %" PRIu64 " times, %.3f ms\n",
		       "receives", q->recvs, q->received_bytes, q->received, q->receive_errors,
		       q->emptied, (double)summary_empty_ns(s, q) / 1e6);
	if (q->out || q->in)
		printf("    %-22s %9" PRIu64 " out    %12" PRIu64 " bytes  %" PRIu64 " in, %" PRIu64
		       " bytes\n",
		       "packets", q->out, q->out_bytes, q->in, q->in_bytes);
	if (q->direct)
		printf("    %-22s %9" PRIu64 " without a packet\n", "in memory of the peer",
		       q->direct);
	print_notes(s, q);
}

/* Programs poll an empty CQ to its end: what stays there for long has been forgotten. */
static void print_cq(const struct cq *c, uint64_t last)
{
	printf("  CQ %u  %" PRIu64 " completions, %" PRIu64 " taken by polling, %" PRIu64
	       " waiting at most\n", c->number, c->completions, c->polled, c->high);
	if (c->handle && summary_not_taken(c))
		printf("    %s%" PRIu64 " not taken, for %.3f ms%s\n", YELLOW, summary_not_taken(c),
		       (double)(last - min(c->waiting_since, last)) / 1e6, PLAIN);
}

/* Polls have no duration (docs/RECORD.md). */
static void print_verb(const struct process *p, unsigned int verb)
{
	printf("  %-26s %7" PRIu64 " calls %s%7" PRIu64 " failed%s", record_verb_name(verb),
	       p->verbs[verb], p->failed[verb] ? RED : "", p->failed[verb],
	       p->failed[verb] ? PLAIN : "");
	if (p->took[verb])
		printf("  %.1f us in all, most %.1f", (double)p->took[verb] / 1e3,
		       (double)p->most[verb] / 1e3);
	putchar('\n');
}

void summary_print(const struct summary *s, size_t file)
{
	const struct record_file *f = record_reader_file(s->t.reader, file);
	const struct process *p = &s->process[file];

	printf("%s%s%s  %" PRIu64 " records in %.6f s\n", BOLD, s->t.label[file], PLAIN, p->records,
	       (double)(p->last - p->first) / 1e9);
	if (f->lost || f->bad)
		printf("  %s%" PRIu64 " records had no room, %" PRIu64 " make no sense%s\n", YELLOW,
		       f->lost, f->bad, PLAIN);
	for (unsigned int i = 0; i < VERB_END; i++)
		if (p->verbs[i])
			print_verb(p, i);
	for (struct struck *k = p->faults; k; k = k->next) {
		trace_make_printable(k->rule);
		printf("  %sfault '%s' struck %" PRIu64 " times%s\n", YELLOW, k->rule, k->times,
		       PLAIN);
	}
	for (const struct cq *c = s->cqs; c; c = c->next)
		if (c->file == file)
			print_cq(c, p->last);
	for (const struct queue *q = s->queues; q; q = q->next)
		if (q->file == file)
			print_queue(s, q);
}
