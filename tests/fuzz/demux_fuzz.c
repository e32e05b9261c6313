/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets find their queue pairs in a whole library.  There is one QP of every kind, all with a
 * peer on another host, except one that is its own peer.  Packets come from the wire, by another
 * process that hands them over, and by lanes: nearly right ones, of the peer and of third parties,
 * early, repeated, marked, to groups, to QP 1, to no QP, cut short and corrupted.  The program
 * posts, and time passes.
 *
 * The oracle: each packet is counted; one that does not come along a connected QP's path changes
 * nothing of it; a receive completes once and holds no more than it has room for; memory that the
 * peer has no right to write stays as it was; and what leaves is a good packet for the peer, a
 * congestion notification for the source of a marked datagram with the right Q_Key, or an answer of
 * QP 1.
 *
 * The input is a program of one-byte steps with operands.  The clock is the target's.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/state.h"
#include "core/cq/cq.h"
#include "core/mad/gsi.h"
#include "core/progress/poll_loop.h"
#include "core/progress/rx_queue.h"
#include "core/qp/qp.h"
#include "core/rx/demux.h"
#include "core/rx/mcast.h"
#include "core/tx/tx_sched.h"
#include "fuzz/fuzz.h"
#include "fuzz/input.h"
#include "fuzz/run_input.h"
#include "host/host.h"
#include "local/local.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "roce/psn.h"
#include "run/clock.h"
#include "run/progress.h"
#include "unit/place.h"
#include "wire/wire.h"

enum {
	PAGE = 4096,
	OPEN_PAGE = 1, /* the peer may do everything there, */
	READ_PAGE = 3, /* only read, */
	RECV_PAGE = 5, /* and this is where receives are, */
	SEND_PAGE = 7, /* sends and what is read come from and go to */
	PAGES = 9,     /* the others have no owner */
	SLOT = 256,
	UNTOUCHED = 0x5a,
	QKEY = 0x1234,
	PSN = 0xfffff0,
	PEERS_QPN = 0x654321,
	WRS = 1 << 12,
	CE = 3, /* ECN: congestion was met */
};

enum target { FAR_RC, FAR_UC, FAR_UD, FAR_XRC, SHARED_XRC, OWN_RC, QPS };

static const enum ibv_qp_type types[QPS] = { IBV_QPT_RC,       IBV_QPT_UC,       IBV_QPT_UD,
					     IBV_QPT_XRC_RECV, IBV_QPT_XRC_RECV, IBV_QPT_RC };

#define V4(a, b, c, d)                                                                             \
	{                                                                                          \
		{                                                                                  \
			[10] = 0xff, [11] = 0xff, [12] = a, [13] = b, [14] = c, [15] = d           \
		}                                                                                  \
	}

enum { HOME, PEER, THIRD_PARTY, HOME_V6, GROUP, OTHER_GROUP, NOTHING, ADDRESSES };

static const struct net_addr addresses[ADDRESSES] = {
	[HOME] = V4(127, 0, 0, 1),    [PEER] = V4(127, 0, 0, 9),  [THIRD_PARTY] = V4(127, 0, 0, 8),
	[HOME_V6] = { { [15] = 1 } }, [GROUP] = V4(239, 1, 2, 3), [OTHER_GROUP] = V4(239, 1, 2, 4),
};

static char dir[64];
static uint64_t now = VRB_SECOND;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *all, *open_mr, *read_mr;
static struct ibv_xrcd *domain[2]; /* of one process, and one that others could share */
static struct ibv_qp *qps[QPS];
static struct ibv_srq *srqs[2];
static _Alignas(PAGE) uint8_t memory[PAGES * PAGE];

static struct {
	uint32_t posted;
	uint32_t room[WRS]; /* by wr_id: what a receive has room for; of a send anything; 0: not
			       posted */
	uint32_t sent;      /* packets that left */
	uint32_t notified;  /* bits: sources of marked packets with the right Q_Key */
} w;

