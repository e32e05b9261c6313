/* SPDX-License-Identifier: BSD-2-Clause */
/* See xrc_family.h: the initiator's side. */
#include "xrc_family.h"

#include <string.h>
#include <unistd.h>

#include "rnd.h"

int family_file;
bool family_deaths, family_rtr;
uint8_t family_timeout = TIMEOUT;

void family_command(int sock, enum order o)
{
	child_tell(sock, &o, sizeof(o));
}

/* The home and the owners, but no sender yet. */
void family_gather_receivers(struct family *f)
{
	alarm(RC_LIMIT_S);
	f->child[0] = child_fork(member_home);
	child_hear(f->child[0].sock, &f->facts[0], sizeof(f->facts[0]));
	for (int i = 1; i < TARGETS; i++) {
		f->child[i] = child_fork(member_owner);
		child_hear(f->child[i].sock, &f->facts[i], sizeof(f->facts[i]));
		child_tell(f->child[i].sock, &f->facts[0].addr.qpn, sizeof(uint32_t));
	}
}

void family_gather(struct family *f)
{
	struct rc_addr mine;

	family_gather_receivers(f);
	xrc_open(&f->x, family_file, 0);
	f->x.qp = xrc_send_qp(&f->x);
	mine = rc_address(&f->x.rc, f->x.qp);
	child_tell(f->child[0].sock, &mine, sizeof(mine));
	rc_meet(f->child[0].sock);
	rc_connect(&f->x.rc, f->x.qp, &f->facts[0].addr, family_timeout, RETRIES);
}

void family_part(struct family *f)
{
	for (int i = 0; i < TARGETS; i++) {
		if (!f->child[i].pid)
			continue;
		family_command(f->child[i].sock, LEAVE);
		child_join(&f->child[i]);
	}
	if (f->x.xrcd)
		xrc_close(&f->x);
}

void family_sent(struct family *f, enum ibv_wc_status status)
{
	struct ibv_wc wc = xrc_wait(f->x.rc.cq);

	CHECK_EQ(wc.status, status);
}

void family_order(struct family *f, int member, enum order o)
{
	family_command(f->child[member].sock, o);
	rc_meet(f->child[member].sock);
}

void family_order_all(struct family *f, enum order o)
{
	for (int i = 0; i < TARGETS; i++)
		family_order(f, i, o);
}

/* How many messages a receiver has got. */
uint32_t family_stop(struct family *f, int member)
{
	uint32_t got;

	family_command(f->child[member].sock, STOP);
	child_hear(f->child[member].sock, &got, sizeof(got));
	return got;
}

void stream_to(struct stream *s, uint32_t to)
{
	uint32_t seq = s->sent[to]++, len = stream_length(seq), slot = s->n++ % WINDOW;
	struct xrc *x = &s->f->x;
	char *p = xrc_buffer(x, slot);

	for (uint32_t i = 0; i < len; i++)
		p[i] = stream_pattern(seq, i);
	xrc_send(x, IBV_WR_SEND_WITH_IMM, s->f->facts[to].srqn, (uint64_t)slot * XRC_SLOT, len,
		 NULL, seq << 8, 0);
	s->open++;
}

/* Waits for one. */
enum ibv_wc_status stream_wait(struct stream *s)
{
	s->open--;
	return xrc_wait(s->f->x.rc.cq).status;
}

/* The first error that is not a flush; IBV_WC_SUCCESS if all that is open succeeds. */
enum ibv_wc_status stream_drain(struct stream *s)
{
	enum ibv_wc_status first = IBV_WC_SUCCESS, status;

	while (s->open) {
		status = stream_wait(s);
		if (first == IBV_WC_SUCCESS)
			first = status;
	}
	return first;
}

struct ibv_wc family_take(struct family *f, int member)
{
	struct ibv_wc wc;

	family_command(f->child[member].sock, TAKE);
	child_hear(f->child[member].sock, &wc, sizeof(wc));
	return wc;
}

uint64_t family_word(struct family *f, int member)
{
	uint64_t word[8];

	family_command(f->child[member].sock, SHOW);
	child_hear(f->child[member].sock, word, sizeof(word));
	return word[0];
}

int family_call(struct family *f, int member, enum order o)
{
	int n;

	family_command(f->child[member].sock, o);
	child_hear(f->child[member].sock, &n, sizeof(n));
	return n;
}

void family_send(struct family *f, int member, uint32_t len)
{
	family_order(f, member, POST);
	xrc_send(&f->x, IBV_WR_SEND, f->facts[member].srqn, 0, len, NULL, len, 0);
	family_sent(f, IBV_WC_SUCCESS);
	CHECK_EQ(family_take(f, member).byte_len, len);
}

int family_main(int argc, char **argv, const struct family_case *cases, size_t n)
{
	char name[] = "/tmp/verbena-xrc-XXXXXX";

	CHECK(argc >= 2);
	if (argc > 2)
		setenv("VERBENA_TRANSPORT", argv[2], 1);
	rnd_start();
	family_file = mkstemp(name);
	CHECK(family_file >= 0);
	unlink(name);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		cases[i].run();
		return 0;
	}
	printf("there is no case %s\n", argv[1]);
	return 1;
}
