/* SPDX-License-Identifier: BSD-2-Clause */
/* The context: opens the objects in order, with their sizes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "verbena/private.h"

static const struct verbena_context_options defaults = {
	.send_cqe = 1,
	.recv_cqe = 1,
	.max_send_wr = 1,
	.max_recv_wr = 1,
	.max_send_sge = 1,
	.max_recv_sge = 1,
	.req_notify_send = true,
	.req_notify_recv = true,
	.qp_type = IBV_QPT_RAW_PACKET,
	.gid_index = -1,
};

API int verbena_context_options_init(struct verbena_context_options *options, size_t size)
{
	return options_init(options, size, &defaults, sizeof(defaults), "context options");
}

/* The options that are sizes; VERBENA_MAX stands for a member of the device's attributes. */
static const struct {
	const char *name;
	size_t option, device;
	int least;
} sizes[] = {
#define SIZE(name, device, least)                                                                  \
	{ #name, offsetof(struct verbena_context_options, name),                                   \
	  offsetof(struct ibv_device_attr, device), least }
	SIZE(send_cqe, max_cqe, 1),	  SIZE(recv_cqe, max_cqe, 1),
	SIZE(max_send_wr, max_qp_wr, 0),  SIZE(max_recv_wr, max_qp_wr, 0),
	SIZE(max_send_sge, max_sge, 0),	  SIZE(max_recv_sge, max_sge, 0),
#undef SIZE
};

enum {
	RD_ATOMIC = 16, /* READs and atomics in flight, if the device supports as many */
};

static uint8_t at_most(int value, int limit)
{
	return (uint8_t)(value < limit ? value : limit);
}

static int larger(int a, int b)
{
	return a > b ? a : b;
}

static int resolve_sizes(struct context *ctx)
{
	struct ibv_device_attr attr;
	int err = ibv_query_device(ctx->pub.context, &attr);

	if (err)
		return fail(err, "ibv_query_device");
	ctx->max_rd_atomic = at_most(attr.max_qp_init_rd_atom, RD_ATOMIC);
	ctx->max_dest_rd_atomic = at_most(attr.max_qp_rd_atom, RD_ATOMIC);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		int *value = (int *)((char *)&ctx->opt + sizes[i].option);
		int most = *(int *)((char *)&attr + sizes[i].device);

		if (*value == VERBENA_MAX)
			*value = most;
		if (*value < sizes[i].least || *value > most)
			return fail(EINVAL, "%s: %d is outside %d .. %d", sizes[i].name, *value,
				    sizes[i].least, most);
	}
	/* An overflow of the completion queue breaks the queue pair. */
	ctx->opt.send_cqe = larger(ctx->opt.send_cqe, ctx->opt.max_send_wr);
	ctx->opt.recv_cqe = larger(ctx->opt.recv_cqe, ctx->opt.max_recv_wr);
	return 0;
}

static int check_options(const struct verbena_context_options *opt)
{
	if (opt->comp_vector < 0)
		return fail(EINVAL, "comp_vector: %d", opt->comp_vector);
	if (opt->gid_index < -1 || opt->gid_index > UINT8_MAX)
		return fail(EINVAL, "gid_index: %d", opt->gid_index);
	switch (opt->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_RAW_PACKET:
		return 0;
	default:
		return fail(EINVAL, "qp_type: %d is not RAW_PACKET, RC, UC or UD",
			    (int)opt->qp_type);
	}
}

static int open_device(struct context *ctx, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **d = list;

	if (!list)
		return fail(errno, "ibv_get_device_list");
	while (*d && strcmp(ibv_get_device_name(*d), name) != 0)
		d++;
	if (*d) {
		ctx->pub.context = ibv_open_device(*d);
		if (!ctx->pub.context)
			fail(errno, "ibv_open_device %s", name);
	} else {
		fail(ENODEV, "%.64s", name);
	}
	ibv_free_device_list(list);
	return ctx->pub.context ? 0 : -1;
}

