/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of a segment against an oracle, read by a second member of the host; invalid segments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/host.h"
#include "local/segment.h"
#include "wq/qp.h"

#include "left_out.h"
#include "place.h"

enum {
	NETNS = 42,
	OWNER,
	PEER,
	MEMBERS = 2,
	QPS = 300,
	STEPS = 20000,
	FIRST_QPN = 0x10000,
};

static char dir[64];
static char log_path[] = "/tmp/verbena-segment-XXXXXX";
static struct host *host[MEMBERS];
static struct segment *seg[MEMBERS];
static uint64_t seed;

static int join(void **state)
{
	place_make_dir(dir);
	for (int i = 0; i < MEMBERS; i++) {
		assert_int_equal(host_join(dir, &host[i]), 0);
		assert_true(host_shared(host[i]));
		assert_int_equal(segment_create(host[i], NETNS, &seg[i]), 0);
	}
	return 0;
}

static int leave(void **state)
{
	for (int i = 0; i < MEMBERS; i++) {
		segment_destroy(seg[i], host[i]);
		host_leave(host[i]);
	}
	place_remove_dir(dir);
	return 0;
}

/* The owner is member 0, the reader member 1. */
static int open_map(struct peer_map *map)
{
	return peer_map_open(host[1], seg[1], host_slot(host[1]), host_slot(host[0]),
			     host_incarnation(host[0]), map);
}

/* ---- QPs ---- */

static struct wq_qp oracle[QPS];
static bool there[QPS];

static void change(struct wq_qp *qp)
{
	qp->dest_qpn = place_next(&seed) & 0xffffff;
	qp->pdn = place_next(&seed);
	qp->access = place_next(&seed) & 0xffff;
	qp->rq_psn = place_next(&seed) & 0xffffff;
	qp->state = place_next(&seed) % 7;
	qp->max_dest_rd_atomic = place_next(&seed);
	for (int i = 0; i < 16; i++) {
		qp->path.src.raw[i] = place_next(&seed);
		qp->path.dst.raw[i] = place_next(&seed);
	}
}

static void expect_same(const struct peer_map *map, int i, uint32_t qpn)
{
	const struct wq_qp *qp = &oracle[i];
	const struct seg_qp *entry;
	struct seg_qp copy;

	entry = peer_map_qp(map, qpn, &copy);
	assert_int_equal(entry != NULL, there[i]);
	if (!there[i])
		return;
	assert_int_equal(copy.qpn, qpn);
	assert_int_equal(copy.dest_qpn, qp->dest_qpn);
	assert_int_equal(copy.pdn, qp->pdn);
	assert_int_equal(copy.access, qp->access);
	assert_int_equal(copy.rq_psn, qp->rq_psn & 0xffff);
	assert_int_equal(copy.state, qp->state);
	assert_int_equal(copy.max_dest_rd_atomic, qp->max_dest_rd_atomic);
	assert_memory_equal(copy.src_gid, qp->path.src.raw, 16);
	assert_memory_equal(copy.dest_gid, qp->path.dst.raw, 16);
	assert_true(peer_map_qp_stands(entry, &copy));
}

/* Numbers that collide in the table; every other one is used. */
static uint32_t number(int i)
{
	return FIRST_QPN + i / 2 + (i % 2) * SEG_QPS;
}

static void qps_match_what_was_published(void **state)
{
	struct peer_map map;

	seed = place_seed();
	assert_int_equal(open_map(&map), 0);
	for (int step = 0; step < STEPS; step++) {
		int i = place_next(&seed) % QPS;

		oracle[i].qpn = number(i);
		if (there[i] && place_next(&seed) % 2) {
			segment_retract_qp(seg[0], number(i));
			there[i] = false;
		} else {
			change(&oracle[i]);
			assert_int_equal(segment_publish_qp(seg[0], &oracle[i],
							    (struct seg_qp_facts){ 0 }), 0);
			there[i] = true;
		}
		i = place_next(&seed) % QPS;
		expect_same(&map, i, number(i));
	}
	for (int i = 0; i < QPS; i++) {
		expect_same(&map, i, number(i));
		segment_retract_qp(seg[0], number(i));
		there[i] = false;
	}
	/* No trace is left: a search ends at once. */
	for (int i = 0; i < SEG_QPS; i++)
		assert_int_equal(map.qps[i].qpn, SEG_QP_EMPTY);
	peer_map_close(&map);
}

static void any_change_invalidates_a_copy(void **state)
{
	struct wq_qp qp = { .qpn = FIRST_QPN, .state = IBV_QPS_RTS };
	const struct seg_qp *entry;
	struct seg_qp copy;
	struct peer_map map;

	assert_int_equal(open_map(&map), 0);
	segment_publish_qp(seg[0], &qp, (struct seg_qp_facts){ 0 });
	entry = peer_map_qp(&map, FIRST_QPN, &copy);
	assert_true(peer_map_qp_stands(entry, &copy));
	segment_publish_qp(seg[0], &qp, (struct seg_qp_facts){ 0 });
	assert_false(peer_map_qp_stands(entry, &copy));
	entry = peer_map_qp(&map, FIRST_QPN, &copy);
	segment_retract_qp(seg[0], FIRST_QPN);
	assert_false(peer_map_qp_stands(entry, &copy));
	peer_map_close(&map);
}

