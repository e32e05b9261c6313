/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry of devices: which interfaces are devices, under which names, and who follows them.  `registry` is under vrb.lock.
 */
#include "core/device.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/context.h"
#include "core/event.h"
#include "core/number.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/rwq.h"
#include "core/sysfs.h"
#include "core/tm.h"
#include "roce/engine.h"
#include "run/config.h"
#include "run/netdev.h"
#include "util/compiler.h"
#include "util/hash.h"

enum {
	MAX_QP = 1 << 18,
	MAX_MCAST_GRP = 8192,
	MAX_MCAST_QP = 256,
	ODP_RC = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
		 IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV |
		 IBV_ODP_SUPPORT_FLUSH | IBV_ODP_SUPPORT_ATOMIC_WRITE,
	ODP_UC = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
		 IBV_ODP_SUPPORT_SRQ_RECV,
	ODP_UD = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
	CAPS = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_UD_AV_PORT_ENFORCE |
	       IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
	       IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
	       IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC | IBV_DEVICE_MEM_MGT_EXTENSIONS |
	       IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_RAW_IP_CSUM |
	       IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_MANAGED_FLOW_STEERING,
};

/*
 * Nobody's OUI, as soft RoCE has it, and a part number of our own ("vb"): programs that know quirks by vendor find none.
 */
const struct ibv_device_attr_ex vrb_device_limits = {
	.orig_attr = {
		.fw_ver = VRB_VERSION,
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffff000,	/* any page: regions are addressed byte by byte */
		.vendor_id = 0xffffff,
		.vendor_part_id = 0x7662,
		.hw_ver = 1,
		.max_qp = MAX_QP,
		.max_qp_wr = 1 << 16,
		.device_cap_flags = CAPS,
		.max_sge = 32,
		.max_sge_rd = 32,
		.max_cq = 1 << 18,
		.max_cqe = (1 << 22) - 1,
		.max_mr = (1 << 19) - 1,
		.max_pd = 1 << 16,
		.max_qp_rd_atom = ROCE_MAX_RD_ATOMIC,
		.max_res_rd_atom = MAX_QP * ROCE_MAX_RD_ATOMIC,
		.max_qp_init_rd_atom = ROCE_MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_mw = (1 << 19) - 1,
		.max_mcast_grp = MAX_MCAST_GRP,
		.max_mcast_qp_attach = MAX_MCAST_QP,
		.max_total_mcast_qp_attach = MAX_MCAST_GRP * MAX_MCAST_QP,
		.max_ah = 1 << 20,
		.max_srq = 1 << 16,
		.max_srq_wr = 1 << 16,
		.max_srq_sge = 32,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,	/* 134 ms: a thread that is not scheduled at once */
		.phys_port_cnt = 1,
	},
	.odp_caps = {
		.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
		.per_transport_caps = {
			.rc_odp_caps = ODP_RC,
			.uc_odp_caps = ODP_UC,
			.ud_odp_caps = ODP_UD,
		},
	},
	.completion_timestamp_mask = UINT64_MAX,
	.hca_core_clock = 1000000,	/* kHz: timestamps count nanoseconds */
	.device_cap_flags_ex = CAPS,
	.tso_caps = { .max_tso = VRB_MAX_TSO,
		      .supported_qpts = 1 << IBV_QPT_UD | 1 << IBV_QPT_RAW_PACKET },
	.packet_pacing_caps = {
		.qp_rate_limit_min = VRB_RATE_MIN,
		.qp_rate_limit_max = VRB_RATE_MAX,
		.supported_qpts = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD |
				  1 << IBV_QPT_XRC_SEND | 1 << IBV_QPT_RAW_PACKET,
	},
	.tm_caps = {
		.max_rndv_hdr_size = TM_MAX_REQUEST,
		.max_num_tags = TAGS_MAX,
		.flags = IBV_TM_CAP_RC,
		.max_ops = TM_MAX_OPS,
		.max_sge = TAG_MAX_SGE,
	},
	.cq_mod_caps = { .max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX },
	.raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_IP_CSUM,
	.rss_caps = {
		.supported_qpts = 1 << IBV_QPT_RAW_PACKET,
		.max_rwq_indirection_tables = VRB_MAX_RWQ_TABLES,
		.max_rwq_indirection_table_size = VRB_MAX_RWQ_TABLE_SIZE,
		.rx_hash_fields_mask = FLOW_HASH_FIELDS,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	},
	.max_wq_type_rq = MAX_QP,
	.max_dm_size = 64 << 20,
	.xrc_odp_caps = ODP_RC,
	.phys_port_cnt_ex = 1,
};

static struct list registry = { &registry, &registry };

