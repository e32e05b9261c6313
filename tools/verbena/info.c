/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena info, and ibv_devinfo.  The text equals rdma-core's byte by byte, so fields are in tables
 * in its order; values that no device has (raw packet capabilities) are left out.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "info.h"
#include "tool.h"
#include "util/compiler.h"

/* Private to libibverbs and ibv_devinfo: 0 is RoCE v1 (or InfiniBand), 1 is RoCE v2. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       unsigned int *type);

#define FLAG_INDENT "\t\t\t\t\t"

struct flag_name {
	uint64_t bit;
	const char *name;
};

#define CAP(name) { IBV_DEVICE_##name, #name }
static const struct flag_name cap_names[] = {
	CAP(RESIZE_MAX_WR), CAP(BAD_PKEY_CNTR), CAP(BAD_QKEY_CNTR), CAP(RAW_MULTI),
	CAP(AUTO_PATH_MIG), CAP(CHANGE_PHY_PORT), CAP(UD_AV_PORT_ENFORCE), CAP(CURR_QP_STATE_MOD),
	CAP(SHUTDOWN_PORT), CAP(INIT_TYPE), CAP(PORT_ACTIVE_EVENT), CAP(SYS_IMAGE_GUID),
	CAP(RC_RNR_NAK_GEN), CAP(SRQ_RESIZE), CAP(N_NOTIFY_CQ), CAP(MEM_WINDOW), CAP(UD_IP_CSUM),
	CAP(XRC), CAP(MEM_MGT_EXTENSIONS), CAP(MEM_WINDOW_TYPE_2A), CAP(MEM_WINDOW_TYPE_2B),
	CAP(RC_IP_CSUM), CAP(RAW_IP_CSUM), CAP(MANAGED_FLOW_STEERING),
};

static const struct flag_name odp_names[] = {
	{ IBV_ODP_SUPPORT_SEND, "SUPPORT_SEND" },     { IBV_ODP_SUPPORT_RECV, "SUPPORT_RECV" },
	{ IBV_ODP_SUPPORT_WRITE, "SUPPORT_WRITE" },   { IBV_ODP_SUPPORT_READ, "SUPPORT_READ" },
	{ IBV_ODP_SUPPORT_ATOMIC, "SUPPORT_ATOMIC" }, { IBV_ODP_SUPPORT_SRQ_RECV, "SUPPORT_SRQ" },
};

static const struct flag_name odp_general_names[] = {
	{ IBV_ODP_SUPPORT, "ODP_SUPPORT" },
	{ IBV_ODP_SUPPORT_IMPLICIT, "ODP_SUPPORT_IMPLICIT" },
};

static const char *const transports[] = { "InfiniBand", "iWARP", "usNIC", "usNIC UDP",
					  "unspecified" };
static const char *const atomics[] = { "ATOMIC_NONE", "ATOMIC_HCA", "ATOMIC_GLOB" };
static const char *const states[] = { "PORT_NOP", "PORT_DOWN", "PORT_INIT", "PORT_ARMED",
				      "PORT_ACTIVE" };
static const char *const mtus[] = { NULL, "256", "512", "1024", "2048", "4096" };
static const char *const link_layers[] = { "Unspecified", "InfiniBand", "Ethernet" };
static const char *const widths[] = { [1] = "1", [2] = "4", [4] = "8", [8] = "12", [16] = "2" };
static const char *const speeds[] = { [1] = "2.5 Gbps",  [2] = "5.0 Gbps",   [4] = "10.0 Gbps",
				      [8] = "10.0 Gbps", [16] = "14.0 Gbps", [32] = "25.0 Gbps",
				      [64] = "50.0 Gbps", [128] = "100.0 Gbps" };
static const char *const phys_states[] = { NULL, "SLEEP", "POLLING", "DISABLED",
					   "PORT_CONFIGURATION TRAINNING", "LINK_UP",
					   "LINK_ERROR_RECOVERY", "PHY TEST" };

#define NAME(table, i, otherwise) name_in(table, ARRAY_SIZE(table), (unsigned int)(i), otherwise)

static const char *name_in(const char *const *table, size_t n, unsigned int i,
			   const char *otherwise)
{
	return i < n && table[i] ? table[i] : otherwise;
}

static void print_flags(const struct flag_name *names, size_t n, uint64_t flags, const char *format)
{
	uint64_t unknown = flags;

	for (size_t i = 0; i < n; i++) {
		if (flags & names[i].bit)
			printf(FLAG_INDENT "%s\n", names[i].name);
		unknown &= ~names[i].bit;
	}
	if (unknown)
		printf(format, (unsigned long)unknown);
}

static void print_odp(const char *name, uint32_t caps)
{
	printf("\t%s_odp_caps:\n", name);
	if (!caps)
		printf(FLAG_INDENT "NO SUPPORT\n");
	print_flags(odp_names, ARRAY_SIZE(odp_names), caps, FLAG_INDENT "Unknown flags: 0x%lX\n");
}

static void print_guid(const char *label, __be64 guid)
{
	char text[32];

	group_text((const unsigned char *)&guid, sizeof(guid), text);
	printf("\t%s:\t\t\t%s\n", label, text);
}

/* Plain numbers of struct ibv_device_attr, in the order of the listing. */
#define NUMBER(label, member) { label, offsetof(struct ibv_device_attr, member) }
static const struct number {
	const char *label;
	size_t offset;
} before_atomic[] = {
	NUMBER("max_sge:\t\t\t", max_sge), NUMBER("max_sge_rd:\t\t\t", max_sge_rd),
	NUMBER("max_cq:\t\t\t\t", max_cq), NUMBER("max_cqe:\t\t\t", max_cqe),
	NUMBER("max_mr:\t\t\t\t", max_mr), NUMBER("max_pd:\t\t\t\t", max_pd),
	NUMBER("max_qp_rd_atom:\t\t\t", max_qp_rd_atom),
	NUMBER("max_ee_rd_atom:\t\t\t", max_ee_rd_atom),
	NUMBER("max_res_rd_atom:\t\t", max_res_rd_atom),
	NUMBER("max_qp_init_rd_atom:\t\t", max_qp_init_rd_atom),
	NUMBER("max_ee_init_rd_atom:\t\t", max_ee_init_rd_atom),
}, after_atomic[] = {
	NUMBER("max_ee:\t\t\t\t", max_ee), NUMBER("max_rdd:\t\t\t", max_rdd),
	NUMBER("max_mw:\t\t\t\t", max_mw), NUMBER("max_raw_ipv6_qp:\t\t", max_raw_ipv6_qp),
	NUMBER("max_raw_ethy_qp:\t\t", max_raw_ethy_qp),
	NUMBER("max_mcast_grp:\t\t\t", max_mcast_grp),
	NUMBER("max_mcast_qp_attach:\t\t", max_mcast_qp_attach),
	NUMBER("max_total_mcast_qp_attach:\t", max_total_mcast_qp_attach),
	NUMBER("max_ah:\t\t\t\t", max_ah), NUMBER("max_fmr:\t\t\t", max_fmr),
};

