/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All constants of adaptive behaviour: when to wait, poll, send again or slow down. Limits of the
 * protocol and sizes of tables are next to their code.
 *
 * TUNE_ constants were measured. Each comment gives its unit and meaning, the measurement, and the
 * files of src/ that read it. "1/4" and "2 x" mean the measurement with that multiple of the
 * constant, compared with its value here. scripts/vary-tuning repeats the measurements; "sim" is
 * tests/sim/measure.c.
 *
 * LIMIT_ constants are bounds: memory, rates of retries, the time until a peer is given up. No
 * measurement finds a best value, so each comment gives a reason instead. "No effect found" means
 * that results with 1/4 and 4 x differed by less than repeated runs; such a value is a guess.
 *
 * scripts/check-tuning checks the form of the comments and the lists of readers.
 */
#ifndef VRB_UTIL_TUNING_H
#define VRB_UTIL_TUNING_H

#include "util/time.h"
#include "util/tuning_cc.h"

/* --- Delayed ACKs and coalesced requests --- */

/*
 * Unit: packets; an ACK is delayed only after rounds of at most this many: more are a stream, whose
 * sender waits for it.  Measured against: bench/self pong by UDP: 1/4 sends 56 % more often, 4 x
 * the same.  Read by: roce/delayed_ack.h.
 */
#define TUNE_ACK_DELAY_PACKETS 4

/*
 * Unit: consecutive polls that may delay ACKs.  Measured against: bench/self pong by UDP: sends 18
 * % less often with 1, 14 % with 16; ib_send_bw the same.  Read by: roce/delayed_ack.h.
 */
#define TUNE_ACK_DELAY_POLLS 4

/*
 * Unit: ns, the longest delay of an ACK while the program polls.  Measured against: bench/self
 * pong, 8-byte SENDs by UDP: the same from 1/4 to 4 x, since polls come before it.  Read by:
 * core/tx/tx_sched.c, roce/coalesce.h, roce/delayed_ack.h.
 */
#define TUNE_ACK_DELAY_MAX VRB_MSEC

/*
 * Unit: consecutive replies in time before an ACK waits for the program's next reply.  Measured
 * against: ib_write_lat over UDP, 14.5 to 3.9 us (6f395cf).  Read by: roce/delayed_ack.h.
 */
#define TUNE_PINGPONG_REPLIES 8

/*
 * Unit: ns; a later reply does not count, and an ACK that waits for it is sent alone.  Measured
 * against: as above.  Read by: roce/delayed_ack.h.
 */
#define TUNE_PINGPONG_REPLY_TIME (100 * VRB_USEC)

/*
 * Unit: requests that wait together, at most.  Measured against: bench wire: 24, 48 no gain, 64
 * slower (docs/EXPERIMENTS.md).  Read by: roce/coalesce.h.
 */
#define TUNE_COALESCE_MAX 32

/*
 * Unit: bytes that wait, at most, if all requests are as long as the last.  Measured against:
 * ib_send_bw by UDP: 2 KiB, 1/2 sends 80 % more often, -19 %; 2 x as often, +8 %.  Read by:
 * core/tx/tx_sched.c, roce/coalesce.h.
 */
#define TUNE_COALESCE_BYTES (32 << 10)

/*
 * Unit: posts that do not wait, after some waited for TUNE_ACK_DELAY_MAX because the program did
 * not poll.  Reason: 1 ms lost in 1,024 posts is 1 us for each.  Read by: roce/coalesce.h.
 */
#define LIMIT_COALESCE_REST 1024

/*
 * Unit: packets in flight before requests wait.  Measured against: bench wire: streams coalesce
 * from the third packet (def3826).  Read by: roce/coalesce.h.
 */
#define TUNE_COALESCE_IN_FLIGHT 2

/*
 * Unit: ratio of waiting requests to packets in flight: the peer starts with a few.  Measured
 * against: 8-byte SENDs by UDP: rate -18 % with 1, -16 % with 2; beyond 4 no gain.  Read by:
 * roce/coalesce.h.
 */
#define TUNE_COALESCE_TIMES 4

/*
 * Unit: ns; requests wait only if the last poll was this recent: posting a window takes some time.
 * Measured against: 8-byte SENDs by UDP: rate -42 % with 1/4; within 6 % from 1/2 to 4 x.  Read by:
 * core/tx/tx_sched.c.
 */
#define TUNE_COALESCE_POLLED (250 * VRB_USEC)

