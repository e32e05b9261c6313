/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Symbols of the first libibverbs (2005-2006), whose structures differ from today's: IBVERBS_1.0
 * forms of calls that have a later version too.
 *
 * A program that asks for them lays out contexts and work requests in a way no device here
 * understands, so each refuses with ENOSYS, in the manner its call reports failure: the program
 * sees a host without verbs and says so.  No state.
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
 * Arguments are not looked at, so the functions take none; the calling conventions Linux uses allow
 * it.
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
