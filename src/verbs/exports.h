/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that libibverbs exports for its companions (librdmacm, providers, tools) and that no
 * public header declares.
 */
#ifndef VRB_VERBS_EXPORTS_H
#define VRB_VERBS_EXPORTS_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "verbs/symver.h"

/* ---- IBVERBS_1.0 ---- */

/* Returns the root of the tree of device files; the string stays valid. Never fails. */
VRB_EXPORT const char *ibv_get_sysfs_path(void);

/*
 * Reads dir/file into buf: at most size - 1 bytes, zero-terminated, without one trailing newline.
 * Returns the number of bytes, -1 with errno on failure.
 */
VRB_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* Copy between the kernel's layouts and the program's, member by member. */
VRB_EXPORT void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst,
					    struct ib_user_path_rec *src);
VRB_EXPORT void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst,
					  struct ibv_sa_path_rec *src);
VRB_EXPORT void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);

/* ---- IBVERBS_1.1 ---- */

VRB_EXPORT void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);

/*
 * Exclude a range of memory from children, and undo that; ranges nest. Return 0, or -1 with errno.
 */
VRB_EXPORT int ibv_dontfork_range(void *base, size_t size);
VRB_EXPORT int ibv_dofork_range(void *base, size_t size);

/* ---- IBVERBS_PRIVATE ---- */

/* The type of a GID as in sysfs files: RoCE v1 (also for InfiniBand) or v2. */
enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
	IBV_GID_TYPE_SYSFS_ROCE_V2,
};

/* Returns 0, or -1 with errno. */
VRB_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num,
				  unsigned int index, enum ibv_gid_type_sysfs *type);

#endif
