/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups: joining, sending, leaving, as a full member and as a send-only member; and
 * joins that must fail.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <infiniband/ib.h>

#include "util/atomic.h"
#include "world.h"

#define GROUP "239.77.1.2"

static struct rdma_event_channel *ch;

/* A datagram id with a device and a QP. */
static struct rdma_cm_id *member(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 0);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_UDP);

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	world_qp(id);
	return id;
}

static void end(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static struct rdma_ud_param joined(struct rdma_cm_id *id, struct sockaddr_storage *group,
				   uint32_t flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = flags,
		.addr = (struct sockaddr *)group,
	};
	struct rdma_cm_event *e;
	struct rdma_ud_param p;

	CHECK_EQ(rdma_join_multicast_ex(id, &attr, &attr), 0);
	e = world_event(ch, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	p = e->param.ud;
	CHECK(e->id == id && p.private_data == &attr);
	CHECK_EQ(p.private_data_len, 0);
	CHECK_EQ(p.qp_num, 0xffffff);
	CHECK_EQ(p.qkey, RDMA_UDP_QKEY);
	CHECK_EQ(p.ah_attr.is_global, 1);
	CHECK_EQ(p.ah_attr.dlid, 0);
	CHECK_EQ(p.ah_attr.grh.hop_limit, 64);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	return p;
}

/* The GID of GROUP. */
static struct sockaddr_storage group_gid(void)
{
	struct sockaddr_storage a = { .ss_family = AF_IB };
	struct sockaddr_ib *ib = (void *)&a;

	CHECK_EQ(inet_pton(AF_INET6, "::ffff:" GROUP, &ib->sib_addr), 1);
	return a;
}

/*
 * The members receive the message; the sender, which is a send-only member, does not.  A member
 * names the group by its GID, as mckey -M.
 */
static void sent_to_members(struct sockaddr_storage group)
{
	static struct {
		struct ibv_grh grh;
		char text[8];
	} in;
	static char out[8] = "to all";
	struct sockaddr_storage by_ip = world_addr(GROUP, 0);
	struct rdma_cm_id *from = member(), *to = member();
	struct rdma_ud_param p = joined(from, &by_ip, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
	struct ibv_mr *mr_in = rdma_reg_msgs(to, &in, sizeof(in));
	struct ibv_mr *mr_out = rdma_reg_msgs(from, out, sizeof(out));
	struct ibv_ah *ah = ibv_create_ah(from->pd, &p.ah_attr);
	struct ibv_wc wc;

	CHECK(mr_in && mr_out && ah);
	joined(to, &group, RDMA_MC_JOIN_FLAG_FULLMEMBER);
	CHECK_EQ(rdma_post_recv(to, NULL, &in, sizeof(in), mr_in), 0);
	CHECK_EQ(rdma_post_ud_send(from, NULL, out, sizeof(out), mr_out, 0, ah, p.qp_num), 0);
	CHECK_EQ(rdma_get_recv_comp(to, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_MEM(in.text, out, sizeof(out));
	CHECK_EQ(rdma_get_send_comp(from, &wc), 1);

	CHECK_EQ(rdma_leave_multicast(to, (struct sockaddr *)&group), 0);
	CHECK_FAILS(rdma_leave_multicast(to, (struct sockaddr *)&group), EADDRNOTAVAIL);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(rdma_dereg_mr(mr_in), 0);
	CHECK_EQ(rdma_dereg_mr(mr_out), 0);
	/* The other member leaves when its id is destroyed. */
	end(from);
	end(to);
}

/*
 * rdma_join_multicast(3): the routing tables choose the device, unless a source address is given.
 * Without a GID of its own another address of 127/8 stands for 127.0.0.1.
 */
static void source_chooses_the_device(const char *source)
{
	struct sockaddr_storage group = world_addr(GROUP, 0), a = world_addr(source, 0);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_UDP);
	union ibv_gid loopback;

	CHECK_EQ(inet_pton(AF_INET6, "::ffff:" LOOPBACK, &loopback), 1);
	CHECK_EQ(rdma_resolve_addr(id, (struct sockaddr *)&a, (struct sockaddr *)&group,
				   WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_MEM(&id->route.addr.addr.ibaddr.sgid, &loopback, sizeof(loopback));
	world_qp(id);
	joined(id, &group, RDMA_MC_JOIN_FLAG_FULLMEMBER);
	end(id);
}

/* An unfetched event is dropped when the membership ends. */
static void left_early(void)
{
	struct sockaddr_storage group = world_addr(GROUP, 0);
	struct rdma_cm_id *id = member();

	CHECK_EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	CHECK_EQ(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	world_no_event(ch);
	end(id);
}

/* A synchronous id has the event of its join until it leaves, or is destroyed. */
static void synchronous(bool leaves)
{
	struct sockaddr_storage group = world_addr(GROUP, 0), a = world_addr(LOOPBACK, 0);
	struct rdma_cm_id *id = world_id(NULL, RDMA_PS_UDP);

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	CHECK_EQ(rdma_join_multicast(id, (struct sockaddr *)&group, id), 0);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	if (leaves) {
		CHECK_EQ(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
		CHECK(!id->event);
	}
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* Each join of a group is left by itself. */
static void joined_twice(void)
{
	struct sockaddr_storage group = world_addr(GROUP, 0);
	struct rdma_cm_id *id = member();

	for (int i = 0; i < 2; i++)
		joined(id, &group, RDMA_MC_JOIN_FLAG_FULLMEMBER);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	CHECK_FAILS(rdma_leave_multicast(id, (struct sockaddr *)&group), EADDRNOTAVAIL);
	end(id);
}

/* ---- Another thread leaves while the event of the join is delivered ---- */

#define EXPORTED __attribute__((visibility("default")))

static struct rdma_cm_id *to_leave;	/* NULL: no QP is to be attached */
static pthread_t leaver;
static __thread bool leaves;
static bool waits;	/* the leaver, for the acknowledgement */

EXPORTED int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	static int (*real)(pthread_cond_t *, pthread_mutex_t *);

	if (!load_relaxed(&real))
		store_relaxed(&real, (__typeof__(real))dlsym(RTLD_NEXT, "pthread_cond_wait"));
	if (leaves)
		store_release(&waits, true);
	return load_relaxed(&real)(cond, lock);
}

static void *leave(void *id)
{
	struct sockaddr_storage group = world_addr(GROUP, 0);

	leaves = true;
	CHECK_EQ(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	return NULL;
}

EXPORTED int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	__typeof__(ibv_attach_mcast) *real = dlsym(RTLD_NEXT, "ibv_attach_mcast");

	if (to_leave) {
		CHECK_EQ(pthread_create(&leaver, NULL, leave, to_leave), 0);
		while (!load_acquire(&waits))
			sched_yield();
		to_leave = NULL;
	}
	return real(qp, gid, lid);
}

/* The QP is not attached any more, and so can be destroyed. */
static void left_during_delivery(void)
{
	struct sockaddr_storage group = world_addr(GROUP, 0), gid = group_gid();
	struct rdma_cm_id *id = member();

	CHECK_EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	to_leave = id;
	world_expect(ch, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(!to_leave);
	CHECK_EQ(pthread_join(leaver, NULL), 0);
	CHECK_EQ(ibv_detach_mcast(id->qp, (void *)&((struct sockaddr_ib *)&gid)->sib_addr, 0),
		 EINVAL);
	end(id);
}

static void refused(void)
{
	struct sockaddr_storage group = world_addr(GROUP, 0), any = world_addr("0.0.0.0", 0);
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS,
		.addr = (struct sockaddr *)&group,
	};
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_UDP), *stream;

	/* An id without a device. */
	CHECK_FAILS(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), EINVAL);
	CHECK_FAILS(rdma_join_multicast(NULL, (struct sockaddr *)&group, NULL), EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);

	id = member();
	CHECK_FAILS(rdma_join_multicast(id, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_join_multicast(id, (struct sockaddr *)&any, NULL), EINVAL);
	CHECK_FAILS(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
	CHECK_FAILS(rdma_join_multicast_ex(id, &attr, NULL), ENOTSUP);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	CHECK_FAILS(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	CHECK_FAILS(rdma_leave_multicast(id, (struct sockaddr *)&group), EADDRNOTAVAIL);
	end(id);

	/* Connections cannot join groups. */
	stream = world_id(ch, RDMA_PS_TCP);
	any = world_addr(LOOPBACK, 0);
	CHECK_EQ(rdma_resolve_addr(stream, NULL, (struct sockaddr *)&any, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_FAILS(rdma_join_multicast(stream, (struct sockaddr *)&group, NULL), EINVAL);
	CHECK_EQ(rdma_destroy_id(stream), 0);
}

int main(void)
{
	ch = rdma_create_event_channel();
	CHECK(ch);
	sent_to_members(world_addr(GROUP, 0));
	sent_to_members(group_gid());
	source_chooses_the_device(LOOPBACK);
	source_chooses_the_device("127.0.0.2");
	left_early();
	synchronous(true);
	synchronous(false);
	joined_twice();
	left_during_delivery();
	refused();
	rdma_destroy_event_channel(ch);
	return 0;
}
