/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_copy_*_kern(): each member is copied to the right place (the sources hold a different value
 * in every byte), members that the source lacks stay unchanged, and a path survives a round trip.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "verbs/exports.h"

#define STALE 0xa5

static void fill(void *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)p)[i] = (uint8_t)(i * 7 + 1);
}

static void check_ah(const struct ibv_ah_attr *a, const struct ib_uverbs_ah_attr *k)
{
	assert_memory_equal(a->grh.dgid.raw, k->grh.dgid, 16);
	assert_int_equal(a->grh.flow_label, k->grh.flow_label);
	assert_int_equal(a->grh.sgid_index, k->grh.sgid_index);
	assert_int_equal(a->grh.hop_limit, k->grh.hop_limit);
	assert_int_equal(a->grh.traffic_class, k->grh.traffic_class);
	assert_int_equal(a->dlid, k->dlid);
	assert_int_equal(a->sl, k->sl);
	assert_int_equal(a->src_path_bits, k->src_path_bits);
	assert_int_equal(a->static_rate, k->static_rate);
	assert_int_equal(a->is_global, k->is_global);
	assert_int_equal(a->port_num, k->port_num);
}

static void ah_attr(void **state)
{
	struct ib_uverbs_ah_attr k;
	struct ibv_ah_attr a;

	fill(&k, sizeof(k));
	memset(&a, STALE, sizeof(a));
	ibv_copy_ah_attr_from_kern(&a, &k);
	check_ah(&a, &k);
}

static void qp_attr(void **state)
{
	struct ib_uverbs_qp_attr k;
	struct ibv_qp_attr a;
	uint8_t stale[4];

	fill(&k, sizeof(k));
	memset(&a, STALE, sizeof(a));
	memset(stale, STALE, sizeof(stale));
	ibv_copy_qp_attr_from_kern(&a, &k);

	assert_memory_equal(&a.qp_state, stale, 4);
	assert_memory_equal(&a.rate_limit, stale, 4);
	check_ah(&a.ah_attr, &k.ah_attr);
	check_ah(&a.alt_ah_attr, &k.alt_ah_attr);
#define SAME(member) assert_int_equal(a.member, k.member)
	SAME(cur_qp_state);
	SAME(path_mtu);
	SAME(path_mig_state);
	SAME(qkey);
	SAME(rq_psn);
	SAME(sq_psn);
	SAME(dest_qp_num);
	SAME(qp_access_flags);
	SAME(pkey_index);
	SAME(alt_pkey_index);
	SAME(en_sqd_async_notify);
	SAME(sq_draining);
	SAME(max_rd_atomic);
	SAME(max_dest_rd_atomic);
	SAME(min_rnr_timer);
	SAME(port_num);
	SAME(timeout);
	SAME(retry_cnt);
	SAME(rnr_retry);
	SAME(alt_port_num);
	SAME(alt_timeout);
#undef SAME
	assert_memory_equal(&a.cap, &k.max_send_wr, sizeof(a.cap));
}

static void path_round_trip(void **state)
{
	struct ib_user_path_rec k, k2;
	struct ibv_sa_path_rec p;

	memset(&k, 0, sizeof(k));
	fill(&k, sizeof(k));
	k.mtu = IBV_MTU_4096; /* 8 bits in the program's struct */
	memset(&p, STALE, sizeof(p));
	ibv_copy_path_rec_from_kern(&p, &k);
	assert_memory_equal(p.dgid.raw, k.dgid, 16);
	assert_memory_equal(p.sgid.raw, k.sgid, 16);
	assert_int_equal(p.mtu, IBV_MTU_4096);
	assert_int_equal(p.packet_life_time, k.packet_life_time);

	memset(&k2, STALE, sizeof(k2));
	ibv_copy_path_rec_to_kern(&k2, &p);
	assert_memory_equal(&k2, &k, sizeof(k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ah_attr),
		cmocka_unit_test(qp_attr),
		cmocka_unit_test(path_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