/* ---- the clock ---- */

uint64_t clock_now(void)
{
	return now += 50;
}

uint64_t clock_coarse(void)
{
	return clock_now();
}

uint64_t clock_wall(uint64_t time)
{
	return time;
}

/* ---- the wire ---- */

static bool may_leave(const struct wire_pkt *p, const struct roce_pkt *pkt)
{
	const struct net_addr *dst = &p->path.dst;

	if (net_addr_equal(dst, &addresses[PEER]) || net_addr_equal(dst, &addresses[HOME]) ||
	    pkt->bth.dest_qpn == ROCE_QP1)
		return true;
	for (int i = 0; i < ADDRESSES; i++)
		if ((w.notified & 1u << i) && net_addr_equal(dst, &addresses[i]))
			return pkt->bth.opcode == ROCE_CNP_NOTIFICATION;
	return false;
}

static unsigned int wire_takes(struct wire *wire, struct wire_pkt *pkts, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct roce_pkt pkt;

		FUZZ_CHECK(roce_decode(&pkt, pkts[i].data, pkts[i].len) == ROCE_DECODED);
		FUZZ_CHECK(may_leave(&pkts[i], &pkt));
	}
	w.sent += n;
	return n;
}

static unsigned int wire_is_silent(struct wire *wire, struct wire_pkt *pkts, unsigned int n)
{
	return 0;
}

static int wire_goes_on(struct wire *wire, const struct net_addr *group, uint32_t ifindex)
{
	return 0;
}

/* The sockets stay open, and get nothing. */
static void replace_wire(void)
{
	static struct wire_ops ops;

	FUZZ_CHECK(vrb.wire);
	ops = *vrb.wire->ops;
	ops.send = wire_takes;
	ops.recv = wire_is_silent;
	ops.join = ops.leave = wire_goes_on;
	vrb.wire->ops = &ops;
}

/* ---- the objects ---- */

static void hear_mad(void *arg, const struct net_path *path, const uint8_t *mad, uint64_t at)
{
}

static void hear_timeout(void *arg, uint64_t at)
{
}

static const struct vrb_gsi_ops manager = { hear_mad, hear_timeout };

static void clean_up(void)
{
	place_remove_dir(dir);
}

static struct ibv_xrcd *open_domain(int fd)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = fd,
					   .oflags = O_CREAT };

	return ibv_open_xrcd(ctx, &attr);
}

static void open_device(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	FUZZ_CHECK(list && n);
	ctx = ibv_open_device(list[n - 1]);
	FUZZ_CHECK(ctx);
	ibv_free_device_list(list);
	FUZZ_CHECK(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	progress_stop(vrb.progress);
	replace_wire();
}

static void move(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	FUZZ_CHECK(ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE) == 0);
}

static void connect_qp(struct ibv_qp *qp, enum target t)
{
	bool ud = types[t] == IBV_QPT_UD, reliable = !ud && types[t] != IBV_QPT_UC;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = QKEY,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC };
	int mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	move(qp, attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_256,
				     .rq_psn = PSN,
				     .max_dest_rd_atomic = 4,
				     .dest_qp_num = t == OWN_RC ? qp->qp_num : PEERS_QPN,
				     .min_rnr_timer = 1,
				     .ah_attr = {
					     .is_global = 1, .port_num = 1, .grh.hop_limit = 64 } };
	memcpy(attr.ah_attr.grh.dgid.raw, addresses[t == OWN_RC ? HOME : PEER].raw, 16);
	if (reliable)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	move(qp, attr, ud ? 0 : mask);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .sq_psn = PSN,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 4 };
	mask = IBV_QP_SQ_PSN;
	if (types[t] == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
	else if (reliable)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	move(qp, attr, mask);
}