/*
 * Unit: ns from a UC or UD post, or from the poll that sent its packets, to the next one in a
 * stream, times slowdown(): less than a round trip.  Measured against: ib_send_bw of 64 bytes, UD,
 * by UDP: 1/4 sends 4 % more often, 4 x 10 % less.  Read by: core/tx/tx_sched.c.
 */
#define TUNE_STREAM_GAP (4 * VRB_USEC)

/*
 * Unit: posts within that gap, before packets wait.  Measured against: as above: 1, 16 send as
 * often.  Read by: roce/coalesce.h.
 */
#define TUNE_STREAM_POSTS 4

/*
 * Unit: ns from arming a CQ beside completions to the event for those that are still there.
 * Reason: a program that polls until the CQ is empty needs none.  Read by: core/cq/cq.c.
 */
#define LIMIT_CQ_LEFT (2 * VRB_MSEC)

/*
 * Unit: ns between looks at them while the program polls nothing; longer each time up to this.
 * Reason: 4 a second for a program that never polls.  Read by: core/cq/cq.c.
 */
#define LIMIT_CQ_LEFT_MAX (256 * VRB_MSEC)

/*
 * Unit: ns that such packets wait, at most, for a poll.  Measured against: as above: 1/4 sends 3.5
 * times as often, 4 x 7 % less.  Read by: core/tx/tx_pending.c.
 */
#define TUNE_PENDING_TIME (250 * VRB_USEC)

/*
 * Unit: posts that leave at once, after packets waited that long in vain.  Reason: 250 us lost in
 * 256 posts is 1 us for each.  Read by: core/tx/tx_pending.c.
 */
#define LIMIT_PENDING_REST 256

/*
 * Unit: bytes, up to which the poster executes a request to a QP of its own process.  Measured
 * against: bench/self send: 2 KiB, 1/4 9 % slower; 16 KiB, 4 x 5 % faster, but one thread does it
 * all.  Read by: core/fastpath/post.c.
 */
#define TUNE_LOOPBACK_LEN 4096

/* --- Reordering and selective retransmission --- */

/*
 * Unit: bytes of out-of-order packets that a process keeps.  Reason: the memory of 64 of the
 * largest windows.  Read by: core/rx/reorder.c.
 */
#define LIMIT_REORDER_BYTES (16 << 20)

/*
 * Unit: late packets before an out-of-order packet that leave it trusted: three runs of a
 * retransmission, 1 + 4 + 16.  Measured against: TUNE_RETX_GROWTH (8ca3739).  Read by:
 * roce/reorder.h.
 */
#define TUNE_REORDER_TRUSTED 21

/*
 * Unit: packets, as above, while it shows a gap: includes the fourth run.  Measured against:
 * TUNE_RETX_RUN_MAX.  Read by: roce/reorder.h.
 */
#define TUNE_REORDER_MISSING 85

/*
 * Unit: ns for which an out-of-order packet is kept.  Reason: RFC 6298 assumes no longer round trip
 * for an unknown path.  Read by: roce/reorder.h.
 */
#define LIMIT_REORDER_AGE VRB_SECOND

/*
 * Unit: ratio of the next run of a retransmission to the last.  Measured against: sim sharing: two
 * flows 13 : 1 with a round trip for each packet (90c6766).  Read by: roce/selective_retx.c.
 */
#define TUNE_RETX_GROWTH 4

/*
 * Unit: packets of the longest run.  Measured against: as above.  Read by: roce/selective_retx.c.
 */
#define TUNE_RETX_RUN_MAX 64

/* --- Retransmission and windows --- */

/*
 * Unit: 4.096 us * 2^n; a shorter local ack timeout is raised to this, 4.2 ms: a process that is
 * not scheduled for a few milliseconds is not a lost packet, and IBTA permits a coarser timer.
 * Measured against: sim stall of 2 ms, timeout 1 ms: with 8, 29 retries each; from 9 on none; 11
 * repairs 45 % later.  Read by: roce/retry.c.
 */
#define TUNE_TIMEOUT_FLOOR 10

/*
 * Unit: bytes of unacknowledged requests; a socket buffer of usual size holds them.  Measured
 * against: sim: 1/2 -18 % at 1 Gbit/s, 1 ms, 1 % loss; 2 x +2 %, and +57 % losses of an incast.
 * Read by: roce/retry.c.
 */
#define TUNE_WINDOW_BYTES (128 * 1024)

