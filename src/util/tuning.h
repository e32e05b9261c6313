/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All constants of adaptive behaviour: what decides when to wait, poll, send again or slow down.
 * Limits of the protocol and sizes of tables stand with their code.
 *
 * TUNE_ constants were measured: each says its unit, what it means, what it was measured against,
 * and which files of src/ read it.  "1/4", "2 x": with so much of the constant, compared with the
 * constant as it is.  scripts/vary-tuning measures them again; "sim" is tests/sim/measure.c.
 *
 * LIMIT_ constants bound what the others do: memory, rates of retries, or the time until a peer is
 * given up.  No measurement finds a best one, so each says its reason instead.
 *
 * scripts/check-tuning proves the form, and that the readers are true.
 */
#ifndef VRB_UTIL_TUNING_H
#define VRB_UTIL_TUNING_H

#include "util/time.h"

/* --- ACKs that wait for company, and requests that leave together --- */

/*
 * Unit: packets, an ACK waits only after rounds of at most so many: more are a stream, whose
 * sender waits for it.  Measured against: bench/self pong by UDP: 1/4 sends 56 % more often, 4 x
 * the same.  Read by: roce/delayed_ack.h.
 */
#define TUNE_ACK_DELAY_PACKETS 4

/*
 * Unit: polls, in a row that may delay ACKs.  Measured against: bench/self pong by UDP: sends 18 %
 * less often with 1, 14 % with 16; ib_send_bw the same.  Read by: roce/delayed_ack.h.
 */
#define TUNE_ACK_DELAY_POLLS 4

/*
 * Unit: ns, an ACK waits no longer, where the program polls.  Measured against: bench/self pong,
 * 8-byte SENDs by UDP: the same from 1/4 to 4 x, since polls come before it.  Read by:
 * core/tx/tx_sched.c, roce/delayed_ack.h.
 */
#define TUNE_ACK_DELAY_MAX VRB_MSEC

/*
 * Unit: replies, in a row and in time, before an ACK waits for the program's next reply.
 * Measured against: ib_write_lat over UDP, 14.5 to 3.9 us (6f395cf).  Read by:
 * roce/delayed_ack.h.
 */
#define TUNE_PINGPONG_REPLIES 8

/*
 * Unit: ns, a later reply is none, and an ACK that waits for it leaves alone.  Measured against:
 * as above.  Read by: roce/delayed_ack.h.
 */
#define TUNE_PINGPONG_REPLY_TIME (100 * VRB_USEC)

/*
 * Unit: requests, that wait together at most.  Measured against: bench wire: 24, 48 no gain, 64
 * slower (docs/PERFORMANCE.md).  Read by: roce/delayed_ack.h.
 */
#define TUNE_COALESCE_MAX 32

/*
 * Unit: bytes, longer requests do not wait.  Measured against: ib_send_bw by UDP: 512 bytes, 1/2
 * sends 10 times as often; 2 KiB, 4 x sends 80 % less often.  Read by: roce/delayed_ack.h.
 */
#define TUNE_COALESCE_LEN 512

/*
 * Unit: packets, in flight before requests wait.  Measured against: bench wire: streams coalesce
 * from the third packet (def3826).  Read by: roce/delayed_ack.h.
 */
#define TUNE_COALESCE_IN_FLIGHT 2

/*
 * Unit: times, as many requests wait as packets are in flight: the peer begins with a few.
 * Measured against: 8-byte SENDs by UDP: rate -18 % with 1, -16 % with 2; beyond 4 no gain.  Read
 * by: roce/delayed_ack.h.
 */
#define TUNE_COALESCE_TIMES 4

/*
 * Unit: ns, requests wait if a poll was so recent: a window takes some time to post.  Measured
 * against: 8-byte SENDs by UDP: rate -42 % with 1/4; within 6 % from 1/2 to 4 x.  Read by:
 * core/tx/tx_sched.c.
 */
#define TUNE_COALESCE_POLLED (250 * VRB_USEC)

