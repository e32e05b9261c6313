/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private symbols of libibverbs, for provider libraries (libmlx5, libefa, ...).
 *
 * Those libraries are loaded because programs link them, and resolve all of these symbols at load
 * time. Their devices never appear here, so in practice they call only registration and logging.
 * Functions that would call the kernel fail with EOPNOTSUPP. The node is renamed with every change
 * of this interface, so everything is exported under each of its names: IBVERBS_PRIVATE_34
 * (releases 34..56, the default), _57, _59, _64, _65.
 *
 * No state but verbs_allow_disassociate_destroy, which a provider may read.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/compiler.h"
#include "verbs/exports.h"
#include "verbs/symver.h"

/* A function that fails. It ignores its arguments, and so declares none. */
#define REFUSE(name, type, result)                                                                 \
	VRB_EXPORT type name(void);                                                                \
	VRB_SYMVER_PRIVATE(name);                                                                  \
	type name(void)                                                                            \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return result;                                                                     \
	}

/* A function without result or effect. */
#define IGNORE(name)                                                                               \
	VRB_EXPORT void name(void);                                                                \
	VRB_SYMVER_PRIVATE(name);                                                                  \
	void name(void)                                                                            \
	{                                                                                          \
	}

/* ---- Commands to the kernel ---- */

REFUSE(ibv_cmd_advise_mr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_alloc_dm, int, EOPNOTSUPP)
REFUSE(ibv_cmd_alloc_mw, int, EOPNOTSUPP)
REFUSE(ibv_cmd_alloc_pd, int, EOPNOTSUPP)
REFUSE(ibv_cmd_attach_mcast, int, EOPNOTSUPP)
REFUSE(ibv_cmd_close_xrcd, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_ah, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_counters, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_cq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_cq_ex, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_flow, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_flow_action_esp, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_qp, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_qp_ex, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_qp_ex2, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_rwq_ind_table, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_srq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_srq_ex, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_wq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_dealloc_mw, int, EOPNOTSUPP)
REFUSE(ibv_cmd_dealloc_pd, int, EOPNOTSUPP)
REFUSE(ibv_cmd_dereg_mr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_ah, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_counters, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_cq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_flow, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_flow_action, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_qp, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_rwq_ind_table, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_srq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_wq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_detach_mcast, int, EOPNOTSUPP)
REFUSE(ibv_cmd_free_dm, int, EOPNOTSUPP)
REFUSE(ibv_cmd_get_context, int, EOPNOTSUPP)
REFUSE(ibv_cmd_modify_cq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_modify_flow_action_esp, int, EOPNOTSUPP)
REFUSE(ibv_cmd_modify_qp, int, EOPNOTSUPP)
REFUSE(ibv_cmd_modify_qp_ex, int, EOPNOTSUPP)
REFUSE(ibv_cmd_modify_srq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_modify_wq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_open_qp, int, EOPNOTSUPP)
REFUSE(ibv_cmd_open_xrcd, int, EOPNOTSUPP)
REFUSE(ibv_cmd_post_recv, int, EOPNOTSUPP)
REFUSE(ibv_cmd_post_send, int, EOPNOTSUPP)
REFUSE(ibv_cmd_post_srq_recv, int, EOPNOTSUPP)
REFUSE(ibv_cmd_query_context, int, EOPNOTSUPP)
REFUSE(ibv_cmd_query_device_any, int, EOPNOTSUPP)
REFUSE(ibv_cmd_query_mr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_query_port, int, EOPNOTSUPP)
REFUSE(ibv_cmd_query_qp, int, EOPNOTSUPP)
REFUSE(ibv_cmd_query_srq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_read_counters, int, EOPNOTSUPP)
REFUSE(ibv_cmd_reg_dm_mr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_reg_dmabuf_mr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_reg_mr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_req_notify_cq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_rereg_mr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_resize_cq, int, EOPNOTSUPP)
REFUSE(ibv_cmd_poll_cq, int, -1)
REFUSE(execute_ioctl, int, EOPNOTSUPP)
REFUSE(__ioctl_final_num_attrs, unsigned int, 0)
REFUSE(ibv_read_ibdev_sysfs_file, int, -1)

/* Added by later releases. */
REFUSE(ibv_cmd_create_cq_ex2, int, EOPNOTSUPP)
REFUSE(ibv_cmd_alloc_dmah, int, EOPNOTSUPP)
REFUSE(ibv_cmd_free_dmah, int, EOPNOTSUPP)
REFUSE(ibv_cmd_reg_mr_ex, int, EOPNOTSUPP)
REFUSE(ibv_cmd_create_comp_cntr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_destroy_comp_cntr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_set_comp_cntr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_set_err_comp_cntr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_inc_comp_cntr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_inc_err_comp_cntr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_read_comp_cntr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_read_err_comp_cntr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_qp_attach_comp_cntr, int, EOPNOTSUPP)
REFUSE(ibv_cmd_query_comp_cntr_caps, int, EOPNOTSUPP)
REFUSE(ibv_cmd_query_port_speed, int, EOPNOTSUPP)
REFUSE(ibv_cmd_export_dmabuf_fd, int, -1)
REFUSE(ibv_dmabuf_heap_cc_shared_init, void *, NULL)
REFUSE(ibv_dmabuf_heap_alloc, void *, NULL)
IGNORE(ibv_dmabuf_heap_free)
IGNORE(ibv_dmabuf_heap_destroy)

/* ---- A provider's contexts and objects ---- */

REFUSE(_verbs_init_and_alloc_context, void *, NULL)
REFUSE(verbs_open_device, void *, NULL)
IGNORE(verbs_init_cq)
IGNORE(verbs_set_ops)
IGNORE(verbs_uninit_context)

/* A provider's constructor calls the one of its release: accepted, without effect. */
#define REGISTER(pabi)                                                                             \
	VRB_EXPORT void verbs_register_driver_##pabi(const void *ops);                             \
	void verbs_register_driver_##pabi(const void *ops)                                         \
	{                                                                                          \
	}

REGISTER(34)
REGISTER(57)
REGISTER(59)
REGISTER(64)
REGISTER(65)

/* ---- What works ---- */

/*
 * Whether objects may be destroyed after the removal of their device: here that always succeeds,
 * whatever its value.
 */
VRB_EXPORT extern bool verbs_allow_disassociate_destroy;
VRB_SYMVER_PRIVATE(verbs_allow_disassociate_destroy);
bool verbs_allow_disassociate_destroy;

/*
 * A provider's diagnostics, above all "not my device". Dropped: the devices here have their own
 * log, and a provider's messages do not apply to them.
 */
VRB_EXPORT void __verbs_log(void *ctx, uint32_t level, const char *fmt, ...) format_printf(3, 4);
VRB_SYMVER_PRIVATE(__verbs_log);
void __verbs_log(void *ctx, uint32_t level, const char *fmt, ...)
{
}
