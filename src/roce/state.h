/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's private state of one QP.  Included by engine.h so that callers can embed it; members
 * belong to the engine.
 *
 * PSNs are 24-bit serial numbers (psn.h); queue indices run free over 32 bits (wq/wqe.h).
 *
 * The requester's line. Every value only moves to the right, except `psn` and `index`, which a
 * retry sets back:
 *
 *	           acknowledged      in flight          built once,      never used
 *	                                             to be built again
 *	PSN    ------------------|----------------|------------------|--------------->
 *	                     comp.una          req.psn            req.high
 *
 *	WQE    ------------------|----------------|------------------|---------------|
 *	                      sq.done         req.index           sq.next         sq.head
 *
 *	una advances	completer.c: an ACK, or a response that was stored (IBTA vol 1, 9.7.5)
 *	psn advances	requester.c: a packet was built; a READ takes the PSNs of its answer
 *	psn := una	retry.c: timeout, NAK, or a gap among the responses (go-back-N)
 *	high advances	requester.c: psn went past it for the first time
 *
 * The responder's line:
 *
 *	           executed           |  the only new request; anything after it causes one NAK
 *	PSN    -----------------------|------------------------------------------------------>
 *	                          resp.epsn
 *
 * Answers leave in PSN order: first the pending responses of READ/atomic resources, oldest first,
 * then the NAK of a gap, then the single pending ACK or NAK, which carries the newest PSN and so
 * covers everything before it.
 *
 * Invariants between any two calls into the engine (check.c asserts them):
 *	RESET, INIT	nothing pending, no timer, no receive held
 *	RTR		the responder runs, the requester does not
 *	RTS		both run
 *	SQD		both run, but no WQE at or after sq.next begins
 *	SQE		UC and UD: the responder runs; sends are flushed
 *	ERR		queues are empty; nothing is sent, except, while `dying`, a NAK and the
 *			answers before it
 *	una <= psn <= high, done <= index <= next <= head
 *	a receive is held only during a SEND; a timer runs only while una != high
 */
#ifndef VRB_ROCE_STATE_H
#define VRB_ROCE_STATE_H

#include "roce/ack_order.h"
#include "roce/cc.h"
#include "roce/sentto.h"
#include "roce/dcqcn.h"

/* Send side: PSNs that a NAK has requested, to be retransmitted alone. selective_retx.c */
struct roce_selective_retx {
	uint32_t from, end; /* empty if they are the same */
	uint32_t next;      /* PSN of the next packet to build; end: all have left */
	uint32_t high;      /* req.high when the run began: those before it have been sent */
};

/* Send side: which packet is next. requester.c */
struct roce_req {
	uint32_t psn;           /* PSN of the next packet to build */
	uint32_t high;          /* first PSN never used */
	uint32_t index;         /* WQE of psn; sq.next if that has not begun */
	uint32_t ssn;           /* SSN of the last message begun, IBTA 9.7.7 */
	uint32_t rd_open;       /* READ requests and atomics before psn without their answers */
	uint32_t since_ack_req; /* packets since one requested an ACK */
	uint32_t segmented;     /* UD: payload bytes already sent of the TSO request at sq.next */
	struct roce_selective_retx retx;
	bool goes_back;         /* the peer keeps nothing after a gap: go-back-N */
	bool keeps;             /* the peer has kept packets after a gap */
	/* the WQE at index cannot be built; it fails when it is the oldest */
	bool halted;
	enum ibv_wc_status halt_status;
	enum reason halt_why;
};

/* Send side: acknowledgements. completer.c */
struct roce_comp {
	uint32_t una;      /* oldest unacknowledged PSN; for a READ: next response */
	uint32_t msn;      /* newest seen */
	uint32_t lsn;      /* limit: newest SSN that end-to-end credits permit */
	bool lsn_known;    /* false: the responder does not use credits */
	bool gap_retried;  /* the gap at una has already caused a retry */
	bool strayed;      /* before the first ACK: an answer to a PSN that is not in flight */
	bool soft_flush;   /* the peer expects soft RoCE's ICRC of a FLUSH */
	uint8_t last_step; /* enum comp_step that ended the last packet; for tracing */
};

/* Send side: timeouts and retries. Only retry.c sets a deadline. */
struct roce_retry {
	uint64_t ack_deadline; /* local ack timeout; VRB_NEVER while nothing is in flight */
	uint64_t probe_at;     /* next probe, before it; VRB_NEVER: none */
	uint8_t probes;        /* since the last progress; each doubles the wait */
	uint64_t rnr_deadline; /* no packet is sent before; VRB_NEVER: no RNR wait */
	uint8_t left;          /* remaining retries of retry_cnt */
	uint8_t rnr_left;      /* remaining retries of rnr_retry */
};

