/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the tests of the UDP wire: a port of the test's own, paths over loopback, packets. */
#ifndef TESTS_UNIT_UDP_ENV_H
#define TESTS_UNIT_UDP_ENV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/udp.h"

enum {
	ENV_GROUP = 7,		/* number of processes that share the test's port */
	ENV_RUN = 20,
	ENV_LIMIT_MS = 20000,
};

extern uint16_t env_port;

/* A cmocka set-up function. */
int env_new_port(void **state);

struct net_addr env_addr(const char *text);
struct net_path env_path_v4(void);
struct net_path env_path_v6(void);
struct wire *env_open(void);

/* Waits for n packets. Loopback delivers before sendmmsg returns, so in fact it does not wait. */
unsigned int env_receive(struct wire *w, struct wire_pkt *pkts, unsigned int n);

/* Reads all packets that have arrived, of both families. */
unsigned int env_drain(struct wire *w);

/* Makes ENV_RUN packets of len bytes one after the other, the last one shorter. */
void env_make_run(struct wire_pkt *out, uint8_t *data, uint32_t len, struct net_path path);

#endif
