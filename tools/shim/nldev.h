/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The answers of the kernel's RDMA subsystem on a NETLINK_RDMA socket ("nldev", rdma_netlink.h),
 * for our devices: `rdma dev|link|resource|statistic show` of iproute2, and programs that ask in
 * the same way.  A module of its own, loaded by the preloaded library when a program opens such a
 * socket.
 */
#ifndef VRB_SHIM_NLDEV_H
#define VRB_SHIM_NLDEV_H

#include <stddef.h>
#include <stdint.h>

#define NLDEV_MODULE "libverbena-nldev.so"
#define NLDEV_ENTRY "verbena_nldev_answer"

/* Takes one datagram of answers. */
typedef void (*nldev_put_fn)(void *arg, const void *data, size_t len);

/*
 * Answers all requests of one datagram.  tree: of the devices (host_tree_path()); portid: of the
 * asking socket, repeated in answers.
 */
typedef void nldev_answer_fn(const char *tree, uint32_t portid, const void *data, size_t len,
			     nldev_put_fn put, void *arg);
nldev_answer_fn verbena_nldev_answer;

#endif
