/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All constants of adaptive behaviour: what decides when to wait, poll, send again or slow down.
 * Limits of the protocol and sizes of tables stand with their code.
 *
 * Each one says its unit, what it means, what it was measured against, and which files of src/
 * read it.  "Chosen" means that no measurement is recorded: measure before you build on it.
 * scripts/check-tuning proves that the readers are true; scripts/vary-tuning measures with other
 * values.
 */
#ifndef VRB_UTIL_TUNING_H
#define VRB_UTIL_TUNING_H

#include "util/time.h"

/* --- ACKs that wait for company, and requests that leave together --- */

/*
 * Unit: packets, an ACK waits only after rounds of at most so many: more are a stream, whose
 * sender waits for it.  Chosen, not measured.  Read by: roce/delayed_ack.h.
 */
#define TUNE_ACK_DELAY_PACKETS 4

/*
 * Unit: polls, in a row that may delay ACKs.  Chosen, not measured.  Read by: roce/delayed_ack.h.
 */
#define TUNE_ACK_DELAY_POLLS 4

/*
 * Unit: ns, an ACK waits no longer, where the program polls.  Chosen, not measured.  Read by:
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
 * Unit: bytes, longer requests do not wait.  Chosen, not measured.  Read by: roce/delayed_ack.h.
 */
#define TUNE_COALESCE_LEN 512

/*
 * Unit: packets, in flight before requests wait.  Measured against: bench wire: streams coalesce
 * from the third packet (def3826).  Read by: roce/delayed_ack.h.
 */
#define TUNE_COALESCE_IN_FLIGHT 2

/*
 * Unit: times, as many requests wait as packets are in flight: the peer begins with a few.
 * Chosen, not measured.  Read by: roce/delayed_ack.h.
 */
#define TUNE_COALESCE_TIMES 4

/*
 * Unit: ns, requests wait if a poll was so recent: a window takes some time to post.  Chosen, not
 * measured.  Read by: core/tx/tx_sched.c.
 */
#define TUNE_COALESCE_POLLED (250 * VRB_USEC)

/*
 * Unit: bytes, the poster runs a request to a QP of its own process up to this.  Chosen, not
 * measured.  Read by: core/fastpath/post.c.
 */
#define TUNE_LOOPBACK_LEN 4096

/* --- Reordering and selective retransmission --- */

/*
 * Unit: bytes, of early packets that a process keeps.  Chosen, not measured.  Read by:
 * core/rx/reorder.c.
 */
#define TUNE_REORDER_BYTES (16 << 20)

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
 * Unit: ns, an early packet is kept; longer than the round trip of any path.  Chosen, not
 * measured.  Read by: roce/reorder.h.
 */
#define TUNE_REORDER_AGE VRB_SECOND

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
 * processor for a few milliseconds is no lost packet, and IBTA lets a device be coarser.  Chosen,
 * not measured.  Read by: roce/retry.c.
 */
#define TUNE_TIMEOUT_FLOOR 10

/*
 * Unit: bytes, unacknowledged requests; a socket buffer of usual size holds them.  Chosen, not
 * measured.  Read by: roce/retry.c.
 */
#define TUNE_WINDOW_BYTES (128 * 1024)

/*
 * Unit: packets, and at most; the reordering buffer holds as many.  Chosen, not measured.  Read
 * by: roce/engine.c, roce/retry.c, roce/selective_retx.c.
 */
#define TUNE_WINDOW_MAX 256

/*
 * Unit: packets, leave at one point in time: a huge READ of another implementation, or a huge UC
 * message, must not keep the caller in its loop for seconds.  Chosen, not measured.  Read by:
 * roce/retry.h.
 */
#define TUNE_BURST_MAX 1024

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
 * Unit: 1 / ack timeout, that time at most, but not less than TUNE_PROBE_RTTS.  Chosen, not
 * measured.  Read by: roce/retry.c.
 */
#define TUNE_PROBE_PART 4

/* --- Congestion control (cc.h) --- */

