/* SPDX-License-Identifier: BSD-2-Clause */
/* See xrc_group.h: the initiator. */
#include "xrc_group.h"

#include <string.h>
#include <unistd.h>

#include "rnd.h"

int group_file;
bool group_kills, group_home_in_rtr, group_home_polls;
uint8_t group_timeout = TIMEOUT;
unsigned int group_recvs = XRC_RECVS;

void group_send_command(int sock, enum command o)
{
	child_send(sock, &o, sizeof(o));
}

void group_start_receivers(struct group *f)
{
	alarm(RC_LIMIT_S);
	f->child[0] = child_fork(member_home);
	child_recv(f->child[0].sock, &f->member_info[0], sizeof(f->member_info[0]));
	for (int i = 1; i < TARGETS; i++) {
		f->child[i] = child_fork(member_owner);
		child_recv(f->child[i].sock, &f->member_info[i], sizeof(f->member_info[i]));
		child_send(f->child[i].sock, &f->member_info[0].addr.qpn, sizeof(uint32_t));
	}
}

void group_connect(struct group *f)
{
	struct rc_addr mine;

	xrc_open(&f->x, group_file, 0);
	f->x.qp = xrc_send_qp(&f->x);
	mine = rc_address(&f->x.rc, f->x.qp);
	child_send(f->child[0].sock, &mine, sizeof(mine));
	rc_barrier(f->child[0].sock);
	rc_connect(&f->x.rc, f->x.qp, &f->member_info[0].addr, group_timeout, RETRIES);
}

void group_start(struct group *f)
{
	group_start_receivers(f);
	group_connect(f);
}

void group_end(struct group *f)
{
	for (int i = 0; i < TARGETS; i++) {
		if (!f->child[i].pid)
			continue;
		group_send_command(f->child[i].sock, END);
		child_join(&f->child[i]);
	}
	if (f->x.xrcd)
		xrc_close(&f->x);
}

void group_expect(struct group *f, enum ibv_wc_status status)
{
	struct ibv_wc wc = xrc_wait(f->x.rc.cq);

	CHECK_EQ(wc.status, status);
}

void group_run(struct group *f, int member, enum command o)
{
	group_send_command(f->child[member].sock, o);
	rc_barrier(f->child[member].sock);
}

void group_run_all(struct group *f, enum command o)
{
	for (int i = 0; i < TARGETS; i++)
		group_run(f, i, o);
}

uint32_t group_stop_stream(struct group *f, int member, uint32_t least)
{
	uint32_t got;

	group_send_command(f->child[member].sock, STOP);
	child_send(f->child[member].sock, &least, sizeof(least));
	child_recv(f->child[member].sock, &got, sizeof(got));
	return got;
}

void stream_to(struct stream *s, uint32_t to)
{
	uint32_t seq = s->sent[to]++, len = stream_length(seq), slot = s->n++ % WINDOW;
	struct xrc *x = &s->f->x;
	char *p = xrc_buffer(x, slot);

	for (uint32_t i = 0; i < len; i++)
		p[i] = stream_pattern(seq, i);
	xrc_send(x, IBV_WR_SEND_WITH_IMM, s->f->member_info[to].srqn, (uint64_t)slot * XRC_SLOT,
		 len, NULL, seq << 8, 0);
	s->open++;
}

enum ibv_wc_status stream_wait(struct stream *s)
{
	s->open--;
	return xrc_wait(s->f->x.rc.cq).status;
}

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

struct ibv_wc group_take(struct group *f, int member)
{
	struct ibv_wc wc;

	group_send_command(f->child[member].sock, TAKE);
	child_recv(f->child[member].sock, &wc, sizeof(wc));
	return wc;
}

uint64_t group_read_word(struct group *f, int member)
{
	uint64_t word[8];

	group_send_command(f->child[member].sock, SHOW);
	child_recv(f->child[member].sock, word, sizeof(word));
	return word[0];
}

int group_query(struct group *f, int member, enum command o)
{
	int n;

	group_send_command(f->child[member].sock, o);
	child_recv(f->child[member].sock, &n, sizeof(n));
	return n;
}

void group_send(struct group *f, int member, uint32_t len)
{
	group_run(f, member, POST);
	xrc_send(&f->x, IBV_WR_SEND, f->member_info[member].srqn, 0, len, NULL, len, 0);
	group_expect(f, IBV_WC_SUCCESS);
	CHECK_EQ(group_take(f, member).byte_len, len);
}

int group_main(int argc, char **argv, const struct group_case *cases, size_t n)
{
	char name[] = "/tmp/verbena-xrc-XXXXXX";

	CHECK(argc >= 2);
	if (argc > 2)
		setenv("VERBENA_TRANSPORT", argv[2], 1);
	rnd_start();
	group_file = mkstemp(name);
	CHECK(group_file >= 0);
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