/*
 * Unit: bytes, the poster runs a request to a QP of its own process up to this.  Measured against:
 * bench/self send: 2 KiB, 1/4 9 % slower; 16 KiB, 4 x 5 % faster, but one thread does it all.
 * Read by: core/fastpath/post.c.
 */
#define TUNE_LOOPBACK_LEN 4096

/* --- Reordering and selective retransmission --- */

/*
 * Unit: bytes, of early packets that a process keeps.  Reason: memory, of 64 of the largest
 * windows.  Read by: core/rx/reorder.c.
 */
#define LIMIT_REORDER_BYTES (16 << 20)

/*
 * Unit: packets, late ones in front of an early packet that leave it trusted: three runs of a
 * repair, 1 + 4 + 16.  Measured against: TUNE_RETX_GROWTH (8ca3739).  Read by: roce/reorder.h.
 */
#define TUNE_REORDER_TRUSTED 21

/*
 * Unit: packets, the same, as long as it shows a gap: the fourth run, too.  Measured against:
 * TUNE_RETX_RUN_MAX.  Read by: roce/reorder.h.
 */
#define TUNE_REORDER_MISSING 85

/*
 * Unit: ns, an early packet is kept.  Reason: RFC 6298 takes no round trip of an unknown path for
 * longer.  Read by: roce/reorder.h.
 */
#define LIMIT_REORDER_AGE VRB_SECOND

/*
 * Unit: times, the next run of a repair is longer than the last.  Measured against: sim sharing:
 * two flows 13 : 1 with a round trip for each packet (90c6766).  Read by: roce/selective_retx.c.
 */
#define TUNE_RETX_GROWTH 4

/*
 * Unit: packets, the longest run.  Measured against: as above.  Read by: roce/selective_retx.c.
 */
#define TUNE_RETX_RUN_MAX 64

/* --- Retransmission and windows --- */

/*
 * Unit: 4.096 us * 2^n, a shorter local ack timeout is taken as this, 4.2 ms: a process without a
 * processor for a few milliseconds is no lost packet, and IBTA lets a device be coarser.  Measured
 * against: sim stall of 2 ms, timeout 1 ms: with 8, 29 retries each; from 9 on none; 11 repairs 45
 * % later.  Read by: roce/retry.c.
 */
#define TUNE_TIMEOUT_FLOOR 10

/*
 * Unit: bytes, unacknowledged requests; a socket buffer of usual size holds them.  Measured
 * against: sim: 1/2 -18 % at 1 Gbit/s, 1 ms, 1 % loss; 2 x +2 %, and +57 % losses of an incast.
 * Read by: roce/retry.c.
 */
#define TUNE_WINDOW_BYTES (128 * 1024)

/*
 * Unit: packets, and at most; the reordering buffer holds as many.  Measured against: sim at 10
 * Gbit/s, MTU 1024: 1/2 +1 %, but no window beyond the limit is left (TUNE_CC_BEYOND).  Read by:
 * roce/engine.c, roce/retry.c, roce/selective_retx.c.
 */
#define TUNE_WINDOW_MAX 256

/*
 * Unit: packets, leave at one point in time: a huge READ of another implementation, or a huge UC
 * message, must not keep the caller in its loop for seconds.  Reason: about a millisecond of
 * sending.  Read by: roce/retry.h.
 */
#define LIMIT_BURST_MAX 1024

/*
 * Unit: round trips, without an answer, then the oldest packet is sent again; the next time after
 * twice that, and so on.  Measured against: sim rc_loss_stats: times under loss fell to a third
 * (750cd3a).  Read by: roce/retry.c.
 */
#define TUNE_PROBE_RTTS 3

/*
 * Unit: ns, that time at least.  Measured against: as above.  Read by: roce/retry.c.
 */
#define TUNE_PROBE_MIN VRB_MSEC

/*
 * Unit: 1 / ack timeout, that time at most, but not less than TUNE_PROBE_RTTS.  Measured against:
 * sim tail loss of 10 %, 4 ms timeout: 1/2 repairs 45 % later; 2 x sooner than TUNE_PROBE_MIN.
 * Read by: roce/retry.c.
 */
