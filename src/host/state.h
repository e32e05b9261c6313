/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a membership; private to src/host. */
#ifndef VRB_HOST_STATE_H
#define VRB_HOST_STATE_H

#include <sys/un.h>

#include "host/atomics.h"
#include "host/dir.h"
#include "host/host.h"
#include "host/qpn.h"
#include "host/table.h"
#include "util/lock.h"

/* The store of services; opened at first use. */
struct services {
	int fd;			/* -1: not open */
	uint8_t *memory;	/* private mode */
	struct own_service **own;	/* this process's services, by bucket; NULL: none yet */
	unsigned int first_port, last_port;
	uint64_t ports_read;	/* when the port range was read; 0: never */
};

/* This process's file of exit MADs, mapped. */
struct exit_mads {
	int fd;			/* -1: not open */
	uint32_t room;		/* records in the mapping; 0: none */
	void *record;
};

/* See relay.h. */
struct relay_service {
	uint64_t service_id;
	struct net_addr addr;
	int fd;
	unsigned int users;
};

struct relay {
	unsigned int number;	/* 0: none. Written once, before there are QPs */
	int services;		/* epoll of `service`; -1: no number */
	uid_t holder;		/* atomic */
	struct relay_service *service;
	unsigned int n_service;
};

struct host {
	/* Immutable after host_join(). */
	bool shared;
	int slot;
	uint64_t incarnation;
	uint64_t group;
	struct host_run_dir dir;	/* fd -1 in private mode */
	char sock_prefix[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int inbox;			/* -1 in private mode */
	struct atomics atomics;		/* has its own locks */

	struct lock exit_lock;		/* protects exit_mads; not held with `lock` */
	struct exit_mads exit_mads;

	/* for host_steer_map() and host_steer_slots(): used by one thread at a time */
	union {
		struct table_owner owner[TABLE_MAP_CHUNK];
		struct table_slot slot[TABLE_MAP_SLOTS];
	} scan;

	struct lock lock;		/* protects the members below */
	struct table table;
	struct qpns qpns;
	struct services services;
	struct relay relay;
	/*
	 * for host_exit_mad_execute(), without a lock: a dead process's file, -1: none; its next
	 * record
	 */
	int inherited;
	uint32_t next_record;
	struct table_slot self;		/* the published slot */
	/* bit: its file was closed, but its process was not seen dead; atomic */
	uint64_t dying[HOST_SLOTS / 64];
	/* bit: its inbox was full last time; atomic, without a lock */
	uint8_t deaf[HOST_SLOTS / 8];
};

/* Checks and copies what a slot says; false: it is empty. */
bool slot_peer(const struct table_slot *s, struct host_peer *peer);

void relay_init(struct relay *r);
void relay_close(struct relay *r);

/* Receives a request for a service of this process; false: there is none. */
bool relay_receive(struct host *h, struct host_datagram *m);

void services_init(struct services *s);
void services_close(struct services *s);

/* Puts a dead process's exit MADs aside, before its slot is cleared. */
void exit_mads_put_aside(struct host *h, int slot, const struct table_slot *s);

/* Closes this process's own file. */
void exit_mads_close(struct host *h);

/* Also puts aside those of another dead process that the slot's process had claimed. */
void exit_mads_pass_on(struct host *h, int slot, const struct table_slot *s);

/* Creates and binds the inbox of h->slot. Returns 0 or an errno value. */
int inbox_open(struct host *h);

/* The network namespace of this process's sockets; 0 if unknown. */
uint64_t inbox_netns(const struct host *h);

#endif