static int number_at(const struct ibv_device_attr *attr, const struct number *n)
{
	int v;

	memcpy(&v, (const char *)attr + n->offset, sizeof(v));
	return v;
}

static void print_numbers(const struct ibv_device_attr *attr, const struct number *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("\t%s%d\n", rows[i].label, number_at(attr, &rows[i]));
}

static void print_limits(const struct ibv_device_attr *a)
{
	printf("\tmax_mr_size:\t\t\t0x%llx\n", (unsigned long long)a->max_mr_size);
	printf("\tpage_size_cap:\t\t\t0x%llx\n", (unsigned long long)a->page_size_cap);
	printf("\tmax_qp:\t\t\t\t%d\n\tmax_qp_wr:\t\t\t%d\n", a->max_qp, a->max_qp_wr);
	printf("\tdevice_cap_flags:\t\t0x%08x\n", a->device_cap_flags);
	print_flags(cap_names, ARRAY_SIZE(cap_names), a->device_cap_flags,
		    FLAG_INDENT "Unknown flags: 0x%lX\n");
	print_numbers(a, before_atomic, ARRAY_SIZE(before_atomic));
	printf("\tatomic_cap:\t\t\t%s (%d)\n",
	       NAME(atomics, a->atomic_cap, "invalid atomic capability"), a->atomic_cap);
	print_numbers(a, after_atomic, ARRAY_SIZE(after_atomic));
	if (a->max_fmr)
		printf("\tmax_map_per_fmr:\t\t%d\n", a->max_map_per_fmr);
	printf("\tmax_srq:\t\t\t%d\n", a->max_srq);
	if (a->max_srq)
		printf("\tmax_srq_wr:\t\t\t%d\n\tmax_srq_sge:\t\t\t%d\n", a->max_srq_wr,
		       a->max_srq_sge);
	printf("\tmax_pkeys:\t\t\t%d\n", a->max_pkeys);
	printf("\tlocal_ca_ack_delay:\t\t%d\n", a->local_ca_ack_delay);
}

