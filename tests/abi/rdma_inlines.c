/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the inline functions of rdma_verbs.h and rdma_cma.h do, written down: every request with its
 * fields, every registration, every step of waiting for a completion.  inlines.py compiles this
 * against our headers and against librdmacm-dev's; both must print the same.
 *
 * The program is its own libibverbs and its own device.
 */
#include <stdio.h>
#include <string.h>

#include <rdma/rdma_verbs.h>

#define TOKEN(n) ((void *)(uintptr_t)(0x1000 + (n)))

static struct ibv_context ctx;
static struct ibv_pd pd = { .context = &ctx };
static struct ibv_qp qp = { .context = &ctx };
static struct ibv_srq srq = { .context = &ctx };
static struct ibv_cq cq = { .context = &ctx };
static struct ibv_mr mr = { .lkey = 0x77, .length = 64 };
static uint8_t memory[64];
static struct rdma_cm_id id;
static int answer;

/* ---- The library ---- */
#undef ibv_reg_mr

struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *addr, size_t length, int access)
{
	printf(" reg(%d, %p, %zu, %#x)", p == &pd, addr, length, (unsigned int)access);
	return TOKEN(1);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	printf(" reg2(%d, %p, %zu, %#llx, %#x)", p == &pd, addr, length, (unsigned long long)iova,
	       access);
	return TOKEN(2);
}

int ibv_dereg_mr(struct ibv_mr *m)
{
	printf(" dereg(%d)", m == &mr);
	return answer;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **context)
{
	printf(" event(%p)", (void *)channel);
	*out = &cq;
	*context = &id;
	return answer;
}

void ibv_ack_cq_events(struct ibv_cq *c, unsigned int n)
{
	printf(" ack(%d, %u)", c == &cq, n);
}

/* ---- The device ---- */

static void show_sges(const struct ibv_sge *sge, int n)
{
	for (int i = 0; i < n; i++)
		printf(" {%lld, %u, %#x}", (long long)(sge[i].addr - (uintptr_t)memory),
		       sge[i].length, sge[i].lkey);
}

static int post_send(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	printf(" send(%d, %llu, op %d, flags %#x, next %d", q == &qp, (unsigned long long)wr->wr_id,
	       (int)wr->opcode, wr->send_flags, wr->next != NULL);
	if (wr->opcode != IBV_WR_SEND)
		printf(", at %llu key %u", (unsigned long long)wr->wr.rdma.remote_addr,
		       wr->wr.rdma.rkey);
	show_sges(wr->sg_list, wr->num_sge);
	printf(")");
	return answer;
}

static int post_ud(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	printf(" ud(%p, %#x, %#x)", (void *)wr->wr.ud.ah, wr->wr.ud.remote_qpn,
	       wr->wr.ud.remote_qkey);
	return post_send(q, wr, bad);
}

static void show_recv(const struct ibv_recv_wr *wr)
{
	printf("%llu next %d", (unsigned long long)wr->wr_id, wr->next != NULL);
	show_sges(wr->sg_list, wr->num_sge);
	printf(")");
}

static int post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	printf(" recv(%d, ", q == &qp);
	show_recv(wr);
	return answer;
}

static int post_srq(struct ibv_srq *s, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	printf(" srq(%d, ", s == &srq);
	show_recv(wr);
	return answer;
}

/* The next answers of ibv_poll_cq and ibv_req_notify_cq. */
static const int *script;

static int poll_cq(struct ibv_cq *c, int n, struct ibv_wc *wc)
{
	printf(" poll(%d, %d)", c == &cq, n);
	return *script++;
}

static int req_notify(struct ibv_cq *c, int solicited)
{
	printf(" arm(%d, %d)", c == &cq, solicited);
	return *script++;
}

