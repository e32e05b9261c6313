/* SPDX-License-Identifier: BSD-2-Clause */
/* What a membership consists of; shared by host.c, inbox.c and service.c only. */
#ifndef VRB_HOST_STATE_H
#define VRB_HOST_STATE_H

#include <sys/un.h>

#include "host/atomics.h"
#include "host/dir.h"
#include "host/host.h"
#include "host/qpn.h"
#include "host/table.h"
#include "util/lock.h"

/* Where services are kept: opened when it is needed first. */
struct services {
	int fd;			/* -1: not open */
	uint8_t *memory;	/* private mode */
	struct own_service **own;	/* this process's, by bucket; NULL: none yet */
	unsigned int first_port, last_port;
	uint64_t ports_read;	/* when; 0: never */
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
	struct atomics atomics;		/* has locks of its own */

	struct lock lock;		/* protects what follows */
	struct table table;
	struct qpns qpns;
	struct services services;
	int exit_mads;			/* this process's, -1: it has none */
	/* of host_exit_mad_execute(), not locked: a dead process's, -1: none; its next record */
	int inherited;
	uint32_t next_record;
	struct table_slot self;		/* as published */
	uint64_t dying[HOST_SLOTS / 64];	/* files closed, processes not seen dead; atomic */
	uint8_t deaf[HOST_SLOTS / 8];	/* inbox was full last time; atomic, not locked */
};

void services_init(struct services *s);
void services_close(struct services *s);

/* A dead process's exit MADs are kept, before its slot is cleared. */
void exit_mads_put_aside(struct host *h, int slot, const struct table_slot *s);

/* Those of another dead process, which the slot's process has not sent to the end, are, too. */
void exit_mads_pass_on(struct host *h, int slot, const struct table_slot *s);

/* Creates and binds the inbox of h->slot. Returns 0 or an errno value. */
int inbox_open(struct host *h);

/* The network namespace this process's sockets live in; 0 if the kernel does not tell. */
uint64_t inbox_netns(const struct host *h);

#endif