/*
 * Unit: packets, the smallest window.  Chosen, not measured.  Read by: roce/cc.c, roce/cc.h.
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
 * Unit: steps, of growth between nothing and the limit.  Chosen, not measured.  Read by:
 * roce/cc.c.
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
 * Unit: ns, a window that was cut is paced from this round trip on.  Chosen, not measured.  Read
 * by: roce/cc.h.
 */
#define TUNE_CC_PACED_RTT (200 * VRB_USEC)

/*
 * Unit: bytes, that a packet takes of the window at least.  Measured against: bench wire: rates
 * of SEND +36 %, WRITE +61 % (docs/PERFORMANCE.md).  Read by: roce/cc.h.
 */
#define TUNE_CC_SHORTEST 1024

/*
 * Unit: windows, before a window above the limit is tried again.  Chosen, not measured.  Read by:
 * roce/cc.c.
 */
#define TUNE_CC_PATIENCE_FIRST 16

/*
 * Unit: times, as many, each time that it did not pay.  Chosen, not measured.  Read by:
 * roce/cc.c.
 */
#define TUNE_CC_PATIENCE_MORE 4

/*
 * Unit: windows, as many at most.  Chosen, not measured.  Read by: roce/cc.c.
 */
#define TUNE_CC_PATIENCE_MAX (1 << 16)

/*
 * Unit: ns, CNPs count once in it, or in a round trip if that is longer.  Measured against: Annex
 * A17 leaves it open.  Read by: roce/cc.c.
 */
#define TUNE_CC_CNP_INTERVAL (50 * VRB_USEC)

/*
 * Unit: us, a QP sends at most one CNP in this time.  Measured against: Annex A17 leaves it open.
 * Read by: roce/engine.c.
 */
#define TUNE_CNP_SEND_US 50

/*
 * Unit: ns, to wait for less is not worth a timer.  Chosen, not measured.  Read by: roce/pace.c.
 */
#define TUNE_PACE_SLACK (50 * VRB_USEC)

/*
 * Unit: ns, between two answers at most: 8 Mbit/s at MTU 1024.  Chosen, not measured.  Read by:
 * roce/pace.c.
 */
#define TUNE_PACE_GAP_MAX VRB_MSEC

/*
 * Unit: packets, answers that leave together.  Chosen, not measured.  Read by: roce/pace.c.
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
 * Unit: ns, of recovery.  Chosen, not measured.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_PERIOD VRB_MSEC

/*
 * Unit: periods, of fast recovery, before steps beyond the target.  Measured against: DCQCN's, as
 * published.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_FAST 5

/*
 * Unit: periods, before hyper increase.  Chosen, not measured.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_HYPER 100

/*
 * Unit: kbit/s, a period.  Chosen, not measured.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_HYPER_STEP (4 * TUNE_DCQCN_STEP)

/*
 * Unit: kbit/s, a period.  Chosen, not measured.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_STEP 8000

/*
 * Unit: kbit/s, however steady the CNPs: what forged ones can do.  Chosen, not measured.  Read
 * by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_MIN 40000

/*
 * Unit: kbit/s, no bottleneck beyond this is worth a limit.  Chosen, not measured.  Read by:
 * roce/dcqcn.c.
 */
#define TUNE_DCQCN_MAX 40000000

/*
 * Unit: ns, a rate measured over less is one burst or none.  Chosen, not measured.  Read by:
 * roce/dcqcn.c.
 */
#define TUNE_DCQCN_MEASURE_MIN (200 * VRB_USEC)

/*
 * Unit: ns, and over more, pauses of the program.  Chosen, not measured.  Read by: roce/dcqcn.c.
 */
#define TUNE_DCQCN_MEASURE_MAX (10 * VRB_MSEC)

/* --- Polling and sleeping --- */

/*
 * Unit: ns, ibv_get_cq_event() polls before it sleeps.  Measured against: bench events, 64-KiB
 * ping-pong: 1.79 to 1.27 CPU s, 246 to 142 us (docs/PERFORMANCE.md).  Read by:
 * core/fastpath/event_wait.c.
 */
#define TUNE_BUSY_POLL_TIME (100 * VRB_USEC)