/* Nothing is left of the previous connection, nor of the QP that used the entry before. */
static void progress_ends_with_the_connection(void **state)
{
	struct wq_qp qp = { .qpn = FIRST_QPN, .state = IBV_QPS_RTS };
	struct wq_qp next = { .qpn = FIRST_QPN + SEG_QPS, .state = IBV_QPS_RTS };
	struct seg_qp *table = (struct seg_qp *)(seg[0]->base + SEG_QP_OFF);
	struct seg_qp copy;
	struct peer_map map;

	assert_int_equal(open_map(&map), 0);
	segment_publish_qp(seg[0], &qp, (struct seg_qp_facts){ 0 });
	assert_ptr_equal(segment_progress(seg[0], FIRST_QPN),
			 &table[FIRST_QPN % SEG_QPS].progress);
	*segment_progress(seg[0], FIRST_QPN) = 1;
	qp.state = IBV_QPS_ERR;
	segment_publish_qp(seg[0], &qp, (struct seg_qp_facts){ 0 });
	assert_non_null(peer_map_qp(&map, FIRST_QPN, &copy));
	assert_int_equal(copy.progress, 1);
	qp.state = IBV_QPS_RESET;
	segment_publish_qp(seg[0], &qp, (struct seg_qp_facts){ 0 });
	assert_non_null(peer_map_qp(&map, FIRST_QPN, &copy));
	assert_int_equal(copy.progress, 0);
	table[FIRST_QPN % SEG_QPS].progress = 2;
	segment_retract_qp(seg[0], FIRST_QPN);
	segment_publish_qp(seg[0], &next, (struct seg_qp_facts){ 0 });
	assert_non_null(peer_map_qp(&map, next.qpn, &copy));
	assert_int_equal(copy.progress, 0);
	segment_retract_qp(seg[0], next.qpn);
	assert_null(segment_progress(seg[0], next.qpn));
	peer_map_close(&map);
}

/* The word of a QP that has ended stays until it is withdrawn, or another QP has the number. */
static void progress_outlives_its_queue_pair(void **state)
{
	struct wq_qp qp = { .qpn = FIRST_QPN, .state = IBV_QPS_RTS };
	struct seg_qp copy;
	struct peer_map map;

	assert_int_equal(open_map(&map), 0);
	segment_publish_qp(seg[0], &qp, (struct seg_qp_facts){ 0 });
	segment_forget_qp(seg[0], FIRST_QPN);
	assert_non_null(peer_map_qp(&map, FIRST_QPN, &copy));
	*segment_progress(seg[0], FIRST_QPN) = 1;
	segment_end_qp(seg[0], FIRST_QPN);
	assert_non_null(peer_map_qp(&map, FIRST_QPN, &copy));
	assert_int_equal(copy.progress, 1);
	assert_int_equal(copy.state, IBV_QPS_ERR);
	segment_forget_qp(seg[0], FIRST_QPN);
	assert_null(peer_map_qp(&map, FIRST_QPN, &copy));

	segment_publish_qp(seg[0], &qp, (struct seg_qp_facts){ 0 });
	segment_end_qp(seg[0], FIRST_QPN);
	segment_publish_qp(seg[0], &qp, (struct seg_qp_facts){ 0 });
	segment_forget_qp(seg[0], FIRST_QPN);
	assert_non_null(peer_map_qp(&map, FIRST_QPN, &copy));
	segment_retract_qp(seg[0], FIRST_QPN);
	peer_map_close(&map);
}

/* The owner overwrites whatever others write into the table. */
static void the_owner_restores_overwritten_entries(void **state)
{
	struct wq_qp qp = { .qpn = FIRST_QPN, .state = IBV_QPS_RTS };
	uint8_t *table = seg[0]->base + SEG_QP_OFF;
	struct seg_qp copy;
	struct peer_map map;

	assert_int_equal(open_map(&map), 0);
	memset(table, 0xff, SEG_MR_OFF - SEG_QP_OFF);
	assert_null(peer_map_qp(&map, FIRST_QPN, &copy));
	assert_int_equal(segment_publish_qp(seg[0], &qp, (struct seg_qp_facts){ 0 }), 0);
	assert_non_null(peer_map_qp(&map, FIRST_QPN, &copy));
	segment_retract_qp(seg[0], FIRST_QPN);
	memset(table, 0, SEG_MR_OFF - SEG_QP_OFF);
	peer_map_close(&map);
}

/* ---- keys ---- */