#define TUNE_PROBE_PART 4

/* --- Congestion control (cc.h) --- */

/*
 * Unit: packets, the smallest window.  Measured against: sim incast, MTU 4096: the last ends 184 %
 * later with 2, 119 % with 4.  Read by: roce/cc.c, roce/cc.h.
 */
#define TUNE_CC_WINDOW_MIN 1

/*
 * Unit: 1 / limit, the first window.  Measured against: sim sharing (d69e18c).  Read by:
 * roce/cc.c.
 */
#define TUNE_CC_FIRST 4

/*
 * Unit: limits, the largest window, on fast paths.  Measured against: bench wire: +8 to 18 %,
 * more is no gain (docs/PERFORMANCE.md).  Read by: roce/cc.c.
 */
#define TUNE_CC_BEYOND 2

/*
 * Unit: steps, of growth between nothing and the limit; TCP grows as fast.  Measured against: sim,
 * 10 ms, 0.1 % loss: 1/2 +40 %, but incast +8 % losses; 2 x the same.  Read by: roce/cc.c.
 */
#define TUNE_CC_STEPS 32

/*
 * Unit: grades, of delay: the longer, the slower a window grows.  Measured against: sim sharing
 * (d69e18c).  Read by: roce/cc.c.
 */
#define TUNE_CC_DELAY_GRADES 4

/*
 * Unit: ns, of a grade; shorter round trips say more of the peer's scheduler than of the network.
 * Measured against: sim sharing (d69e18c).  Read by: roce/cc.c.
 */
#define TUNE_CC_DELAY_STEP (250 * VRB_USEC)

/*
 * Unit: ns, a window that was cut is paced from this round trip on.  Measured against: sim incast,
 * MTU 4096: the last ends 46 % later with 1/4, 23 % with 4 x; 2 x +20 % losses.  Read by:
 * roce/cc.h.
 */
#define TUNE_CC_PACED_RTT (200 * VRB_USEC)

/*
 * Unit: bytes, that a packet takes of the window at least.  Measured against: bench wire: rates
 * of SEND +36 %, WRITE +61 % (docs/PERFORMANCE.md).  Read by: roce/cc.h.
 */
#define TUNE_CC_SHORTEST 1024

/*
 * Unit: windows, before a window above the limit is tried again.  Measured against: sim at 10
 * Gbit/s, MTU 1024: 1/4 -2 %, 4 x the same.  Read by: roce/cc.c.
 */
#define TUNE_CC_CALM_FIRST 16

/*
 * Unit: times, as many, each time that it did not pay.  Measured against: sim at 10 Gbit/s, MTU
 * 1024: 1/2 -1 %, 4 x the same.  Read by: roce/cc.c.
 */
#define TUNE_CC_CALM_FACTOR 4

/*
 * Unit: windows, as many at most.  Reason: after a minute, of 1-ms round trips, a path may be
 * another.  Read by: roce/cc.c.
 */
#define LIMIT_CC_CALM_MAX (1 << 16)

/*
 * Unit: ns, CNPs count once in it, or in a round trip if that is longer.  Measured against: sim
 * incast, ECN: the last ends 10 % later with 2 x, 35 % with 4 x; 1/4 the same.  Read by:
 * roce/cc.c.
 */
#define TUNE_CC_CNP_INTERVAL (50 * VRB_USEC)

/*
 * Unit: us, a QP sends at most one CNP in this time.  Measured against: sim incast, ECN: the last
 * ends 11 % later with 1/4 and 2 x, 17 % with 4 x.  Read by: roce/engine.c.
 */
#define TUNE_CNP_SEND_US 50

/*
 * Unit: ns, to wait for less is not worth a timer: the kernel's are as much late.  Measured
 * against: sim 32 hosts read: 2 x 23 % later; 1/4 7 % sooner, if timers were exact.  Read by:
 * roce/pace.c.
 */