static void create(enum target t)
{
	bool xrc = types[t] == IBV_QPT_XRC_RECV;
	struct ibv_qp_init_attr_ex init = { .send_cq = xrc ? NULL : cq,
					    .recv_cq = xrc ? NULL : cq,
					    .qp_type = types[t],
					    .pd = xrc ? NULL : pd,
					    .cap = { 16, 16, 2, 2, 0 },
					    .comp_mask = xrc ? IBV_QP_INIT_ATTR_XRCD
							     : IBV_QP_INIT_ATTR_PD };

	if (xrc) {
		init.cap = (struct ibv_qp_cap){ 0 };
		init.xrcd = domain[t == SHARED_XRC];
	}
	qps[t] = ibv_create_qp_ex(ctx, &init);
	FUZZ_CHECK(qps[t]);
}

static void start(void)
{
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	char port[8];

	place_make_dir(dir);
	atexit(clean_up);
	snprintf(port, sizeof(port), "%u", place_free_port());
	setenv("VERBENA_DIR", dir, 1);
	setenv("VERBENA_UDP_PORT", port, 1);
	setenv("VERBENA_LOG", "off", 0);
	open_device();
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 2048, NULL, NULL, 0);
	all = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	open_mr = ibv_reg_mr(pd, memory + OPEN_PAGE * PAGE, PAGE, rights);
	read_mr = ibv_reg_mr(pd, memory + READ_PAGE * PAGE, PAGE, IBV_ACCESS_REMOTE_READ);
	domain[0] = open_domain(-1);
	domain[1] = open_domain(open(dir, O_RDONLY | O_CLOEXEC));
	FUZZ_CHECK(pd && cq && all && open_mr && read_mr && domain[0] && domain[1]);
	for (enum target t = 0; t < QPS; t++)
		create(t);
}

static void create_srq(int i)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = 16, .max_sge = 1 },
					     .srq_type = IBV_SRQT_XRC,
					     .xrcd = domain[i],
					     .cq = cq,
					     .pd = pd,
					     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
							  IBV_SRQ_INIT_ATTR_XRCD |
							  IBV_SRQ_INIT_ATTR_CQ |
							  IBV_SRQ_INIT_ATTR_PD };

	srqs[i] = ibv_create_srq_ex(ctx, &attr);
	FUZZ_CHECK(srqs[i]);
}

static void attach(bool on)
{
	union ibv_gid gid;

	memcpy(gid.raw, addresses[GROUP].raw, sizeof(gid.raw));
	if (on)
		ibv_attach_mcast(qps[FAR_UD], &gid, 0);
	else
		ibv_detach_mcast(qps[FAR_UD], &gid, 0);
}

static void begin(void)
{
	memset(&w, 0, sizeof(w));
	memset(memory, UNTOUCHED, sizeof(memory));
	for (int i = 0; i < 2; i++)
		create_srq(i);
	for (enum target t = 0; t < QPS; t++)
		connect_qp(qps[t], t);
	attach(true);
}

/* ---- what the program sees ---- */

