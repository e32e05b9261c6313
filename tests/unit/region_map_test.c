/* SPDX-License-Identifier: BSD-2-Clause */
/* Which regions of a peer are mapped, when, and for how long; this process plays the peer. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "local/region_map.h"
#include "local/segment.h"
#include "run/nofault.h"
#include "run/proc_maps.h"
#include "util/compiler.h"
#include "util/tuning.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { LEN = 10000, OFFSET = 100, FILE_LEN = 16384 };

static struct seg_header header;
static struct mr_entry keys[SEG_KEY_CHUNK];
static struct lane lane;
static struct peer_map peer;
static struct region_maps maps;
static uint32_t editions;
static int fd;
static uint8_t *memory;

static int setup(void **state)
{
	header.key_chunks[0] = 1;
	peer = (struct peer_map){ .header = &header, .keys = keys, .pid = getpid(),
				   .lane = &lane };
	fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, FILE_LEN))
		return -1;
	memory = mmap(NULL, FILE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return memory == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
	region_maps_free(&maps);
	memset(&maps, 0, sizeof(maps));
	memset(keys, 0, sizeof(keys));
	munmap(memory, FILE_LEN);
	return close(fd);
}

/* Makes a region of [at, at + LEN) live at this index. */
static void publish(uint32_t index, const void *at)
{
	keys[index] = (struct mr_entry){ .refs = MR_LIVE | ++editions, .kind = MR_REGION,
					 .access = IBV_ACCESS_LOCAL_WRITE,
					 .host = (uintptr_t)at, .length = LEN };
}

static uint8_t *use(uint32_t index, enum mem_access access)
{
	return region_map_find(&maps, &peer, index, keys[index].refs & MR_EDITION, &keys[index],
			       access, false);
}

/* As for an atomic, which maps a region at once. */
static uint8_t *find(uint32_t index)
{
	return use(index, MEM_REMOTE_ATOMIC);
}

static bool is_mapped(const void *at)
{
	struct memmap map;

	return memmap_query(at, 1, &map) == 0;
}

static bool is_writable(const void *at)
{
	struct memmap map;

	return memmap_query(at, 1, &map) == 0 && map.writable;
}

static void maps_once(void **state)
{
	uint8_t *at;

	publish(3, memory + OFFSET);
	at = find(3);
	assert_non_null(at);
	assert_ptr_not_equal(at, memory + OFFSET);
	strcpy((char *)at, "through the mapping");
	assert_string_equal((char *)memory + OFFSET, "through the mapping");
	memory[OFFSET + LEN - 1] = 9;
	assert_int_equal(at[LEN - 1], 9);
	assert_ptr_equal(find(3), at);
}

/* Memory without remote write access is mapped read-only. */
static void has_no_more_access(void **state)
{
	uint8_t *at;

	publish(3, memory);
	keys[3].access = IBV_ACCESS_REMOTE_READ;
	for (int i = 0; i < TUNE_REGION_USES; i++)
		at = use(3, MEM_REMOTE_READ);
	assert_non_null(at);
	assert_false(is_writable(at));
	assert_null(use(3, MEM_REMOTE_WRITE));
	publish(3, memory);
	assert_true(is_writable(find(3)));
}

/* "dd" among the flags of a mapping: it is excluded from core dumps. */
static bool is_dumped(const void *at)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long start, end;
	bool inside = false, dumped = true;
	char line[4352];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = (uintptr_t)at - start < end - start;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			dumped = strstr(line, " dd") == NULL;
	}
	fclose(f);
	return dumped;
}

static void is_excluded_from_core_dumps(void **state)
{
	publish(3, memory);
	assert_true(is_dumped(memory));
	assert_false(is_dumped(find(3)));
}

/* A region used only a few times is not worth a mapping. */
static void waits_for_some_uses(void **state)
{
	publish(3, memory);
	for (int i = 1; i < TUNE_REGION_USES; i++)
		assert_null(use(3, i % 2 ? MEM_REMOTE_READ : MEM_REMOTE_WRITE));
	assert_non_null(use(3, MEM_REMOTE_WRITE));
	assert_ptr_equal(use(3, MEM_REMOTE_READ), find(3));
	publish(3, memory);
	assert_null(use(3, MEM_REMOTE_READ));
	assert_non_null(find(3));
}

/* Like a NIC, the mapping keeps its pages until the region is registered again. */
static void follows_editions(void **state)
{
	int other = memfd_create("other", MFD_CLOEXEC);
	uint8_t *at, *next;

	publish(3, memory);
	at = find(3);
	assert_non_null(at);
	assert_int_equal(ftruncate(other, FILE_LEN), 0);
	assert_ptr_equal(mmap(memory, FILE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			      other, 0), memory);
	*at = 5;
	assert_int_equal(*memory, 0);
	publish(3, memory);
	next = find(3);
	assert_non_null(next);
	*next = 6;
	assert_int_equal(*memory, 6);
	close(other);
}

/* Ended regions are unmapped when another region is mapped, or after a while. */
static void unmaps_ended_regions(void **state)
{
	uint8_t *at, *other;

	publish(1, memory);
	at = find(1);
	keys[1].refs = 0;
	assert_true(is_mapped(at));
	publish(2, memory);
	other = find(2);
	assert_non_null(other);
	if (other != at)
		assert_false(is_mapped(at));
	keys[2].refs = 0;
	publish(3, memory);
	at = find(3);
	for (int i = 0; i < LIMIT_REGION_SWEEP; i++)
		assert_ptr_equal(find(3), at);
	publish(4, memory);
	assert_non_null(find(4));
	keys[4].refs = 0;
	for (int i = 0; i < LIMIT_REGION_SWEEP; i++)
		find(3);
	for (int i = 0; i < REGION_MAP_WAYS; i++)
		assert_int_equal(maps.map[4][i].edition, 0);
}