/*
 * Unit: requests, for a full window of READ answers on a paced path, at most. Measured against: sim
 * fairness, READs from 32 hosts at 1 Gbit/s: 1/4 delivers 45 % less, with Jain's index 0.80, not
 * 0.98; 2 x the same. Read by: roce/requester.c.
 */
#define TUNE_READ_PIECES_MAX 16

/*
 * Unit: packets, and at most; the reordering buffer holds as many.  Measured against: sim at 10
 * Gbit/s, MTU 1024: 1/2 +1 %, but no window beyond the limit is left (TUNE_CC_BEYOND).  Read by:
 * core/rx/reorder.c, core/xrc/delegation.c, roce/engine.c, roce/retry.c, roce/selective_retx.c.
 */
#define TUNE_WINDOW_MAX 256

/*
 * Unit: packets sent at one point in time: a huge READ of another implementation, or a huge UC
 * message, must not keep the caller in its loop for seconds.  Reason: about a millisecond of
 * sending.  Read by: roce/retry.h.
 */
#define LIMIT_BURST_MAX 1024

/*
 * Unit: round trips without an answer before the oldest packet is sent again; doubles each time.
 * Measured against: sim rc_loss_stats: times under loss fell to a third (750cd3a).  Read by:
 * roce/retry.c.
 */
#define TUNE_PROBE_RTTS 3

/*
 * Unit: ns, the minimum of that time.  Measured against: as above.  Read by: roce/retry.c.
 */
#define TUNE_PROBE_MIN VRB_MSEC

/*
 * Unit: 1 / ack timeout, the maximum of that time, but not less than TUNE_PROBE_RTTS.  Measured
 * against: sim tail loss of 10 %, 4 ms timeout: 1/2 repairs 45 % later; 2 x sooner than
 * TUNE_PROBE_MIN.  Read by: roce/retry.c.
 */
#define TUNE_PROBE_PART 4

/*
 * Unit: probes in a row without an answer, from which on an answer tells how long a silence was, no
 * round trip: 31 times as long as the first probe waits.  Measured against: sim fairness,
 * sharing: at 1, round trips that queues make long are forgotten, and far flows that share a link
 * come to Jain's index 0.91.  Read by: roce/cc.c.
 */
#define TUNE_CC_SILENCE 5

/* --- Polling and sleeping --- */

/*
 * Unit: ns; where a system call takes a multiple of it, so do the times below for "a machine of
 * usual speed" (run/slowdown.h).  Measured against: poll(2) and a stamp of the clock take 110 ns on
 * Sapphire Rapids, 1,200 in QEMU's emulator there; by UDP in it, ib_send_lat -e 680 to 115 us,
 * ib_read_lat 310 to 85 us.  Read by: run/slowdown.c.
 */
#define TUNE_USUAL_CALL 150

/*
 * Unit: ns, on a machine of usual speed, for which ibv_get_cq_event() polls before it sleeps.
 * Measured against: bench events, 64-KiB ping-pong: 1.79 to 1.27 CPU s, 246 to 142 us
 * (docs/EXPERIMENTS.md).  Read by: core/fastpath/event_wait.c.
 */
#define TUNE_BUSY_POLL_TIME (100 * VRB_USEC)

/*
 * Unit: waits, that sleep at once after polling in vain, at most.  Measured against: ib_send_lat -e
 * on one host, two busy processors: system calls within 7 %, context switches -4 to +4 % with 1/16,
 * +17 % with 2 x; each poll in vain costs 100 us.  Read by: core/cq/busy_poll.h.
 */
#define TUNE_BUSY_POLL_SLEEPS_MAX 127

/*
 * Unit: empty polls before that wait yields the CPU.  Measured against: as TUNE_BUSY_POLL_TIME.
 * Read by: core/fastpath/event_wait.c.
 */
#define TUNE_BUSY_POLL_YIELD 16

/*
 * Unit: empty polls before a poll yields; they take about ten times as long as a context switch.
 * Measured against: bench/self poll: an empty poll takes the same within 3 % from 1/4 to 4 x.  Read
 * by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_YIELD 256

/*
 * Unit: empty polls for which one counts that reads a socket, as it takes many times as long.
 * Measured against: ib_send_lat by UDP, both ends on one CPU: 130 us with 1, 37 us with 4; on two
 * CPUs the same.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_YIELD_WIRE 4

/*
 * Unit: ns of a yield after which another thread has run. Alone it takes 0.2 to 2 us, and a peer
 * polls for 7 to 40 us.  Measured against: ib_send_lat, both ends on one CPU: 13 us, with 1/4 13 to
 * 18, with 4 x 27 to 118; bench/self poll at load 6: 1/4 yields 5 times as often.  Read by:
 * core/progress/cpu_share.h.
 */
