/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rs_port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "rdmacm/rs.h"
#include "rdmacm/rs_from.h"

enum { RESOLVE_MS = 2000 };

/* By the system's routes. */
static int route_from(const struct sockaddr_storage *to, struct sockaddr_storage *from)
{
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	socklen_t len = sizeof(*from);

	if (fd < 0)
		return errno;
	if (connect(fd, (const struct sockaddr *)to, addr_len((const struct sockaddr *)to)) ||
	    getsockname(fd, (struct sockaddr *)from, &len))
		err = errno;
	close(fd);
	return err;
}

/* The source of packets to the peer: the UDP socket's own address, if it has one. */
static int source_towards(const struct rsocket *rs, const struct sockaddr_storage *to,
			  struct sockaddr_storage *from)
{
	struct sockaddr_storage udp;
	socklen_t len = sizeof(udp);
	int err = 0;

	if (getsockname(rs->fd, (struct sockaddr *)&udp, &len))
		return errno;
	if (addr_is_any((struct sockaddr *)&udp))
		err = route_from(to, from);
	else
		*from = udp;
	if (!err)
		addr_set_port((struct sockaddr *)from, addr_port((struct sockaddr *)&udp));
	return err;
}

static struct rs_port *find(const struct list *ports, const struct rs_from *self)
{
	struct list *pos;

	list_for_each (pos, ports) {
		struct rs_port *p = list_entry(pos, struct rs_port, node);

		if (rs_from_same_ip(&p->self, self))
			return p;
	}
	return NULL;
}

int rs_port_post_receive(struct rs_port *p, uint32_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)p->memory + (size_t)slot * RS_PORT_SLOT,
		.length = RS_PORT_SLOT,
		.lkey = p->mr->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = RS_PORT_RECEIVE | slot,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad;

	return cma_verb(ibv_post_recv(p->id->qp, &wr, &bad));
}

void rs_port_free(struct rs_port *p)
{
	if (p->id && p->id->qp)
		rdma_destroy_qp(p->id);
	if (p->mr)
		ibv_dereg_mr(p->mr);
	if (p->cq) {
		ibv_ack_cq_events(p->cq, p->unacked);
		ibv_destroy_cq(p->cq);
	}
	if (p->events)
		ibv_destroy_comp_channel(p->events);
	if (p->id)
		rdma_destroy_id(p->id);
	free(p->memory);
	list_del(&p->node);
	free(p);
}

/* Converts mapped addresses to IPv4: rdma_cm takes them for IPv6. */
static struct sockaddr_storage unmapped(const struct sockaddr_storage *a)
{
	struct sockaddr_storage out = *a;
	struct rs_from f;

	rs_from_of(a, &f);
	if (f.version == 4)
		rs_from_to_addr(&f, AF_INET, &out);
	return out;
}

/*
 * Makes an id with the local address and the UDP socket's port.  A route to itself leads to the
 * device of that address, whatever the peer is.
 */
static int resolve(struct rs_port *p, const struct sockaddr_storage *local)
{
	struct sockaddr_storage from = unmapped(local);
	struct sockaddr *self = (struct sockaddr *)&from;
	int on = 1;

	if (rdma_create_id(NULL, &p->id, p, RDMA_PS_UDP))
		return errno;
	rdma_set_option(p->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	if (rdma_resolve_addr(p->id, self, self, RESOLVE_MS))
		return errno;
	p->most = min(128U << to_id(p->id)->path.place.mtu, 2048U);
	return 0;
}

static int make_qp(struct rsocket *rs, struct rs_port *p)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {
			.max_send_wr = RS_PORT_OUT_SLOTS,
			.max_recv_wr = p->in_slots,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	size_t len = ((size_t)p->in_slots + RS_PORT_OUT_SLOTS) * RS_PORT_SLOT;

	p->events = ibv_create_comp_channel(p->id->verbs);
	if (!p->events || fcntl(p->events->fd, F_SETFL, O_NONBLOCK))
		return errno;
	p->cq = ibv_create_cq(p->id->verbs, (int)p->in_slots + RS_PORT_OUT_SLOTS, rs, p->events, 0);
	p->memory = malloc(len);
	if (!p->cq || !p->memory)
		return ENOMEM;
	p->mr = ibv_reg_mr(p->id->pd, p->memory, len, IBV_ACCESS_LOCAL_WRITE);
	if (!p->mr)
		return errno;
	attr.send_cq = attr.recv_cq = p->cq;
	return rdma_create_qp(p->id, NULL, &attr) ? errno : 0;
}

static int start(struct rs_port *p, int events)
{
	struct epoll_event e = { .events = EPOLLIN };
	uint32_t i;
	int err = 0;

	for (i = 0; i < p->in_slots && !err; i++)
		err = rs_port_post_receive(p, i);
	for (i = 0; i < RS_PORT_OUT_SLOTS; i++)
		p->free_slot[p->free_slots++] = (uint16_t)i;
	if (!err && epoll_ctl(events, EPOLL_CTL_ADD, p->events->fd, &e))
		err = errno;
	return err;
}

int rs_port_towards(struct rsocket *rs, struct list *ports, int events,
		    const struct sockaddr_storage *to, struct rs_port **out)
{
	struct sockaddr_storage from;
	struct rs_from self;
	struct rs_port *p;
	int err = source_towards(rs, to, &from);

	if (err)
		return err;
	rs_from_of(&from, &self);
	*out = find(ports, &self);
	if (*out)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return ENOMEM;
	list_init(&p->node);
	p->self = self;
	p->in_slots = min(rs->opt.rq, 512U);
	err = resolve(p, &from);
	if (!err)
		err = make_qp(rs, p);
	if (!err)
		err = start(p, events);
	if (err) {
		rs_port_free(p);
		return err;
	}
	list_add_tail(ports, &p->node);
	*out = p;
	return 0;
}

struct ibv_ah *rs_port_ah(const struct rs_port *port, const struct rs_from *at)
{
	const struct place *place = &to_id(port->id)->path.place;
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = place->port_num,
		.grh = { .sgid_index = place->gid_index, .hop_limit = 64 },
	};

	rs_from_gid(at, &attr.grh.dgid);
	return ibv_create_ah(port->id->pd, &attr);
}
