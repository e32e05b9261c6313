/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel refuses: a program that makes one object of each kind, and one that moves data, run
 * again and again with the N-th system call failing, once or from then on, or interrupted, for all
 * N.  Each verb works or says why not; nothing crashes or hangs, what was made can be taken down
 * while calls go on failing, no descriptor and no mapping is left behind, and afterwards all works
 * again.
 */
#include <dirent.h>
#include <errno.h>

#include "failing_calls.h"
#include "objects.h"

enum {
	MOST = 20000,		/* calls of one run */
	MESSAGES = 8,
	LEN = 20000, /* several packets, and left in place for the receiver on one host */
	/* of the calls while data move: which is the N-th differs from run to run anyway */
	STEP = 7,
	MAPPINGS = 8,		/* the C library and the sanitizers of the kernel may keep some */
};

static unsigned int entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static unsigned int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned int n = 0;
	int c;

	CHECK(f);
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* ---- objects ---- */

enum scope {
	MAKING,		/* calls fail while objects are made */
	BOTH,		/* also while they are destroyed */
};

/* The name of the call that failed; NULL: there was no N-th. */
static const char *run_objects(long n, bool persistent, enum scope scope)
{
	struct objects o = { 0 };

	calls_fail(n, persistent, false);
	objects_make(&o);
	if (scope == BOTH) {
		objects_destroy(&o);
		return calls_failed();
	}
	if (calls_failed()) {
		const char *which = calls_failed();

		calls_fail(-1, false, false);
		objects_destroy(&o);
		return which;
	}
	calls_fail(-1, false, false);
	objects_destroy(&o);
	return NULL;
}

static void sweep_objects(bool persistent, enum scope scope)
{
	unsigned int files = entries("/proc/self/fd"), areas = mappings();
	const char *which;
	long n = 0;

	while ((which = run_objects(n, persistent, scope))) {
		calls_fail(-1, false, false);
		if (entries("/proc/self/fd") != files) {
			printf("call %ld, %s, left a descriptor behind\n", n, which);
			exit(1);
		}
		CHECK(++n < MOST);
	}
	calls_fail(-1, false, false);
	printf("%ld calls, persistent %d, scope %d: %u mappings before, %u after\n", n, persistent,
	       scope, areas, mappings());
	CHECK(n > 50);
	CHECK(mappings() <= areas + MAPPINGS);
}

/* Which objects there are, as bits in the order of struct objects. */
static uint64_t there(const struct objects *o)
{
	void *const *object = (void *const *)o;
	uint64_t bits = 0;

	for (size_t i = 0; i < sizeof(*o) / sizeof(*object); i++)
		bits |= (uint64_t)(object[i] != NULL) << i;
	return bits;
}

static uint64_t make_interrupted(long n, const char **which)
{
	struct objects o = { 0 };
	uint64_t bits;

	calls_fail(n, false, false);
	objects_make(&o);
	*which = calls_failed();
	bits = there(&o);
	objects_destroy(&o);
	calls_fail(-1, false, false);
	return bits;
}

/* A signal changes nothing: all that can be made is made. */
static void sweep_interruptions(void)
{
	const char *which;
	uint64_t all = make_interrupted(-1, &which);
	long n = 0;

	calls_are_interrupted(true);
	do {
		uint64_t made = make_interrupted(n, &which);

		if (made != all)
			printf("call %ld, %s, was interrupted: objects %llx of %llx\n", n, which,
			       (unsigned long long)made, (unsigned long long)all);
		CHECK(made == all);
		n++;
	} while (which);
	calls_are_interrupted(false);
	printf("%ld calls that signals interrupt\n", n);
	CHECK(n > 5);
}

/* ---- data ---- */

struct data {
	struct world w;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	struct buffer out, in;
};

static void data_open(struct data *d)
{
	world_open(&d->w);
	d->cq = world_cq(&d->w, 4 * MESSAGES);
	d->a = world_qp(&d->w, IBV_QPT_RC, d->cq, NULL);
	d->b = world_qp(&d->w, IBV_QPT_RC, d->cq, NULL);
	d->out = world_buffer(&d->w, LEN, WORLD_ACCESS);
	d->in = world_buffer(&d->w, LEN, WORLD_ACCESS);
	world_connect(&d->w, d->a, d->b);
}

static void data_close(struct data *d)
{
	CHECK_EQ(ibv_destroy_qp(d->a), 0);
	CHECK_EQ(ibv_destroy_qp(d->b), 0);
	CHECK_EQ(ibv_destroy_cq(d->cq), 0);
	world_free(&d->out);
	world_free(&d->in);
	world_close(&d->w);
}

/* Messages, and a READ and a WRITE behind each; every one must end. Returns how many failed. */
static int move_data(struct data *d)
{
	int failed = 0, expected = 0;

	memset(d->out.data, 0x5a, LEN);
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = world_sge(&d->out, 0, i % 2 ? LEN : 100);
		struct ibv_send_wr write = world_rdma(IBV_WR_RDMA_WRITE, 2, &sge, &d->in, 0);
		struct ibv_sge back = world_sge(&d->out, 0, 64);
		struct ibv_send_wr read = world_rdma(IBV_WR_RDMA_READ, 3, &back, &d->in, 0);

		world_recv(d->b, 1, world_sge(&d->in, 0, LEN));
		world_send(d->a, 1, sge);
		world_post(d->a, &write);
		world_post(d->a, &read);
		expected += 4;
		while (expected > 8 || (i == MESSAGES - 1 && expected)) {
			struct ibv_wc wc;

			world_poll(d->cq, &wc, 1);
			if (wc.status != IBV_WC_SUCCESS && !failed++)
				printf("the first to fail: %s, reason %u\n",
				       ibv_wc_status_str(wc.status), wc.vendor_err);
			expected--;
			if (failed) {	/* the other side may wait for ever: that is its right */
				struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

				CHECK_EQ(ibv_modify_qp(d->a, &attr, IBV_QP_STATE), 0);
				CHECK_EQ(ibv_modify_qp(d->b, &attr, IBV_QP_STATE), 0);
			}
		}
	}
	return failed;
}

static bool run_data(long n, bool persistent)
{
	const char *which;
	struct data d;
	int failed;

	data_open(&d);
	calls_fail(n, persistent, true);
	failed = move_data(&d);
	which = calls_failed();
	calls_fail(-1, false, false);
	/* One refusal is a loss, which is made good. */
	if (failed && !persistent)
		printf("call %ld, %s, once: %d requests failed\n", n, which, failed);
	CHECK(!failed || persistent);
	data_close(&d);
	return which;
}

static void sweep_data(bool persistent)
{
	unsigned int files = entries("/proc/self/fd");
	long n = 0;

	while (run_data(n, persistent)) {
		CHECK_EQ(entries("/proc/self/fd"), files);
		n += n < 3 * STEP ? 1 : STEP;
		CHECK(n < MOST);
	}
	printf("%ld calls while data moved, persistent %d\n", n, persistent);
	CHECK(!run_data(-1, false));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("VERBENA_RAW", "virtual", 0);
	setenv("VERBENA_LOG", "off", 0);
	/* Once in peace: what is set up once per process is not what is tested. */
	CHECK(!run_objects(-1, false, MAKING));
	for (enum scope scope = MAKING; scope <= BOTH; scope++) {
		sweep_objects(false, scope);
		sweep_objects(true, scope);
	}
	sweep_interruptions();
	sweep_data(false);
	sweep_data(true);
	calls_are_interrupted(true);
	sweep_data(false);
	return 0;
}