#define TUNE_YIELD_RAN_NS (5 * VRB_USEC)

/*
 * Unit: yields in a row at which no other thread ran, before a poller counts as alone on its CPU.
 * Reason: an interrupt looks like another thread at first.  Read by: core/progress/cpu_share.h.
 */
#define LIMIT_YIELDS_IN_VAIN 2

/*
 * Unit: ns of a yield in which a thread that does not yield itself has run.  Reason: a scheduler's
 * slice is 0.7 to 4 ms; peers that poll and yield return within 40 us each.  Read by:
 * core/progress/cpu_share.h, core/progress/cpu_contention.h.
 */
#define LIMIT_YIELD_SLICE VRB_MSEC

/*
 * Unit: ns without yields after one that may have blocked the program's own threads.  Reason: five
 * slices for each that is lost.  Read by: core/progress/cpu_share.h.
 */
#define LIMIT_YIELD_PAUSE (20 * VRB_MSEC)

/*
 * Unit: ns without its CPU after which a thread counts as interrupted by another.  Reason: less
 * than a scheduler's slice of 0.7 to 4 ms, more than an interrupt takes.  Read by:
 * core/progress/cpu_contention.h.
 */
#define LIMIT_CPU_LOST (500 * VRB_USEC)

/*
 * Unit: ns for which the runs, or yields, of a poller are measured after a long one.  Reason:
 * several slices of each of some programs.  Read by: core/progress/cpu_contention.h,
 * core/progress/cpu_share.h.
 */
#define LIMIT_CPU_MEASURE (100 * VRB_MSEC)

/*
 * Unit: ns for which the CPU time of the process's other threads is summed up while a poller
 * sleeps.  Reason: several slices of each of some programs.  Read by:
 * core/progress/cpu_contention.h.
 */
#define LIMIT_CPU_WATCH (50 * VRB_MSEC)

/*
 * Unit: ns for which a poller does not sleep, and polls briefly, once they have run.  Reason: 20
 * times as long as it slept.  Read by: core/progress/cpu_contention.h.
 */
#define LIMIT_CPU_NO_SLEEP VRB_SECOND

/*
 * Unit: ns for which a poller that was interrupted sleeps after its empty runs, or polls briefly.
 * Measured against:
 * ib_send_bw 64 KiB by UDP beside a busy loop on each CPU: 131 MiB/s if it never sleeps, 292 with
 * 30 ms, 495 with 100 ms, 356 with 300 ms.  Read by: core/progress/cpu_contention.h.
 */
#define TUNE_POLL_SLEEPS (100 * VRB_MSEC)

/*
 * Unit: ns of such a sleep; the kernel adds up to 50 us.  Measured against: the same: 339 MiB/s
 * with 10 us, 495 with 50 us, 397 with 150 us; ib_send_lat: 105, 50, 52 us.  Read by:
 * core/progress/poll_idle.c.
 */
#define TUNE_POLL_SLEEP (50 * VRB_USEC)

/*
 * Unit: rounds of each socket, and of lanes, before a deadline counts as missed.  Reason: endless
 * input must not keep timers from expiring.  Read by: core/progress/poll_loop.c,
 * core/progress/rx_queue.c.
 */
#define LIMIT_POLL_LATE_ROUNDS 64

/*
 * Unit: ns between checks whether an RX queue was served since a reply was due.  Reason: 4,000
 * checks a second until it was.  Read by: core/progress/timeouts.c.
 */
#define LIMIT_UNSERVED_RETRY (250 * VRB_USEC)

/*
 * Unit: polls without a wait for an event, after which a program counts as polling.  Measured
 * against: bench/self pong: the same within 1 % from 1/4 to 4 x; ib_send_lat on one host: poll(2)
 * calls, no effect found.  Read by: core/progress/poll_loop.c, local/local.c.
 */
#define TUNE_POLL_HANDOFF 64

