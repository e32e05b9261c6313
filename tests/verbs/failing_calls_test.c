/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failing system calls. One program creates an object of each kind, another one moves data; each
 * runs again and again with the N-th system call failing once, failing from then on, or interrupted
 * by a signal, for all N. Each verb must succeed or report an error. Nothing may crash or hang,
 * objects can be destroyed while calls still fail, no descriptor or mapping leaks, and afterwards
 * everything works again.
 */
#include <errno.h>

#include "descriptors.h"
#include "failing_calls.h"
#include "objects.h"

enum {
	MAX_CALLS = 20000,		/* system calls of one run */
	MESSAGES = 8,
	/* several packets; on one host the receiver reads it from the sender's memory */
	LEN = 20000,
	/* of the calls while data moves: the N-th call differs from run to run anyway */
	STEP = 7,
	MAPPINGS = 8,		/* that the C library and the kernel's sanitizers may keep */
};

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
	CREATING,		/* calls fail while objects are created */
	BOTH,		/* and while they are destroyed */
};

/* Returns the name of the call that failed; NULL if there were fewer than N. */
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
	unsigned int files = count_descriptors(), areas = mappings();
	const char *which;
	long n = 0;

	while ((which = run_objects(n, persistent, scope))) {
		calls_fail(-1, false, false);
		if (count_descriptors() != files) {
			printf("call %ld, %s, left a descriptor behind\n", n, which);
			exit(1);
		}
		CHECK(++n < MAX_CALLS);
	}
	calls_fail(-1, false, false);
	printf("%ld calls, persistent %d, scope %d: %u mappings before, %u after\n", n, persistent,
	       scope, areas, mappings());
	CHECK(n > 50);
	CHECK(mappings() <= areas + MAPPINGS);
}

/* The objects that exist, as bits in the order of struct objects. */
static uint64_t existing_objects(const struct objects *o)
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
	bits = existing_objects(&o);
	objects_destroy(&o);
	calls_fail(-1, false, false);
	return bits;
}

/* A signal changes nothing: every object that can be created is created. */
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

/*
 * Sends messages, each followed by a READ and a WRITE; all must complete. Returns how many failed.
 */
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
				printf("the first failed request: %s, reason %u\n",
				       ibv_wc_status_str(wc.status), wc.vendor_err);
			expected--;
			/* the other side may wait for ever, which the specification allows */
			if (failed) {
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
	/* A call that fails once must not fail a request. */
	if (failed && !persistent)
		printf("call %ld, %s, failed once: %d requests failed\n", n, which, failed);
	CHECK(!failed || persistent);
	data_close(&d);
	return which;
}

static void sweep_data(bool persistent)
{
	unsigned int files = count_descriptors();
	long n = 0;

	while (run_data(n, persistent)) {
		CHECK_EQ(count_descriptors(), files);
		n += n < 3 * STEP ? 1 : STEP;
		CHECK(n < MAX_CALLS);
	}
	printf("%ld calls while data moved, persistent %d\n", n, persistent);
	CHECK(!run_data(-1, false));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("VERBENA_RAW", "virtual", 0);
	setenv("VERBENA_LOG", "off", 0);
	/* Run once without failures first, since the set-up of the process is not under test. */
	CHECK(!run_objects(-1, false, CREATING));
	for (enum scope scope = CREATING; scope <= BOTH; scope++) {
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