/* The lower half stands under device_cap_flags. */
static void print_caps_ex(uint64_t flags)
{
	static const struct flag_name names[] = {
		{ IBV_DEVICE_RAW_SCATTER_FCS, "RAW_SCATTER_FCS" },
		{ IBV_DEVICE_PCI_WRITE_END_PADDING, "PCI_WRITE_END_PADDING" },
	};

	printf("\tdevice_cap_flags_ex:\t\t0x%lX\n", (unsigned long)flags);
	print_flags(names, ARRAY_SIZE(names), flags & ~(uint64_t)UINT32_MAX,
		    FLAG_INDENT "Unknown flags: 0x%lX\n");
}

static void print_odp_caps(const struct ibv_device_attr_ex *x)
{
	printf("\tgeneral_odp_caps:\n");
	print_flags(odp_general_names, ARRAY_SIZE(odp_general_names), x->odp_caps.general_caps,
		    FLAG_INDENT "Unknown flags: 0x%lX\n");
	print_odp("rc", x->odp_caps.per_transport_caps.rc_odp_caps);
	print_odp("uc", x->odp_caps.per_transport_caps.uc_odp_caps);
	print_odp("ud", x->odp_caps.per_transport_caps.ud_odp_caps);
	print_odp("xrc", x->xrc_odp_caps);
}

static void print_qp_types(uint32_t types)
{
	static const struct flag_name names[] = {
		{ 1 << IBV_QPT_RAW_PACKET, "SUPPORT_RAW_PACKET" },
		{ 1 << IBV_QPT_UD, "SUPPORT_UD" },
	};

	if (!types)
		return;
	printf("\t\tsupported_qp:\n");
	print_flags(names, ARRAY_SIZE(names), types, FLAG_INDENT "Unknown flags: 0x%lX\n");
}

static void print_raw_caps(uint32_t caps)
{
	static const struct flag_name names[] = {
		{ IBV_RAW_PACKET_CAP_CVLAN_STRIPPING, "C-VLAN stripping offload" },
		{ IBV_RAW_PACKET_CAP_SCATTER_FCS, "Scatter FCS offload" },
		{ IBV_RAW_PACKET_CAP_IP_CSUM, "IP csum offload" },
		{ IBV_RAW_PACKET_CAP_DELAY_DROP, "Delay drop" },
	};

	if (!caps)
		return;
	printf("\traw packet caps:\n");
	print_flags(names, ARRAY_SIZE(names), caps, FLAG_INDENT "Unknown flags: 0x%lX\n");
}

