/* SPDX-License-Identifier: BSD-2-Clause */
/* Internal interface of the communication manager's files; included by src/cm/ only. */
#ifndef VRB_CM_PARTS_H
#define VRB_CM_PARTS_H

#include "cm/cm.h"

/* As Linux: response time of a SIDR_REQ (4.096 us * 2^n) and number of retries. */
enum { CM_SIDR_TIMEOUT = 20, CM_SIDR_RETRIES = 15 };

/* table.c: lookup of conns. */

/*
 * Adds a conn to each table once the keys of that table are known: local_id; path.dst, peer_guid
 * and remote_id; path.dst, peer_guid and peer_qpn.
 */
void cm_table_add_local(struct cm *cm, struct cm_conn *c);
void cm_table_add_remote(struct cm *cm, struct cm_conn *c);
void cm_table_add_qpn(struct cm *cm, struct cm_conn *c);
void cm_table_del_qpn(struct cm_conn *c);
void cm_table_del(struct cm_conn *c);

struct cm_conn *cm_table_find_local(struct cm *cm, uint32_t local_id);
struct cm_conn *cm_table_find_remote(struct cm *cm, const struct net_addr *peer, uint64_t guid,
				     uint32_t remote_id);
struct cm_conn *cm_table_find_qpn(struct cm *cm, const struct net_addr *peer, uint64_t guid,
				  uint32_t qpn);

/*
 * Requests that wait for a program's answer. cm_table_one_too_many() returns the request to drop
 * before another one from this peer is added, or NULL.
 */
void cm_table_wait(struct cm *cm, struct cm_conn *c);
void cm_table_wait_over(struct cm *cm, struct cm_conn *c);
struct cm_conn *cm_table_one_too_many(struct cm *cm, const struct net_addr *peer);

/*
 * The source group (of addresses with one hash) with most waiting requests, if that exceeds twice
 * the count of the peer's; or -1.
 */
int cm_table_heaviest(const struct cm *cm, const struct net_addr *peer);

/* A keyed hash: unpredictable without the seed. */
uint64_t cm_table_mix(const struct cm *cm, uint64_t a, uint64_t b);

/* deadline.c: the heap of deadlines. */
void cm_deadline_set(struct cm *cm, struct cm_conn *c, uint64_t at);
void cm_deadline_clear(struct cm *cm, struct cm_conn *c);

/* send.c: outgoing messages. */

/* Starts a message with the conn's transaction id. */
struct cm_msg cm_msg_start(const struct cm_conn *c, enum cm_type type);

/*
 * cm_send() sends once; cm_send_with_retries() repeats at each deadline, up to max_retries times,
 * and twice before the first; cm_resend() and cm_resend_early() are one such repetition.
 */
void cm_send(struct cm *cm, struct cm_conn *c, const struct cm_msg *m);
void cm_send_mad(struct cm *cm, const struct net_path *path, const uint8_t mad[CM_MAD_LEN]);
void cm_send_with_retries(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now);
void cm_resend(struct cm *cm, struct cm_conn *c, uint64_t now);
void cm_resend_early(struct cm *cm, struct cm_conn *c);

void cm_send_mra(struct cm *cm, struct cm_conn *c, enum cm_about about, uint8_t service_timeout);
void cm_send_rtu(struct cm *cm, struct cm_conn *c, const void *data, size_t len);
void cm_send_drep(struct cm *cm, struct cm_conn *c, const void *data, size_t len);
struct cm_msg cm_format_dreq(const struct cm_conn *c, const void *data, size_t len);
struct cm_msg cm_format_rej(const struct cm_conn *c, unsigned int reason);

/*
 * Makes the message that ends the conn in its current state.  Returns false if the
 * state needs none.
 */
bool cm_format_final(const struct cm_conn *c, struct cm_msg *m);

/* Sends a message without a conn back to the sender of the one it answers. */
void cm_send_reply(struct cm *cm, const struct net_path *from, const struct cm_msg *m);

/*
 * answer.c: answers that end a request.  cm_answer_send() sends the one of a conn in CM_REQ_RCVD or
 * CM_SIDR_REQ_RCVD; cm_answer_again() sends it once more if this request, which no conn has, has
 * been answered already.
 */
void cm_answer_send(struct cm *cm, const struct cm_conn *c, const struct cm_msg *m);
bool cm_answer_again(struct cm *cm, const struct net_path *from, const struct cm_msg *m,
		     uint64_t now);

/* state.c: states. */

/* Enters the state and updates what depends on it: tables, deadline, exit MAD. */
void cm_enter_state(struct cm *cm, struct cm_conn *c, enum cm_state state);

/* Enters CM_TIMEWAIT for the conn's ACK timeout. */
void cm_enter_timewait(struct cm *cm, struct cm_conn *c, uint64_t now);

void cm_raise_event(struct cm *cm, struct cm_conn *c, enum cm_event_type type, int status,
		    const struct cm_msg *m);
void cm_raise_disconnected(struct cm *cm, struct cm_conn *c, int status, const struct cm_msg *m);

/* call.c */

/* Ends a connection that its peer no longer has. */
void cm_call_drop_stale(struct cm *cm, struct cm_conn *c, uint64_t now);

/* request.c: incoming REQ and SIDR_REQ. */
void cm_request_input(struct cm *cm, const struct net_path *from, const struct cm_msg *m,
		      uint64_t now);

/* A time on the wire, 4.096 us * 2^t, rounded to milliseconds as Linux does. */
static inline uint64_t cm_wire_time(uint8_t t)
{
	return t <= 8 ? VRB_MSEC : VRB_MSEC << (t - 8);
}

#endif
