/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fault rules (docs/FAULTS.md) of one of two processes drop messages between the two. The sender
 * has no ACK timeout, so recovery must work without a timer. From a sender with rules the receiver
 * keeps what follows a gap, so that may retransmit the dropped messages only: a rule kills it if it
 * sends more.
 *
 *	argument	the process that drops
 *	SENDER		the sender; the receiver has no rules
 *	RECEIVER	the receiver; the sender has no rules
 *	BOTH		the receiver; the sender has rules that drop nothing
 *	PULLED		the receiver, of messages that it was to fetch: they come again as packets,
 *			and all later ones with other PSNs
 */
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"

enum {
	SIZE = 3000,
	LARGE = 100000, /* left for the receiver to fetch */
	MESSAGES = RC_DEPTH, /* the 4 losses may cost 8 more transmissions: rules kill at 73 */
	NO_TIMEOUT = 0,
	RETRIES = 7,
};

/*
 * Message n has PSN n. Each of these messages is dropped once and its retransmission arrives. The
 * last messages are not dropped: only a timer could detect that, or the loss of a retransmission.
 */
#define LOSE(to, psn)  "message " to " opcode SEND psn " psn " nth 1 drop;"
#define LOSSES(to)     LOSE(to, "9") LOSE(to, "19") LOSE(to, "29") LOSE(to, "39")
#define SENDER_RULES   LOSSES("tx") "message tx opcode SEND nth 73 kill"
#define RECEIVER_RULES LOSSES("rx")
#define BOTH_RULES     "message tx opcode SEND nth 73 kill"

static bool pulled;

/* PULLED: messages 9, 19, 29 and 39, which are dropped, are large. */
static uint32_t length(uint32_t message)
{
	return pulled && message % 2 ? LARGE : SIZE - message;
}

static void receive(int sock, const char *rules)
{
	struct rc_addr peer;
	struct rc rc;

	setenv("VERBENA_FAULTS", rules, 1);
	alarm(RC_LIMIT_S);
	rc_open(&rc, LARGE);
	for (uint64_t i = 0; i < MESSAGES; i++)
		rc_post_recv(&rc, rc.qp, i);
	rc_pair(&rc, sock, &peer, NO_TIMEOUT, RETRIES);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = rc_wait(&rc);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.byte_len, length(i));
	}
	rc_barrier(sock);
	rc_close(&rc);
	exit(0);
}

static void send_all(int sock, const char *rules)
{
	struct rc_addr peer;
	struct rc rc;

	setenv("VERBENA_FAULTS", rules, 1);
	rc_open(&rc, LARGE);
	rc_pair(&rc, sock, &peer, NO_TIMEOUT, RETRIES);
	for (uint32_t i = 0; i < MESSAGES; i++)
		CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_SEND, length(i), &peer, i), 0);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = rc_wait(&rc);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
	}
	rc_barrier(sock);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	bool both = argc > 1 && strcmp(argv[1], "BOTH") == 0;
	bool sender = both || (argc > 1 && strcmp(argv[1], "SENDER") == 0);
	int pair[2], status;
	pid_t child;

	pulled = argc > 1 && strcmp(argv[1], "PULLED") == 0;
	alarm(RC_LIMIT_S);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	child = fork();
	CHECK(child >= 0);
	if (!child)
		receive(pair[1], both || !sender ? RECEIVER_RULES : "");
	close(pair[1]);
	send_all(pair[0], both ? BOTH_RULES : sender ? SENDER_RULES : "");
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	return 0;
}
