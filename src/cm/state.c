/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * States of a conn, and what depends on them.  docs/CM.md has the state table.
 *
 *	table by local id	all states but CM_IDLE
 *	table by remote id	from REQ, REP or SIDR_REQ to CM_IDLE
 *	table by QP number	the same, except in CM_TIMEWAIT
 *	half-open list		CM_REQ_RCVD, CM_SIDR_REQ_RCVD
 *	deadline		REQ, REP, DREQ or SIDR_REQ sent, and CM_TIMEWAIT
 */
#include "cm/parts.h"
#include "util/compiler.h"

#include <assert.h>
#include <errno.h>

enum {
	DEFAULT_HALF_OPEN = 8192,
	DEFAULT_PER_SOURCE = 2048,
};

void cm_init(struct cm *cm, const struct cm_ops *ops, void *arg, uint64_t seed)
{
	memset(cm, 0, sizeof(*cm));
	cm->ops = ops;
	cm->arg = arg;
	cm->seed = seed;
	cm->max_half_open = DEFAULT_HALF_OPEN;
	cm->max_per_source = DEFAULT_PER_SOURCE;
	list_init(&cm->half_open);
	for (unsigned int i = 0; i < CM_SOURCES; i++)
		list_init(&cm->source[i].conns);
}

void cm_set_limits(struct cm *cm, unsigned int half_open, unsigned int per_source)
{
	cm->max_half_open = max(half_open, 1u);
	cm->max_per_source = max(per_source, 1u);
}

void cm_conn_init(struct cm_conn *c, uint32_t local_id)
{
	memset(c, 0, sizeof(*c));
	c->local_id = local_id;
	c->deadline = VRB_NEVER;
	list_init(&c->half_open);
	list_init(&c->of_source);
}

struct cm_conn *cm_find(struct cm *cm, uint32_t local_id)
{
	return cm_table_find_local(cm, local_id);
}

static const char *const state_names[CM_NUM_STATES] = {
	[CM_IDLE] = "IDLE",
	[CM_REQ_SENT] = "REQ_SENT",
	[CM_MRA_REQ_RCVD] = "MRA_REQ_RCVD",
	[CM_REP_RCVD] = "REP_RCVD",
	[CM_REQ_RCVD] = "REQ_RCVD",
	[CM_REP_SENT] = "REP_SENT",
	[CM_MRA_REP_RCVD] = "MRA_REP_RCVD",
	[CM_ESTABLISHED] = "ESTABLISHED",
	[CM_DREQ_SENT] = "DREQ_SENT",
	[CM_DREQ_RCVD] = "DREQ_RCVD",
	[CM_TIMEWAIT] = "TIMEWAIT",
	[CM_SIDR_REQ_SENT] = "SIDR_REQ_SENT",
	[CM_SIDR_REQ_RCVD] = "SIDR_REQ_RCVD",
};

const char *cm_state_name(enum cm_state state)
{
	return state < CM_NUM_STATES ? state_names[state] : "?";
}

static bool waits_for_program(enum cm_state state)
{
	return state == CM_REQ_RCVD || state == CM_SIDR_REQ_RCVD;
}

/* A DREQ stays until it is answered: it may not have left yet, or be lost. */
static bool format_exit(const struct cm_conn *c, struct cm_msg *m)
{
	if (c->state != CM_DREQ_SENT)
		return cm_format_final(c, m);
	*m = cm_format_dreq(c, NULL, 0);
	return true;
}

/* Updates the message that other processes send if this one ends abnormally. */
static void set_exit_mad(struct cm *cm, struct cm_conn *c)
{
	uint8_t mad[CM_MAD_LEN];
	struct cm_msg m;

	if (!cm->ops->exit_mad)
		return;
	if (format_exit(c, &m)) {
		cm_encode(mad, &m);
		cm->ops->exit_mad(cm->arg, c, &c->path, mad);
	} else {
		cm->ops->exit_mad(cm->arg, c, &c->path, NULL);
	}
}

int cm_set_dreq_data(struct cm *cm, struct cm_conn *c, const void *data, size_t len)
{
	if (len > sizeof(c->dreq_data))
		return EINVAL;
	memcpy(c->dreq_data, data, len);
	set_exit_mad(cm, c);
	return 0;
}

/* Clears the deadline: a state that has one sets it afterwards. */
void cm_enter_state(struct cm *cm, struct cm_conn *c, enum cm_state state)
{
	c->state = state;
	cm_deadline_clear(cm, c);
	if (waits_for_program(state))
		cm_table_wait(cm, c);
	else
		cm_table_wait_over(cm, c);
	if (state == CM_IDLE)
		cm_table_del(c);
	else
		cm_table_add_local(cm, c);
	if (state == CM_TIMEWAIT)
		cm_table_del_qpn(c);
	set_exit_mad(cm, c);
}

/*
 * Timewait ends at the next multiple of a 32nd part of it: connections that ended one after another
 * leave it together, by one wake-up.
 */
void cm_enter_timewait(struct cm *cm, struct cm_conn *c, uint64_t now)
{
	uint64_t wait = cm_wire_time(c->ack_timeout), grain = wait / 32;
	uint64_t end = now + wait + grain - 1;

	cm_enter_state(cm, c, CM_TIMEWAIT);
	cm_deadline_set(cm, c, end - end % grain);
}

void cm_raise_event(struct cm *cm, struct cm_conn *c, enum cm_event_type type, int status,
		    const struct cm_msg *m)
{
	struct cm_event ev = { .type = type, .status = status, .msg = m };

	if (!c->destroyed)
		cm->ops->event(cm->arg, c, &ev);
}

void cm_raise_disconnected(struct cm *cm, struct cm_conn *c, int status, const struct cm_msg *m)
{
	if (c->disconnected)
		return;
	c->disconnected = true;
	cm_raise_event(cm, c, CM_EV_DISCONNECTED, status, m);
}

/*
 * A connection that the peer has agreed to stays in timewait, since late packets may still arrive;
 * its memory is released after that.
 */
void cm_destroy(struct cm *cm, struct cm_conn *c, uint64_t now)
{
	bool lingers = c->state == CM_REP_SENT || c->state == CM_MRA_REP_RCVD ||
		       c->state == CM_ESTABLISHED || c->state == CM_DREQ_SENT ||
		       c->state == CM_DREQ_RCVD;
	struct cm_msg m;

	c->destroyed = true;
	if (cm_format_final(c, &m)) {
		if (waits_for_program(c->state))
			cm_answer_send(cm, c, &m);
		else
			cm_send(cm, c, &m);
	}
	if (lingers)
		cm_enter_timewait(cm, c, now);
	else if (c->state != CM_TIMEWAIT && c->state != CM_IDLE)
		cm_enter_state(cm, c, CM_IDLE);
	if (c->state == CM_IDLE)
		cm->ops->release(cm->arg, c);
}