static void print_tag_matching(const struct ibv_tm_caps *caps)
{
	printf("\tmax_rndv_hdr_size:\t\t%u\n", caps->max_rndv_hdr_size);
	printf("\tmax_num_tags:\t\t\t%u\n", caps->max_num_tags);
	printf("\tmax_ops:\t\t\t%u\n", caps->max_ops);
	printf("\tmax_sge:\t\t\t%u\n", caps->max_sge);
	printf("\tflags:\n");
	if (caps->flags & IBV_TM_CAP_RC)
		printf("\t\t\t\t\tIBV_TM_CAP_RC\n");
}

static void print_extended(const struct ibv_device_attr_ex *x)
{
	print_odp_caps(x);
	if (x->completion_timestamp_mask)
		printf("\tcompletion timestamp_mask:\t\t\t0x%016lx\n",
		       (unsigned long)x->completion_timestamp_mask);
	else
		printf("\tcompletion_timestamp_mask not supported\n");
	if (x->hca_core_clock)
		printf("\thca_core_clock:\t\t\t%lukHZ\n", (unsigned long)x->hca_core_clock);
	else
		printf("\tcore clock not supported\n");
	print_raw_caps(x->raw_packet_caps);
	print_caps_ex(x->device_cap_flags_ex);
	printf("\ttso_caps:\n\t\tmax_tso:\t\t\t%u\n", x->tso_caps.max_tso);
	print_qp_types(x->tso_caps.supported_qpts);
	printf("\trss_caps:\n\t\tmax_rwq_indirection_tables:\t\t\t%u\n",
	       x->rss_caps.max_rwq_indirection_tables);
	printf("\t\tmax_rwq_indirection_table_size:\t\t\t%u\n",
	       x->rss_caps.max_rwq_indirection_table_size);
	printf("\t\trx_hash_function:\t\t\t\t0x%x\n", x->rss_caps.rx_hash_function);
	printf("\t\trx_hash_fields_mask:\t\t\t\t0x%lX\n",
	       (unsigned long)x->rss_caps.rx_hash_fields_mask);
	print_qp_types(x->rss_caps.supported_qpts);
	printf("\tmax_wq_type_rq:\t\t\t%u\n", x->max_wq_type_rq);
	printf("\tpacket_pacing_caps:\n\t\tqp_rate_limit_min:\t%ukbps\n\t\tqp_rate_limit_max:\t%"
	       "ukbps\n",
	       x->packet_pacing_caps.qp_rate_limit_min, x->packet_pacing_caps.qp_rate_limit_max);
	print_qp_types(x->packet_pacing_caps.supported_qpts);
	print_tag_matching(&x->tm_caps);
	if (x->cq_mod_caps.max_cq_count || x->cq_mod_caps.max_cq_period)
		printf("\n\tcq moderation caps:\n\t\tmax_cq_count:\t%u\n\t\tmax_cq_period:\t%u "
		       "us\n\n",
		       x->cq_mod_caps.max_cq_count, x->cq_mod_caps.max_cq_period);
	if (x->max_dm_size)
		printf("\tmaximum available device memory:\t%luBytes\n\n",
		       (unsigned long)x->max_dm_size);
}

static void gid_text(const union ibv_gid *gid, unsigned int type, char *text, size_t size)
{
	if (type == 1)
		inet_ntop(AF_INET6, gid->raw, text, (socklen_t)size);
	else
		group_text(gid->raw, sizeof(gid->raw), text);
}

static int print_gids(struct ibv_context *ctx, unsigned int port, const struct ibv_port_attr *attr)
{
	for (int i = 0; i < attr->gid_tbl_len; i++) {
		char text[64];
		unsigned int type;
		union ibv_gid gid;

		if (ibv_query_gid(ctx, (uint8_t)port, i, &gid)) {
			fprintf(stderr, "Failed to query gid to port %u, index %d\n", port, i);
			return -1;
		}
		if (ibv_query_gid_type(ctx, (uint8_t)port, (unsigned int)i, &type) ||
		    !gid.global.interface_id)
			continue;
		gid_text(&gid, type, text, sizeof(text));
		printf("\t\t\tGID[%3d]:\t\t%s%s\n", i, text,
		       attr->link_layer != IBV_LINK_LAYER_ETHERNET ? "" :
		       type == 1 ? ", RoCE v2" : ", RoCE v1");
	}
	return 0;
}

