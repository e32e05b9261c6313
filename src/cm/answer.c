/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIDR_REPs sent lately. A repetition of the request may cross the answer, above all where the
 * program answers late: it gets the same answer, and no program sees it as a new request.
 */
#include "cm/parts.h"
#include "util/time.h"

/* As long as a request is repeated, by Linux too. */
static uint64_t kept(void)
{
	return (CM_SIDR_RETRIES + 1) * cm_wire_time(CM_SIDR_TIMEOUT);
}

static struct cm_answer *place(struct cm *cm, uint32_t request_id, uint64_t tid)
{
	return &cm->answer[cm_table_mix(cm, request_id, tid) % CM_ANSWERS];
}

void cm_answer_send(struct cm *cm, const struct cm_conn *c, const struct cm_msg *m)
{
	struct cm_answer *a = place(cm, c->remote_id, c->tid);

	a->asked_at = c->first_sent;
	a->request_id = c->remote_id;
	a->service_id = c->service_id;
	a->tid = c->tid;
	a->path = c->path;
	cm_encode(a->mad, m);
	cm_send_mad(cm, &a->path, a->mad);
}

bool cm_answer_again(struct cm *cm, const struct net_path *from, const struct cm_msg *m,
		     uint64_t now)
{
	const struct cm_answer *a = place(cm, m->sidr_req.request_id, m->tid);

	if (!a->request_id || a->request_id != m->sidr_req.request_id || a->tid != m->tid ||
	    a->service_id != m->sidr_req.service_id || !net_addr_equal(&a->path.dst, &from->src) ||
	    time_since(a->asked_at, now) >= kept())
		return false;
	cm_send_mad(cm, &a->path, a->mad);
	return true;
}
