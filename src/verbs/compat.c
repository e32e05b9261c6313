/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Symbols of the first libibverbs (2005-2006), whose structures differ from today's: the
 * IBVERBS_1.0 versions of calls that also have a later version.
 *
 * Programs that use them have another layout of contexts and work requests. So each call fails with
 * ENOSYS, in its own way of reporting failure: to the program, the host has no verbs. No state.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/symver.h"

static void *refuse_null(void)
{
	errno = ENOSYS;
	return NULL;
}

static int refuse_errno(void)
{
	errno = ENOSYS;
	return ENOSYS;
}

static int refuse_minus_one(void)
{
	errno = ENOSYS;
	return -1;
}

static uint64_t refuse_guid(void)
{
	errno = ENOSYS;
	return 0;
}

static void nothing(void)
{
}

/*
 * The functions ignore their arguments and so declare none, which Linux's calling conventions
 * permit.
 */
#define OLD(name, type, refusal)                                                                   \
	VRB_EXPORT type vrb_1_0_##name(void);                                                      \
	VRB_SYMVER(vrb_1_0_##name, ibv_##name, IBVERBS_1.0);                                       \
	type vrb_1_0_##name(void)                                                                  \
	{                                                                                          \
		return refusal();                                                                  \
	}

OLD(get_device_list, void *, refuse_null)
OLD(free_device_list, void, nothing)
OLD(get_device_name, void *, refuse_null)
OLD(get_device_guid, uint64_t, refuse_guid)
OLD(open_device, void *, refuse_null)
OLD(close_device, int, refuse_errno)
OLD(get_async_event, int, refuse_minus_one)
OLD(ack_async_event, void, nothing)
OLD(query_device, int, refuse_errno)
OLD(query_port, int, refuse_errno)
OLD(query_gid, int, refuse_minus_one)
OLD(query_pkey, int, refuse_minus_one)
OLD(alloc_pd, void *, refuse_null)
OLD(dealloc_pd, int, refuse_errno)
OLD(reg_mr, void *, refuse_null)
OLD(dereg_mr, int, refuse_errno)
OLD(create_cq, void *, refuse_null)
OLD(resize_cq, int, refuse_errno)
OLD(destroy_cq, int, refuse_errno)
OLD(get_cq_event, int, refuse_minus_one)
OLD(ack_cq_events, void, nothing)
OLD(create_srq, void *, refuse_null)
OLD(modify_srq, int, refuse_errno)
OLD(query_srq, int, refuse_errno)
OLD(destroy_srq, int, refuse_errno)
OLD(create_qp, void *, refuse_null)
OLD(query_qp, int, refuse_errno)
OLD(modify_qp, int, refuse_errno)
OLD(destroy_qp, int, refuse_errno)
OLD(create_ah, void *, refuse_null)
OLD(destroy_ah, int, refuse_errno)
OLD(attach_mcast, int, refuse_errno)
OLD(detach_mcast, int, refuse_errno)

/* Providers of that time registered with this call; it has no effect. */
VRB_EXPORT void vrb_1_1_register_driver(void);
VRB_SYMVER(vrb_1_1_register_driver, ibv_register_driver, IBVERBS_1.1);
void vrb_1_1_register_driver(void)
{
}
