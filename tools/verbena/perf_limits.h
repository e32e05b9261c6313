/* SPDX-License-Identifier: BSD-2-Clause */
/* What this machine does without Verbena: the yardsticks of `verbena perf`. */
#ifndef VRB_TOOL_PERF_LIMITS_H
#define VRB_TOOL_PERF_LIMITS_H

struct perf_limits {
	double memcpy_mib_s;	/* one thread, 1 MiB at a time */
	double udp_us;		/* ping-pong of 8 bytes between two processes on loopback, polling; one way */
	double udp_mib_s;	/* stream of segments with GSO and GRO, as it arrives */
};

/* Each for about `seconds`. What cannot be measured stays 0. */
void perf_measure_limits(struct perf_limits *l, double seconds);

/* Keeps the caller on the first (0) or second (1) of the processors it may use, if there are two. */
void perf_pin(int which);

/* Seconds of a clock that only grows. */
double perf_now(void);

/* Sorts, and returns the one in the middle; 0 of nothing. */
double perf_median(double *samples, unsigned int n);

#endif