#define TUNE_PACE_SLACK (50 * VRB_USEC)

/*
 * Unit: ns, between two answers at most: 8 Mbit/s at MTU 1024.  Reason: what takes longer is a
 * pause of the program.  Read by: roce/pace.c.
 */
#define LIMIT_PACE_GAP_MAX VRB_MSEC

/*
 * Unit: packets, answers that leave together.  Measured against: sim READs, from 0 to 4 x: incasts
 * within 5 %, shares of two flows within 15 %.  Read by: roce/pace.c.
 */
#define TUNE_PACE_AHEAD 4

/*
 * Unit: gaps, a longer one is that of a process without a processor.  Measured against: sim
 * rc_loss_stats, incast of readers (5afa271).  Read by: roce/pace.c.
 */
#define TUNE_PACE_STALL 4

/*
 * Unit: READs, whose answers are spread after a sign of congestion.  Measured against: sim
 * sharing, incast (d69e18c).  Read by: roce/pace.c.
 */
#define TUNE_PACE_SPREAD 16

/*
 * Unit: ns, in which the QPs of a path are counted; two round trips if those are longer.
 * Measured against: sim sharing: 16 flows (def3826).  Read by: core/base/path_flows.c.
 */
#define TUNE_FLOWS_PERIOD (10 * VRB_MSEC)

/* --- Fairness probe (cc_probe.h) --- */

/*
 * Unit: ns, shorter round trips hold no queue that is worth a probe.  Measured against: sim
 * sharing: two flows 13 : 1 without it (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_RTT (750 * VRB_USEC)

/*
 * Unit: windows, a period; a trial takes one.  Measured against: sim sharing: two flows 13 : 1
 * without it (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_PERIOD 3

/*
 * Unit: periods, of long round trips before a trial.  Measured against: sim sharing: two flows 13
 * : 1 without it (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_WAIT 3

/*
 * Unit: times, as many, each time that a trial was in vain.  Measured against: sim sharing: two
 * flows 13 : 1 without it (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_BACKOFF 4

/*
 * Unit: periods, as many at most.  Measured against: sim sharing: two flows 13 : 1 without it
 * (90c6766).  Read by: roce/cc_probe.c.
 */
#define TUNE_CC_PROBE_WAIT_MAX 1024

/* --- Rates of datagrams and unreliable connections (dcqcn.h) --- */

/*
 * Unit: 1 / g, of the average of CNPs.  Measured against: DCQCN's, as published.  Read by:
 * roce/cc.c, roce/dcqcn.c.
 */
#define TUNE_DCQCN_GAIN 16

/*
 * Unit: ns, of recovery.  Measured against: sim UD, 1 Gbit/s: 1/4 -7 %; 2 x loses 62 % more before
 * the rate is found.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_PERIOD VRB_MSEC

/*
 * Unit: periods, of fast recovery, before steps beyond the target.  Measured against: DCQCN's, as
 * published.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_FAST 5

/*
 * Unit: periods, before hyper increase.  Measured against: dcqcn.c alone, from 1 to 10 Gbit/s:
 * 0.36 s; 1/4 0.30, 4 x 0.58 s.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_HYPER 100

/*
 * Unit: kbit/s, a period.  Measured against: dcqcn.c alone, from 1 to 10 Gbit/s: 0.36 s; 1/4 1.13,
 * 4 x 0.17 s.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_HYPER_STEP (4 * TUNE_DCQCN_STEP)

/*
 * Unit: kbit/s, a period.  Measured against: sim UD: 100 Mbit/s, 1/4 -19 %, 4 x +20 %; 1 Gbit/s,
 * within 1 % from 1/4 to 4 x.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_STEP 8000

/*
 * Unit: kbit/s, however steady the CNPs.  Reason: bounds what forged ones can do.  Read by:
 * roce/dcqcn.c.
 */
#define LIMIT_DCQCN_MIN 40000

