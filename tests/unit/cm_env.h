/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection manager in a test environment, which records its messages and events and plays its
 * peer.
 */
#ifndef TESTS_UNIT_CM_ENV_H
#define TESTS_UNIT_CM_ENV_H

#include "cm/cm.h"

enum {
	ENV_CONNS = 64,
	ENV_LOG = 64,

	OUR_ID = 0x11000001,	/* of the first connection; the others count up */
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
	unsigned int num_conns;		/* in use or used before */
	bool released[ENV_CONNS];

	enum cm_verdict verdict;	/* verdict on requests */
	unsigned int reason;

	struct cm_msg sent[ENV_LOG];	/* decoded again */
	struct net_path sent_by[ENV_LOG];
	bool sent_with_will[ENV_LOG];	/* has_will then */
	unsigned int num_sent;
	struct cm_raised raised[ENV_LOG];
	unsigned int num_raised;
	unsigned int num_released;
	unsigned int num_late;
	bool impatient; /* wants no repetition */
	bool unanswerable;		/* no sent message is ever answered */
	struct cm_msg exit_mad;		/* exit MAD of the connection that changed last */
	bool has_will;
};

struct net_addr env_address(unsigned int host);	/* 192.0.2.host */

/* Host 1 is this one, host 2 the peer. */
void env_init(struct cm_env *e);

/* Returns an initialised connection; NULL: all are in use. */
struct cm_conn *env_conn(struct cm_env *e);

/* Clears the records of sent messages and raised events. */
void env_clear(struct cm_env *e);

/* A valid message of the peer to the first connection. */
struct cm_msg env_msg(enum cm_type type);

/* Delivers the message as from host `host`. */
void env_receive_from(struct cm_env *e, unsigned int host, const struct cm_msg *m);
void env_receive(struct cm_env *e, const struct cm_msg *m);

/* The request that this host would send. */
struct cm_req env_req(void);
struct cm_rep env_rep(void);
struct net_path env_path(void);

/*
 * Creates a connection and brings it into a state by calls and messages; then clears the records.
 */
struct cm_conn *env_reach(struct cm_env *e, enum cm_state state);

/* Advances the time to the next deadline; returns false if there is none. */
bool env_wait(struct cm_env *e);

#endif
