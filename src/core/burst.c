/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/burst.h"

#include <endian.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/drive.h"
#include "core/process.h"
#include "roce/const.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"

enum {
	FULL_WAIT_MS = 1,	/* a full socket is waited for, */
	FULL_TRIES = 20,	/* and then the packets are lost, as on a network */
	BTH_BLOCK_AT = 5,	/* high 16 bits of the destination QP number, by which sockets are chosen */
	BTH_BLOCK_LEN = 2,
};

static __thread struct vrb_burst *own __attribute__((tls_model("initial-exec")));
static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

static void make_own_key(void)
{
	pthread_key_create(&own_key, free);
}

static void clear(struct vrb_burst *b)
{
	b->n = 0;
	b->used = 0;
	b->run_len = 0;
}

struct vrb_burst *vrb_burst_own(void)
{
	if (likely(own))
		return own;
	pthread_once(&own_once, make_own_key);
	own = malloc(sizeof(*own));
	if (own) {
		clear(own);
		pthread_setspecific(own_key, own);
	}
	return own;
}

void vrb_burst_forget(void)
{
	own = NULL;
}

/* Its identification is in ip_id. */
static void put_icrc(struct wire_pkt *p)
{
	size_t len = p->len - ROCE_ICRC_LEN;
	uint32_t icrc = htole32(roce_icrc(&p->path, p->ip_id, p->data, len));

	memcpy(p->data + len, &icrc, sizeof(icrc));
}

/* Does the packet behind the last one continue its run? A shorter one ends it. */
static bool joins(const struct vrb_burst *b, const struct wire_pkt *last, const struct wire_pkt *p)
{
	return p->len <= b->run_len && b->run_bytes + p->len <= WIRE_RUN_BYTES &&
	       load_relaxed(&vrb.wire->runs) && !memcmp(&last->path, &p->path, sizeof(p->path)) &&
	       !memcmp(last->data + BTH_BLOCK_AT, p->data + BTH_BLOCK_AT, BTH_BLOCK_LEN);
}

static void enter_run(struct vrb_burst *b, struct wire_pkt *p)
{
	if (b->n && joins(b, p - 1, p)) {
		p->ip_id = p[-1].ip_id + 1;
		b->run_bytes += p->len;
		if (p->len < b->run_len)
			b->run_len = 0;
	} else {
		b->run_bytes = b->run_len = p->len;
	}
}

/*
 * One more like it would begin another run, and had better do so in the next burst, where more can
 * follow it.
 */
static bool run_full(const struct vrb_burst *b, uint32_t len)
{
	return b->run_bytes + len > WIRE_RUN_BYTES;
}

void vrb_burst_seal(struct vrb_burst *b, const struct net_path *path, size_t len, bool ect)
{
	struct wire_pkt *p = &b->pkts[b->n];

	if (!vrb.wire) {
		fetch_add_relaxed(&vrb_drive_stats.send_lost, 1);
		return;
	}
	*p = (struct wire_pkt){ .path = *path, .data = vrb_burst_room(b), .len = len + ROCE_ICRC_LEN };
	p->path.src_port = wire_src_port(vrb.wire);
	p->path.dst_port = wire_dst_port(vrb.wire);
	if (ect && vrb.ecn && (p->path.traffic_class & ROCE_ECN_MASK) == ROCE_ECN_NOT_ECT)
		p->path.traffic_class |= ROCE_ECN_ECT0;
	enter_run(b, p);
	put_icrc(p);
	b->used += p->len;
	if (++b->n == BURST_PACKETS || b->used >= BURST_BYTES || run_full(b, p->len))
		vrb_burst_flush(b);
}

static void wait_for_room(void)
{
	struct pollfd fds[WIRE_FDS];
	int fd[WIRE_FDS];
	unsigned int n = wire_fds(vrb.wire, fd);
	int cancel = cancel_off();

	for (unsigned int i = 0; i < n; i++)
		fds[i] = (struct pollfd){ .fd = fd[i], .events = POLLOUT };
	poll(fds, n, FULL_WAIT_MS);
	cancel_on(cancel);
}

/* The run that begins at p becomes single packets. */
static void give_up_run(struct wire_pkt *p, const struct wire_pkt *end)
{
	p->alone = false;
	while (++p < end && p->ip_id) {
		p->ip_id = 0;
		put_icrc(p);
	}
}

/*
 * An ACK in front of requests of the same peer ends their run instead: one message less, and it is
 * there when they are.
 */
static void move_ack(struct vrb_burst *b)
{
	struct wire_pkt ack = b->pkts[0];

	if (b->n < 2 || roce_opcode_info(ack.data[0])->kind != ROCE_KIND_ACK || b->pkts[1].ip_id ||
	    b->pkts[b->n - 1].ip_id != b->n - 2 || !joins(b, &b->pkts[b->n - 1], &ack))
		return;
	memmove(b->pkts, b->pkts + 1, (b->n - 1) * sizeof(ack));
	ack.ip_id = (uint16_t)(b->n - 1);
	put_icrc(&ack);
	b->pkts[b->n - 1] = ack;
}

void vrb_burst_flush(struct vrb_burst *b)
{
	unsigned int done = 0, tries = 0;

	if (!b->n)
		return;
	move_ack(b);
	while (done < b->n && tries < FULL_TRIES) {
		struct wire_pkt *rest = b->pkts + done;
		unsigned int k = wire_send(vrb.wire, rest, b->n - done);

		done += k;
		if (done == b->n)
			break;
		if (rest[k].alone) {
			give_up_run(rest + k, b->pkts + b->n);
		} else {
			tries++;
			wait_for_room();
		}
	}
	fetch_add_relaxed(&vrb_drive_stats.sent_pkts, done);
	if (done < b->n)
		fetch_add_relaxed(&vrb_drive_stats.send_lost, b->n - done);
	clear(b);
}
