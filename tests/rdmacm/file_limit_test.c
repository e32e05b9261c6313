/* SPDX-License-Identifier: BSD-2-Clause */
/* rsockets of a program that may write small files only (RLIMIT_FSIZE): no SIGXFSZ ends it. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rspair.h"

enum { LEN = 16384 };	/* bytes */

/*
 * Of bytes: fewer than the buffers of a stream take; enough for the table of processes, but not for
 * that of services.
 */
static const rlim_t limits[] = { 16384, 1 << 20 };

static int run(rlim_t bytes)
{
	const struct rlimit limit = { bytes, bytes };
	static uint8_t out[LEN], in[LEN];
	struct rspair p;

	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	p = rspair_make(LOOPBACK, 0);
	memset(out, 0x5a, sizeof(out));
	CHECK_EQ(rsend(p.fd[0], out, sizeof(out), 0), sizeof(out));
	CHECK_EQ(rrecv(p.fd[1], in, sizeof(in), MSG_WAITALL), sizeof(in));
	CHECK_MEM(in, out, sizeof(in));
	rspair_close(&p);
	return 0;
}

int main(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		pid_t child = fork();
		int status;

		CHECK(child >= 0);
		if (!child)
			_exit(run(limits[i]));
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
	}
	return 0;
}