/* How much was sent at one point in time. retry.c */
struct roce_burst {
	uint64_t time;
	uint64_t resume; /* when an interrupted burst continues; VRB_NEVER: none */
	uint32_t packets;
};

/* When the next request may leave. pace.c */
struct roce_pace {
	uint64_t free;   /* when the packets sent have passed, at the QP's rate */
	uint64_t resume; /* requests wait until then; VRB_NEVER: no request waits */
	struct roce_dcqcn dcqcn;	/* UC and UD: rate limit after CNPs */
	struct roce_answer_pace {
		uint64_t asked_at; /* when the newest READ arrived */
		uint64_t gap;      /* time that the requester takes for an answer */
		uint64_t free, resume;
		uint32_t asked;    /* number of answers that it requests */
		uint32_t spread;   /* number of coming READs whose answers are spread */
	} answers;
};

/* The single ACK or NAK that waits for the end of a burst. acknak.c */
struct roce_ack {
	bool pending;
	uint8_t syndrome; /* ROCE_AETH_ACK: credits are added when it is sent */
	uint32_t psn;
};

enum roce_msg {
	ROCE_MSG_NONE, /* the next request begins a message */
	ROCE_MSG_SEND,
	ROCE_MSG_WRITE,
};

/* Receive side. responder.c */
struct roce_resp {
	uint32_t epsn;        /* expected PSN */
	uint64_t psns;        /* number of PSNs that epsn has passed; does not wrap */
	uint32_t ack_psn;     /* PSN of the newest SEND or WRITE packet: the largest for an ACK */
	uint32_t msn;         /* messages completed, 24 bits */
	enum roce_msg msg;    /* message in progress */
	struct recv_wqe *wqe; /* receive held for it */
	uint64_t va;          /* WRITE: address for the next packet */
	uint32_t rkey;
	uint32_t resid;    /* WRITE: remaining bytes */
	uint32_t received; /* bytes of the message so far */
	uint32_t packet;   /* bytes of each packet but the last */
	struct roce_ack ack;
	uint32_t rd_next; /* slot for the next READ or atomic */
	uint32_t rd_due;  /* where to look for the oldest slot with pending answers */
	uint32_t rd_pending; /* slots with pending answers */
	bool rd_first;	     /* they are not paced: a request waits for them */
	bool ack_published;    /* the peer can read the newest ACK; the next message repeats it */
	bool nak_sent;    /* since epsn advanced: later requests are ignored */
	bool gap_nak_pending;    /* a NAK of the gap at epsn is pending; sent before an ACK */
	/*
	 * since epsn advanced: the message at epsn must come as packets; its sender gets or got a
	 * NAK
	 */
	bool pull_refused;
	bool established; /* COMM_EST was raised */
	bool synced;      /* UC: epsn was taken from a packet */
	bool cnp_pending;
	bool cnp_sent;     /* cnp_time is valid */
	uint64_t cnp_time; /* time of the last CNP sent */
	uint8_t last_step; /* enum resp_step that ended the last packet; for tracing */
};

/* What only a UD QP has. */
struct roce_ud {
	struct roce_sent_to sent_to;
	struct net_path out_path; /* path of the last packet built, whose WQE is done */
	uint32_t cnp_qpn;         /* destination of the pending CNP, */
	struct net_path cnp_path; /* and its path */
};

/* The latest packet without MigReq since the QP was armed. */
struct roce_mig_clear {
	bool any;
	uint32_t psn;
};

struct roce_qp {
	struct wq_qp *wq;
	struct roce_ud *ud; /* NULL: another type */
	struct roce_rd_atomic *rd_atomic;
	uint32_t rd_atomic_slots;
	bool flushed;     /* ERR was entered, and the queues were flushed */
	uint8_t ack_order; /* enum roce_ack_order */
	bool dying;       /* ERR, but a NAK and the answers before it must still be sent */
	bool mig_refused; /* PATH_MIG_ERR was raised since the QP was armed */
	struct roce_mig_clear mig_clear[2]; /* among answers, among requests */
	struct roce_req req;
	struct roce_comp comp;
	struct roce_retry retry;
	struct roce_cc cc;
	struct roce_burst burst;
	struct roce_pace pace;
	struct roce_resp resp;
	/* the WQE whose payload the last packet left to be pulled */
	const struct send_wqe *out_pull;
	struct roce_counters counters;
};

#endif