static int check_port(struct context *ctx)
{
	struct ibv_port_attr attr;
	int err = ibv_query_port(ctx->pub.context, ctx->pub.port_num, &attr);

	if (err == EINVAL)
		return fail(EINVAL, "%s has no port %u", ctx->dev_name, ctx->pub.port_num);
	if (err)
		return fail(err, "ibv_query_port %s port %u", ctx->dev_name, ctx->pub.port_num);
	if (attr.state != IBV_PORT_ACTIVE && !ctx->opt.force)
		return fail(ENETDOWN, "%s port %u is not active (%s)", ctx->dev_name,
			    ctx->pub.port_num, ibv_port_state_str(attr.state));
	ctx->mtu = (uint8_t)attr.active_mtu;
	ctx->self.lid = attr.lid;
	return 0;
}

static struct ibv_comp_channel *create_channel(struct context *ctx)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx->pub.context);

	if (!channel) {
		fail(errno, "ibv_create_comp_channel");
		return NULL;
	}
	/* The loop waits in poll(), and must not hang if another thread took the event. */
	fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	return channel;
}

static int create_cq(struct context *ctx, int cqe, struct ibv_comp_channel *channel,
		     struct ibv_cq **cq)
{
	*cq = ibv_create_cq(ctx->pub.context, cqe, ctx, channel, ctx->opt.comp_vector);
	return *cq ? 0 : fail(errno, "ibv_create_cq of %d entries", cqe);
}

/*
 * A queue may be granted more requests than were asked for, and its completions must not overflow.
 * Where the device cannot resize the CQ, the program is told of as many as that holds.
 */
static int fit_cq(struct ibv_cq *cq, uint32_t *max_wr, struct ibv_wc **wcs, uint32_t *entries)
{
	if (*max_wr > (uint32_t)cq->cqe && ibv_resize_cq(cq, (int)*max_wr))
		*max_wr = (uint32_t)cq->cqe;
	*entries = (uint32_t)cq->cqe;
	*wcs = calloc(*entries, sizeof(**wcs));
	return *wcs ? 0 : fail(ENOMEM, "%u work completions", *entries);
}

static int create_cqs(struct context *ctx)
{
	struct verbena_context *pub = &ctx->pub;
	int err = 0;

	pub->send_comp_channel = create_channel(ctx);
	if (!pub->send_comp_channel)
		return -1;
	pub->recv_comp_channel = create_channel(ctx);
	if (!pub->recv_comp_channel)
		return -1;
	if (create_cq(ctx, ctx->opt.send_cqe, pub->send_comp_channel, &pub->send_cq) ||
	    create_cq(ctx, ctx->opt.recv_cqe, pub->recv_comp_channel, &pub->recv_cq))
		return -1;
	if (ctx->opt.req_notify_send)
		err = ibv_req_notify_cq(pub->send_cq, ctx->opt.solicited_only_send);
	if (!err && ctx->opt.req_notify_recv)
		err = ibv_req_notify_cq(pub->recv_cq, ctx->opt.solicited_only_recv);
	return err ? fail(err, "ibv_req_notify_cq") : 0;
}

