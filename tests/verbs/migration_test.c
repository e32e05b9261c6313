/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration between the two addresses of the loopback interface: both sides arm an
 * alternate path, one migrates, the other follows, and events and attributes report it.
 */

#include "world.h"

struct path {
	union ibv_gid gid;
	int index;
};

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static bool find_path(struct world *w, bool ipv4, struct path *p)
{
	for (p->index = 0; p->index < w->port.gid_tbl_len; p->index++) {
		struct ibv_gid_entry e;

		if (ibv_query_gid_ex(w->ctx, 1, p->index, &e, 0) || is_ipv4(&e.gid) != ipv4)
			continue;
		p->gid = e.gid;
		return true;
	}
	return false;
}

static struct ibv_ah_attr address(const struct path *p)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = p->gid, .sgid_index = p->index, .hop_limit = 64 },
	};
}

static void arm(struct ibv_qp *qp, const struct path *alternate)
{
	struct ibv_qp_attr attr = {
		.alt_ah_attr = address(alternate),
		.alt_port_num = 1,
		.alt_timeout = 15,
		.path_mig_state = IBV_MIG_REARM,
	};

	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

static struct ibv_qp_attr query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_PATH_MIG_STATE | IBV_QP_AV, &init), 0);
	return attr;
}

static void exchange(struct ibv_cq *cq, struct ibv_qp *from, struct ibv_qp *to, struct buffer *b)
{
	struct ibv_wc wc[2];

	world_recv(to, 2, world_sge(b, 64, 64));
	world_send(from, 1, world_sge(b, 0, 64));
	world_poll(cq, wc, 2);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
}

static void expect_moved(struct ibv_qp *qp, const struct path *to)
{
	struct ibv_qp_attr attr = query(qp);

	CHECK_EQ(attr.path_mig_state, IBV_MIG_MIGRATED);
	CHECK_EQ(attr.ah_attr.grh.sgid_index, to->index);
	CHECK(!memcmp(&attr.ah_attr.grh.dgid, &to->gid, sizeof(to->gid)));
	CHECK_EQ(attr.timeout, 15);
}

static void migrate(struct world *w, enum ibv_qp_type type, const struct path *first,
		    const struct path *second)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };
	struct ibv_cq *cq = world_cq(w, 16);
	struct ibv_qp *a = world_qp(w, type, cq, NULL);
	struct ibv_qp *b = world_qp(w, type, cq, NULL);
	struct buffer buf = world_buffer(w, 128, WORLD_ACCESS);

	w->gid = first->gid;
	w->gid_index = first->index;
	world_connect(w, a, b);
	exchange(cq, a, b, &buf);
	arm(a, second);
	arm(b, second);
	CHECK_EQ(query(a).path_mig_state, IBV_MIG_REARM);
	for (int i = 0; i < 2; i++) {
		exchange(cq, a, b, &buf);
		exchange(cq, b, a, &buf);
	}
	CHECK_EQ(query(a).path_mig_state, IBV_MIG_ARMED);
	CHECK_EQ(query(b).path_mig_state, IBV_MIG_ARMED);

	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_PATH_MIG_STATE), 0);
	world_event(w, IBV_EVENT_PATH_MIG);
	expect_moved(a, second);
	exchange(cq, a, b, &buf);
	world_event(w, IBV_EVENT_PATH_MIG);
	expect_moved(b, second);
	exchange(cq, b, a, &buf);
	CHECK(!world_has_event(w));

	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&buf);
}

/*
 * A migration request for the path that is already in use is ignored and reported once, although
 * the peer repeats it in every packet.
 */
