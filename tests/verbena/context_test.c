/* SPDX-License-Identifier: BSD-2-Clause */
/* The context: every option, every member, what is refused; capabilities. */
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static enum ibv_qp_state state_of(const struct verbena_context *ctx)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(ctx->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void test_defaults(void)
{
	struct verbena_context_options opt;

	memset(&opt, 0xa5, sizeof(opt));
	OK(verbena_context_options_init(&opt, sizeof(opt)) == 0);
	CHECK_EQ(opt.size, sizeof(opt));
	CHECK_EQ(opt.force, false);
	CHECK_EQ(opt.send_cqe, 1);
	CHECK_EQ(opt.recv_cqe, 1);
	CHECK_EQ(opt.max_send_wr, 1);
	CHECK_EQ(opt.max_recv_wr, 1);
	CHECK_EQ(opt.max_send_sge, 1);
	CHECK_EQ(opt.max_recv_sge, 1);
	CHECK_EQ(opt.req_notify_send, true);
	CHECK_EQ(opt.req_notify_recv, true);
	CHECK_EQ(opt.solicited_only_send, false);
	CHECK_EQ(opt.solicited_only_recv, false);
	CHECK_EQ(opt.comp_vector, 0);
	CHECK_EQ(opt.max_inline_data, 0);
	CHECK_EQ(opt.qp_type, IBV_QPT_RAW_PACKET);
}

static void test_members(enum ibv_qp_type type)
{
	struct verbena_context_options opt = options_of(type);
	struct verbena_context *ctx;

	opt.send_cqe = 5;
	opt.recv_cqe = 33;
	opt.max_send_wr = 4;
	opt.max_recv_wr = 32;
	opt.max_send_sge = 2;
	opt.max_recv_sge = 3;
	opt.max_inline_data = 16;
	ctx = context_of(&opt);
	CHECK(strcmp(ctx->dev_name, loopback()) == 0 && ctx->dev_name != loopback());
	CHECK_EQ(ctx->port_num, 1);
	CHECK(ctx->context && ctx->pd && ctx->pd->context == ctx->context);
	CHECK(ctx->send_comp_channel && ctx->recv_comp_channel &&
	      ctx->send_comp_channel != ctx->recv_comp_channel);
	CHECK(ctx->send_cq->channel == ctx->send_comp_channel &&
	      ctx->recv_cq->channel == ctx->recv_comp_channel);
	CHECK(ctx->qp->send_cq == ctx->send_cq && ctx->qp->recv_cq == ctx->recv_cq &&
	      ctx->qp->pd == ctx->pd);
	CHECK_EQ(ctx->qp->qp_type, type);
	CHECK(fcntl(ctx->send_comp_channel->fd, F_GETFL) & O_NONBLOCK);
	CHECK(fcntl(ctx->recv_comp_channel->fd, F_GETFL) & O_NONBLOCK);
	CHECK_EQ(state_of(ctx), IBV_QPS_INIT);
	CHECK(ctx->send_cqe >= 5 && ctx->send_cqe == (uint32_t)ctx->send_cq->cqe);
	CHECK(ctx->recv_cqe >= 33 && ctx->recv_cqe == (uint32_t)ctx->recv_cq->cqe);
	CHECK(ctx->max_send_wr >= 4 && ctx->max_recv_wr >= 32);
	CHECK(ctx->max_send_sge >= 2 && ctx->max_recv_sge >= 3);
	CHECK(ctx->max_inline_data >= 16);
	/* All of both arrays is memory; ASan looks. */
	memset(ctx->send_wcs, 1, ctx->send_cqe * sizeof(*ctx->send_wcs));
	memset(ctx->recv_wcs, 1, ctx->recv_cqe * sizeof(*ctx->recv_wcs));
	OK(verbena_destroy_context(ctx) == 0);
}

/* -1 gives what the device has, one size at a time. */
static void test_maximum(enum ibv_qp_type type)
{
	static const struct {
		size_t option, member, device;
	} rows[] = {
#define ROW(name, attr)                                                                            \
	{ offsetof(struct verbena_context_options, name), offsetof(struct verbena_context, name), \
	  offsetof(struct ibv_device_attr, attr) }
		ROW(send_cqe, max_cqe),      ROW(recv_cqe, max_cqe),
		ROW(max_send_wr, max_qp_wr), ROW(max_recv_wr, max_qp_wr),
		ROW(max_send_sge, max_sge),  ROW(max_recv_sge, max_sge),
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verbena_context_options opt = options_of(type);
		struct verbena_context *ctx;
		struct ibv_device_attr attr;

		*(int *)((char *)&opt + rows[i].option) = VERBENA_MAX;
		ctx = context_of(&opt);
		CHECK_EQ(ibv_query_device(ctx->context, &attr), 0);
		CHECK(*(uint32_t *)((char *)ctx + rows[i].member) >=
		      (uint32_t)*(int *)((char *)&attr + rows[i].device));
		OK(verbena_destroy_context(ctx) == 0);

		/* One more than that, and the other negative numbers, are refused. */
		*(int *)((char *)&opt + rows[i].option) =
			*(int *)((char *)&attr + rows[i].device) + 1;
		FAILS(verbena_create_context(loopback(), 1, &opt), NULL, EINVAL);
		*(int *)((char *)&opt + rows[i].option) = -2;
		FAILS(verbena_create_context(loopback(), 1, &opt), NULL, EINVAL);
	}
}

/* Completion queues have room for what may be posted. */
static void test_room(enum ibv_qp_type type)
{
	struct verbena_context_options opt = options_of(type);
	struct verbena_context *ctx;

	ctx = context_of(&opt);
	/* Queues are granted more than the one request of the defaults. */
	CHECK(ctx->send_cqe >= ctx->max_send_wr && ctx->recv_cqe >= ctx->max_recv_wr);
	OK(verbena_destroy_context(ctx) == 0);
	opt.max_send_wr = 100;
	opt.max_recv_wr = 200;
	ctx = context_of(&opt);
	CHECK(ctx->send_cqe >= 100 && ctx->recv_cqe >= 200);
	OK(verbena_destroy_context(ctx) == 0);
	opt.max_send_wr = opt.max_recv_wr = opt.max_send_sge = opt.max_recv_sge = 0;
	ctx = context_of(&opt);
	OK(verbena_destroy_context(ctx) == 0);
}

static void test_refused(enum ibv_qp_type type)
{
	struct verbena_context_options opt, good = options_of(type);
	char long_name[200];

	memset(long_name, 'x', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	FAILS(verbena_create_context(NULL, 1, &good), NULL, EINVAL);
	FAILS(verbena_create_context(long_name, 1, &good), NULL, EINVAL);
	FAILS(verbena_create_context("no such device", 1, &good), NULL, ENODEV);
	FAILS(verbena_create_context("", 1, &good), NULL, ENODEV);
	FAILS(verbena_create_context(loopback(), 0, &good), NULL, EINVAL);
	FAILS(verbena_create_context(loopback(), 2, &good), NULL, EINVAL);
	FAILS(verbena_create_context(loopback(), 257, &good), NULL, EINVAL);

#define REFUSED(member, value)                                                                     \
	do {                                                                                       \
		opt = good;                                                                        \
		opt.member = (value);                                                              \
		FAILS(verbena_create_context(loopback(), 1, &opt), NULL, EINVAL);                  \
	} while (0)
	REFUSED(send_cqe, 0);
	REFUSED(recv_cqe, 0);
	REFUSED(max_inline_data, UINT32_MAX);
	REFUSED(comp_vector, -1);
	REFUSED(comp_vector, 1 << 20);
	REFUSED(qp_type, IBV_QPT_DRIVER);
	REFUSED(qp_type, IBV_QPT_XRC_SEND);
	REFUSED(qp_type, (enum ibv_qp_type)77);
	REFUSED(gid_index, -2);
	REFUSED(gid_index, 256);
	REFUSED(size, 0);
	REFUSED(size, sizeof(opt) - 1);
	REFUSED(size, (size_t)-1);
	if (type != IBV_QPT_RAW_PACKET)
		REFUSED(gid_index, 255);
}

/* A program of a later version: it may use what we know, and may not what we do not. */
static void test_versions(enum ibv_qp_type type)
{
	struct {
		struct verbena_context_options opt;
		unsigned char later[64];
	} bigger;
	struct verbena_context *ctx;

	memset(&bigger, 0xa5, sizeof(bigger));
	OK(verbena_context_options_init(&bigger.opt, sizeof(bigger)) == 0);
	CHECK_EQ(bigger.opt.size, sizeof(bigger));
	CHECK_EQ(bigger.later[63], 0);
	bigger.opt.qp_type = type;
	ctx = context_of(&bigger.opt);
	OK(verbena_destroy_context(ctx) == 0);
	bigger.later[63] = 1;
	FAILS(verbena_create_context(loopback(), 1, &bigger.opt), NULL, E2BIG);

	FAILS(verbena_context_options_init(NULL, sizeof(bigger.opt)), -1, EINVAL);
	FAILS(verbena_context_options_init(&bigger.opt, sizeof(bigger.opt) - 1), -1, EINVAL);
	FAILS(verbena_context_options_init(&bigger.opt, 0), -1, EINVAL);
	FAILS(verbena_context_options_init(&bigger.opt, 1 << 20), -1, EINVAL);
}

/* What is left of the program's own keeps the context, until it is gone. */
static void test_busy(enum ibv_qp_type type)
{
	struct verbena_context_options opt = options_of(type);
	struct verbena_context *ctx = context_of(&opt);
	static char memory[64];
	struct ibv_mr *mr = ibv_reg_mr(ctx->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr);
	FAILS(verbena_destroy_context(ctx), -1, EBUSY);
	FAILS(verbena_destroy_context(ctx), -1, EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	OK(verbena_destroy_context(ctx) == 0);
	OK(verbena_destroy_context(NULL) == 0);
}

static void test_notifications(enum ibv_qp_type type)
{
	/*
	 * An armed CQ raises an event for a flushed receive; see loop_test for those that are not
	 * armed.
	 */
	struct verbena_context_options opt = options_of(type);

	for (int armed = 0; armed < 2; armed++) {
		struct verbena_context *ctx;
		struct ibv_recv_wr wr = { 0 }, *bad;
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
		struct ibv_cq *cq;
		void *cq_context;

		opt.req_notify_recv = armed;
		ctx = context_of(&opt);
		CHECK_EQ(ibv_post_recv(ctx->qp, &wr, &bad), 0);
		CHECK_EQ(ibv_modify_qp(ctx->qp, &attr, IBV_QP_STATE), 0);
		CHECK_EQ(ibv_poll_cq(ctx->recv_cq, 1, ctx->recv_wcs), 1);
		CHECK_EQ(ibv_get_cq_event(ctx->recv_comp_channel, &cq, &cq_context),
			 armed ? 0 : -1);
		if (armed)
			ibv_ack_cq_events(cq, 1);
		else
			CHECK_EQ(errno, EAGAIN);
		OK(verbena_destroy_context(ctx) == 0);
	}
}

static void test_capabilities(enum ibv_qp_type type)
{
	struct verbena_context_options opt = options_of(type);
	struct verbena_context *ctx = context_of(&opt);
	struct ibv_device_attr_ex attr;
	unsigned int known = 0;

	CHECK_EQ(ibv_query_device_ex(ctx->context, NULL, &attr), 0);
	for (int bit = 0; bit < 64; bit++) {
		uint64_t cap = 1ULL << bit;
		bool has;

		errno = 0;
		has = verbena_hascapability(ctx, cap);
		known += errno == 0;
		CHECK(errno == 0 || (errno == EINVAL && !has));
		if (errno == 0)
			CHECK_EQ(has,
				 ((attr.orig_attr.device_cap_flags | attr.device_cap_flags_ex) &
				  cap) != 0);
	}
	CHECK_EQ(known, 26);	/* 24 of the enum, 2 beyond it */
	for (uint32_t cap = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING;
	     cap <= IBV_RAW_PACKET_CAP_DELAY_DROP; cap <<= 1)
		CHECK_EQ(verbena_hascapability_raw(ctx, cap), (attr.raw_packet_caps & cap) != 0);
	FAILS(verbena_hascapability(ctx, 0), false, EINVAL);
	FAILS(verbena_hascapability(ctx, IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW), false, EINVAL);
	FAILS(verbena_hascapability_raw(ctx, 0), false, EINVAL);
	FAILS(verbena_hascapability_raw(ctx, IBV_RAW_PACKET_CAP_DELAY_DROP << 1), false, EINVAL);
	FAILS(verbena_hascapability(NULL, IBV_DEVICE_XRC), false, EINVAL);
	FAILS(verbena_hascapability_raw(NULL, IBV_RAW_PACKET_CAP_IP_CSUM), false, EINVAL);
	OK(verbena_destroy_context(ctx) == 0);
}

/*
 * In a network namespace of its own, with an interface whose other end is down: a device that has
 * an address and no carrier.  False where the system allows none.
 */
static bool enter_silence(void)
{
	char map[32];
	int fd, uid = (int)getuid();

	if (unshare(CLONE_NEWNET)) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
			return false;
		fd = open("/proc/self/uid_map", O_WRONLY);
		if (fd < 0 || write(fd, map, (size_t)snprintf(map, sizeof(map), "0 %d 1", uid)) < 0)
			return false;
		close(fd);
	}
	setenv("VERBENA_DEVICES", "silent=v0", 1);
	return system("ip link add v0 type veth peer name v1 && ip addr add 10.77.0.1/24 dev v0 && "
		      "ip link set v0 up") == 0;
}

static void test_force(enum ibv_qp_type type)
{
	struct verbena_context_options opt = options_of(type);
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		struct verbena_context *ctx;

		if (!enter_silence())
			_exit(77);
		FAILS(verbena_create_context("silent", 1, &opt), NULL, ENETDOWN);
		opt.force = true;
		ctx = verbena_create_context("silent", 1, &opt);
		OK(ctx);
		CHECK_EQ(state_of(ctx), IBV_QPS_INIT);
		OK(verbena_destroy_context(ctx) == 0);
		exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		fprintf(stderr, "no network namespaces here: force is not tested\n");
	else
		CHECK_EQ(status, 0);
}

int main(int argc, char **argv)
{
	enum ibv_qp_type type = type_named(argv[1]);

	/* Before the library has threads. */
	test_force(type);
	test_defaults();
	test_members(type);
	test_maximum(type);
	test_room(type);
	test_refused(type);
	test_versions(type);
	test_busy(type);
	test_notifications(type);
	test_capabilities(type);
	return 0;
}
