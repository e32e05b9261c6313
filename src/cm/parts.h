/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the communication manager ask of each other; nobody else includes it.
 */
#ifndef VRB_CM_PARTS_H
#define VRB_CM_PARTS_H

#include "cm/cm.h"

/* table.c: who is who. */

/*
 * In all its tables once its keys are known: local_id; path.dst, peer_guid and remote_id; path.dst, peer_guid
 * and peer_qpn.
 */
void cm_table_add_local(struct cm *cm, struct cm_conn *c);
void cm_table_add_remote(struct cm *cm, struct cm_conn *c);
void cm_table_add_qpn(struct cm *cm, struct cm_conn *c);
void cm_table_del_qpn(struct cm_conn *c);
void cm_table_del(struct cm_conn *c);

struct cm_conn *cm_table_find_local(struct cm *cm, uint32_t local_id);
struct cm_conn *cm_table_find_remote(struct cm *cm, const struct net_addr *peer, uint64_t guid, uint32_t remote_id);
struct cm_conn *cm_table_find_qpn(struct cm *cm, const struct net_addr *peer, uint64_t guid, uint32_t qpn);

/*
 * Requests that wait for a program. cm_table_one_too_many(): before one more of that source comes, the one
 * that has to go, or NULL.
 */
void cm_table_wait(struct cm *cm, struct cm_conn *c);
void cm_table_wait_over(struct cm *cm, struct cm_conn *c);
struct cm_conn *cm_table_one_too_many(struct cm *cm, const struct net_addr *source);

/* Numbers that nobody can foresee who does not know the seed. */
uint64_t cm_table_mix(const struct cm *cm, uint64_t a, uint64_t b);

/* deadline.c: whose turn is next. */
void cm_deadline_set(struct cm *cm, struct cm_conn *c, uint64_t at);
void cm_deadline_clear(struct cm *cm, struct cm_conn *c);

/* say.c: messages of a conn. */

/* A header for a message of the conn. */
struct cm_msg cm_say_start(const struct cm_conn *c, enum cm_type type);

/* Sends it once; or now, and again until an answer comes. */
void cm_say(struct cm *cm, struct cm_conn *c, const struct cm_msg *m);
void cm_say_until_answered(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now);
void cm_say_again(struct cm *cm, struct cm_conn *c);

void cm_say_mra(struct cm *cm, struct cm_conn *c, enum cm_about about, uint8_t service_timeout);
void cm_say_rtu(struct cm *cm, struct cm_conn *c, const void *data, size_t len);
void cm_say_drep(struct cm *cm, struct cm_conn *c, const void *data, size_t len);
struct cm_msg cm_say_dreq(const struct cm_conn *c, const void *data, size_t len);
struct cm_msg cm_say_rej(const struct cm_conn *c, unsigned int reason);

/* What has to be said when the conn ends now; false: nothing. */
bool cm_say_last_word(const struct cm_conn *c, struct cm_msg *m);

/* An answer to a message that there is no conn for: back to where it came from. */
void cm_say_back(struct cm *cm, const struct net_path *from, const struct cm_msg *m);

/* life.c: states. */

/* Puts it into the state, with whatever hangs on that: tables, deadline, will. */
void cm_life_enter(struct cm *cm, struct cm_conn *c, enum cm_state state);

/* To CM_TIMEWAIT for as long as late messages may come. */
void cm_life_enter_timewait(struct cm *cm, struct cm_conn *c, uint64_t now);

void cm_life_tell(struct cm *cm, struct cm_conn *c, enum cm_event_type type, int status, const struct cm_msg *m);
void cm_life_tell_disconnected(struct cm *cm, struct cm_conn *c, int status, const struct cm_msg *m);

/* call.c */

/* A connection that its peer does not know any more is ended. */
void cm_call_drop_stale(struct cm *cm, struct cm_conn *c, uint64_t now);

/* request.c: REQ and SIDR_REQ. */
void cm_request_input(struct cm *cm, const struct net_path *from, const struct cm_msg *m, uint64_t now);

/* Wire times: 4.096 us * 2^t, which Linux counts in milliseconds, as we do. */
static inline uint64_t cm_wire_time(uint8_t t)
{
	return t <= 8 ? VRB_MSEC : VRB_MSEC << (t - 8);
}

#endif
