/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of tuning.h, which includes this and describes the form, that is about congestion.
 */
#ifndef VRB_UTIL_TUNING_CC_H
#define VRB_UTIL_TUNING_CC_H

#include "util/time.h"

/* --- Congestion control (cc.h) --- */

/*
 * Unit: ACKs that the requester asks for within a window, besides those at the ends of messages;
 * each brings a round-trip time.  Measured against: sim fairness, equal_delays_favour_no_flow: of
 * 24 seeds 1 has a row below its bounds, 4 with 1/4, 3 with 1/2, 4 with 2 x; sim_measure, 10
 * Gbit/s, 0.1 % loss: 3 % less with 1/4, the same with 2 x.  Read by: roce/request.c.
 */
#define TUNE_ACKS_PER_WINDOW 16

/*
 * Unit: packets of the smallest window.  Measured against: sim incast, MTU 4096: the last ends 184
 * % later with 2, 119 % with 4.  Read by: roce/cc.c, roce/cc.h.
 */
#define TUNE_CC_WINDOW_MIN 1

/*
 * Unit: 1 / limit, the first window.  Measured against: sim sharing (d69e18c).  Read by:
 * roce/cc.c.
 */
#define TUNE_CC_FIRST 4

/*
 * Unit: limits, the largest window, on fast paths.  Measured against: bench wire: +8 to 18 %,
 * more is no gain (docs/EXPERIMENTS.md).  Read by: roce/cc.c.
 */
#define TUNE_CC_BEYOND 2

/*
 * Unit: 1 / packet, in which windows change; and growth of a fast, calm path from zero to the
 * limit.  Measured against: sim, 10 ms, 0.1 % loss: 1/2 +40 %, but incast +8 % losses; 2 x the
 * same.  Read by: roce/cc.c.
 */
#define TUNE_CC_STEPS 32

/*
 * Unit: 1 / TUNE_CC_STEPS packet per ms.  Measured against: sim mixed round trips, 8 flows: 6 times
 * as much 0.77, not 0.95, and 7 times the losses; 3/2 0.92; 1/2 0.96.  Read by: roce/cc.c.
 */
#define TUNE_CC_GROWTH 11

/*
 * Unit: 1 / TUNE_CC_STEPS packet per round trip, at least.  Measured against: sim mixed round
 * trips, 8 flows whose queue marks: 2 x 0.77, not 0.95.  Read by: roce/cc.c.
 */
#define TUNE_CC_GROWTH_MIN 9

/*
 * Unit: ns of a round trip that no queue explains, but the peer's scheduler.  Measured against: sim
 * mixed round trips: 15 us the same.  Read by: roce/cc.c.
 */
#define TUNE_CC_QUEUE_MIN (25 * VRB_USEC)

/*
 * Unit: ns; longer round trips contain a queue.  Shorter ones depend more on the peer's scheduler
 * than on the network.  Measured against: sim sharing (d69e18c).  Read by: roce/cc.c.
 */
#define TUNE_CC_FAST_RTT (250 * VRB_USEC)

/*
 * Unit: windows without loss or CNP before a window grows fast.  Measured against: sim mixed round
 * trips at 10 Gbit/s: 0 losses 7 times, 0.47, not 0.77; 4 x 0.81, but QPs that share a window get
 * unequal shares for 400 ms.  Read by: roce/cc.c.
 */
#define TUNE_CC_CALM_FAST 64

/*
 * Unit: 1 / window, the reduction by a round trip that is full of CNPs.  Measured against: sim two
 * 10 Gbit/s ECN: 1/4 -10 %; 1/2 the same, but two readers 2.4 : 1.  Read by: roce/cc.c.
 */
#define TUNE_CC_CNP_PART 8

/*
 * Unit: ns, the round trip from which a reduced window is paced.  Measured against: sim incast, MTU
 * 4096: the last ends 46 % later with 1/4, 23 % with 4 x; 2 x +20 % losses.  Read by: roce/cc.h.
 */
#define TUNE_CC_PACED_RTT (200 * VRB_USEC)

/*
 * Unit: bytes of the window that a packet takes, at least.  Measured against: bench wire: rates of
 * SEND +36 %, WRITE +61 % (docs/EXPERIMENTS.md).  Read by: roce/cc.h.
 */
#define TUNE_CC_SHORTEST 1024

/*
 * Unit: windows before a window above the limit is tried again.  Measured against: sim at 10
 * Gbit/s, MTU 1024: 1/4 -2 %, 4 x the same.  Read by: roce/cc.c.
 */
#define TUNE_CC_CALM_FIRST 16

/*
 * Unit: factor by which that grows after each failed trial.  Measured against: sim at 10 Gbit/s,
 * MTU 1024: 1/2 -1 %, 4 x the same.  Read by: roce/cc.c.
 */
#define TUNE_CC_CALM_FACTOR 4

/*
 * Unit: windows, the maximum of that number.  Reason: after a minute of 1-ms round trips a path may
 * have changed.  Read by: roce/cc.c.
 */
#define LIMIT_CC_CALM_MAX (1 << 16)

/*
 * Unit: ns in which CNPs count once.  Reason: a receiver sends them as often, ours
 * (TUNE_CNP_SEND_US) and adapters by default.  Read by: roce/cc.c.
 */
#define LIMIT_CC_CNP_INTERVAL (50 * VRB_USEC)

