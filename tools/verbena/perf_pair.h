/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures two processes that use public verbs only. */
#ifndef VRB_TOOL_PERF_PAIR_H
#define VRB_TOOL_PERF_PAIR_H

#include <stddef.h>

struct perf_point {
	size_t size;		/* bytes */
	double latency_us;	/* one way: half of a SEND ping-pong */
	double mib_s;		/* RDMA WRITEs, a window of them outstanding */
	double rate;		/* the same, requests per second */
};

/*
 * Measures the n sizes in points[] over a transport ("local", "udp"), each for about `seconds`;
 * calls step after each size.  Returns 0, or -1 if the processes failed.  Must be called before
 * this process uses the library.
 */
int perf_pair(const char *transport, struct perf_point *points, size_t n, double seconds,
	      void (*step)(void));

#endif
