/* SPDX-License-Identifier: BSD-2-Clause */
/* Capabilities of a device: two sets of flags, whose values overlap. */
#include <errno.h>

#include "verbena/private.h"

static const uint64_t device_caps[] = {
	IBV_DEVICE_RESIZE_MAX_WR,      IBV_DEVICE_BAD_PKEY_CNTR,
	IBV_DEVICE_BAD_QKEY_CNTR,      IBV_DEVICE_RAW_MULTI,
	IBV_DEVICE_AUTO_PATH_MIG,      IBV_DEVICE_CHANGE_PHY_PORT,
	IBV_DEVICE_UD_AV_PORT_ENFORCE, IBV_DEVICE_CURR_QP_STATE_MOD,
	IBV_DEVICE_SHUTDOWN_PORT,      IBV_DEVICE_INIT_TYPE,
	IBV_DEVICE_PORT_ACTIVE_EVENT,  IBV_DEVICE_SYS_IMAGE_GUID,
	IBV_DEVICE_RC_RNR_NAK_GEN,     IBV_DEVICE_SRQ_RESIZE,
	IBV_DEVICE_N_NOTIFY_CQ,        IBV_DEVICE_MEM_WINDOW,
	IBV_DEVICE_UD_IP_CSUM,         IBV_DEVICE_XRC,
	IBV_DEVICE_MEM_MGT_EXTENSIONS, IBV_DEVICE_MEM_WINDOW_TYPE_2A,
	IBV_DEVICE_MEM_WINDOW_TYPE_2B, IBV_DEVICE_RC_IP_CSUM,
	IBV_DEVICE_RAW_IP_CSUM,        IBV_DEVICE_MANAGED_FLOW_STEERING,
	IBV_DEVICE_RAW_SCATTER_FCS,    IBV_DEVICE_PCI_WRITE_END_PADDING,
};

static const uint64_t raw_packet_caps[] = {
	IBV_RAW_PACKET_CAP_CVLAN_STRIPPING,
	IBV_RAW_PACKET_CAP_SCATTER_FCS,
	IBV_RAW_PACKET_CAP_IP_CSUM,
	IBV_RAW_PACKET_CAP_DELAY_DROP,
};

static bool is_one_of(uint64_t cap, const uint64_t *caps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (caps[i] == cap)
			return true;
	fail(EINVAL, "0x%llx is not a capability", (unsigned long long)cap);
	return false;
}

static bool query(const struct verbena_context *ctx, struct ibv_device_attr_ex *attr)
{
	int err = ctx ? ibv_query_device_ex(ctx->context, NULL, attr) : EINVAL;

	if (err)
		fail(err, "ibv_query_device_ex");
	return err == 0;
}

API bool verbena_hascapability(const struct verbena_context *ctx, uint64_t cap)
{
	struct ibv_device_attr_ex attr;

	if (!is_one_of(cap, device_caps, ARRAY_SIZE(device_caps)) || !query(ctx, &attr))
		return false;
	return (attr.orig_attr.device_cap_flags | attr.device_cap_flags_ex) & cap;
}

API bool verbena_hascapability_raw(const struct verbena_context *ctx, uint32_t cap)
{
	struct ibv_device_attr_ex attr;

	if (!is_one_of(cap, raw_packet_caps, ARRAY_SIZE(raw_packet_caps)) || !query(ctx, &attr))
		return false;
	return attr.raw_packet_caps & cap;
}