static void print_port_details(struct ibv_context *ctx, const struct ibv_port_attr *a)
{
	printf("\t\t\tmax_msg_sz:\t\t0x%x\n", a->max_msg_sz);
	printf("\t\t\tport_cap_flags:\t\t0x%08x\n", a->port_cap_flags);
	printf("\t\t\tport_cap_flags2:\t0x%04x\n", a->port_cap_flags2);
	printf("\t\t\tmax_vl_num:\t\t%s (%d)\n", a->max_vl_num == 1 ? "1" : "invalid value",
	       a->max_vl_num);
	printf("\t\t\tbad_pkey_cntr:\t\t0x%x\n", a->bad_pkey_cntr);
	printf("\t\t\tqkey_viol_cntr:\t\t0x%x\n", a->qkey_viol_cntr);
	printf("\t\t\tsm_sl:\t\t\t%d\n", a->sm_sl);
	printf("\t\t\tpkey_tbl_len:\t\t%d\n", a->pkey_tbl_len);
	printf("\t\t\tgid_tbl_len:\t\t%d\n", a->gid_tbl_len);
	printf("\t\t\tsubnet_timeout:\t\t%d\n", a->subnet_timeout);
	printf("\t\t\tinit_type_reply:\t%d\n", a->init_type_reply);
	printf("\t\t\tactive_width:\t\t%sX (%d)\n", NAME(widths, a->active_width, "invalid width"),
	       a->active_width);
	printf("\t\t\tactive_speed:\t\t%s (%d)\n", NAME(speeds, a->active_speed, "invalid speed"),
	       a->active_speed);
	if (ctx->device->transport_type == IBV_TRANSPORT_IB)
		printf("\t\t\tphys_state:\t\t%s (%d)\n",
		       NAME(phys_states, a->phys_state, "invalid physical state"), a->phys_state);
}

static int print_port(struct ibv_context *ctx, unsigned int port, bool verbose)
{
	struct ibv_port_attr a = { 0 };

	if (ibv_query_port(ctx, (uint8_t)port, &a)) {
		fprintf(stderr, "Failed to query port %u props\n", port);
		return -1;
	}
	printf("\t\tport:\t%u\n", port);
	printf("\t\t\tstate:\t\t\t%s (%d)\n", NAME(states, a.state, "invalid state"), a.state);
	printf("\t\t\tmax_mtu:\t\t%s (%d)\n", NAME(mtus, a.max_mtu, "invalid MTU"), a.max_mtu);
	printf("\t\t\tactive_mtu:\t\t%s (%d)\n", NAME(mtus, a.active_mtu, "invalid MTU"),
	       a.active_mtu);
	printf("\t\t\tsm_lid:\t\t\t%d\n\t\t\tport_lid:\t\t%d\n\t\t\tport_lmc:\t\t0x%02x\n",
	       a.sm_lid, a.lid, a.lmc);
	printf("\t\t\tlink_layer:\t\t%s\n", NAME(link_layers, a.link_layer, "Unknown"));
	if (!verbose)
		return 0;
	print_port_details(ctx, &a);
	return print_gids(ctx, port, &a);
}

