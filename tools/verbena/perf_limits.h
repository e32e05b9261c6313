/* SPDX-License-Identifier: BSD-2-Clause */
/* Throughput of this machine without Verbena, for comparison in `verbena perf`. */
#ifndef VRB_TOOL_PERF_LIMITS_H
#define VRB_TOOL_PERF_LIMITS_H

struct perf_limits {
	double memcpy_mib_s;	/* one thread, 1 MiB at a time */
	/* ping-pong of 8 bytes between two processes on loopback, polling; one way */
	double udp_us;
	double udp_mib_s;	/* stream of segments with GSO and GRO, as received */
};

/* Each takes about `seconds`.  What cannot be measured stays 0. */
void perf_measure_limits(struct perf_limits *l, double seconds);

/* Pins the caller to the first (0) or second (1) CPU it may use, if there are two. */
void perf_pin(int which);

/* Seconds of a monotonic clock. */
double perf_now(void);

/* Sorts the samples and returns the median; 0 if n is 0. */
double perf_median(double *samples, unsigned int n);

#endif
