/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communication manager in a world of its own: remembers what it says and tells, and speaks to it
 * as its peer.
 */
#ifndef TESTS_UNIT_CM_ENV_H
#define TESTS_UNIT_CM_ENV_H

#include "cm/cm.h"

enum {
	ENV_CONNS = 64,
	ENV_LOG = 64,

	OUR_ID = 0x11000001,	/* of the first conn; the others follow */
	PEER_ID = 0x22000001,
	OUR_QPN = 0x111,
	PEER_QPN = 0x222,
	LIFE_TIME = 18,
};

#define OUR_GUID  0x1111111111111111ull
#define PEER_GUID 0x2222222222222222ull
#define SERVICE   0x0000000001061c06ull

struct cm_raised {
	struct cm_conn *conn;
	enum cm_event_type type;
	int status;
	bool has_msg;
	struct cm_msg msg;
};

struct cm_env {
	struct cm cm;
	uint64_t now;
	struct cm_conn conn[ENV_CONNS];
	unsigned int num_conns;		/* that were ever used */
	bool released[ENV_CONNS];

	enum cm_verdict verdict;	/* of requests */
	unsigned int reason;

	struct cm_msg sent[ENV_LOG];	/* decoded again */
	struct net_path sent_by[ENV_LOG];
	unsigned int num_sent;
	struct cm_raised raised[ENV_LOG];
	unsigned int num_raised;
	unsigned int num_released;
	unsigned int num_late;
	struct cm_msg will;		/* of the conn that changed last */
	bool has_will;
};

struct net_addr env_address(unsigned int host);	/* 192.0.2.host */

/* Host 1 is this one, host 2 the peer. */
void env_init(struct cm_env *e);

/* A conn of the environment's, initialised; NULL: all are in use. */
struct cm_conn *env_conn(struct cm_env *e);

/* Forgets the messages sent and the events raised. */
void env_clear(struct cm_env *e);

/* A message of the peer's to the first conn, as it should be. */
struct cm_msg env_msg(enum cm_type type);

/* Comes from host `host`. */
void env_hear_from(struct cm_env *e, unsigned int host, const struct cm_msg *m);
void env_hear(struct cm_env *e, const struct cm_msg *m);

/* What we would send. */
struct cm_req env_req(void);
struct cm_rep env_rep(void);
struct net_path env_path(void);

/* A new conn, brought into a state by calls and messages; what happened on the way is forgotten. */
struct cm_conn *env_reach(struct cm_env *e, enum cm_state state);

/* Lets time pass up to the next deadline. False: there is none. */
bool env_wait(struct cm_env *e);

#endif