static void keys_without_memory_are_not_touched(void **state)
{
	struct peer_map map;
	struct mr_entry *e;

	assert_int_equal(open_map(&map), 0);
	assert_null(peer_map_key(&map, 5000));
	e = segment_keys(seg[0], 4096, SEG_KEY_CHUNK);
	assert_non_null(e);
	e[5000 - 4096].rkey = 77;
	assert_int_equal(peer_map_key(&map, 5000)->rkey, 77);
	assert_null(peer_map_key(&map, 4095));
	assert_null(peer_map_key(&map, 4096 + SEG_KEY_CHUNK));
	assert_null(segment_keys(seg[0], SEG_KEYS, SEG_KEY_CHUNK));
	peer_map_close(&map);
}

static void any_changed_bit_fails_the_digest(void **state)
{
	struct mr_entry e = { .lkey = 1, .rkey = 2, .pdn = 3, .va = 4, .length = 5, .host = 6 };
	uint8_t *bytes = (uint8_t *)&e;
	uint32_t sum = mr_entry_sum(&e);

	for (size_t bit = 32; bit < 8 * offsetof(struct mr_entry, sum); bit++) {
		bytes[bit / 8] ^= 1 << bit % 8;
		assert_int_not_equal(mr_entry_sum(&e), sum);
		bytes[bit / 8] ^= 1 << bit % 8;
	}
	e.refs = 99;
	e.sum = 99;
	assert_int_equal(mr_entry_sum(&e), sum);
}

/* ---- invalid segments ---- */

static void segments_of_others_are_refused(void **state)
{
	struct seg_header *h = segment_header(seg[0]), saved = *h;
	struct peer_map map;
	char name[32];

	h->layout++;
	assert_int_equal(open_map(&map), EPROTO);
	*h = saved;
	h->magic++;
	assert_int_equal(open_map(&map), EPROTO);
	*h = saved;
	h->netns++;
	assert_int_equal(open_map(&map), EXDEV);
	*h = saved;
	h->pidns++;
	assert_int_equal(open_map(&map), EXDEV);
	*h = saved;
	h->incarnation++;
	assert_int_equal(open_map(&map), ESTALE);
	*h = saved;
	h->ready = 0;
	assert_int_equal(open_map(&map), ENOENT);
	*h = saved;
	assert_int_equal(open_map(&map), 0);
	peer_map_close(&map);

	host_file_name(host_slot(host[0]), "seg", name);
	assert_int_equal(renameat(host_dirfd(host[0]), name, host_dirfd(host[0]), "away"), 0);
	assert_int_equal(open_map(&map), ENOENT);
	close(openat(host_dirfd(host[0]), name, O_CREAT | O_RDWR, 0600));
	assert_int_equal(open_map(&map), EPROTO);
	unlinkat(host_dirfd(host[0]), name, 0);
	assert_int_equal(symlinkat("away", host_dirfd(host[0]), name), 0);
	assert_int_equal(open_map(&map), EPROTO);
	assert_int_equal(renameat(host_dirfd(host[0]), "away", host_dirfd(host[0]), name), 0);
}

static bool was_logged(const char *word)
{
	static char text[4096];
	FILE *f = fopen(log_path, "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	assert_non_null(f);
	fclose(f);
	text[n] = '\0';
	return strstr(text, word) != NULL;
}

/* Only root can create one. */
static void a_segment_of_another_user_is_refused(void **state)
{
	struct peer_map map;
	char name[32];

	if (geteuid()) {
		LEAVE_OUT("only root can create another user's file");
	}
	host_file_name(host_slot(host[0]), "seg", name);
	assert_int_equal(fchownat(host_dirfd(host[0]), name, 4242, 0, 0), 0);
	assert_int_equal(open_map(&map), EPROTO);
	assert_null(map.header);
	assert_null(map.tables);
	assert_null(map.lane);
	assert_true(was_logged(name));
	/*
	 * Under the name that a process needs for its own segment it is no obstacle: the directory
	 * belongs to the process, which replaces the file.
	 */
	segment_destroy(seg[0], host[0]);
	close(openat(host_dirfd(host[0]), name, O_CREAT | O_RDWR, 0600));
	assert_int_equal(fchownat(host_dirfd(host[0]), name, 4242, 0, 0), 0);
	assert_int_equal(segment_create(host[0], NETNS, &seg[0]), 0);
	assert_int_equal(open_map(&map), 0);
	peer_map_close(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qps_match_what_was_published),
		cmocka_unit_test(any_change_invalidates_a_copy),
		cmocka_unit_test(progress_ends_with_the_connection),
		cmocka_unit_test(progress_outlives_its_queue_pair),
		cmocka_unit_test(the_owner_restores_overwritten_entries),
		cmocka_unit_test(keys_without_memory_are_not_touched),
		cmocka_unit_test(any_changed_bit_fails_the_digest),
		cmocka_unit_test(segments_of_others_are_refused),
		cmocka_unit_test(a_segment_of_another_user_is_refused),
	};

	int failed;

	close(mkstemp(log_path));
	setenv("VERBENA_LOG", "warn", 1);
	setenv("VERBENA_LOG_FILE", log_path, 1);
	failed = cmocka_run_group_tests(tests, join, leave);
	unlink(log_path);
	return failed;
}