static void complete(const struct ibv_wc *wc)
{
	FUZZ_CHECK(wc->wr_id < w.posted && w.room[wc->wr_id]);
	if (wc->status == IBV_WC_SUCCESS && (wc->opcode & IBV_WC_RECV))
		FUZZ_CHECK(wc->byte_len <= w.room[wc->wr_id] ||
			   wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	w.room[wc->wr_id] = 0;
}

/* Only what is there: an empty queue would have the library look at its sockets. */
static void poll_all(void)
{
	struct vrb_cq *c = to_vrb_cq(cq);
	struct ibv_wc wc;

	while (load_relaxed(&c->shown) != load_relaxed(&c->tail)) {
		FUZZ_CHECK(ibv_poll_cq(cq, 1, &wc) == 1);
		complete(&wc);
	}
}

static void check_page(unsigned int page)
{
	for (unsigned int i = 0; i < PAGE; i++)
		FUZZ_CHECK(memory[page * PAGE + i] == UNTOUCHED);
}

static void end(void)
{
	struct ibv_async_event event;

	poll_all();
	for (enum target t = 0; t < QPS; t++)
		move(qps[t], (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, 0);
	poll_all();
	attach(false);
	while (!ibv_get_async_event(ctx, &event))
		ibv_ack_async_event(&event);
	for (enum target t = 0; t < QPS; t++)
		move(qps[t], (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, 0);
	vrb_gsi_close();
	for (int i = 0; i < 2; i++)
		FUZZ_CHECK(ibv_destroy_srq(srqs[i]) == 0);
	for (unsigned int page = 0; page < PAGES; page += 2)
		check_page(page);
	check_page(READ_PAGE);
}

/* ---- packets ---- */

/* What a packet may change of a connected QP, and what leaves. */
struct mark {
	enum ibv_qp_state state;
	uint32_t epsn, rq_next, sq_done, sent, completions;
	bool touched;
};

static struct mark mark_of(enum target t)
{
	const struct vrb_qp *qp = to_vrb_qp(qps[t]);

	return (struct mark){
		qp->wq.state, roce_expected_psn(&qp->roce), qp->wq.rq.next,        qp->wq.sq.done,
		w.sent,       to_vrb_cq(cq)->head,          qp->sched.rx_queue != NULL
	};
}

static bool is_equal(const struct mark *a, const struct mark *b)
{
	return a->state == b->state && a->epsn == b->epsn && a->rq_next == b->rq_next &&
	       a->sq_done == b->sq_done && a->sent == b->sent && a->completions == b->completions &&
	       a->touched == b->touched;
}

static bool is_home(const struct net_addr *a)
{
	return net_addr_equal(a, &addresses[HOME]) || net_addr_equal(a, &addresses[HOME_V6]);
}

static bool concerns(enum target t, const struct net_path *path)
{
	if (types[t] == IBV_QPT_UD)
		return is_home(&path->dst);
	return net_addr_equal(&path->src, &addresses[t == OWN_RC ? HOME : PEER]) &&
	       net_addr_equal(&path->dst, &addresses[HOME]);
}

static struct net_path some_path(struct input *in, enum target t)
{
	uint8_t b = byte(in);
	struct net_path p = { .src = addresses[t == OWN_RC ? HOME : PEER],
			      .dst = addresses[HOME],
			      .src_port = 4791,
			      .dst_port = 4791,
			      .hop_limit = 64 };

	if (b & 1)
		p.src = addresses[byte(in) % ADDRESSES];
	if (b & 2)
		p.dst = addresses[byte(in) % ADDRESSES];
	if (b & 4)
		p.traffic_class = byte(in);
	if (b & 8)
		p.ifindex = byte(in) % 3;
	return p;
}

static uint8_t some_opcode(struct input *in, enum target t)
{
	static const uint8_t service[QPS] = { 0x00, 0x20, 0x60, 0xa0, 0xa0, 0x00 };
	uint8_t b = byte(in);

	if (b >= 0xf8)
		return ROCE_CNP_NOTIFICATION;
	if (b >= 0xe8)
		return byte(in);
	if (types[t] == IBV_QPT_UD)
		return b & 1 ? ROCE_UD_SEND_ONLY_WITH_IMMEDIATE : ROCE_UD_SEND_ONLY;
	return service[t] | (b & 0x1f);
}

static uint32_t some_qpn(struct input *in, enum target t)
{
	uint8_t b = byte(in);

	if (b < 0xd8)
		return qps[t]->qp_num;
	if (b < 0xe8)
		return ROCE_QPN_MULTICAST;
	if (b < 0xf4)
		return ROCE_QP1;
	return b & 1 ? qps[t]->qp_num + 1 : word(in) & ROCE_QPN_MASK;
}

/* What the requester waits for, or the responder does, and nearby. */
static uint32_t some_psn(struct input *in, enum target t, uint8_t opcode)
{
	struct vrb_qp *qp = to_vrb_qp(qps[t]);
	bool request = roce_is_request(roce_opcode_info(opcode));
	uint32_t from = request ? roce_expected_psn(&qp->roce) : PSN;
	uint8_t b = byte(in);

	if (b >= 0xf0)
		return word(in) & ROCE_PSN_MASK;
	return psn_add(from, b < 0x80 ? 0 : b < 0xc0 ? b & 0x3f : 0u - (b & 0x3f));
}

static uint32_t some_key(struct input *in)
{
	const uint32_t keys[] = { open_mr->rkey, open_mr->rkey, open_mr->rkey,
				  read_mr->rkey, all->rkey,     0 };
	uint8_t b = byte(in);

	return b >= 0xf0 ? word(in) : keys[b % ARRAY_SIZE(keys)];
}

static uint64_t some_address(struct input *in)
{
	uint8_t b = byte(in);
	uint64_t page = b & 1 ? READ_PAGE : OPEN_PAGE;

	if (b >= 0xe0)
		page = b % PAGES;
	return (uintptr_t)memory + page * PAGE + (b & 2 ? word(in) % (2 * PAGE) : (b & 0x1cu) << 6);
}

static struct roce_pkt some_headers(struct input *in, enum target t)
{
	struct roce_pkt pkt = { 0 };
	uint8_t b = byte(in), opcode = some_opcode(in, t);

	pkt.bth = (struct roce_bth){ .opcode = opcode,
				     .dest_qpn = some_qpn(in, t),
				     .psn = some_psn(in, t, opcode),
				     .pkey = b >= 0xf0 ? byte(in) : 0xffff,
				     .mig_req = b & 1,
				     .ack_req = b & 2,
				     .solicited = b & 4,
				     .fecn = b & 8,
				     .becn = b & 16 };
	pkt.reth.va = pkt.atomic.va = some_address(in);
	pkt.reth.rkey = pkt.atomic.rkey = pkt.ieth_rkey = some_key(in);
	pkt.reth.len = b & 32 ? word(in) : byte(in) * 8;
	pkt.atomic.swap_add = pkt.atomic.compare = 1;
	pkt.aeth.syndrome = byte(in);
	pkt.aeth.msn = byte(in);
	pkt.deth.qkey = pkt.bth.dest_qpn == ROCE_QP1 ? ROCE_QKEY_GSI : QKEY + (byte(in) >= 0xf0);
	pkt.deth.src_qpn = PEERS_QPN;
	pkt.xrc_srqn = 0;
	ibv_get_srq_num(srqs[byte(in) % 8 ? t == SHARED_XRC : byte(in) & 1], &pkt.xrc_srqn);
	return pkt;
}

static uint32_t some_length(struct input *in, const struct roce_pkt *pkt)
{
	uint32_t most = roce_opcode_info(pkt->bth.opcode)->max_payload;
	uint8_t b = byte(in);

	if (pkt->bth.dest_qpn == ROCE_QP1)
		return 256;
	if (most < 256 && b < 0xf0)
		return most;
	if (b >= 0xf8)
		return word(in) % 4200;
	return b < 0x60 ? 256 : b < 0xa0 ? b % 9 : b < 0xb0 ? 0 : b;
}

/* Of an opcode that is none, the headers of another. */
static size_t encode(const struct roce_pkt *pkt, uint8_t *data)
{
	struct roce_pkt p = *pkt;
	size_t n;

	if (roce_opcode_info(p.bth.opcode)->kind == ROCE_KIND_NONE)
		p.bth.opcode = ROCE_RC_SEND_ONLY;
	n = roce_encode_headers(data, &p);
	data[0] = pkt->bth.opcode;
	return n;
}

/* A packet with a good ICRC, which may not remain so. */
static size_t build(struct input *in, const struct net_path *path, struct roce_pkt *pkt,
		    uint8_t data[WIRE_MAX_PACKET])
{
	uint32_t len = some_length(in, pkt), icrc;
	size_t n;

	pkt->bth.pad = -len & 3;
	n = encode(pkt, data);
	memset(data + n, byte(in), len + pkt->bth.pad);
	if (len >= 64 && (byte(in) & 1))
		for (uint32_t i = 0; i < 64; i++)
			data[n + i] = byte(in);
	n += len + pkt->bth.pad;
	icrc = roce_icrc(path, 0, data, n);
	for (int i = 0; i < 4; i++)
		data[n++] = icrc >> 8 * i;
	return n;
}

static void spoil(struct input *in, uint8_t *data, size_t *len)
{
	uint8_t b = byte(in);

	if (b >= 0xf8)
		data[word(in) % *len] ^= 1u << (b & 7);
	else if (b >= 0xf0)
		*len = word(in) % (*len + 1);
}

static uint64_t received(void)
{
	struct rx_stats s = { 0 };

	vrb_rx_stats_sum(&s);
	return s.rcvd_pkts;
}

static void note_source(const struct net_path *path, const struct roce_pkt *pkt)
{
	if (((path->traffic_class & CE) != CE && !pkt->bth.fecn) || pkt->deth.qkey != QKEY)
		return;
	for (int i = 0; i < ADDRESSES; i++)
		if (net_addr_equal(&path->src, &addresses[i]))
			w.notified |= 1u << i;
}

static void from_wire(struct input *in)
{
	enum target t = byte(in) % QPS;
	struct net_path path = some_path(in, t);
	struct roce_pkt pkt = some_headers(in, t);
	uint8_t whole[(1 + RUN_INPUT_MOST) * WIRE_MAX_PACKET];
	size_t len = build(in, &path, &pkt, whole);
	struct rx_packet a = {
		.path = &path, .len = len, .id_known = byte(in) & 1, .handed = byte(in) >= 0xc0
	};
	uint64_t before = received();
	unsigned int taken;
	struct mark is, was = mark_of(t);
	uint8_t *exact;

	spoil(in, whole, &a.len);
	if (a.len == len && len >= 16)
		a.more = put_followers(in, &path, pkt.bth.psn, whole, len);
	exact = malloc(a.len ? a.len * (1 + a.more) : 1);
	FUZZ_CHECK(exact);
	memcpy(exact, whole, a.len * (1 + a.more));
	a.data = exact;
	note_source(&path, &pkt);
	lock_acquire(&vrb.poll_lock);
	taken = vrb_rx_packet(&a, vrb_main_rx_queue, clock_now());
	is = mark_of(t);
	if (byte(in) & 1)
		vrb_tx_flush(vrb_main_rx_queue, clock_now());
	lock_release(&vrb.poll_lock);
	FUZZ_CHECK(taken >= 1 && taken <= 1 + a.more && received() == before + taken);
	if (pkt.bth.dest_qpn == qps[t]->qp_num && !concerns(t, &path))
		FUZZ_CHECK(is_equal(&was, &is));
	free(exact);
}

static void by_lane(struct input *in)
{
	enum target t = byte(in) % QPS;
	struct net_path path = some_path(in, t);
	struct roce_pkt pkt = some_headers(in, t);
	uint8_t whole[WIRE_MAX_PACKET], b = byte(in);
	const struct wq_seg seg = { (uintptr_t)memory + byte(in) % PAGES * PAGE,
				    b & 4 ? word(in) : 300 };
	struct local_pkt p = { .data = whole,
			       .path = b & 1 ? &path : NULL,
			       .slot = b & 2 ? host_slot(vrb.host) : byte(in),
			       .acks = b & 8,
			       .ack_psn = psn_add(PSN, byte(in)),
			       .ack_aeth = (uint32_t)byte(in) << 24 | byte(in) };
	struct mark is, was = mark_of(t);
	size_t len;

	p.len = build(in, &path, &pkt, whole);
	if (b & 16) {
		p.len = encode(&pkt, whole) + ROCE_ICRC_LEN;
		p.payload = seg.len & 0xffff;
		p.pull = (struct wq_pull){ .pid = getpid(), .num_seg = 1, .seg = &seg };
	}
	len = p.len;
	spoil(in, whole, &len);
	p.len = len;
	note_source(&path, &pkt);
	lock_acquire(&vrb.poll_lock);
	now += 50;
	vrb_rx_local.packet(&now, &p);
	is = mark_of(t);
	vrb_tx_flush(vrb_main_rx_queue, clock_now());
	lock_release(&vrb.poll_lock);
	if (pkt.bth.dest_qpn == qps[t]->qp_num && p.path && !concerns(t, &path))
		FUZZ_CHECK(is_equal(&was, &is));
}

/* ---- the program ---- */

static uint32_t next_wr(uint32_t room)
{
	w.room[w.posted] = room;
	return w.posted++;
}

static struct ibv_sge some_sge(struct input *in, unsigned int page)
{
	return (struct ibv_sge){ (uintptr_t)memory + page * PAGE + byte(in) % 8 * SLOT,
				 byte(in) & 1 ? SLOT : byte(in), all->lkey };
}

static void post_recv(struct input *in)
{
	uint8_t b = byte(in) % (QPS + 1);
	struct ibv_sge sge = some_sge(in, RECV_PAGE);
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	int ret;

	sge.length = max(sge.length, 1u);
	wr.wr_id = next_wr(sge.length);
	if (types[b % QPS] == IBV_QPT_XRC_RECV)
		ret = ibv_post_srq_recv(srqs[b == SHARED_XRC], &wr, &bad);
	else
		ret = ibv_post_recv(qps[b % QPS], &wr, &bad);
	if (ret)
		w.room[wr.wr_id] = 0;
}

static void post_send(struct input *in)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };
	static const enum target requesters[] = { FAR_RC, FAR_UC, OWN_RC };
	enum target t = requesters[byte(in) % ARRAY_SIZE(requesters)];
	struct ibv_sge sge = some_sge(in, SEND_PAGE);
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = opcodes[byte(in) % ARRAY_SIZE(opcodes)],
					.send_flags = IBV_SEND_SIGNALED };

	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)memory + OPEN_PAGE * PAGE;
		wr.wr.atomic.rkey = open_mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)memory + OPEN_PAGE * PAGE;
		wr.wr.rdma.rkey = some_key(in);
	}
	wr.wr_id = next_wr(1);
	if (ibv_post_send(qps[t], &wr, &bad))
		w.room[wr.wr_id] = 0;
}

