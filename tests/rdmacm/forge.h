/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forged MADs with valid ICRCs, sent to 127.0.0.1 from as many loopback addresses as there are
 * sources. Every error ends the program.
 */
#ifndef TESTS_RDMACM_FORGE_H
#define TESTS_RDMACM_FORGE_H

#include <stdint.h>

#include "cm/msg.h"

enum {
	FORGE_SOURCES = 64,
	FORGE_BURST = 32,
};

/* Opens the sockets of the sources; must be called first. udp_port: the device's port. */
void forge_open(uint16_t udp_port);

/* A request that cannot be told from a genuine one. */
struct cm_msg forge_request(int from, uint64_t service, uint64_t *seed);

void forge_send(int from, const struct cm_msg *m);

/* Sends FORGE_BURST requests of one source in one system call; returns how many were sent. */
unsigned int forge_burst(int from, uint64_t service, uint64_t *seed);

#endif
