/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of all kinds to the SRQs of several processes, in random order and of all sizes, while
 * receives are scarce and processes are stopped: each must act once, in order. VERBENA_SEED repeats
 * a sequence.
 *
 *	MIX	to the home, too
 *	MOVE	to the owners; the home closes the QP meanwhile, so that it moves
 *
 * MIX_FAULTS and MOVE_FAULTS: while random rules lose, copy, delay and reorder what any of the
 * processes sends or receives.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "random_faults.h"
#include "rnd.h"
#include "xrc_group.h"

enum {
	REQUESTS = 2500,
	AREA = 12,	/* the slot of a member that is written and read */
	WORD = 14,	/* the slot of its word for atomics */
	STOP_EVERY = 150,
};

/* Of the window's slots, in the order of posting. */
struct request {
	enum ibv_wr_opcode opcode;
	uint32_t slot, len, seq;
	uint64_t before;	/* what the atomic returns */
};

struct mix {
	struct group f;
	struct stream s;
	struct request open[WINDOW];
	uint32_t posted, done;
	uint32_t first_target;
	uint32_t written[TARGETS], written_len[TARGETS]; /* by the last WRITE */
	uint64_t added[TARGETS];
};

static char *slot_of(struct mix *m, uint32_t request)
{
	return xrc_buffer(&m->f.x, request % WINDOW);
}

static void fill(char *p, uint32_t seq, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = stream_pattern(seq, i);
}

static void complete_one(struct mix *m)
{
	struct ibv_wc wc = xrc_wait(m->f.x.rc.cq);
	const struct request *r = &m->open[m->done % WINDOW];
	const char *p = slot_of(m, m->done);
	uint64_t word;

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	m->done++;
	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&word, p, sizeof(word));
		CHECK_EQ(word, r->before);
	}
	if (r->opcode == IBV_WR_RDMA_READ)
		for (uint32_t i = 0; i < r->len; i++)
			CHECK_EQ(p[i], stream_pattern(r->seq, i));
}

static void post_access(struct mix *m, uint32_t to, enum ibv_wr_opcode opcode, uint32_t slot,
			uint32_t len)
{
	struct rc_addr at = m->f.member_info[to].addr;

	at.addr += slot * (uint64_t)XRC_SLOT;
	/* A WRITE must not overtake the responses of an earlier READ. */
	xrc_send(&m->f.x, opcode, m->f.member_info[to].srqn,
		 m->posted % WINDOW * (uint64_t)XRC_SLOT, len, &at, m->posted,
		 opcode == IBV_WR_RDMA_WRITE ? IBV_SEND_FENCE : 0);
}

static void post_one(struct mix *m)
{
	struct request *r = &m->open[m->posted % WINDOW];
	uint32_t to = m->first_target + rnd(TARGETS - m->first_target), what = rnd(8);

	*r = (struct request){ .opcode = IBV_WR_SEND_WITH_IMM };
	if (what == 0) {
		r->opcode = IBV_WR_RDMA_WRITE;
		m->written[to] = m->posted;
		m->written_len[to] = stream_length(rnd(1000));
		fill(slot_of(m, m->posted), m->posted, m->written_len[to]);
		post_access(m, to, r->opcode, AREA, m->written_len[to]);
	} else if (what == 1) {
		r->opcode = IBV_WR_RDMA_READ;
		r->seq = m->written[to];
		r->len = m->written_len[to];
		memset(slot_of(m, m->posted), 0x5a, r->len);
		post_access(m, to, r->opcode, AREA, r->len);
	} else if (what == 2) {
		r->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		r->before = m->added[to]++;
		post_access(m, to, r->opcode, WORD, 8);
	} else {
		m->s.n = m->posted;
		stream_to(&m->s, to);
	}
	m->posted++;
}

/* A member stops for a moment while requests for it are posted. */
static void stop_one(struct mix *m)
{
	pid_t pid = m->f.child[rnd(TARGETS)].pid;

	CHECK(kill(pid, SIGSTOP) == 0);
	for (uint32_t n = rnd(WINDOW); n && m->posted - m->done < WINDOW; n--)
		post_one(m);
	usleep(rnd(3000));
	CHECK(kill(pid, SIGCONT) == 0);
}

/* move_at: the home closes the QP before this request is posted. */
static void run(struct mix *m, uint32_t move_at)
{
	while (m->posted < REQUESTS) {
		if (m->posted >= move_at) {
			group_send_command(m->f.child[0].sock, CLOSE);
			move_at = REQUESTS;
		}
		if (!rnd(STOP_EVERY))
			stop_one(m);
		if (m->posted - m->done == WINDOW)
			complete_one(m);
		post_one(m);
		while (m->posted != m->done && !rnd(8))
			complete_one(m);
	}
	while (m->posted != m->done)
		complete_one(m);
}

static void start(struct mix *m, uint32_t first_target)
{
	m->s.f = &m->f;
	m->first_target = first_target;
	group_timeout = LONG_TIMEOUT;
	group_recvs = 1 + rnd(3);
	group_start(&m->f);
}

static void end(struct mix *m)
{
	for (int i = (int)m->first_target; i < TARGETS; i++)
		CHECK_EQ(group_stop_stream(&m->f, i, m->s.sent[i]), m->s.sent[i]);
	group_end(&m->f);
}

static void test_mix(void)
{
	static struct mix m;

	start(&m, 0);
	group_run_all(&m.f, RECEIVE);
	run(&m, REQUESTS);
	end(&m);
}

static void test_move(void)
{
	static struct mix m;

	start(&m, 1);
	for (int i = 1; i < TARGETS; i++)
		group_run(&m.f, i, OPEN);
	for (int i = 1; i < TARGETS; i++)
		group_run(&m.f, i, RECEIVE);
	run(&m, rnd(REQUESTS));
	rc_barrier(m.f.child[0].sock);
	end(&m);
}

/* The processes inherit the rules, and count each for itself. */
static void set_faults(void)
{
	char rules[RANDOM_FAULTS_MAX];

	do {
		random_faults(rules, "XRC", rnd);
	} while (!rules[0]);
	printf("VERBENA_FAULTS=\"%s\"\n", rules);
	setenv("VERBENA_FAULTS", rules, 1);
}

static void test_mix_faults(void)
{
	set_faults();
	test_mix();
}

static void test_move_faults(void)
{
	set_faults();
	test_move();
}

int main(int argc, char **argv)
{
	static const struct group_case cases[] = {
		{ "MIX", test_mix },
		{ "MOVE", test_move },
		{ "MIX_FAULTS", test_mix_faults },
		{ "MOVE_FAULTS", test_move_faults },
	};

	return group_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