void vrb_device_query(struct vrb_device *dev, struct ibv_device_attr_ex *attr)
{
	*attr = vrb_device_limits;
	attr->orig_attr.node_guid = htobe64(dev->node_guid);
	attr->orig_attr.sys_image_guid = htobe64(dev->node_guid);
}

/* Modified EUI-64 of the MAC; a hash of host and interface names, marked as locally administered, where there is none. */
static uint64_t make_guid(const struct netdev *nd, uint32_t ordinal)
{
	static const uint8_t none[6];
	const uint8_t *m = nd->mac;
	char host[256] = "";

	if (memcmp(m, none, sizeof(none)) != 0)
		return (uint64_t)(m[0] ^ 2) << 56 | (uint64_t)m[1] << 48 | (uint64_t)m[2] << 40 |
		       (uint64_t)(0xfffe - ordinal) << 24 | m[3] << 16 | m[4] << 8 | m[5];
	gethostname(host, sizeof(host) - 1);
	return (hash_bytes(hash_bytes(HASH_START + ordinal, host, strlen(host)), nd->name,
			   strlen(nd->name)) & ~(3ull << 56)) | 2ull << 56;
}

/* Must hold vrb.lock. */
static struct vrb_device *find(const char *ifname, uint32_t ordinal)
{
	struct list *pos;

	list_for_each (pos, &registry) {
		struct vrb_device *dev = list_entry(pos, struct vrb_device, node);

		if (strcmp(dev->port.ifname, ifname) == 0 && dev->ordinal == ordinal)
			return dev;
	}
	return NULL;
}

/* Must hold vrb.lock. */
static bool name_taken(const char *name)
{
	struct list *pos;

	list_for_each (pos, &registry)
		if (strcmp(list_entry(pos, struct vrb_device, node)->ibv.name, name) == 0)
			return true;
	return false;
}

/* Must hold vrb.lock. */
static bool index_taken(int index)
{
	struct list *pos;

	list_for_each (pos, &registry)
		if (list_entry(pos, struct vrb_device, node)->index == index)
			return true;
	return false;
}

static bool number_taken(uint32_t number)
{
	char name[IBV_SYSFS_NAME_MAX];

	snprintf(name, sizeof(name), "vrb%u", number);
	return index_taken((int)number) || name_taken(name);
}

struct scan {
	struct vrb_numbers *numbers;
	struct vrb_device **list;
	int count;
};

/* Must hold vrb.lock. wanted: from the configuration, or empty for vrb<N>. */
static struct vrb_device *device_new(const struct netdev *nd, uint32_t ordinal, const char *wanted,
				     struct scan *scan)
{
	struct vrb_device *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->index = (int)vrb_number_of(scan->numbers, nd->ifindex, ordinal, number_taken);
	if (*wanted && !name_taken(wanted))
		snprintf(dev->ibv.name, sizeof(dev->ibv.name), "%s", wanted);
	else
		snprintf(dev->ibv.name, sizeof(dev->ibv.name), "vrb%d", dev->index);
	dev->ordinal = ordinal;
	dev->node_guid = make_guid(nd, ordinal);
	dev->ibv.node_type = IBV_NODE_CA;
	dev->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(dev->ibv.dev_name, sizeof(dev->ibv.dev_name), "uverbs%d", dev->index);
	vrb_port_init(&dev->port, nd);
	flow_table_init(&dev->flows);
	lock_init(&dev->egress_lock);
	vrb_sysfs_name(dev);
	list_add_tail(&registry, &dev->node);
	return dev;
}

/* Must hold vrb.lock. False: no memory. */
static bool scan_add(struct scan *scan, const struct netdev *nd, uint32_t ordinal,
		     const char *wanted)
{
	struct vrb_device *dev = find(nd->name, ordinal);

	if (!dev)
		dev = device_new(nd, ordinal, wanted, scan);
	if (!dev)
		return false;
	dev->refs++;
	scan->list[scan->count++] = dev;
	return true;
}

/* An interface without an address cannot carry RoCE; one that is down has nothing to say yet. */
static bool usable(const struct netdev *nd)
{
	return nd->up && nd->n_addrs;
}

/* Must hold vrb.lock. The devices that the configuration makes of one interface. */
static bool scan_interface(struct scan *scan, const struct netdev *nd)
{
	const struct config *cfg = config_get();
	uint32_t ordinal = 0;

	for (unsigned int i = 0; i < cfg->n_devices; i++) {
		if (strcmp(cfg->device[i].ifname, nd->name) != 0)
			continue;
		if (!scan_add(scan, nd, ordinal++, cfg->device[i].name))
			return false;
	}
	if (ordinal || cfg->restrict_devices)
		return true;
	return scan_add(scan, nd, 0, "");
}

