/* SPDX-License-Identifier: BSD-2-Clause */
/* Recordings of several hosts with wrong clocks, for tests of verbena trace. */
#ifndef TESTS_UNIT_TRACE_ENV_H
#define TESTS_UNIT_TRACE_ENV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/writer.h"
#include "verbena/trace.h"
#include "verbena/trace_tie.h"

enum { ENV_HOSTS = 4, ENV_QPN = 0x111, ENV_SRQN = 0x222 };

/* A process: its recording, and the error of its clock: at time 0, and per 2^20 ns. */
struct env_host {
	struct recording recording;
	struct record_writer writer;
	char path[64];
	int64_t off, drift;
	uint8_t address;
};

/* boot: identifies the clock; wall_off: error of the wall clock. */
void env_open(struct env_host *h, uint8_t address, uint8_t boot, int64_t off, int64_t wall_off);

/* Ends the recordings of n hosts and opens them together. */
void env_read(struct env_host *h, unsigned int n, struct trace *t);
void env_close(struct env_host *h, unsigned int n, struct trace *t);

/* At a true time: a packet that `from` sent or `to` received, as recorded by that host. */
void env_out(struct env_host *from, const struct env_host *to, uint64_t time, uint32_t psn);
void env_in(const struct env_host *from, struct env_host *to, uint64_t time, uint32_t psn);

void env_put(struct env_host *h, enum record_type type, const void *body, size_t len,
	     uint64_t time);

/* Returns the next record of a type. */
bool env_next(struct trace *t, unsigned int type, struct record *r);

#endif
