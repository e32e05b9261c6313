/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports, their GID and P_Key tables, and the Ethernet addresses behind GIDs. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "core/base/context.h"
#include "core/device/arp.h"
#include "core/device/device.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "verbs/answer.h"
#include "verbs/exports.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

#undef ibv_query_port

/* The exported call may write the structure of 2006 only, up to `flags`. */
enum { OLD_PORT_ATTR = 48 };

static int check_port(struct ibv_context *c, uint32_t port_num)
{
	int err = vrb_context_enter(&c);

	if (err)
		return err;
	return port_num == VRB_PORT_NUM ? 0 : EINVAL;
}

static struct vrb_port *port_of(struct ibv_context *c)
{
	return &to_vrb_context(c)->dev->port;
}

/*
 * Adds the packets dropped by this process. On InfiniBand the counters have 16 bits and saturate.
 */
static void add_violations(struct ibv_context *c, struct ibv_port_attr *attr)
{
	const uint64_t *n = to_vrb_context(c)->dev->violations;

	attr->bad_pkey_cntr = min(load_relaxed(&n[VIOLATION_PKEY]), (uint64_t)UINT16_MAX);
	attr->qkey_viol_cntr = min(load_relaxed(&n[VIOLATION_QKEY]), (uint64_t)UINT16_MAX);
}

static int query_port(struct ibv_context *c, uint32_t port_num, void *attr, size_t len)
{
	struct ibv_port_attr all;
	int err = attr ? check_port(c, port_num) : EINVAL;

	if (err)
		return answer(err);
	vrb_device_catch_up();
	vrb_port_query(port_of(c), &all);
	add_violations(c, &all);
	/* A program of a later release has a longer structure than ours. */
	memset(attr, 0, len);
	memcpy(attr, &all, min(len, sizeof(all)));
	return 0;
}

int op_query_port(struct ibv_context *c, uint8_t port_num, struct ibv_port_attr *attr, size_t len)
{
	return TAP_ERRNO(query_port, c, port_num, attr, len);
}

int op_query_port_old(struct ibv_context *c, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
	return TAP_ERRNO(query_port, c, port_num, attr, OLD_PORT_ATTR);
}

int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr)
{
	return op_query_port_old(context, port_num, port_attr);
}

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
	int err = port_speed ? check_port(context, port_num) : EINVAL;

	if (!err)
		*port_speed = vrb_port_speed(port_of(context));
	return answer(err);
}

static int query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct net_addr a;
	int err = gid ? check_port(context, port_num) : EINVAL;

	if (err || index < 0 || index >= VRB_GID_TABLE)
		return answer_minus(err ? err : EINVAL);
	vrb_device_catch_up();
	/* An empty slot is a zero GID, not a failure. */
	vrb_port_gid(port_of(context), index, &a);
	memcpy(gid->raw, a.raw, sizeof(gid->raw));
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	return TAP_MINUS(query_gid, context, port_num, index, gid);
}

static void fill_entry(struct ibv_context *c, unsigned int index, const struct net_addr *a,
		       void *entry, size_t entry_size)
{
	struct ibv_gid_entry e = {
		.gid_index = index,
		.port_num = VRB_PORT_NUM,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = port_of(c)->ifindex,
	};

	memcpy(e.gid.raw, a->raw, sizeof(e.gid.raw));
	memset(entry, 0, entry_size);
	memcpy(entry, &e, min(entry_size, sizeof(e)));
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct net_addr a;
	int err = entry ? check_port(context, port_num) : EINVAL;

	if (err || flags || gid_index >= VRB_GID_TABLE || entry_size < sizeof(*entry))
		return answer(err ? err : EINVAL);
	vrb_device_catch_up();
	if (!vrb_port_gid(port_of(context), gid_index, &a))
		return answer(ENODATA);
	fill_entry(context, gid_index, &a, entry, entry_size);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct net_addr gids[VRB_GID_TABLE];
	int err = vrb_context_enter(&context);
	size_t n = 0;

	if (err || flags || entry_size < sizeof(*entries) || (max_entries && !entries))
		return -answer(err ? err : EINVAL);
	vrb_device_catch_up();
	vrb_port_gids(port_of(context), gids);
	for (unsigned int i = 0; i < VRB_GID_TABLE; i++) {
		if (net_addr_is_zero(&gids[i]))
			continue;
		if (n == max_entries)
			return -answer(EINVAL);
		fill_entry(context, i, &gids[i], (char *)entries + n++ * entry_size, entry_size);
	}
	return n;
}

/* An empty slot has no type, as in soft RoCE's files. */
VRB_SYMVER_PRIVATE(ibv_query_gid_type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       enum ibv_gid_type_sysfs *type)
{
	struct net_addr a;
	int err = type ? check_port(context, port_num) : EINVAL;

	if (err || index >= VRB_GID_TABLE)
		return answer_minus(err ? err : EINVAL);
	*type = vrb_port_gid(port_of(context), index, &a) ? IBV_GID_TYPE_SYSFS_ROCE_V2
							  : IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
	return 0;
}

static int query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	int err = pkey ? check_port(context, port_num) : EINVAL;

	if (err || index)
		return answer_minus(err ? err : EINVAL);
	*pkey = htobe16(VRB_PKEY_DEFAULT);
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	return TAP_MINUS(query_pkey, context, port_num, index, pkey);
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	int err = check_port(context, port_num);

	if (err || pkey != htobe16(VRB_PKEY_DEFAULT))
		return answer_minus(err ? err : EINVAL);
	return 0;
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	struct net_path path;
	int err = attr && eth_mac ? check_port(context, attr->port_num) : EINVAL;

	if (!err)
		err = vrb_port_resolve(port_of(context), attr, 0, &path);
	if (!err)
		err = vrb_arp_resolve(port_of(context), &path.dst, eth_mac);
	if (err)
		return -answer(err);
	if (vid)
		*vid = 0xffff;
	return 0;
}