/* Must hold vrb.lock. */
static void tell_contexts(const struct vrb_device *dev, uint32_t events)
{
	static const enum ibv_event_type order[] = { IBV_EVENT_PORT_ERR, IBV_EVENT_GID_CHANGE,
						     IBV_EVENT_LID_CHANGE, IBV_EVENT_PORT_ACTIVE,
						     IBV_EVENT_DEVICE_FATAL };
	struct list *pos;

	list_for_each (pos, &vrb.contexts) {
		struct vrb_context *ctx = list_entry(pos, struct vrb_context, node);

		if (ctx->dev != dev)
			continue;
		for (unsigned int i = 0; i < ARRAY_SIZE(order); i++)
			if (events & 1u << order[i])
				vrb_event_port(ctx, order[i]);
	}
}

/* Must hold vrb.lock. */
static void follow_all(const struct netdev *nds, unsigned int n)
{
	struct list *pos;

	list_for_each (pos, &registry) {
		struct vrb_device *dev = list_entry(pos, struct vrb_device, node);
		const struct netdev *nd = NULL;
		uint32_t events;

		for (unsigned int i = 0; i < n && !nd; i++)
			if (strcmp(nds[i].name, dev->port.ifname) == 0)
				nd = &nds[i];
		events = vrb_port_follow(&dev->port, nd);
		/* As when the kernel loses a device: once, and for all who have it open. */
		if (!nd && !dev->gone)
			events |= 1u << IBV_EVENT_DEVICE_FATAL;
		dev->gone = !nd;
		if (!events)
			continue;
		tell_contexts(dev, events);
		vrb_sysfs_publish(dev);
	}
}

/* Must hold vrb.lock. */
static void refresh(void)
{
	struct netdev *nds;
	unsigned int n;

	if (netdev_list(&nds, &n))
		return;
	follow_all(nds, n);
	free(nds);
}

/* One lock around both steps: who finds the news taken by somebody else must find them applied, too. */
bool vrb_device_catch_up(void)
{
	bool news;

	pthread_mutex_lock(&vrb.lock);
	news = vrb.monitor >= 0 && netdev_monitor_drain(vrb.monitor);
	if (news)
		refresh();
	pthread_mutex_unlock(&vrb.lock);
	return news;
}

/* Must hold vrb.lock. */
static int build_list(struct scan *scan, const struct netdev *nds, unsigned int n)
{
	bool all = true;

	follow_all(nds, n);
	scan->list = calloc(n + CONFIG_DEVICES + 1, sizeof(struct vrb_device *));
	scan->numbers = malloc(sizeof(*scan->numbers));
	if (!scan->list || !scan->numbers) {
		free(scan->numbers);
		return ENOMEM;
	}
	vrb_numbers_begin(scan->numbers, nds, n);
	for (unsigned int i = 0; i < n && all; i++)
		all = !usable(&nds[i]) || scan_interface(scan, &nds[i]);
	vrb_numbers_end(scan->numbers);
	free(scan->numbers);
	if (!all)
		return ENOMEM;
	for (int i = 0; i < scan->count; i++)
		vrb_sysfs_publish(scan->list[i]);
	vrb_sysfs_prune(scan->list, scan->count);
	return 0;
}

/* Must hold vrb.lock. */
static void put(struct vrb_device *dev)
{
	if (--dev->refs)
		return;
	list_del(&dev->node);
	lock_destroy(&dev->port.lock);
	free(dev);
}

struct vrb_device **vrb_device_list(int *count)
{
	struct scan scan = { 0 };
	struct netdev *nds;
	unsigned int n;
	int err = netdev_list(&nds, &n);

	if (err) {
		errno = err;
		return NULL;
	}
	pthread_mutex_lock(&vrb.lock);
	err = build_list(&scan, nds, n);
	if (err)
		while (scan.count)
			put(scan.list[--scan.count]);
	pthread_mutex_unlock(&vrb.lock);
	free(nds);
	if (err) {
		free(scan.list);
		errno = err;
		return NULL;
	}
	*count = scan.count;
	return scan.list;
}

void vrb_device_get(struct vrb_device *dev)
{
	pthread_mutex_lock(&vrb.lock);
	dev->refs++;
	pthread_mutex_unlock(&vrb.lock);
}

void vrb_device_put(struct vrb_device *dev)
{
	pthread_mutex_lock(&vrb.lock);
	put(dev);
	pthread_mutex_unlock(&vrb.lock);
}

void vrb_device_after_fork(void)
{
	struct list *pos;

	list_for_each (pos, &registry) {
		struct vrb_device *dev = list_entry(pos, struct vrb_device, node);

		lock_init(&dev->port.lock);
		lock_init(&dev->egress_lock);
		dev->egress_rules = 0;
		flow_table_init(&dev->flows);	/* they are the parent's */
	}
}