static void pass_time(struct input *in)
{
	uint8_t b = byte(in);

	now += (uint64_t)byte(in) << b % 24;
	vrb_progress_ops.expire(NULL, clock_now());
}

/* An error has ended it: it begins anew. */
static void revive(struct input *in)
{
	enum target t = byte(in) % QPS;

	if (to_vrb_qp(qps[t])->wq.state != IBV_QPS_ERR && byte(in) < 0xe0)
		return;
	poll_all();
	move(qps[t], (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, 0);
	connect_qp(qps[t], t);
}

static void manage(struct input *in)
{
	if (byte(in) & 1)
		vrb_gsi_open(&manager, NULL);
	else
		vrb_gsi_close();
}

static void step(struct input *in)
{
	uint8_t b = byte(in);

	if (b < 0x80)
		from_wire(in);
	else if (b < 0xa0)
		by_lane(in);
	else if (b < 0xc0)
		post_recv(in);
	else if (b < 0xd4)
		post_send(in);
	else if (b < 0xe0)
		poll_all();
	else if (b < 0xee)
		pass_time(in);
	else if (b < 0xf8)
		revive(in);
	else if (b < 0xfc)
		attach(b & 1);
	else
		manage(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	if (!ctx)
		start();
	begin();
	while (more(&in) && w.posted < WRS)
		step(&in);
	end();
	return 0;
}
