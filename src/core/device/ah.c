/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles. ctx->lock protects the pool. */
#include "core/device/ah.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/device/device.h"
#include "core/mem/pd.h"
#include "run/log.h"
#include "util/be.h"

enum {
	SLAB_AHS = 32,
	IP_PROTO_UDP = 17,
};

struct ah_slab {
	struct list node; /* vrb_context.ah_slabs */
	struct vrb_ah ah[SLAB_AHS];
};

static bool grow_pool(struct vrb_context *ctx)
{
	struct ah_slab *slab = calloc(1, sizeof(*slab));

	if (!slab)
		return false;
	list_add_tail(&ctx->ah_slabs, &slab->node);
	for (unsigned int i = 0; i < SLAB_AHS; i++)
		list_add_tail(&ctx->free_ahs, &slab->ah[i].node);
	return true;
}

void vrb_ah_free_pool(struct vrb_context *ctx)
{
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &ctx->ah_slabs)
		free(list_entry(pos, struct ah_slab, node));
	list_init(&ctx->ah_slabs);
	list_init(&ctx->free_ahs);
}

static struct vrb_ah *pool_take(struct vrb_context *ctx)
{
	struct vrb_ah *ah = NULL;

	pthread_mutex_lock(&ctx->lock);
	if (!list_empty(&ctx->free_ahs) || grow_pool(ctx)) {
		ah = list_entry(ctx->free_ahs.next, struct vrb_ah, node);
		list_del(&ah->node);
	}
	pthread_mutex_unlock(&ctx->lock);
	return ah;
}

int vrb_ah_create(struct vrb_pd *pd, const struct ibv_ah_attr *attr, struct vrb_ah **out)
{
	struct vrb_context *ctx = to_vrb_context(pd->ibv.context);
	struct net_path path;
	struct vrb_ah *ah;
	int err;

	/* UD has no remote QPN yet, so the destination address gives the flow entropy. */
	err = vrb_port_resolve(&ctx->dev->port, attr,
			       get_be32(attr->grh.dgid.raw + 12) ^ attr->dlid, &path);
	if (err) {
		char why[VRB_PORT_WHY];

		vrb_port_explain(&ctx->dev->port, attr, why, sizeof(why));
		log_info(LOG_CORE, "ibv_create_ah: %s", why);
		return err;
	}
	err = vrb_context_take(ctx, CTX_AH, vrb_device_limits.orig_attr.max_ah);
	if (err)
		return err;
	ah = pool_take(ctx);
	if (!ah) {
		vrb_context_give(ctx, CTX_AH);
		return ENOMEM;
	}
	ah->ibv = (struct ibv_ah){ .context = pd->ibv.context, .pd = &pd->ibv };
	ah->path = path;
	ah->attr = *attr;
	ah->magic = VRB_AH_MAGIC;
	vrb_pd_get(pd);
	*out = ah;
	return 0;
}

int vrb_ah_destroy(struct vrb_ah *ah)
{
	struct vrb_context *ctx = to_vrb_context(ah->ibv.context);

	if (ah->magic != VRB_AH_MAGIC)
		return EINVAL;
	ah->magic = 0;
	vrb_pd_put(to_vrb_pd(ah->ibv.pd));
	pthread_mutex_lock(&ctx->lock);
	list_add_tail(&ctx->free_ahs, &ah->node);
	pthread_mutex_unlock(&ctx->lock);
	vrb_context_give(ctx, CTX_AH);
	return 0;
}

/* Annex A17: with IPv4 the last 20 of the 40 bytes hold the IP header. */
static bool grh_is_ipv4(const uint8_t *raw)
{
	const uint8_t *ip = raw + 20;
	uint32_t sum = 0;

	if (ip[0] != 0x45 || ip[9] != IP_PROTO_UDP)
		return false;
	for (int i = 0; i < 20; i += 2)
		sum += get_be16(ip + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static void mapped_gid(union ibv_gid *gid, const uint8_t *ipv4)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, ipv4, 4);
}

static void from_ipv4(const uint8_t *ip, struct ibv_global_route *route, union ibv_gid *local)
{
	mapped_gid(&route->dgid, ip + 12);
	mapped_gid(local, ip + 16);
	route->traffic_class = ip[1];
	route->flow_label = 0;
}

static void from_ipv6(const struct ibv_grh *grh, struct ibv_global_route *route,
		      union ibv_gid *local)
{
	uint32_t vtf = be32toh(grh->version_tclass_flow);

	route->dgid = grh->sgid;
	*local = grh->dgid;
	route->traffic_class = vtf >> 20;
	route->flow_label = vtf & 0xfffff;
}

static bool is_multicast(const union ibv_gid *gid)
{
	struct net_addr a;

	memcpy(a.raw, gid->raw, sizeof(a.raw));
	return net_is_multicast(&a);
}

/*
 * The GID index that the message was sent to. For a multicast group, any GID of the sender's
 * address family.
 */
static int local_index(struct vrb_port *port, const union ibv_gid *local,
		       const union ibv_gid *remote)
{
	struct net_addr a, gid;

	memcpy(a.raw, local->raw, sizeof(a.raw));
	if (!is_multicast(local))
		return vrb_port_find_gid(port, &a);
	memcpy(a.raw, remote->raw, sizeof(a.raw));
	for (unsigned int i = 0; i < VRB_GID_TABLE; i++)
		if (vrb_port_gid(port, i, &gid) && net_is_ipv4(&gid) == net_is_ipv4(&a))
			return i;
	return -1;
}

int vrb_ah_init_from_wc(struct vrb_context *ctx, uint8_t port_num, const struct ibv_wc *wc,
			const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	union ibv_gid local;
	int index;

	if (port_num != VRB_PORT_NUM)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port_num;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	if (grh_is_ipv4((const uint8_t *)grh))
		from_ipv4((const uint8_t *)grh + 20, &attr->grh, &local);
	else
		from_ipv6(grh, &attr->grh, &local);
	index = local_index(&ctx->dev->port, &local, &attr->grh.dgid);
	if (index < 0)
		return EINVAL;
	attr->is_global = 1;
	attr->grh.sgid_index = index;
	attr->grh.hop_limit = 0xff;
	return 0;
}
