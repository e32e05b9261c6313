/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forged MADs with valid ICRCs, to 127.0.0.1, from as many of loopback's addresses as there are
 * sources.  What fails ends the program.
 */
#ifndef TESTS_RDMACM_FORGE_H
#define TESTS_RDMACM_FORGE_H

#include <stdint.h>

#include "cm/msg.h"

enum {
	FORGE_SOURCES = 64,
	FORGE_BURST = 32,
};

/* First of all: opens the sockets of the sources.  udp_port: of the device. */
void forge_open(uint16_t udp_port);

/* A request that cannot be told from a genuine one. */
struct cm_msg forge_request(int from, uint64_t service, uint64_t *seed);

void forge_send(int from, const struct cm_msg *m);

/* FORGE_BURST requests of one source, sent by one call; returns how many were sent. */
unsigned int forge_burst(int from, uint64_t service, uint64_t *seed);

#endif
