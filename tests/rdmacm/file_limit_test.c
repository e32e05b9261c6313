/* SPDX-License-Identifier: BSD-2-Clause */
/* rsockets of a program that may write small files only (RLIMIT_FSIZE): no SIGXFSZ ends it. */
#include <sys/resource.h>

#include "rspair.h"

enum { LIMIT = 16384 };	/* bytes, fewer than the buffers of a stream take */

int main(void)
{
	const struct rlimit limit = { LIMIT, LIMIT };
	static uint8_t out[LIMIT], in[LIMIT];
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