/*
 * Unit: posts by the wire to QPs of the same process, of which one polls for all.  Measured
 * against: bench/threads: 1/4 6 % slower.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_LOOPBACK_POLL 16

/*
 * Unit: us between reads of an idle wire by pollers.  Measured against: ib_send_lat on one host:
 * reads the wire 4 times as often with 1/4, 1/15 with 4 x.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_WIRE_US 20

/*
 * Unit: us between reads of the wire by pollers whose polls must be brief.  Measured against: Open
 * MPI's threads over UCX rc_v: 4 x, the same.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_BRIEF_US 5

/*
 * Unit: polls of its own RX queue before a poller checks another one.  Measured against: bench
 * threads 2; ib_send_lat by UDP with 2 RX queues: recvmmsg(2) calls. No effect found.  Read by:
 * core/progress/poll_loop.c.
 */
#define TUNE_POLL_OTHERS 8

/*
 * Unit: us; that queue is polled if no thread has done so for this long.  Measured against: as
 * above: 1/4 doubles the recvmmsg(2) calls; 4 x, no effect found.  Read by:
 * core/progress/poll_loop.c.
 */
#define TUNE_POLL_UNPOLLED_US 50

/*
 * Unit: collisions of pollers before each gets its own RX queue.  Measured against: bench threads:
 * 1.73 of one thread.  Read by: core/progress/poll_loop.c.
 */
#define TUNE_POLL_CONTENDED 64

/*
 * Unit: ns for which pollers check a process's inbox, and sockets from which no QP expects packets,
 * after a packet arrived there; and for which a UD QP that has used the wire expects packets from
 * it although its datagrams stay on this host.  Reason: longer than the pauses of a
 * connection's set-up; then the progress thread serves it alone.  Read by:
 * core/progress/poll_loop.c, core/progress/rx_queue.c, core/tx/transmit.c.
 */
#define LIMIT_INBOX_LINGER (50 * VRB_MSEC)

/*
 * Unit: packets, taken and sent that are a stream, of which the next are awaited.  Measured
 * against: ib_write_bw by UDP, two busy processors, system calls of the receiver: 1/4 +15 %, 1/2
 * +6 %, 2 x -11 %, 4 x -29 %, but two to three times the context switches with 2 x and 4 x.  Read
 * by: core/progress/rx_queue.c.
 */
#define TUNE_LINGER_STREAM 8

/*
 * Unit: ns for which the progress thread waits for the next packet of a stream before it sleeps.
 * Measured against: bench wire: +7 to 10 % (docs/EXPERIMENTS.md).  Read by:
 * core/progress/rx_queue.c.
 */
#define TUNE_LINGER (30 * VRB_USEC)

/*
 * Unit: ns, the longest such wait in total.  Reason: deadlines must expire.  Read by:
 * core/progress/rx_queue.c.
 */
#define LIMIT_LINGER_MAX (10 * TUNE_LINGER)

/*
 * Unit: ns, on a machine of usual speed, for which the progress thread polls for the next one-sided
 * request.  Measured against: ib_read_lat by UDP: 25 and 100 us the same.  Read by:
 * core/progress/request_wait.h.
 */
#define TUNE_REQUEST_WAIT (50 * VRB_USEC)

/*
 * Unit: ns, on a machine of usual speed; requests that wake the thread at most so far apart make it
 * poll.  Reason: longer than such a wake-up takes where interrupting a CPU is dear.  Read by:
 * core/progress/request_wait.h.
 */
#define LIMIT_REQUEST_SOON (100 * VRB_USEC)

/*
 * Unit: ns since the program's last poll, after which the progress thread polls for one-sided
 * requests.  Reason: longer than a program computes between two polls that it counts on.  Read by:
 * core/progress/rx_queue.c.
 */
#define LIMIT_REQUEST_PASSIVE VRB_MSEC

/*
 * Unit: packets from the inbox before steering is probed again.  Reason: a probe sends a datagram
 * to each socket of the port, so it must be worth that cost.  Read by: core/progress/rx_steering.c.
 */
#define LIMIT_STEER_MISLED 32

/*
 * Unit: ns between probes, at least.  Reason: five probes a second are cheap.  Read by:
 * core/progress/rx_steering.c.
 */
#define LIMIT_STEER_PROBE (200 * VRB_MSEC)

/*
 * Unit: ns, as above, after a probe that changed nothing.  Reason: probes that others cause without
 * end must cost almost nothing.  Read by: core/progress/rx_steering.c.
 */
#define LIMIT_STEER_PROBE_SELDOM (10 * VRB_SECOND)

/*
 * Unit: ns for which requests wait for the program's first look at a listening rsocket: it may
 * still set options.  Reason: longer than a process waits for a CPU; only the first connection to a
 * program that never looks waits for it.  Read by: rdmacm/rs_listen.c.
 */