/*
 * Unit: kbit/s, above it a rate is unlimited.  Reason: a QP sends 34 Gbit/s by UDP at most
 * (docs/PERFORMANCE.md).  Read by: roce/dcqcn.c.
 */
#define LIMIT_DCQCN_MAX 40000000

/*
 * Unit: ns, a rate measured over less is one burst or none.  Measured against: sim UD, 1 Gbit/s,
 * before the rate is found: 4 x loses 82 % more; 1/4 loses of bursts.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_MEASURE_MIN (200 * VRB_USEC)

/*
 * Unit: ns, a rate is measured over no more.  Reason: pauses of the program would count.  Read by:
 * roce/dcqcn.c.
 */
#define LIMIT_DCQCN_MEASURE_MAX (10 * VRB_MSEC)

/* --- Polling and sleeping --- */

/*
 * Unit: ns, ibv_get_cq_event() polls before it sleeps.  Measured against: bench events, 64-KiB
 * ping-pong: 1.79 to 1.27 CPU s, 246 to 142 us (docs/PERFORMANCE.md).  Read by:
 * core/fastpath/event_wait.c.
 */
#define TUNE_BUSY_POLL_TIME (100 * VRB_USEC)

/*
 * Unit: waits, that sleep at once after polling in vain, at most.  Measured against: ib_send_lat
 * -e: system calls -4 % with 1/4, -8 % with 1/16; each poll in vain costs 100 us.  Read by:
 * core/cq/busy_poll.h.
 */
#define TUNE_BUSY_POLL_SLEEPS_MAX 127

/*
 * Unit: polls, in vain before that wait yields the processor.  Measured against: as
 * TUNE_BUSY_POLL_TIME.  Read by: core/fastpath/event_wait.c.
 */
#define TUNE_BUSY_POLL_YIELD 16

/*
 * Unit: polls, in vain before a poll yields; about ten times as many us as a context switch takes.
 * Measured against: bench/self poll: an empty poll takes the same within 3 % from 1/4 to 4 x.
 * Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_YIELD 256

/*
 * Unit: rounds, of each socket, and of lanes, before a deadline counts as missed.  Reason: endless
 * input must not keep timers from expiring.  Read by: core/progress/poll_loop.c.
 */
#define LIMIT_POLL_LATE_ROUNDS 64

/*
 * Unit: ns, until the next look whether an RX queue was served since a reply was due.  Reason:
 * 4,000 looks a second, until it was.  Read by: core/progress/timeouts.c.
 */
#define LIMIT_UNSERVED_RETRY (250 * VRB_USEC)

/*
 * Unit: polls, without a wait for an event, and a program counts as polling.  Measured against:
 * bench/self pong: the same within 1 % from 1/4 to 4 x.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_HANDOFF 64

/*
 * Unit: polls, the same if it has left work to the progress thread before.  Measured against:
 * bench/self pong: 1/4 +3 %, 4 x +1 %.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_STEADY 4096

/*
 * Unit: us, between looks of pollers at an idle wire.  Measured against: ib_send_lat on one host:
 * looks at the wire 4 times as often with 1/4, 1/15 with 4 x.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_WIRE_US 20

/*
 * Unit: polls, of the own RX queue, then a poller checks another one.  Measured against: bench
 * threads 2: 1/4 to 4 x, nothing that stands out of a busy machine's noise.  Read by:
 * core/progress/poll_loop.c.
 */
#define TUNE_POLL_OTHERS 8

/*
 * Unit: us, that queue is polled if no thread has done so for this long.  Measured against: bench
 * threads 2: as above.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_UNPOLLED_US 50

/*
 * Unit: collisions, of pollers before each gets an RX queue of its own.  Measured against: bench
 * threads: 1.73 of one thread (docs/PERFORMANCE.md).  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_CONTENDED 64

/*
 * Unit: ns, pollers check a process's inbox after a packet came there.  Reason: longer than the
 * pauses of a connection's set-up; then the progress thread serves it alone.  Read by:
 * core/progress/poll_loop.c.
 */