static int create_qp(struct context *ctx)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = ctx,
		.send_cq = ctx->pub.send_cq,
		.recv_cq = ctx->pub.recv_cq,
		.cap = {
			.max_send_wr = (uint32_t)ctx->opt.max_send_wr,
			.max_recv_wr = (uint32_t)ctx->opt.max_recv_wr,
			.max_send_sge = (uint32_t)ctx->opt.max_send_sge,
			.max_recv_sge = (uint32_t)ctx->opt.max_recv_sge,
			.max_inline_data = ctx->opt.max_inline_data,
		},
		.qp_type = ctx->opt.qp_type,
		/* The loop posts again what completes; a send without a completion would be lost to
		 * it. */
		.sq_sig_all = 1,
	};

	ctx->pub.qp = ibv_create_qp(ctx->pub.pd, &attr);
	if (!ctx->pub.qp && errno == EPERM && attr.qp_type == IBV_QPT_RAW_PACKET)
		return fail(EPERM, "ibv_create_qp: raw packets on %s need CAP_NET_RAW",
			    ctx->dev_name);
	if (!ctx->pub.qp)
		return fail(errno, "ibv_create_qp");
	ctx->pub.max_send_wr = attr.cap.max_send_wr;
	ctx->pub.max_recv_wr = attr.cap.max_recv_wr;
	ctx->pub.max_send_sge = attr.cap.max_send_sge;
	ctx->pub.max_recv_sge = attr.cap.max_recv_sge;
	ctx->pub.max_inline_data = attr.cap.max_inline_data;
	if (fit_cq(ctx->pub.send_cq, &ctx->pub.max_send_wr, &ctx->pub.send_wcs,
		   &ctx->pub.send_cqe))
		return -1;
	return fit_cq(ctx->pub.recv_cq, &ctx->pub.max_recv_wr, &ctx->pub.recv_wcs,
		      &ctx->pub.recv_cqe);
}

static int create_all(struct context *ctx)
{
	if (open_device(ctx, ctx->dev_name) || check_port(ctx) || resolve_sizes(ctx))
		return -1;
	ctx->pub.pd = ibv_alloc_pd(ctx->pub.context);
	if (!ctx->pub.pd)
		return fail(errno, "ibv_alloc_pd");
	if (create_cqs(ctx) || create_qp(ctx))
		return -1;
	if (ctx->opt.qp_type != IBV_QPT_RAW_PACKET && path_find_self(ctx))
		return -1;
	return qp_to_init(ctx);
}

API struct verbena_context *verbena_create_context(const char *dev_name, unsigned int port_num,
						   const struct verbena_context_options *options)
{
	struct verbena_context_options opt = defaults;
	struct context *ctx;
	int err;

	opt.size = sizeof(opt);
	if (!dev_name || strlen(dev_name) >= sizeof(ctx->dev_name) || port_num > UINT8_MAX) {
		fail(EINVAL, "no such device or port: %.64s, %u", dev_name ? dev_name : "NULL",
		     port_num);
		return NULL;
	}
	if (options &&
	    (options_copy(&opt, sizeof(opt), options, "context options") || check_options(&opt)))
		return NULL;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx) {
		fail(ENOMEM, "context");
		return NULL;
	}
	ctx->opt = opt;
	ctx->pub.port_num = (uint8_t)port_num;
	strcpy(ctx->dev_name, dev_name);
	ctx->pub.dev_name = ctx->dev_name;
	if (create_all(ctx) == 0)
		return &ctx->pub;
	err = errno;
	verbena_destroy_context(&ctx->pub);
	errno = err;
	return NULL;
}

/* Destroys an object unless already done; a later call continues where this one stopped. */
#define DESTROY(verb, object)                                                                      \
	do {                                                                                       \
		int err_ = (object) ? verb(object) : 0;                                            \
		if (err_)                                                                          \
			return fail(err_ > 0 ? err_ : errno, #verb);                               \
		(object) = NULL;                                                                   \
	} while (0)

API int verbena_destroy_context(struct verbena_context *ctx)
{
	if (!ctx)
		return 0;
	DESTROY(ibv_destroy_qp, ctx->qp);
	DESTROY(ibv_destroy_ah, ctx->ah);
	DESTROY(ibv_destroy_cq, ctx->send_cq);
	DESTROY(ibv_destroy_cq, ctx->recv_cq);
	DESTROY(ibv_destroy_comp_channel, ctx->send_comp_channel);
	DESTROY(ibv_destroy_comp_channel, ctx->recv_comp_channel);
	DESTROY(ibv_dealloc_pd, ctx->pd);
	DESTROY(ibv_close_device, ctx->context);
	free(ctx->send_wcs);
	free(ctx->recv_wcs);
	free(of_pub(ctx));
	return 0;
}