/*
 * Unit: us in which a QP sends at most one CNP.  Measured against: sim incast, ECN: the last ends
 * 11 % later with 1/4 and 2 x, 17 % with 4 x.  Read by: roce/engine.c.
 */
#define TUNE_CNP_SEND_US 50

/*
 * Unit: ns; a shorter wait is not worth a timer: the kernel's timers are as late.  Measured
 * against: sim 32 hosts read: 2 x 23 % later; 1/4 7 % sooner, if timers were exact.  Read by:
 * roce/pace.c.
 */
#define TUNE_PACE_SLACK (50 * VRB_USEC)

/*
 * Unit: ns between two answers, at most: 8 Mbit/s at MTU 1024.  Reason: a longer gap is a pause of
 * the program.  Read by: roce/pace.c.
 */
#define LIMIT_PACE_GAP_MAX VRB_MSEC

/*
 * Unit: answer packets sent together.  Measured against: sim READs, from 0 to 4 x: incasts within 5
 * %, shares of two flows within 15 %.  Read by: roce/pace.c.
 */
#define TUNE_PACE_AHEAD 4

/*
 * Unit: gaps; a longer one means that the process was not scheduled.  Measured against: sim
 * rc_loss_stats, incast of readers (5afa271).  Read by: roce/pace.c.
 */
#define TUNE_PACE_STALL 4

/*
 * Unit: READs whose answers are spread after a sign of congestion.  Measured against: sim sharing,
 * incast (d69e18c).  Read by: roce/pace.c.
 */
#define TUNE_PACE_SPREAD 16

/*
 * Unit: ns in which the QPs of a path are counted, or two round trips if those are longer.
 * Measured against: sim sharing: 16 flows (def3826).  Read by: core/base/path_flows.c.
 */
#define TUNE_FLOWS_PERIOD (10 * VRB_MSEC)

/* --- Fairness probe (cc_probe.h) --- */

/*
 * Unit: ns; shorter round trips contain no queue worth a probe while no packet is lost.  Measured
 * against: sim sharing: two flows 13 : 1 without it (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_RTT (750 * VRB_USEC)

/*
 * Unit: windows per period; a trial takes one period.  Measured against: sim sharing: two flows 13
 * : 1 without it (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_PERIOD 3

/*
 * Unit: periods of long round trips before a trial.  Measured against: sim sharing: two flows 13 :
 * 1 without it (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_WAIT 3

/*
 * Unit: factor by which that grows after each failed trial.  Measured against: sim sharing: two
 * flows 13 : 1 without it (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_BACKOFF 4

/*
 * Unit: periods, the maximum of that number.  Measured against: sim sharing: two flows 13 : 1
 * without it (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_WAIT_MAX 1024

/* --- Rates of datagrams and unreliable connections (dcqcn.h) --- */

/*
 * Unit: 1 / g of the moving average of CNPs.  Measured against: DCQCN's, as published.  Read by:
 * roce/dcqcn.c.
 */
#define TUNE_DCQCN_GAIN 16

/*
 * Unit: ns per recovery period.  Measured against: sim UD, 1 Gbit/s: 1/4 -7 %; 2 x loses 62 % more
 * before the rate is found.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_PERIOD VRB_MSEC

/*
 * Unit: periods of fast recovery before steps beyond the target.  Measured against: DCQCN's, as
 * published.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_FAST 5

/*
 * Unit: periods before hyper increase.  Measured against: dcqcn.c alone, from 1 to 10 Gbit/s: 0.36
 * s; 1/4 0.30, 4 x 0.58 s.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_HYPER 100

/*
 * Unit: steps per period then.  Measured against: dcqcn.c alone, from 1 to 10 Gbit/s: 0.36 s; 1/4
 * 1.13, 4 x 0.17 s.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_HYPER_STEPS 4

/*
 * Unit: kbit/s per period, the largest step.  Measured against: sim UD, 1 Gbit/s: within 1 % from
 * 1/4 to 4 x.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_STEP 8000

/*
 * Unit: 1 / rate per period, the step of lower rates.  Measured against: bench fairness, UC beside
 * TCP at 100 Mbit/s where half is marked: 57 of 100 Mbit/s, 71 without, 55 with 1/2, 52 with 1/4;
 * but sim datagrams then lose 2 % behind a deep queue.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_STEP_PART 64

/*
 * Unit: kbit/s, the lowest rate.  Reason: limits the effect of forged CNPs.  Read by: roce/dcqcn.c.
 */
#define LIMIT_DCQCN_MIN 40000

/*
 * Unit: kbit/s; above it a rate is unlimited.  Reason: about the most that a QP sends by UDP: 34
 * and 41 Gbit/s were measured (docs/PERFORMANCE.md, docs/EXPERIMENTS.md).  Read by: roce/dcqcn.c.
 */
#define LIMIT_DCQCN_MAX 40000000

/*
 * Unit: ns; a rate measured over less is that of one burst or none.  Measured against: sim UD, 1
 * Gbit/s, before the rate is found: 4 x loses 82 % more; 1/4 loses of bursts.  Read by:
 * roce/dcqcn.c.
 */
#define TUNE_DCQCN_MEASURE_MIN (200 * VRB_USEC)

/*
 * Unit: ns, the longest measurement of a rate.  Reason: pauses of the program would count.  Read
 * by: roce/dcqcn.c.
 */
#define LIMIT_DCQCN_MEASURE_MAX (10 * VRB_MSEC)

#endif