#define LIMIT_INBOX_LINGER (50 * VRB_MSEC)

/*
 * Unit: packets, taken and sent that are a stream, of which the next are awaited.  Measured
 * against: ib_write_bw by UDP, the receiver's system calls: 1/4 +69 %, 1/2 +28 %, 2 x -23 %.  Read
 * by: core/progress/rx_queue.c.
 */
#define TUNE_LINGER_STREAM 8

/*
 * Unit: ns, the progress thread awaits the next of a stream before it sleeps.  Measured against:
 * bench wire: +7 to 10 % (docs/PERFORMANCE.md).  Read by: core/progress/rx_queue.c.
 */
#define TUNE_LINGER (30 * VRB_USEC)

/*
 * Unit: ns, in one go.  Reason: deadlines want their turn.  Read by: core/progress/rx_queue.c.
 */
#define LIMIT_LINGER_MAX (10 * TUNE_LINGER)

/*
 * Unit: packets, by the inbox before steering is probed again.  Reason: a probe sends a datagram
 * to each socket of the port, so it must be worth that.  Read by: core/progress/rx_steering.c.
 */
#define LIMIT_STEER_MISLED 32

/*
 * Unit: ns, between probes at least.  Reason: five probes a second are cheap.  Read by:
 * core/progress/rx_steering.c.
 */
#define LIMIT_STEER_PROBE (200 * VRB_MSEC)

/*
 * Unit: ns, the same after a probe that changed nothing.  Reason: one that others cause, at no
 * end, shall cost nothing.  Read by: core/progress/rx_steering.c.
 */
#define LIMIT_STEER_PROBE_SELDOM (10 * VRB_SECOND)

/* --- Processes of one host --- */

/*
 * Unit: us, a full lane is tried again after this, and each time after twice as long.  Reason: a
 * poller tries sooner; this bounds a sender that sleeps.  Read by: core/local/peer_tx.c.
 */
#define LIMIT_LANE_RETRY_US 20

/*
 * Unit: us, up to this: its owner may be stopped.  Reason: 780 wake-ups a second for a process
 * that does not run.  Read by: core/local/peer_tx.c.
 */
#define LIMIT_LANE_RETRY_MAX_US 1280

/*
 * Unit: ms, a lane full for so long is not emptied: datagrams are lost.  Reason: a process that
 * runs gets a processor sooner.  Read by: core/local/peer_tx.c.
 */
#define LIMIT_LANE_STUCK_MS 1000

/*
 * Unit: us, and it is tried again after up to this.  Reason: 49 wake-ups a second for a stopped
 * process.  Read by: core/local/peer_tx.c.
 */
#define LIMIT_LANE_STUCK_RETRY_US 20480

/*
 * Unit: bytes, longer payloads are left for the receiver to pull.  Measured against: ib_send_lat
 * on one host: 1 KiB, pulling more than doubles it; 4 KiB, copying -7 % (busy).  Read by:
 * core/local/peer_tx.c.
 */
#define TUNE_LANE_PULL_MIN 2048

/*
 * Unit: ms, before a look for a peer that a datagram to a group did not reach.  Reason: 100 looks
 * a second for a process that starts.  Read by: core/local/peer_tx.c.
 */
#define LIMIT_PEER_GROUP_RETRY_MS 10

/*
 * Unit: ms, before a look for a peer's process, and each time after twice as long.  Reason: the
 * time in which a peer that connects becomes ready to receive.  Read by: core/local/peer_link.c.
 */
#define LIMIT_PEER_RETRY_MS 1

/*
 * Unit: ms, up to this.  Reason: 4 looks a second for a peer that is no process of this host.
 * Read by: core/local/peer_link.c.
 */
#define LIMIT_PEER_RETRY_MAX_MS 256

/*
 * Unit: ms, an unreliable connection waits for its peer's QP.  Reason: then packets are lost, as
 * on a wire.  Read by: core/local/peer_link.c.
 */
#define LIMIT_PEER_UC_WAIT_MS 1000