#define LIMIT_RS_OPTIONS (500 * VRB_MSEC)

/* --- Processes of one host --- */

/*
 * Unit: ns after a message until its QP's timer checks whether it was answered.  Reason: the delay
 * in noticing a dead peer, and a QP in use sets its timer only that often.  Read by:
 * core/tx/transmit.c.
 */
#define LIMIT_MESSAGE_WATCH (16 * VRB_MSEC)

/*
 * Unit: us before a full lane is tried again; doubles each time.  Reason: a poller tries sooner;
 * this bounds a sender that sleeps.  Read by: core/local/peer_tx.c.
 */
#define LIMIT_LANE_RETRY_US 20

/*
 * Unit: us, the maximum of that time: its owner may be stopped.  Reason: 780 wake-ups a second for
 * a process that is stopped.  Read by: core/local/peer_tx.c.
 */
#define LIMIT_LANE_RETRY_MAX_US 1280

/*
 * Unit: ms; a full lane from which nothing is taken for so long is not being emptied: datagrams go
 * to the backlog if others wait behind them.  Reason: a running process gets a CPU sooner.  Read
 * by: core/local/peer_tx.c.
 */
#define LIMIT_LANE_STUCK_MS 1000

/*
 * Unit: us, the maximum time before such a lane is tried again.  Reason: 49 wake-ups a second for a
 * stopped process.  Read by: core/local/backlog.c, core/local/peer_tx.c.
 */
#define LIMIT_LANE_STUCK_RETRY_US 20480

/*
 * Unit: MiB of packets that a process keeps for one that takes nothing.  Reason: a receive queue of
 * 1,000 datagrams of 4 KiB.  Read by: core/local/backlog.c.
 */
#define LIMIT_BACKLOG_PEER_MIB 4

/*
 * Unit: MiB of packets that a process keeps for all such.  Reason: some of them may be in a
 * debugger, and many only belong to the same multicast group.  Read by: core/local/backlog.c.
 */
#define LIMIT_BACKLOG_MIB 16

/*
 * Unit: ms for which a process that ends waits for room for them.  Reason: most processes run that
 * get little of a CPU; users do not yet look for what hangs.  Read by: core/local/backlog.c.
 */
#define LIMIT_BACKLOG_LINGER_MS 2000

/*
 * Unit: ns by which a CM deadline is missed before it counts as overslept, and then the wait.
 * Reason: other processes try a full inbox each ms.  Read by: cm/call.c.
 */
#define LIMIT_CM_OVERSLEPT (64 * VRB_MSEC)

/*
 * Unit: ms for which a process that ends waits for its progress thread to send what is left, while
 * that sleeps.  Reason: the user who pressed ^C waits.  Read by: run/progress.c.
 */
#define LIMIT_EXIT_JOB_MS 500

/*
 * Unit: ms for which it waits while the thread has no CPU, or works.  Reason: idle time beside six
 * busy loops comes after seconds; users do not yet look for what hangs.  Read by: run/progress.c.
 */
#define LIMIT_EXIT_CPU_MS 10000

/*
 * Unit: bytes, payloads from this length on are left for the receiver to pull.  Measured against:
 * ib_send_lat on one host, two busy processors: copying 2, 4, 8 KiB -86, -58, -55 %; bench/self
 * send 16384 -50 %; where system calls are cheap, 4 KiB -7 %.  Read by: core/local/peer_tx.c.
 */
#define TUNE_LANE_PULL_MIN 8192

/*
 * Unit: slots between the one that is written and one whose line is fetched for writing.  Measured
 * against: ib_send_bw of 8 B, CPUs that hand a line over in 0.24 us: 4.2 to 4.6 M/s with the next
 * one; 0.07 us: no effect found.  Read by: local/lane.h.
 */
#define TUNE_LANE_WRITE_AHEAD 8

/*
 * Unit: messages to one QP, received together, that are acknowledged together, at most.  Measured
 * against: ib_send_bw of 8 B, CPUs that hand a line over in 0.13 us, single and lists of 16: 13.6
 * and 7.7 M/s with 1; 4: 14.8, 12.5; 8: 14.9, 13.3; 16: 15.0, 13.5; 32: 12.3, 15.1.  Read by:
 * local/inbound.c.
 */
#define TUNE_LANE_ACK_RUN 8