/*
 * The owner sees whether it must ring a doorbell; after that, ended regions are unmapped at once.
 */
static void unmaps_on_doorbell(void **state)
{
	uint8_t *at;

	publish(1, memory);
	publish(2, memory);
	at = find(1);
	assert_non_null(find(2));
	assert_int_equal(lane.maps, 2);
	region_maps_sweep(&maps, &peer);
	assert_int_equal(lane.maps, 2);
	keys[1].refs = 0;
	region_maps_sweep(&maps, &peer);
	assert_int_equal(lane.maps, 1);
	assert_false(is_mapped(at));
	assert_non_null(find(2));
}

/* While addresses are in use, nothing is unmapped: another mapping could take the place. */
static void keeps_addresses_in_use(void **state)
{
	const uint32_t other = 1 + REGION_MAP_SETS;
	uint8_t *at;

	publish(1, memory);
	at = find(1);
	keys[1].refs = 0;
	publish(other, memory);
	for (int i = 0; i < 2 * LIMIT_REGION_SWEEP; i++)
		assert_null(region_map_find(&maps, &peer, other, keys[other].refs & MR_EDITION,
					    &keys[other], MEM_REMOTE_ATOMIC, true));
	assert_true(is_mapped(at));
	assert_non_null(find(other));
	assert_int_equal(maps.map[1][0].index, other);
}

static void remembers_refusals(void **state)
{
	static uint8_t private[LEN];

	publish(5, private);
	assert_null(find(5));
	assert_int_equal(maps.map[5][0].edition, keys[5].refs & MR_EDITION);
	assert_null(find(5));
}

/* With a seal against writing only reading is possible. */
static void sealed_is_read_only(void **state)
{
	publish(6, memory);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	memory[0] = 3;
	assert_null(find(6));
	assert_null(use(6, MEM_REMOTE_WRITE));
	assert_non_null(use(6, MEM_REMOTE_READ));
	assert_int_equal(*use(6, MEM_REMOTE_READ), 3);
}

static void survives_truncation(void **state)
{
	uint8_t byte, *at;

	publish(7, memory);
	at = find(7);
	assert_non_null(at);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_false(vrb_guard_copy(&byte, at, 1));
	region_map_faulted(&maps, at, 1);
	assert_false(is_mapped(at));
	assert_null(find(7));
}

/* The fault was in memory of this process, or affects only one end of the region. */
static void blames_only_the_region(void **state)
{
	const size_t page = sysconf(_SC_PAGESIZE), size = 3 * page;
	int other = memfd_create("other", MFD_CLOEXEC);
	uint8_t *at, *p;

	assert_int_equal(ftruncate(other, size), 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	publish(7, p + OFFSET);
	keys[7].length = size - OFFSET;
	at = find(7);
	assert_non_null(at);
	region_map_faulted(&maps, at, size - OFFSET);
	assert_ptr_equal(find(7), at);
	assert_int_equal(ftruncate(other, 2 * page), 0);
	region_map_faulted(&maps, at, 2 * page - OFFSET);
	assert_ptr_equal(find(7), at);
	region_map_faulted(&maps, at, 2 * page - OFFSET + 1);
	assert_null(find(7));
	munmap(p, size);
	close(other);
}

/* In one set, a region that does not fit waits until another one is idle. */
static void is_bounded(void **state)
{
	uint8_t *at[REGION_MAP_WAYS + 1];

	for (int i = 0; i <= REGION_MAP_WAYS; i++)
		publish(1 + i * REGION_MAP_SETS, memory);
	for (int i = 0; i < REGION_MAP_WAYS; i++) {
		at[i] = find(1 + i * REGION_MAP_SETS);
		assert_non_null(at[i]);
	}
	assert_null(find(1 + REGION_MAP_WAYS * REGION_MAP_SETS));
	for (int i = 0; i < LIMIT_REGION_REST; i++)
		assert_ptr_equal(find(1 + REGION_MAP_SETS), at[1]);
	assert_non_null(find(1 + REGION_MAP_WAYS * REGION_MAP_SETS));
	assert_ptr_equal(find(1 + REGION_MAP_SETS), at[1]);
}

/* An entry that a peer may have overwritten by accident gives no access beyond the mapping. */
static void checks_the_entry(void **state)
{
	publish(8, memory);
	assert_non_null(find(8));
	keys[8].length = LEN + 1;
	assert_null(find(8));
	keys[8].length = UINT64_MAX - 5;
	keys[8].refs = MR_LIVE | ++editions;
	assert_null(find(8));
	keys[8].length = LEN;
	keys[8].host = 0;
	keys[8].refs = MR_LIVE | ++editions;
	assert_null(find(8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(maps_once, setup, teardown),
		cmocka_unit_test_setup_teardown(has_no_more_access, setup, teardown),
		cmocka_unit_test_setup_teardown(is_excluded_from_core_dumps, setup, teardown),
		cmocka_unit_test_setup_teardown(waits_for_some_uses, setup, teardown),
		cmocka_unit_test_setup_teardown(follows_editions, setup, teardown),
		cmocka_unit_test_setup_teardown(unmaps_ended_regions, setup, teardown),
		cmocka_unit_test_setup_teardown(unmaps_on_doorbell, setup, teardown),
		cmocka_unit_test_setup_teardown(keeps_addresses_in_use, setup, teardown),
		cmocka_unit_test_setup_teardown(remembers_refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(sealed_is_read_only, setup, teardown),
		cmocka_unit_test_setup_teardown(survives_truncation, setup, teardown),
		cmocka_unit_test_setup_teardown(blames_only_the_region, setup, teardown),
		cmocka_unit_test_setup_teardown(is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(checks_the_entry, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