static void print_device(struct ibv_device *dev, const struct ibv_device_attr_ex *x)
{
	const struct ibv_device_attr *a = &x->orig_attr;
	char board[256];

	printf("hca_id:\t%s\n", ibv_get_device_name(dev));
	printf("\ttransport:\t\t\t%s (%d)\n",
	       NAME(transports, dev->transport_type, "invalid transport"), dev->transport_type);
	if (a->fw_ver[0])
		printf("\tfw_ver:\t\t\t\t%s\n", a->fw_ver);
	print_guid("node_guid", a->node_guid);
	print_guid("sys_image_guid", a->sys_image_guid);
	printf("\tvendor_id:\t\t\t0x%04x\n", a->vendor_id);
	printf("\tvendor_part_id:\t\t\t%d\n", a->vendor_part_id);
	printf("\thw_ver:\t\t\t\t0x%X\n", a->hw_ver);
	if (ibv_read_sysfs_file(dev->ibdev_path, "board_id", board, sizeof(board)) > 0)
		printf("\tboard_id:\t\t\t%s\n", board);
	printf("\tphys_port_cnt:\t\t\t%d\n", a->phys_port_cnt);
}

static int print_open_device(struct ibv_context *ctx, unsigned int only_port, bool verbose)
{
	struct ibv_device_attr_ex x = { 0 };
	int status = 0;

	if (ibv_query_device_ex(ctx, NULL, &x)) {
		fprintf(stderr, "Failed to query device props\n");
		return 2;
	}
	if (only_port > x.orig_attr.phys_port_cnt) {
		fprintf(stderr, "Invalid port requested for device\n");
		return 4;
	}
	print_device(ctx->device, &x);
	if (verbose) {
		print_limits(&x.orig_attr);
		print_extended(&x);
		printf("\tnum_comp_vectors:\t\t%d\n", ctx->num_comp_vectors);
	}
	for (unsigned int port = 1; port <= x.orig_attr.phys_port_cnt && !status; port++)
		if (!only_port || port == only_port)
			status = print_port(ctx, port, verbose) ? 3 : 0;
	printf("\n");
	return status;
}

int devinfo_print(struct ibv_device *dev, unsigned int only_port, bool verbose)
{
	struct ibv_context *ctx = ibv_open_device(dev);
	int status;

	if (!ctx) {
		fprintf(stderr, "Failed to open device\n");
		return 1;
	}
	status = print_open_device(ctx, only_port, verbose);
	ibv_close_device(ctx);
	return status;
}

/* verbena info */

static void add_int(struct json_object *o, const char *key, int64_t value)
{
	json_object_object_add(o, key, json_object_new_int64(value));
}

static void add_text(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_text(value));
}

static struct json_object *port_json(struct ibv_context *ctx, unsigned int port)
{
	struct json_object *o = json_object_new_object();
	struct ibv_port_attr a = { 0 };
	char netdev[16];

	add_int(o, "port", port);
	if (ibv_query_port(ctx, (uint8_t)port, &a))
		return o;
	port_netdev(ctx, port, netdev);
	add_text(o, "netdev", netdev);
	add_text(o, "state", NAME(states, a.state, "invalid state"));
	add_int(o, "active_mtu", 128 << a.active_mtu);
	add_int(o, "max_mtu", 128 << a.max_mtu);
	add_int(o, "lid", a.lid);
	add_text(o, "link_layer", NAME(link_layers, a.link_layer, "Unknown"));
	add_int(o, "max_msg_sz", a.max_msg_sz);
	add_int(o, "gid_tbl_len", a.gid_tbl_len);
	add_int(o, "bad_pkey_cntr", a.bad_pkey_cntr);
	add_int(o, "qkey_viol_cntr", a.qkey_viol_cntr);
	add_text(o, "active_width", NAME(widths, a.active_width, "invalid width"));
	add_text(o, "active_speed", NAME(speeds, a.active_speed, "invalid speed"));
	return o;
}

/* "max_qp_rd_atom:\t\t" -> "max_qp_rd_atom" */
static void add_number(struct json_object *o, const struct ibv_device_attr *a,
		       const struct number *n)
{
	char key[40];

	snprintf(key, sizeof(key), "%.*s", (int)strcspn(n->label, ":"), n->label);
	add_int(o, key, number_at(a, n));
}