#define SHOW(call)                                                                                 \
	do {                                                                                       \
		errno = 0;                                                                         \
		printf(#call ":");                                                                 \
		printf(" = %d", (int)(intptr_t)(call));                                            \
		printf(" errno %d\n", errno);                                                      \
	} while (0)

static void registrations(void)
{
	SHOW(rdma_reg_msgs(&id, TOKEN(3), 10));
	SHOW(rdma_reg_read(&id, TOKEN(3), 11));
	SHOW(rdma_reg_write(&id, TOKEN(3), 12));
	SHOW(rdma_dereg_mr(&mr));
}

static void requests(void)
{
	struct ibv_sge sge[2] = { { (uintptr_t)memory, 3, 4 }, { (uintptr_t)memory + 5, 6, 7 } };

	ctx.ops.post_send = post_send;
	SHOW(rdma_post_sendv(&id, TOKEN(4), sge, 2, IBV_SEND_SIGNALED));
	SHOW(rdma_post_readv(&id, TOKEN(4), sge, 2, IBV_SEND_FENCE, 99, 98));
	SHOW(rdma_post_writev(&id, TOKEN(4), sge, 2, IBV_SEND_INLINE, 99, 98));
	SHOW(rdma_post_send(&id, TOKEN(4), memory + 1, 13, &mr, 0));
	SHOW(rdma_post_send(&id, TOKEN(4), memory + 1, 13, NULL, IBV_SEND_INLINE));
	SHOW(rdma_post_read(&id, TOKEN(4), memory + 1, 13, &mr, 1, 99, 98));
	SHOW(rdma_post_write(&id, TOKEN(4), memory + 1, 13, &mr, 1, 99, 98));
	SHOW(rdma_post_write(&id, TOKEN(4), memory + 1, 13, NULL, 1, 99, 98));
	ctx.ops.post_send = post_ud;
	SHOW(rdma_post_ud_send(&id, TOKEN(4), memory, 14, &mr, 2, TOKEN(5), 0x123456));
	SHOW(rdma_post_ud_send(&id, TOKEN(4), memory, 14, NULL, 2, TOKEN(5), 0x123456));
	for (int i = 0; i < 2; i++) {
		id.srq = i ? &srq : NULL;
		SHOW(rdma_post_recvv(&id, TOKEN(4), sge, 2));
		SHOW(rdma_post_recv(&id, TOKEN(4), memory, 64, &mr));
	}
}

static void completions(void)
{
	static const int at_once[] = { 1 }, fails[] = { -5 }, arm_fails[] = { 0, ENOMEM },
			 after_arming[] = { 0, 0, 1 }, after_an_event[] = { 0, 0, 0, 1 },
			 two_events[] = { 0, 0, 0, 0, 0, 0, 1 };
	static const int *const scripts[] = { at_once,      fails,          arm_fails,
					      after_arming, after_an_event, two_events };
	struct ibv_wc wc;

	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		script = scripts[i];
		SHOW(rdma_get_send_comp(&id, &wc));
		script = scripts[i];
		SHOW(rdma_get_recv_comp(&id, &wc));
	}
}

int main(void)
{
	static const int answers[] = { 0, ENOMEM, -1 };
	static const int errors[] = { 0, 5, -5 };

	ctx.ops.post_recv = post_recv;
	ctx.ops.post_srq_recv = post_srq;
	ctx.ops.poll_cq = poll_cq;
	ctx.ops.req_notify_cq = req_notify;
	mr.addr = memory;
	id.pd = &pd;
	id.qp = &qp;
	id.send_cq = id.recv_cq = &cq;
	id.send_cq_channel = TOKEN(6);
	id.recv_cq_channel = TOKEN(7);
	for (size_t i = 0; i < 3; i++) {
		SHOW(rdma_seterrno(errors[i]));
		answer = answers[i];
		registrations();
		requests();
		completions();
	}
	printf("%d %d\n", (void *)rdma_get_local_addr(&id) == &id.route.addr.src_addr,
	       (void *)rdma_get_peer_addr(&id) == &id.route.addr.dst_addr);
	return 0;
}
