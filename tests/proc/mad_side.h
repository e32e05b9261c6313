/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of QP 1 (src/verbs/mad.h): one end, which sends and receives MADs, and other
 * processes of the host. Every error fails the test.
 */
#ifndef TESTS_PROC_MAD_SIDE_H
#define TESTS_PROC_MAD_SIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "check.h"
#include "util/compiler.h"
#include "verbs/mad.h"

/* Long enough for a slow machine: only ends a test that hangs. */
#define LIMIT_S (100 * test_slower())

enum {
	IDLE_PROCESSES = 3,

	REQ = 0x10,
	REJ = 0x12,
	REP = 0x13,
	RTU = 0x14,
	DREQ = 0x15,
	DREP = 0x16,
	SIDR_REQ = 0x17,
	SIDR_REP = 0x18,

	ATTRIBUTE_AT = 17,
	DATA_AT = 24,
	SERVICE_AT = DATA_AT + 8,
	IP_AT = DATA_AT + 140,
	SIDR_IP_AT = DATA_AT + 16,
	REASON_AT = DATA_AT + 10,
	INFO_LEN_AT = DATA_AT + 9,
	STATUS_AT = DATA_AT + 4,
	TIMEOUT = 4, /* reason of a REJ */
};

static const uint64_t service = 0x01060000 | 7174;
static const struct net_addr loopback = { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };

/* A received MAD, as the callback passes it to the main thread through a socket. */
struct arrived {
	struct net_path path;
	uint8_t mad[VRB_MAD_LEN];
};

struct side {
	struct vrb_mad *m;
	int sock[2];
};

/* Of a side; a timeout is an empty MAD. */
extern const struct vrb_mad_ops side_ops;

void side_open(struct side *s);
void side_close(struct side *s);

struct arrived next_mad(struct side *s);
bool mad_waiting(struct side *s);
uint32_t id_at(const struct arrived *a, unsigned int at);

/* The rejection of a request without a listener. */
void expect_rej(struct side *s, uint32_t id);

void build_mad(uint8_t *mad, uint8_t attribute, uint32_t local, uint32_t remote);
void build_request(uint8_t *mad, uint8_t attribute, uint32_t local, uint64_t service_id);
void send_mad(struct side *s, const uint8_t *mad);

struct process {
	pid_t pid;
	int pipe[2]; /* the process writes words that the test waits for */
};

void write_word(struct process *p, uint32_t word);
uint32_t read_word(struct process *p);
void start_process(struct process *p, void (*run)(struct process *p));
void stop_process(struct process *p);

/* They have a device open, and manage no connections. */
extern struct process idle_process[IDLE_PROCESSES];

void start_idle_processes(void);
void stop_idle_processes(void);

/* One case of a test. */
struct mad_case {
	const char *name;
	void (*run)(void);
};

/* Runs the case that the arguments name: CASE [TRANSPORT]. */
int run_mad_case(const struct mad_case *cases, size_t n, char **argv);

#endif