static void refuse(struct world *w, const struct path *first, const struct path *second)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };
	struct ibv_cq *cq = world_cq(w, 16);
	struct ibv_qp *a = world_qp(w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp *b = world_qp(w, IBV_QPT_RC, cq, NULL);
	struct buffer buf = world_buffer(w, 128, WORLD_ACCESS);

	w->gid = first->gid;
	w->gid_index = first->index;
	world_connect(w, a, b);
	arm(a, first);
	arm(b, second);
	for (int i = 0; i < 2; i++) {
		exchange(cq, a, b, &buf);
		exchange(cq, b, a, &buf);
	}
	CHECK_EQ(query(b).path_mig_state, IBV_MIG_ARMED);
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_PATH_MIG_STATE), 0);
	world_event(w, IBV_EVENT_PATH_MIG);
	for (int i = 0; i < 3; i++)
		exchange(cq, a, b, &buf);
	world_event(w, IBV_EVENT_PATH_MIG_ERR);
	CHECK(!world_has_event(w));
	CHECK_EQ(query(b).path_mig_state, IBV_MIG_ARMED);

	/* Rearmed, it reports again. */
	arm(a, first);
	arm(b, second);
	for (int i = 0; i < 2; i++) {
		exchange(cq, a, b, &buf);
		exchange(cq, b, a, &buf);
	}
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_PATH_MIG_STATE), 0);
	world_event(w, IBV_EVENT_PATH_MIG);
	exchange(cq, a, b, &buf);
	world_event(w, IBV_EVENT_PATH_MIG_ERR);
	CHECK(!world_has_event(w));

	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&buf);
}

static void both_ways(struct ibv_cq *cq, struct ibv_qp *a, struct ibv_qp *b, struct buffer *buf)
{
	for (int i = 0; i < 2; i++) {
		exchange(cq, a, b, buf);
		exchange(cq, b, a, buf);
	}
}

static void rearm_only(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_REARM };

	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_PATH_MIG_STATE), 0);
	CHECK_EQ(ibv_modify_qp(b, &attr, IBV_QP_PATH_MIG_STATE), 0);
}

static void reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

/* Rearmed without an alternate path, also one of the last connection, a QP has none to go to. */
static void no_alternate(struct world *w, const struct path *first, const struct path *second)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };
	struct ibv_cq *cq = world_cq(w, 16);
	struct ibv_qp *a = world_qp(w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp *b = world_qp(w, IBV_QPT_RC, cq, NULL);
	struct buffer buf = world_buffer(w, 128, WORLD_ACCESS);

	w->gid = first->gid;
	w->gid_index = first->index;
	world_connect(w, a, b);
	arm(a, second);
	arm(b, second);
	both_ways(cq, a, b, &buf);
	reset(a);
	reset(b);
	world_connect(w, a, b);
	rearm_only(a, b);
	both_ways(cq, a, b, &buf);
	CHECK_EQ(query(a).path_mig_state, IBV_MIG_REARM);
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_PATH_MIG_STATE), 0);
	exchange(cq, a, b, &buf);
	CHECK_EQ(query(a).ah_attr.grh.sgid_index, first->index);
	CHECK_EQ(query(b).path_mig_state, IBV_MIG_REARM);
	CHECK(!world_has_event(w));

	rearm_only(a, b);
	both_ways(cq, a, b, &buf);
	reset(b);
	world_send(a, 3, world_sge(&buf, 0, 64));
	world_expect(cq, 3, IBV_WC_RETRY_EXC_ERR);
	CHECK(!world_has_event(w));

	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&buf);
}

int main(void)
{
	struct ibv_device_attr dev;
	struct path v4, v6;
	struct world w;

	world_open(&w);
	CHECK_EQ(ibv_query_device(w.ctx, &dev), 0);
	CHECK(dev.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
	if (!find_path(&w, true, &v4) || !find_path(&w, false, &v6))
		SKIP("the loopback interface has one address only");
	migrate(&w, IBV_QPT_RC, &v4, &v6);
	migrate(&w, IBV_QPT_RC, &v6, &v4);
	migrate(&w, IBV_QPT_UC, &v4, &v6);
	refuse(&w, &v4, &v6);
	no_alternate(&w, &v4, &v6);
	world_close(&w);
	return 0;
}