/*
 * Unit: waits, that sleep at once after polling in vain, at most.  Chosen, not measured.  Read
 * by: core/cq/busy_poll.h.
 */
#define TUNE_BUSY_POLL_SLEEPS_MAX 127

/*
 * Unit: polls, in vain before that wait yields the processor.  Measured against: as
 * TUNE_BUSY_POLL_TIME.  Read by: core/fastpath/event_wait.c.
 */
#define TUNE_BUSY_POLL_YIELD 16

/*
 * Unit: polls, in vain before a poll yields; about ten times as many us as a context switch
 * takes.  Chosen, not measured.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_YIELD 256

/*
 * Unit: rounds, of each socket, and of lanes, before a deadline counts as missed.  Chosen, not
 * measured.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_LATE_ROUNDS 64

/*
 * Unit: ns, until the next look whether an RX queue was served since a reply was due.  Chosen, not
 * measured.  Read by: core/progress/timeouts.c.
 */
#define TUNE_UNSERVED_RETRY (250 * VRB_USEC)

/*
 * Unit: polls, without a wait for an event, and a program counts as polling.  Chosen, not
 * measured.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_HANDOFF 64

/*
 * Unit: polls, the same if it has left work to the progress thread before.  Chosen, not measured.
 * Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_STEADY 4096

/*
 * Unit: us, between looks of pollers at an idle wire.  Chosen, not measured.  Read by:
 * core/progress/poll_loop.c.
 */
#define TUNE_POLL_WIRE_US 20

/*
 * Unit: polls, of the own RX queue, then a poller checks another one.  Chosen, not measured.
 * Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_OTHERS 8

/*
 * Unit: us, that queue is polled if no thread has done so for this long.  Chosen, not measured.
 * Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_UNPOLLED_US 50

/*
 * Unit: collisions, of pollers before each gets an RX queue of its own.  Measured against: bench
 * threads: 1.73 of one thread (docs/PERFORMANCE.md).  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_CONTENDED 64

/*
 * Unit: ns, pollers check a process's inbox after a packet came there.  Chosen, not measured.
 * Read by: core/progress/poll_loop.c.
 */
#define TUNE_INBOX_LINGER (50 * VRB_MSEC)

/*
 * Unit: packets, taken and sent that are a stream, of which the next are awaited.  Chosen, not
 * measured.  Read by: core/progress/rx_queue.c.
 */
#define TUNE_LINGER_STREAM 8

/*
 * Unit: ns, the progress thread awaits the next of a stream before it sleeps.  Measured against:
 * bench wire: +7 to 10 % (docs/PERFORMANCE.md).  Read by: core/progress/rx_queue.c.
 */
#define TUNE_LINGER (30 * VRB_USEC)

/*
 * Unit: ns, in one go, since deadlines want their turn.  Chosen, not measured.  Read by:
 * core/progress/rx_queue.c.
 */
#define TUNE_LINGER_MAX (10 * TUNE_LINGER)

/*
 * Unit: packets, by the inbox before steering is probed again.  Chosen, not measured.  Read by:
 * core/progress/rx_steering.c.
 */
#define TUNE_STEER_MISLED 32

/*
 * Unit: ns, between probes at least.  Chosen, not measured.  Read by:
 * core/progress/rx_steering.c.
 */
#define TUNE_STEER_PROBE (200 * VRB_MSEC)

/*
 * Unit: ns, the same after a probe that changed nothing.  Chosen, not measured.  Read by:
 * core/progress/rx_steering.c.
 */
#define TUNE_STEER_PROBE_SELDOM (10 * VRB_SECOND)

/* --- Processes of one host --- */

/*
 * Unit: us, a full lane is tried again after this, and each time after twice as long.  Chosen,
 * not measured.  Read by: core/local/peer_tx.c.
 */
#define TUNE_LANE_RETRY_US 20

/*
 * Unit: us, up to this: its owner may be stopped.  Chosen, not measured.  Read by:
 * core/local/peer_tx.c.
 */
#define TUNE_LANE_RETRY_MAX_US 1280

/*
 * Unit: ms, a lane full for so long is not emptied: datagrams are lost.  Chosen, not measured.
 * Read by: core/local/peer_tx.c.
 */