static struct json_object *device_json(struct ibv_context *ctx)
{
	struct json_object *o = json_object_new_object(), *ports = json_object_new_array();
	struct ibv_device_attr_ex x = { 0 };
	const struct ibv_device_attr *a = &x.orig_attr;
	char text[32];

	add_text(o, "name", ibv_get_device_name(ctx->device));
	if (ibv_query_device_ex(ctx, NULL, &x))
		return o;
	add_text(o, "fw_ver", a->fw_ver);
	group_text((const unsigned char *)&a->node_guid, sizeof(a->node_guid), text);
	add_text(o, "node_guid", text);
	add_int(o, "vendor_id", a->vendor_id);
	add_int(o, "vendor_part_id", a->vendor_part_id);
	add_int(o, "max_qp", a->max_qp);
	add_int(o, "max_qp_wr", a->max_qp_wr);
	add_int(o, "device_cap_flags", a->device_cap_flags);
	for (size_t i = 0; i < ARRAY_SIZE(before_atomic); i++)
		add_number(o, a, &before_atomic[i]);
	add_text(o, "atomic_cap", NAME(atomics, a->atomic_cap, "invalid"));
	for (size_t i = 0; i < ARRAY_SIZE(after_atomic); i++)
		add_number(o, a, &after_atomic[i]);
	add_int(o, "max_srq", a->max_srq);
	add_int(o, "max_srq_wr", a->max_srq_wr);
	add_int(o, "max_srq_sge", a->max_srq_sge);
	add_int(o, "max_dm_size", (int64_t)x.max_dm_size);
	add_int(o, "num_comp_vectors", ctx->num_comp_vectors);
	for (unsigned int port = 1; port <= a->phys_port_cnt; port++)
		json_object_array_add(ports, port_json(ctx, port));
	json_object_object_add(o, "ports", ports);
	return o;
}

static int info_json(struct ibv_device **list, const char *wanted)
{
	struct json_object *all = json_object_new_array();
	int status = EXIT_OK;

	for (; *list; list++) {
		struct ibv_context *ctx;

		if (wanted && strcmp(wanted, ibv_get_device_name(*list)) != 0)
			continue;
		ctx = ibv_open_device(*list);
		if (!ctx) {
			status = complain(EXIT_REFUSED, "cannot open %s: %s",
					  ibv_get_device_name(*list), strerror(errno));
			continue;
		}
		json_object_array_add(all, device_json(ctx));
		ibv_close_device(ctx);
	}
	print_json(all);
	return status;
}

static int info_text(struct ibv_device **list, const char *wanted)
{
	int status = EXIT_OK;

	for (; *list; list++)
		if (!wanted || strcmp(wanted, ibv_get_device_name(*list)) == 0)
			if (devinfo_print(*list, 0, true))
				status = EXIT_FAILED;
	return status;
}

int cmd_info(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	const char *wanted;
	struct ibv_device **list;
	bool json = false;
	int n, c, status = EXIT_OK, found = 0;

	while ((c = next_option(argc, argv, ":jh", options, "  -j, --json   machine-readable\n")) !=
	       -1) {
		if (c == '?')
			return EXIT_USAGE;
		json = true;
	}
	wanted = argv[optind];
	if (wanted && !no_arguments(argc, argv, optind + 1))
		return EXIT_USAGE;
	list = all_devices(&n, &status);
	if (!list)
		return status;
	for (int i = 0; i < n; i++)
		found += !wanted || strcmp(wanted, ibv_get_device_name(list[i])) == 0;
	if (!found && wanted)
		status = complain(EXIT_NO_DEVICE, "no device '%s' (verbena devices lists them)",
				  wanted);
	else if (!found)
		status = complain(EXIT_NO_DEVICE, "no devices (verbena doctor says why)");
	else
		status = json ? info_json(list, wanted) : info_text(list, wanted);
	ibv_free_device_list(list);
	return status;
}
