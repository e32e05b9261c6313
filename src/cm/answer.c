/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIDR_REPs and rejections of REQs sent lately. A repetition of the request may cross the answer,
 * above all where the program answers late: it gets the same answer, and no program sees it as a
 * new request.
 */
#include "cm/parts.h"
#include "util/time.h"

/* About as long as the request is repeated: senders of REQs also allow for packets' life time. */
static uint64_t repeated_for(const struct cm_conn *c)
{
	if (c->datagram)
		return (CM_SIDR_RETRIES + 1) * cm_wire_time(CM_SIDR_TIMEOUT);
	return (c->max_retries + 1) * c->interval;
}

static struct cm_answers *set_of(struct cm *cm, uint32_t id, uint64_t tid)
{
	return &cm->answers[cm_table_mix(cm, id, tid) % CM_ANSWER_SETS];
}

void cm_answer_send(struct cm *cm, const struct cm_conn *c, const struct cm_msg *m)
{
	struct cm_answers *set = set_of(cm, c->remote_id, c->tid);
	struct cm_answer *a = &set->answer[set->next++ % CM_ANSWER_WAYS];

	a->until = c->first_sent + repeated_for(c);
	a->id = c->remote_id;
	a->guid = c->peer_guid;
	a->service_id = c->service_id;
	a->tid = c->tid;
	a->path = c->path;
	cm_encode(a->mad, m);
	cm_send_mad(cm, &a->path, a->mad);
}

/* The numbers of a request that its answer is found by. */
struct key {
	uint32_t id;
	uint64_t tid, guid, service_id;
};

static struct key key_of(const struct cm_msg *m)
{
	if (m->type == CM_SIDR_REQ)
		return (struct key){ m->sidr_req.request_id, m->tid, 0, m->sidr_req.service_id };
	return (struct key){ m->req.local_id, m->tid, m->req.ca_guid, m->req.service_id };
}

static bool answers(const struct cm_answer *a, const struct key *k, const struct net_addr *peer)
{
	return a->id == k->id && a->tid == k->tid && a->guid == k->guid &&
	       a->service_id == k->service_id && net_addr_equal(&a->path.dst, peer);
}

bool cm_answer_again(struct cm *cm, const struct net_path *from, const struct cm_msg *m,
		     uint64_t now)
{
	struct key k = key_of(m);
	const struct cm_answers *set = set_of(cm, k.id, k.tid);

	for (unsigned int i = 0; i < CM_ANSWER_WAYS; i++) {
		const struct cm_answer *a = &set->answer[i];

		if (!answers(a, &k, &from->src) || time_reached(a->until, now))
			continue;
		cm_send_mad(cm, &a->path, a->mad);
		return true;
	}
	return false;
}
