/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory runs out: contexts, a connection, and work requests are made again and again with the N-th
 * allocation failing, once or from then on, for all N.  Each call works or says ENOMEM, and what
 * was made can be taken down.
 */
#include "allocator.h"
#include "pair.h"

enum {
	WRS = 8,
	SIZE = 64,
};

static uint8_t memory[2][WRS][SIZE];

static void check_failure(void)
{
	/* ibv_get_device_list() and ibv_open_device() have errno values of their own. */
	CHECK(allocator_failed());
	CHECK(verbena_error()[0]);
}

static void make_requests(struct verbena_context *ctx)
{
	const struct verbena_buf bufs[2] = {
		{ .addr = memory[0], .row = SIZE, .num_pkt = WRS },
		{ .addr = memory[1], .row = SIZE, .num_pkt = WRS },
	};
	const uint32_t keys[2] = { 0 };
	struct verbena_send_wrs sends = { 0 };
	struct verbena_recv_wrs recvs = { 0 };
	struct ibv_sge *sges = verbena_create_sges(bufs, 2, keys, WRS);

	if (!sges)
		check_failure();
	free(sges);
	if (verbena_create_recv_wrs(ctx, bufs, 2, WRS, VERBENA_POST, &recvs)) {
		check_failure();
		CHECK(!recvs.wrs && !recvs.mrs && !recvs.sges);
	}
	if (verbena_create_send_wrs(ctx, bufs, 2, WRS, 0, &sends)) {
		check_failure();
		CHECK(!sends.wrs && !sends.mrs && !sends.sges);
	} else {
		struct verbena_send_wrs more = { 0 };

		if (verbena_create_send_wrs_mrs(sends.mrs, bufs, 2, WRS, &more)) {
			check_failure();
			CHECK(!more.wrs);
		}
		CHECK_EQ(verbena_destroy_send_wrs(&more), 0);
	}
	CHECK_EQ(verbena_destroy_send_wrs(&sends), 0);
	CHECK_EQ(verbena_destroy_recv_wrs(&recvs), 0);
}

/* True if the n-th allocation was reached. */
static bool run(const struct verbena_context_options *opt, long n, bool forever)
{
	const char *device = loopback();
	struct verbena_address self;
	struct verbena_context *ctx;
	bool reached;

	allocator_fail(n, forever);
	ctx = verbena_create_context(device, 1, opt);
	if (!ctx) {
		check_failure();
		allocator_fail(-1, false);
		return true;
	}
	CHECK_EQ(verbena_get_address(ctx, &self), 0);
	if (verbena_connect(ctx, &self))
		check_failure();
	else
		make_requests(ctx);
	reached = allocator_failed();
	allocator_fail(-1, false);
	CHECK_EQ(verbena_destroy_context(ctx), 0);
	return reached;
}

static void sweep(const struct verbena_context_options *opt, bool forever)
{
	long n = 0;

	while (run(opt, n, forever))
		CHECK(++n < 10000);
	CHECK(n > 10);
}

int main(int argc, char **argv)
{
	struct verbena_context_options opt = options_of(type_named(argv[1]));

	opt.max_send_wr = opt.max_recv_wr = WRS;
	opt.max_send_sge = opt.max_recv_sge = 2;
	/* Once in peace: what is set up once in a process is not what is tested. */
	CHECK(!run(&opt, 1L << 40, false));
	sweep(&opt, false);
	sweep(&opt, true);
	return 0;
}
