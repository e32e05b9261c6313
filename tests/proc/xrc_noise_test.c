/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Noise in the messages of an XRC domain: a process of the same user sends what looks like them to
 * every inbox, with kinds, lengths, numbers and senders that are true or random, while a stream
 * runs.  It may cost the connection; it must not cost a process.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rnd.h"
#include "xrc_family.h"

enum {
	LETTERS = 4000,
	HEAD = 64,		/* of an inbox message; docs/HOST.md */
	SLOTS_AT = 4096, /* in the host's table, 64 bytes each, that begin with the incarnation */
	SLOT_SIZE = 64,
	SLOTS = 8,		/* more than there are processes */
};

/* struct xrc_head of src/core/xrc/msg.h, in numbers. */
struct noise {
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

static uint32_t some_length(uint32_t most)
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

/* Mostly true, so that it gets far. */
static size_t compose(struct noise *n, uint32_t qpn)
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
	n->body = some_length(1400);
	n->state = some_length(8000);
	n->packet = some_length(4300);
	if ((uint64_t)n->body + n->state + n->packet <= sizeof(n->rest))
		len += n->body + n->state + n->packet;
	return rnd(16) ? len : rnd(sizeof(*n));
}

static void post_letter(int sock, int slot, const struct noise *n, size_t len)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	static uint8_t letter[HEAD + sizeof(*n)];
	const uint32_t magic = 0x56524231;
	const uint16_t kind = 3, size = (uint16_t)len;

	memset(letter, 0, HEAD);
	memcpy(letter, &magic, sizeof(magic));
	memcpy(letter + 4, &kind, sizeof(kind));
	memcpy(letter + 6, &size, sizeof(size));
	memcpy(letter + HEAD, n, len);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/s%04d.sock", getenv("VERBENA_DIR"), slot);
	/* The queue is full, or there is no receiver: both are allowed. */
	if (sendto(sock, letter, HEAD + len, MSG_DONTWAIT, (struct sockaddr *)&sun, sizeof(sun)) <
	    0)
		CHECK(errno != EINVAL);
}

static void make_noise(int sock)
{
	int s = socket(AF_UNIX, SOCK_DGRAM, 0);
	static struct noise n;
	uint32_t qpn;

	CHECK(s >= 0);
	child_hear(sock, &qpn, sizeof(qpn));
	for (int i = 0; i < LETTERS; i++) {
		size_t len = compose(&n, qpn);

		post_letter(s, (int)rnd(SLOTS), &n, len);
		if (i % 16 == 0)
			usleep(500);	/* inboxes are short */
	}
}

static void test_noise(void)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };
	struct child noise;

	family_deaths = true;
	family_gather(&f);
	family_order(&f, 1, OPEN);
	family_order_all(&f, RECEIVE);
	noise = child_fork(make_noise);
	child_tell(noise.sock, &f.facts[0].addr.qpn, sizeof(uint32_t));
	while (s.n < MESSAGES) {
		if (s.open == WINDOW && stream_wait(&s) != IBV_WC_SUCCESS)
			break;
		stream_to(&s, rnd(TARGETS));
	}
	stream_drain(&s);
	child_join(&noise);
	for (int i = 0; i < TARGETS; i++) {
		CHECK_EQ(waitpid(f.child[i].pid, NULL, WNOHANG), 0);
		child_kill(&f.child[i]);
	}
}

int main(int argc, char **argv)
{
	static const struct family_case cases[] = {
		{ "NOISE", test_noise },
	};

	return family_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