/*
 * Unit: ms, what one sent by the wire has arrived by then, or is lost.  Reason: longer than
 * packets stay in a socket whose process runs.  Read by: core/local/peer_link.c.
 */
#define LIMIT_PEER_UC_QUIET_MS 100

/*
 * Unit: ns, after a process's answer, in which its other RX queues take their sockets.  Reason: a
 * thread that polls does so in less.  Read by: core/local/keepalive.c.
 */
#define LIMIT_KEEPALIVE_GRACE (2 * VRB_MSEC)

/*
 * Unit: ns, between questions to a process that has not answered.  Reason: a full inbox may have
 * lost the first.  Read by: core/local/keepalive.c.
 */
#define LIMIT_KEEPALIVE_REPEAT (100 * VRB_MSEC)

/*
 * Unit: bytes, shorter payloads are copied before help has come.  Measured against: bench
 * bandwidth1m: 14.6 to 35 GiB/s (docs/PERFORMANCE.md); 64 KiB is too short.  Read by:
 * core/local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_MIN (256 * 1024)

/*
 * Unit: bytes, a piece; what a call costs besides the copy hardly counts.  Measured against:
 * bench bandwidth1m: 14.6 to 35 GiB/s (docs/PERFORMANCE.md).  Read by: local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_PIECE_MIN (64 * 1024)

/*
 * Unit: bytes, a piece.  Measured against: bench bandwidth1m: 14.6 to 35 GiB/s
 * (docs/PERFORMANCE.md).  Read by: local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_PIECE_MAX (256 * 1024)

/*
 * Unit: spins, longer than a piece takes; then the sender may want this processor.  Measured
 * against: ib_send_bw of 1 MiB: 1/4 and 4 x within the noise of a busy machine, 25 %.  Read by:
 * local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_SPINS 512

/*
 * Unit: ns, for the other end's piece.  Reason: then the sender is stopped, and the message
 * refused.  Read by: local/split_copy.c.
 */
#define LIMIT_SPLIT_COPY_WAIT (100 * VRB_MSEC)

/*
 * Unit: spins, before a wait is taken for a stopped process.  Reason: longer than a short access
 * takes; then the first system call is due.  Read by: local/hazard.c.
 */
#define LIMIT_HAZARD_SPINS 4096

/* --- What is full for a moment --- */

/*
 * Unit: ms, a full socket is waited for, each time.  Reason: the least that poll(2) can wait.
 * Read by: core/tx/tx_batch.c.
 */
#define LIMIT_SOCKET_FULL_MS 1

/*
 * Unit: tries.  Reason: then the packets are lost, as on a network.  Read by: core/tx/tx_batch.c.
 */
#define LIMIT_SOCKET_FULL_TRIES 20

/*
 * Unit: bytes, received at once before the fill of the socket's buffer is looked at, to mark
 * packets.  Measured against: bench wire (5bd0b4d).  Read by: wire/udp_recv.c.
 */
#define TUNE_SOCKET_CROWD 32768

/*
 * Unit: ns, between decisions on how many connection requests are let in while a flood comes.
 * Reason: the time in which 200,000 requests a second fill a socket buffer.  Read by:
 * core/mad/admission.c.
 */
#define LIMIT_ADMISSION_PERIOD (4 * VRB_MSEC)

/*
 * Unit: us, before a full interface is tried again.  Reason: 64 KiB leave at 10 Gbit/s.  Read by:
 * core/raw/raw_tx.c.
 */
#define LIMIT_RAW_FULL_US 50

/*
 * Unit: tries, of a full inbox.  Reason: it holds few datagrams (net.unix.max_dgram_qlen, often
 * 10).  Read by: host/inbox.c.
 */
#define LIMIT_INBOX_FULL_TRIES 20

/*
 * Unit: ns, between them.  Reason: with the tries a millisecond, in which a process that runs
 * empties its inbox.  Read by: host/inbox.c.
 */
#define LIMIT_INBOX_FULL_NS 50000

#endif
