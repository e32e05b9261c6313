/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing of the messages between the members of an XRC domain. While a stream runs, a process of
 * the same user sends forged messages to every inbox: kinds, lengths, numbers and senders are valid
 * or random. The connection may break, but every member must survive.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rnd.h"
#include "xrc_group.h"

enum {
	FORGED_MESSAGES = 4000,
	HEAD = 64,       /* of an inbox message; docs/HOST.md */
	SLOTS_AT = 4096, /* offset of the slots in the host's table */
	SLOT_SIZE = 64,  /* of a slot, which begins with the incarnation */
	SLOTS = 8,       /* more than there are processes */
};

/* The layout of struct xrc_head of src/core/xrc/msg.h. */
struct forged {
	uint32_t magic;
	uint8_t kind, final;
	uint16_t reserved;
	uint32_t qpn, epoch, seq, body, state, packet;
	int32_t slot;
	uint32_t reserved2;
	uint64_t incarnation;
	uint8_t rest[9000];
};

static uint64_t incarnation_of(int slot)
{
	char path[256];
	uint64_t value = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/table", getenv("VERBENA_DIR"));
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	if (pread(fd, &value, sizeof(value), SLOTS_AT + slot * SLOT_SIZE) != sizeof(value))
		value = 0;
	close(fd);
	return value;
}

static uint32_t random_length(uint32_t most)
{
	static const uint32_t lens[] = {
		0, 1, 4, 8, 16, 48, 96, 100, 128, 192, 200, 232, 300, 400
	};

	switch (rnd(4)) {
	case 0:
		return rnd(most);
	case 1:
		return 0xfffffff0u + rnd(16);
	default:
		return lens[rnd(14)];
	}
}

/* Most fields are valid, so that the message passes the first checks. */
static size_t forge(struct forged *n, uint32_t qpn)
{
	size_t len = sizeof(*n) - sizeof(n->rest);

	for (size_t i = 0; i < 2000; i++)
		n->rest[i] = rnd(3) ? 0 : (uint8_t)rnd(256);
	n->magic = 0x31435258;
	n->kind = (uint8_t)rnd(12);
	n->final = (uint8_t)rnd(2);
	n->qpn = rnd(8) ? qpn : rnd(1 << 24);
	n->epoch = rnd(8);
	n->seq = rnd(50);
	n->slot = (int32_t)rnd(SLOTS);
	n->incarnation = rnd(8) ? incarnation_of(n->slot) : rnd(1000);
	n->body = random_length(1400);
	n->state = random_length(8000);
	n->packet = random_length(4300);
	if ((uint64_t)n->body + n->state + n->packet <= sizeof(n->rest))
		len += n->body + n->state + n->packet;
	return rnd(16) ? len : rnd(sizeof(*n));
}

static void send_forged(int sock, int slot, const struct forged *n, size_t len)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	static uint8_t message[HEAD + sizeof(*n)];
	const uint32_t magic = 0x56524231;
	const uint16_t kind = 3, size = (uint16_t)len;

	memset(message, 0, HEAD);
	memcpy(message, &magic, sizeof(magic));
	memcpy(message + 4, &kind, sizeof(kind));
	memcpy(message + 6, &size, sizeof(size));
	memcpy(message + HEAD, n, len);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/s%04d.sock", getenv("VERBENA_DIR"), slot);
	/* A full queue or a missing receiver is allowed. */
	if (sendto(sock, message, HEAD + len, MSG_DONTWAIT, (struct sockaddr *)&sun, sizeof(sun)) <
	    0)
		CHECK(errno != EINVAL);
}

static void send_all_forged(int sock)
{
	int s = socket(AF_UNIX, SOCK_DGRAM, 0);
	static struct forged n;
	uint32_t qpn;

	CHECK(s >= 0);
	child_recv(sock, &qpn, sizeof(qpn));
	for (int i = 0; i < FORGED_MESSAGES; i++) {
		size_t len = forge(&n, qpn);

		send_forged(s, (int)rnd(SLOTS), &n, len);
		if (i % 16 == 0)
			usleep(500); /* lets the members empty their inboxes */
	}
}

static void test_fuzz(void)
{
	struct group f = { 0 };
	struct stream s = { .f = &f };
	struct child forger;

	group_kills = true;
	group_start(&f);
	group_run(&f, 1, OPEN);
	group_run_all(&f, RECEIVE);
	forger = child_fork(send_all_forged);
	child_send(forger.sock, &f.member_info[0].addr.qpn, sizeof(uint32_t));
	while (s.n < MESSAGES) {
		if (s.open == WINDOW && stream_wait(&s) != IBV_WC_SUCCESS)
			break;
		stream_to(&s, rnd(TARGETS));
	}
	stream_drain(&s);
	child_join(&forger);
	for (int i = 0; i < TARGETS; i++) {
		CHECK_EQ(waitpid(f.child[i].pid, NULL, WNOHANG), 0);
		child_kill(&f.child[i]);
	}
}

int main(int argc, char **argv)
{
	static const struct group_case cases[] = {
		{ "FUZZ", test_fuzz },
	};

	return group_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