#define TUNE_LANE_STUCK_MS 1000

/*
 * Unit: us, and it is tried again after up to this.  Chosen, not measured.  Read by:
 * core/local/peer_tx.c.
 */
#define TUNE_LANE_STUCK_RETRY_US 20480

/*
 * Unit: bytes, longer payloads are left for the receiver to pull.  Chosen, not measured.  Read
 * by: core/local/peer_tx.c.
 */
#define TUNE_LANE_PULL_MIN 2048

/*
 * Unit: ms, before a look for a peer that a datagram to a group did not reach.  Chosen, not
 * measured.  Read by: core/local/peer_tx.c.
 */
#define TUNE_PEER_GROUP_RETRY_MS 10

/*
 * Unit: ms, before a look for a peer's process, and each time after twice as long.  Chosen, not
 * measured.  Read by: core/local/peer_link.c.
 */
#define TUNE_PEER_RETRY_MS 1

/*
 * Unit: ms, up to this.  Chosen, not measured.  Read by: core/local/peer_link.c.
 */
#define TUNE_PEER_RETRY_MAX_MS 256

/*
 * Unit: ms, an unreliable connection waits for its peer's QP.  Chosen, not measured.  Read by:
 * core/local/peer_link.c.
 */
#define TUNE_PEER_UC_WAIT_MS 1000

/*
 * Unit: ms, what one sent by the wire has arrived by then, or is lost.  Chosen, not measured.
 * Read by: core/local/peer_link.c.
 */
#define TUNE_PEER_UC_QUIET_MS 100

/*
 * Unit: ns, after a process's answer, in which its other RX queues take their sockets.  Chosen,
 * not measured.  Read by: core/local/keepalive.c.
 */
#define TUNE_KEEPALIVE_GRACE (2 * VRB_MSEC)

/*
 * Unit: ns, between questions to a process that has not answered.  Chosen, not measured.  Read
 * by: core/local/keepalive.c.
 */
#define TUNE_KEEPALIVE_REPEAT (100 * VRB_MSEC)

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
 * Unit: spins, longer than a piece takes; then the sender may want this processor.  Chosen, not
 * measured.  Read by: local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_SPINS 512

/*
 * Unit: ns, for the other end's piece.  Chosen, not measured.  Read by: local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_PATIENCE (100 * VRB_MSEC)

/*
 * Unit: spins, before a wait is taken for a stopped process.  Chosen, not measured.  Read by:
 * local/hazard.c.
 */
#define TUNE_HAZARD_SPINS 4096

/* --- What is full for a moment --- */

/*
 * Unit: ms, a full socket is waited for, each time.  Chosen, not measured.  Read by:
 * core/tx/tx_batch.c.
 */
#define TUNE_SOCKET_FULL_MS 1

/*
 * Unit: tries, and then the packets are lost, as on a network.  Chosen, not measured.  Read by:
 * core/tx/tx_batch.c.
 */
#define TUNE_SOCKET_FULL_TRIES 20

/*
 * Unit: bytes, received at once before the fill of the socket's buffer is looked at, to mark
 * packets.  Measured against: bench wire (5bd0b4d).  Read by: wire/udp_recv.c.
 */
#define TUNE_SOCKET_CROWD 32768

/*
 * Unit: ns, between decisions on how many connection requests are let in while a flood comes.
 * Chosen, not measured.  Read by: core/mad/admission.c.
 */
#define TUNE_ADMISSION_PERIOD (4 * VRB_MSEC)

/*
 * Unit: us, before a full interface is tried again.  Chosen, not measured.  Read by:
 * core/raw/raw_tx.c.
 */
#define TUNE_RAW_FULL_US 50

/*
 * Unit: tries, of a full inbox, which holds few datagrams (net.unix.max_dgram_qlen, often 10).
 * Chosen, not measured.  Read by: host/inbox.c.
 */
#define TUNE_INBOX_FULL_TRIES 20

/*
 * Unit: ns, between them.  Chosen, not measured.  Read by: host/inbox.c.
 */
#define TUNE_INBOX_FULL_NS 50000

#endif