/*
 * Unit: half replies with an ACK, less looks that found words, before pollers look for words less
 * often.  Measured against: ib_send_lat on one host: 1/4 and 4 x the same.  Read by:
 * core/local/word_looks.h.
 */
#define TUNE_WORD_REPLIES 16

/*
 * Unit: polls without a reply or a look, after which one looks for words then.  Measured against:
 * ib_send_lat on one host, CPUs that hand a line over in 0.26 us: 0.55 us if each 32nd poll looks,
 * 0.43 with 32 since the last reply, 0.43 if each 1,024th looks. An ACK that comes without a reply
 * all the same is found 1 us later.  Read by: core/local/word_looks.h.
 */
#define TUNE_WORD_LOOK 32

/*
 * Unit: ns between two polls that count.  Reason: a program that does something else in between
 * must not wait for a later poll.  Read by: core/local/word_looks.h.
 */
#define LIMIT_WORD_STEADY VRB_USEC

/*
 * Unit: slots between the one that is read and one whose line is fetched, after a run of as many.
 * Measured against: as above; 4.5 with 1, 4.6 M/s with 4.  Read by: local/lane.c.
 */
#define TUNE_LANE_READ_AHEAD 4

/*
 * Unit: ms before the next lookup of a peer that a datagram to a group did not reach.  Reason: 100
 * lookups a second for a process that starts.  Read by: core/local/peer_tx.c.
 */
#define LIMIT_PEER_GROUP_RETRY_MS 10

/*
 * Unit: ms before the next lookup of a peer's process; doubles each time.  Reason: the time in
 * which a peer that connects becomes ready to receive.  Read by: core/local/peer_link.c.
 */
#define LIMIT_PEER_RETRY_MS 1

/*
 * Unit: lookups of a peer on this host before that delay.  Reason: one each as a QP goes to RTR and
 * to RTS, one for the first request, one in reserve.  Read by: core/local/peer_link.c.
 */
#define LIMIT_PEER_PROMPT_LOOKUPS 4

/*
 * Unit: ms, the maximum of that time.  Reason: 4 lookups a second for a peer that is not on this
 * host.  Read by: core/local/peer_link.c.
 */
#define LIMIT_PEER_RETRY_MAX_MS 256

/*
 * Unit: ms for which an unreliable connection waits for its peer's QP.  Reason: then packets are
 * lost, as on a wire.  Read by: core/local/peer_link.c.
 */
#define LIMIT_PEER_UC_WAIT_MS 1000

/*
 * Unit: ms after which the packets that an unreliable connection sent by the wire have arrived or
 * are lost.  Reason: longer than packets stay in the socket of a running process.  Read by:
 * core/local/peer_link.c.
 */
#define LIMIT_PEER_UC_QUIET_MS 100

/*
 * Unit: ns after a process's answer in which its other RX queues read their sockets.  Reason: a
 * thread that polls does so in less.  Read by: core/local/keepalive.c.
 */
#define LIMIT_KEEPALIVE_GRACE (2 * VRB_MSEC)

/*
 * Unit: ns between probes to a process that has not answered.  Reason: a full inbox may have lost
 * the first.  Read by: core/local/keepalive.c.
 */
#define LIMIT_KEEPALIVE_REPEAT (100 * VRB_MSEC)

/*
 * Unit: bytes; shorter payloads are copied before the sender can help.  Measured against: bench
 * bandwidth1m: 14.6 to 35 GiB/s (docs/EXPERIMENTS.md); 64 KiB is too short.  Read by:
 * core/local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_MIN (256 * 1024)

/*
 * Unit: bytes, the smallest piece; the cost of a call is then small compared with the copy.
 * Measured against: bench bandwidth1m: 14.6 to 35 GiB/s (docs/EXPERIMENTS.md).  Read by:
 * local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_PIECE_MIN (64 * 1024)

/*
 * Unit: bytes, the largest piece.  Measured against: bench bandwidth1m: 14.6 to 35 GiB/s
 * (docs/EXPERIMENTS.md).  Read by: local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_PIECE_MAX (256 * 1024)

/*
 * Unit: spins, longer than a piece takes; the sender may need this CPU then.  Measured against:
 * ib_send_bw of 1 MiB: bandwidth, and sched_yield(2) calls: no effect found.  Read by:
 * local/split_copy.c.
 */
#define TUNE_SPLIT_COPY_SPINS 512

/*
 * Unit: ns to wait for the other end's piece.  Reason: the sender is stopped by then, and the
 * message is refused.  Read by: local/split_copy.c.
 */
