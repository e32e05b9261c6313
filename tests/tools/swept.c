/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usage: swept FILE [BUG].  Sends text through two queue pairs of its own and writes what has
 * arrived to FILE. Each failure ends it with status 1, and everything is destroyed: a sweep finds
 * nothing. It waits for events, so that each run makes nearly the same calls. With a BUG, one kind
 * of failure is handled as in a careless program:
 *
 *	leak	without a CQ, the device stays open
 *	crash	a memory region is used without a look at the result
 *	hang	a failed completion is waited for as if it had to come again
 *	wrong	a receive counts whatever its status
 *	once	not a bug: allocates a second PD as long as FILE is empty, as only the survey of
 *		a sweep finds it
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

enum { LEN = 64 };

static const char text[LEN] = "what was sent has arrived";
static const char *bug = "";

struct ends {
	struct ibv_context *ctx;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *a, *b;
	union ibv_gid gid;
	char memory[2 * LEN];
};

static bool has(const char *which)
{
	return strcmp(bug, which) == 0;
}

static bool open_device(struct ends *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list)
		return false;
	e->ctx = *list ? ibv_open_device(*list) : NULL;
	ibv_free_device_list(list);
	return e->ctx && ibv_query_gid(e->ctx, 1, 0, &e->gid) == 0;
}

static struct ibv_qp *create_qp(struct ends *e)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	return ibv_create_qp(e->pd, &attr);
}

static bool create(struct ends *e)
{
	if (!open_device(e))
		return false;
	e->pd = ibv_alloc_pd(e->ctx);
	e->mr = e->pd ? ibv_reg_mr(e->pd, e->memory, sizeof(e->memory), IBV_ACCESS_LOCAL_WRITE) :
			NULL;
	if (!e->mr && !has("crash"))
		return false;
	e->channel = ibv_create_comp_channel(e->ctx);
	if (!e->channel)
		return false;
	e->cq = ibv_create_cq(e->ctx, 4, NULL, e->channel, 0);
	if (!e->cq) {
		if (has("leak"))
			e->ctx = NULL;
		return false;
	}
	e->a = create_qp(e);
	e->b = create_qp(e);
	return e->a && e->b && !ibv_req_notify_cq(e->cq, 0);
}

static bool alloc_once(struct ends *e, const char *name)
{
	FILE *f = fopen(name, "r");
	bool first = f && fgetc(f) == EOF;
	struct ibv_pd *pd = first ? ibv_alloc_pd(e->ctx) : NULL;

	if (f)
		fclose(f);
	return !first || (pd && !ibv_dealloc_pd(pd));
}

static bool connect_to(struct ends *e, struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.min_rnr_timer = 1,
		.timeout = 8,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .port_num = 1, .is_global = 1, .grh = { .dgid = e->gid } },
	};
	static const struct {
		enum ibv_qp_state state;
		int mask;
	} step[] = {
		{ IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
		{ IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER },
		{ IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC },
	};

	for (size_t i = 0; i < sizeof(step) / sizeof(step[0]); i++) {
		attr.qp_state = step[i].state;
		if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | step[i].mask))
			return false;
	}
	return true;
}

static bool post(struct ends *e)
{
	struct ibv_sge from = { (uintptr_t)e->memory, LEN, e->mr->lkey };
	struct ibv_sge to = { (uintptr_t)e->memory + LEN, LEN, e->mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &to, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	memcpy(e->memory, text, LEN);
	return !ibv_post_recv(e->b, &recv, &bad_recv) && !ibv_post_send(e->a, &send, &bad);
}

static bool wait_for_event(struct ends *e)
{
	struct ibv_cq *cq;
	void *arg;

	if (ibv_get_cq_event(e->channel, &cq, &arg))
		return false;
	ibv_ack_cq_events(cq, 1);
	return !ibv_req_notify_cq(cq, 0);
}

static bool wait_for_both(struct ends *e)
{
	struct ibv_wc wc;
	int done = 0, n;

	while (done < 2) {
		n = ibv_poll_cq(e->cq, 1, &wc);
		if (n < 0 || (!n && !wait_for_event(e)))
			return false;
		if (!n)
			continue;
		if (wc.status == IBV_WC_SUCCESS)
			done++;
		else if (has("wrong") && wc.status != IBV_WC_WR_FLUSH_ERR)
			return memset(e->memory + LEN, 0, LEN), true;
		else if (!has("hang"))
			return false;
	}
	return true;
}

static bool write_file(const struct ends *e, const char *name)
{
	FILE *f = fopen(name, "w");

	return f && fwrite(e->memory + LEN, 1, strlen(text), f) == strlen(text) && !fclose(f);
}

/* Continues after a failure, so that the other objects are destroyed. */
static bool destroy(struct ends *e)
{
	bool good = true;

	good &= !e->a || !ibv_destroy_qp(e->a);
	good &= !e->b || !ibv_destroy_qp(e->b);
	good &= !e->cq || !ibv_destroy_cq(e->cq);
	good &= !e->channel || !ibv_destroy_comp_channel(e->channel);
	good &= !e->mr || !ibv_dereg_mr(e->mr);
	good &= !e->pd || !ibv_dealloc_pd(e->pd);
	good &= !e->ctx || !ibv_close_device(e->ctx);
	return good;
}

int main(int argc, char **argv)
{
	struct ends e = { 0 };
	bool good;

	if (argc < 2)
		return 2;
	if (argc > 2)
		bug = argv[2];
	good = create(&e) && (!has("once") || alloc_once(&e, argv[1])) &&
	       connect_to(&e, e.a, e.b) && connect_to(&e, e.b, e.a) && post(&e) &&
	       wait_for_both(&e) && write_file(&e, argv[1]);
	return destroy(&e) && good ? 0 : 1;
}
