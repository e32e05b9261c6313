/* SPDX-License-Identifier: BSD-2-Clause */
/* Two rsockets of one process that are connected to each other. */
#ifndef TESTS_RDMACM_RSPAIR_H
#define TESTS_RDMACM_RSPAIR_H

#include <rdma/rsocket.h>

#include "world.h"

struct rspair {
	int listener;
	int fd[2]; /* the connecting and the accepting end */
};

/* Listens on the address with any port, and writes the address with the port to *at. */
int rspair_listen(const char *address, struct sockaddr_storage *at);

/* iomap: RDMA_IOMAPSIZE of both rsockets; 0: none. */
struct rspair rspair_make(const char *address, int iomap);

void rspair_close(struct rspair *p);

/* Returns the events that rpoll() reports within ms. */
short rspair_poll(int fd, short events, int ms);

#endif
