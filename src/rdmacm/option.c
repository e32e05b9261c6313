/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_set_option(). */
#include <errno.h>
#include <string.h>

#include "rdmacm/cma.h"
#include "rdmacm/id.h"
#include "rdmacm/port.h"
#include "util/be.h"

/* ---- Level RDMA_OPTION_ID.  Under the lock; the length is already checked ---- */

static int set_tos(struct cma_id *id, const void *value)
{
	id->opt.tos = *(const uint8_t *)value;
	id->opt.tos_set = true;
	return 0;
}

static int get_int(const void *value)
{
	int n;

	memcpy(&n, value, sizeof(n));
	return n;
}

static int set_reuse(struct cma_id *id, const void *value)
{
	bool on = get_int(value) != 0;

	if (id->state == ID_LISTEN || (!on && id->state != ID_IDLE))
		return EINVAL;
	id->opt.reuse = on;
	return 0;
}

static int set_only_family(struct cma_id *id, const void *value)
{
	if (id->state != ID_IDLE && id->state != ID_BOUND)
		return EINVAL;
	id->opt.only_family = get_int(value) != 0;
	id->opt.only_family_set = true;
	if (id->service.family == 6)
		id->service.only_family = id->opt.only_family;
	return 0;
}

static int set_ack_timeout(struct cma_id *id, const void *value)
{
	if (id->pub.qp_type != IBV_QPT_RC && id->pub.qp_type != IBV_QPT_XRC_SEND)
		return EINVAL;
	id->opt.ack_timeout = *(const uint8_t *)value & 31;
	id->opt.ack_timeout_set = true;
	return 0;
}

static const struct {
	size_t len;
	int (*set)(struct cma_id *id, const void *value);
} id_options[] = {
	[RDMA_OPTION_ID_TOS] = { 1, set_tos },
	[RDMA_OPTION_ID_REUSEADDR] = { sizeof(int), set_reuse },
	[RDMA_OPTION_ID_AFONLY] = { sizeof(int), set_only_family },
	[RDMA_OPTION_ID_ACK_TIMEOUT] = { 1, set_ack_timeout },
};

static int set_id_option(struct cma_id *id, int name, const void *value, size_t len)
{
	if (name < 0 || (size_t)name >= ARRAY_SIZE(id_options))
		return ENOSYS;
	return len == id_options[name].len ? id_options[name].set(id, value) : EINVAL;
}

/* ---- Level RDMA_OPTION_IB ---- */

enum { USABLE = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL };

static struct ibv_sa_path_rec unpack(const struct ibv_path_record *p)
{
	uint32_t flow_hop = be32toh(p->flowlabel_hoplimit);

	return (struct ibv_sa_path_rec){
		.dgid = p->dgid,
		.sgid = p->sgid,
		.dlid = p->dlid,
		.slid = p->slid,
		.flow_label = htobe32(flow_hop >> 8 & 0xfffff),
		.hop_limit = (uint8_t)flow_hop,
		.traffic_class = p->tclass,
		.reversible = p->reversible_numpath >> 7,
		.numb_path = p->reversible_numpath & 0x7f,
		.pkey = p->pkey,
		.sl = be16toh(p->qosclass_sl) & 15,
		.mtu_selector = p->mtu >> 6,
		.mtu = p->mtu & 0x3f,
		.rate_selector = p->rate >> 6,
		.rate = p->rate & 0x3f,
		.packet_life_time_selector = p->packetlifetime >> 6,
		.packet_life_time = p->packetlifetime & 0x3f,
		.preference = USABLE,
	};
}

/* The first usable bidirectional path replaces rdma_resolve_route(). */
static int set_path(struct cma_id *id, const struct ibv_path_data *path, size_t len)
{
	struct ibv_sa_path_rec rec;
	size_t i, n = len / sizeof(*path);

	if (id->state != ID_ADDR_RESOLVED || len % sizeof(*path))
		return EINVAL;
	for (i = 0; i < n; i++)
		if ((path[i].flags & USABLE) == USABLE)
			break;
	if (i == n)
		return EINVAL;
	rec = unpack(&path[i].path);
	id_show_path(id, &rec);
	id->state = ID_ROUTE_RESOLVED;
	event_raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

/* ---- The call ---- */

CMA_EXPORT int rdma_set_option(struct rdma_cm_id *pub, int level, int name, void *value, size_t len)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = value ? id_enter(id) : EINVAL;

	if (err)
		return cma_result(err);
	if (level == RDMA_OPTION_ID)
		err = set_id_option(id, name, value, len);
	else if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		err = set_path(id, value, len);
	else
		err = ENOSYS;
	cma_unlock();
	if (!err && level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_AFONLY)
		err = port_only_family(id, get_int(value) != 0);
	return cma_result(err);
}
