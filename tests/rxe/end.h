/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a connection between two programs, which may be on different implementations:
 * everything goes over the public interface, and a TCP connection tells the other end what it must
 * know and keeps both in step. Nothing here returns an error: CHECK ends the program.
 */
#ifndef TESTS_RXE_END_H
#define TESTS_RXE_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "check.h"

enum {
	END_DEPTH = 64,
	END_SIZE = 1 << 21,
	END_QKEY = 0x1234567,
	END_NOT_SUPPORTED = 77,	/* the program's exit status: this end has no such QPs */
	END_ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			 IBV_ACCESS_REMOTE_ATOMIC,
};

/* From the command line. */
struct end_place {
	const char *device;
	int gid_index;
	enum ibv_mtu mtu;
	const char *port;
	const char *host;	/* NULL at the server */
};

/* How the QP shall be; 0 is the default of the comment. */
struct end_setup {
	enum ibv_qp_type type;
	uint64_t send_ops;	/* if not 0, the QP is posted to by ibv_wr_start() */
	unsigned mr_access;	/* END_ALL_ACCESS, and memory windows */
	unsigned qp_access;	/* all that remote ends can be allowed */
	uint8_t rnr_retry_limit;/* 7, for ever; otherwise how often */
	uint8_t max_rd_atomic;	/* 16 that we ask at once */
	uint8_t max_dest_rd_atomic; /* 16 that we answer at once */
};

struct end_facts {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn;
	uint32_t psn;
};

struct end {
	struct end_place place;
	int sock;
	bool client;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of sends and receives */
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* UD only */
	char *buf;	   /* END_SIZE bytes, all in mr */
	struct end_facts mine, theirs;
};

/* Meets the other end and opens the device. */
void end_open(struct end *e, const struct end_place *place);

/* A QP that is connected to the other end's, both in RTS. */
void end_connect(struct end *e, const struct end_setup *setup);
void end_close(struct end *e);

/* As many bytes each way; when it returns the other end has come here, too. */
void end_swap(struct end *e, const void *mine, void *theirs, size_t len);
void end_meet(struct end *e);

void end_recv(struct end *e, uint64_t wr_id, size_t offset, size_t len);

/* Waits for one completion, at most that long; false if there was none. */
bool end_poll(struct end *e, struct ibv_wc *wc, unsigned ms);

/* An asynchronous event, or -1 if none has come. */
int end_event(struct end *e);

#endif