#define LIMIT_SPLIT_COPY_WAIT (100 * VRB_MSEC)

/*
 * Unit: spins before a wait is taken for a stopped process.  Reason: longer than a short access
 * takes; then the first system call is due.  Read by: local/hazard.c.
 */
#define LIMIT_HAZARD_SPINS 4096

/*
 * Unit: ns between looks at a hazard that stays set.  Reason: leaves the CPU to the copy that is
 * waited for.  Read by: local/hazard.c.
 */
#define LIMIT_HAZARD_PAUSE_NS 50000

/*
 * Unit: READs and WRITEs of a peer's region before it is mapped.  Measured against: mapping 64 KiB
 * takes 42 us and its first copy 22 us, where process_vm_writev takes 6 us (issue 15).  Read by:
 * local/region_map.c.
 */
#define TUNE_REGION_USES 8

/*
 * Unit: lookups of a peer's regions between checks for regions that have ended.  Reason: their
 * memory is freed while the program continues, at negligible cost.  Read by: local/region_map.c,
 * local/region_map.h.
 */
#define LIMIT_REGION_SWEEP 1024

/*
 * Unit: lookups of a peer's regions for which one stays unused before another may be mapped in its
 * place.  Reason: mapping costs as much as a hundred accesses by the kernel.  Read by:
 * local/region_map.c.
 */
#define LIMIT_REGION_REST 4096

/*
 * Unit: open files of a peer that are checked to find the one it has mapped.  Reason: takes a
 * millisecond; beyond it, its memory is not mapped.  Read by: local/peer_file.c.
 */
#define LIMIT_PEER_FDS 4096

/* --- Queues that are full for a moment --- */

/*
 * Unit: ms to wait for a full socket, each time.  Reason: the shortest wait of poll(2).  Read by:
 * core/tx/tx_batch.c.
 */
#define LIMIT_SOCKET_FULL_MS 1

/*
 * Unit: tries.  Reason: after them the packets are lost, as on a network.  Read by:
 * core/tx/tx_batch.c.
 */
#define LIMIT_SOCKET_FULL_TRIES 20

/*
 * Unit: bytes received at once before the fill level of the socket's buffer may be read, to mark
 * packets.  Measured against: bench wire (5bd0b4d).  Read by: wire/udp_recv.c.
 */
#define TUNE_SOCKET_CROWD 32768

/*
 * Unit: ns between decisions on how many connection requests to admit during a flood.  Reason: the
 * time in which 200,000 requests a second fill a socket buffer.  Read by: core/mad/admission.c.
 */
#define LIMIT_ADMISSION_PERIOD (4 * VRB_MSEC)

/*
 * Unit: packets, received without finding the socket empty, that are a backlog.  Reason: a process
 * that waits for its processor for 5 ms finds as many of 100,000 a second.  Read by:
 * core/mad/admission.c.
 */
#define LIMIT_ADMISSION_BACKLOG 512

/*
 * Unit: us, before a full interface is tried again.  Reason: 64 KiB leave at 10 Gbit/s.  Read by:
 * core/raw/raw_tx.c.
 */
#define LIMIT_RAW_FULL_US 50

/*
 * Unit: tries with a full inbox.  Reason: it holds few datagrams (net.unix.max_dgram_qlen, often
 * 10).  Read by: core/rx/demux.c, host/inbox.c.
 */
#define LIMIT_INBOX_FULL_TRIES 20

/*
 * Unit: ns between them.  Reason: a millisecond in all, in which a running process empties its
 * inbox.  Read by: host/inbox.c.
 */
#define LIMIT_INBOX_FULL_NS 50000

/*
 * Unit: tries with a full inbox, of a packet that nobody may send again.  Reason: a second in all,
 * longer than a running process waits for a CPU.  Read by: core/rx/demux.c, core/xrc/delegation.c.
 */
#define LIMIT_INBOX_LAST_TRIES 20000

/*
 * Unit: file descriptors.  Reason: each local peer's doorbell takes one; half of those that
 * select() knows are left to the program.  Read by: host/inbox.c.
 */
#define LIMIT_BELL_FD 512

/*
 * Unit: ns, the longest time for which fault injection holds a packet back for others to overtake.
 * Reason: no packet overtakes the last one of a stream; by then the peer has requested it.  Read
 * by: core/fault/taps.c.
 */
#define LIMIT_FAULT_REORDER (100 * VRB_MSEC)

#endif
