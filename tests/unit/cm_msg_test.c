/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of communication management. Every MAD that two hosts with Linux soft RoCE exchanged
 * (captures in the folder given as first argument) must decode and encode again to the same 256
 * bytes; the fields of one connection have the known values; and each bit of a MAD belongs to one
 * field or is reserved.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cm/msg.h"
#include "cm/stateless.h"
#include "roce/pkt.h"
#include "sim/pcap.h"
#include "util/compiler.h"

static const char *folder;

static void load(struct capture *c, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_true(capture_load(c, path));
}

/* The MAD in a packet of a capture; NULL if there is none. */
static const uint8_t *mad_of(const struct capture_packet *p)
{
	struct roce_pkt pkt;

	if (roce_decode(&pkt, p->data, p->len) != ROCE_DECODED || pkt.bth.dest_qpn != 1)
		return NULL;
	assert_int_equal(pkt.payload_len, CM_MAD_LEN);
	return pkt.payload;
}

/* The header of a MAD gives the same destination and the same stateless reply as the whole MAD. */
static void check_head(const uint8_t *mad, const struct cm_msg *m)
{
	uint64_t want = 0, got = 0;
	struct cm_msg head, answer[2];
	uint8_t bytes[2][CM_MAD_LEN];
	bool answers;

	assert_int_equal(cm_decode_head(&head, mad, CM_MAD_LEN), CM_DECODED);
	assert_int_equal(cm_addressee(&head, &got), cm_addressee(m, &want));
	assert_true(got == want && head.tid == m->tid);
	if (m->type == CM_REQ)
		assert_memory_equal(head.req.private_data, m->req.private_data, CM_REQ_PRIVATE);
	if (m->type == CM_SIDR_REQ)
		assert_memory_equal(head.sidr_req.private_data, m->sidr_req.private_data,
				    CM_SIDR_REQ_PRIVATE);
	answers = cm_stateless_reply(&answer[0], m);
	assert_int_equal(cm_stateless_reply(&answer[1], &head), answers);
	for (int i = 0; answers && i < 2; i++)
		cm_encode(bytes[i], &answer[i]);
	if (answers)
		assert_memory_equal(bytes[0], bytes[1], CM_MAD_LEN);
}

static unsigned int check_file(const char *name, unsigned int seen[CM_APR + 1])
{
	uint8_t again[CM_MAD_LEN];
	struct capture c;
	struct cm_msg m;
	unsigned int n = 0;

	load(&c, name);
	for (uint32_t i = 0; i < c.n; i++) {
		const uint8_t *mad = mad_of(&c.packet[i]);

		if (!mad)
			continue;
		assert_int_equal(cm_decode(&m, mad, CM_MAD_LEN), CM_DECODED);
		cm_encode(again, &m);
		if (memcmp(mad, again, sizeof(again)) != 0)
			fail_msg("%s: %s, packet %u, encodes differently", name,
				 cm_type_name(m.type), i);
		check_head(mad, &m);
		seen[m.type]++;
		n++;
	}
	capture_free(&c);
	return n;
}

static void mads_of_soft_roce(void **state)
{
	static const enum cm_type all[] = { CM_REQ,  CM_MRA,  CM_REJ,      CM_REP,     CM_RTU,
					    CM_DREQ, CM_DREP, CM_SIDR_REQ, CM_SIDR_REP };
	unsigned int seen[CM_APR + 1] = { 0 }, files = 0, n = 0;
	DIR *dir = opendir(folder);
	struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		const char *dot = strrchr(entry->d_name, '.');

		if (!dot || strcmp(dot, ".pcap") != 0)
			continue;
		n += check_file(entry->d_name, seen);
		files++;
	}
	closedir(dir);
	printf("%u MADs in %u files\n", n, files);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		printf("%6u %s\n", seen[all[i]], cm_type_name(all[i]));
		assert_true(seen[all[i]] > 0);
	}
}

static struct net_addr ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (struct net_addr){
		{ [10] = 0xff, [11] = 0xff, [12] = a, [13] = b, [14] = c, [15] = d }
	};
}

/* The values are from another program's dump of the capture. */
static void fields_of_a_connection(void **state)
{
	const struct net_addr a = ipv4(10, 78, 0, 2), b = ipv4(10, 78, 0, 3);
	struct cm_ip_header ip;
	struct capture c;
	struct cm_msg m;

	load(&c, "conn_events.pcap");
	cm_decode(&m, mad_of(&c.packet[0]), CM_MAD_LEN);
	assert_int_equal(m.type, CM_REQ);
	assert_true(m.tid == 0x00000002d4402d68 && m.req.local_id == 0x682d40d4);
	assert_true(m.req.service_id == cm_service_id(0x106, 7471) &&
		    m.req.ca_guid == 0x505400fffe780002);
	assert_true(m.req.qpn == 0x13 && m.req.psn == 0x6288ca && m.req.pkey == 0xffff);
	assert_true(m.req.responder_resources == 3 && m.req.initiator_depth == 2);
	assert_true(m.req.remote_response_timeout == 20 && m.req.local_response_timeout == 20);
	assert_true(m.req.transport == CM_RC && m.req.ext_transport == 0 && !m.req.flow_control &&
		    !m.req.srq);
	assert_true(m.req.retry_count == 7 && m.req.rnr_retry == 7 && m.req.max_cm_retries == 15 &&
		    m.req.mtu == 3);
	assert_true(m.req.primary.local_lid == 0xffff && m.req.primary.remote_lid == 0xffff);
	assert_true(net_addr_equal(&m.req.primary.local_gid, &a) &&
		    net_addr_equal(&m.req.primary.remote_gid, &b));
	assert_true(m.req.primary.flow_label == 0x82d58 && m.req.primary.hop_limit == 64);
	assert_true(m.req.primary.ack_timeout == 19 && !m.req.primary.subnet_local &&
		    m.req.alternate.local_lid == 0);
	cm_ip_header_decode(&ip, m.req.private_data);
	assert_true(ip.version == 0 && ip.ip_version == 4 && ip.src_port == 50871);
	assert_true(net_addr_equal(&ip.src, &a) && net_addr_equal(&ip.dst, &b));
	assert_string_equal((const char *)m.req.private_data + CM_IP_HEADER_LEN, "hello");

	cm_decode(&m, mad_of(&c.packet[1]), CM_MAD_LEN);
	assert_int_equal(m.type, CM_REP);
	assert_true(m.rep.local_id == 0xb1979e4a && m.rep.remote_id == 0x682d40d4 &&
		    m.rep.qpn == 0x12);
	assert_true(m.rep.psn == 0xa2ffcb && m.rep.responder_resources == 2 &&
		    m.rep.initiator_depth == 3);
	assert_true(m.rep.target_ack_delay == 15 && m.rep.rnr_retry == 7 &&
		    m.rep.ca_guid == 0x505400fffe780003);

	cm_decode(&m, mad_of(&c.packet[3]), CM_MAD_LEN);
	assert_true(m.type == CM_DREQ && m.dreq.remote_qpn == 0x12);
	capture_free(&c);
}

static void ip_headers_mirror(void **state)
{
	static const struct cm_ip_header v6 = {
		.ip_version = 6,
		.src_port = 7174,
		.src = { { 0xfd, [15] = 1 } },
		.dst = { { 0xfe, 0x80, [15] = 2 } },
	};
	struct cm_ip_header v4 = {
		.ip_version = 4, .src_port = 1, .src = ipv4(192, 0, 2, 1), .dst = ipv4(127, 0, 0, 1)
	};
	uint8_t wire[CM_IP_HEADER_LEN];
	struct cm_ip_header h;

	memset(wire, 0xff, sizeof(wire));
	cm_ip_header_encode(wire, &v4);
	assert_true(wire[0] == 0 && wire[4] == 0);
	assert_true(wire[4 + 10] == 0 && wire[4 + 12] == 192 && wire[1] == 0x40);
	wire[4] = 0xff; /* no part of the address */
	cm_ip_header_decode(&h, wire);
	assert_true(h.ip_version == 4 && h.src_port == 1 && net_addr_equal(&h.src, &v4.src) &&
		    net_addr_equal(&h.dst, &v4.dst));
	cm_ip_header_encode(wire, &v6);
	cm_ip_header_decode(&h, wire);
	assert_true(h.ip_version == 6 && net_addr_equal(&h.src, &v6.src) &&
		    net_addr_equal(&h.dst, &v6.dst));
}

/* Private data holds addresses only if both versions are known. */
static void ip_headers_of_requests(void **state)
{
	static const struct {
		uint8_t version, ip_version, want;
	} rows[] = { { 0, 4, 4 }, { 0, 6, 6 }, { 0, 0, 0 }, { 0, 5, 0 }, { 1, 4, 0 }, { 1, 6, 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cm_ip_header h = { .version = rows[i].version,
					  .ip_version = rows[i].ip_version };
		struct cm_msg req = { .type = CM_REQ }, sidr = { .type = CM_SIDR_REQ };

		cm_ip_header_encode(req.req.private_data, &h);
		cm_ip_header_encode(sidr.sidr_req.private_data, &h);
		assert_int_equal(cm_ip_header_of(&h, &req), rows[i].want);
		assert_int_equal(cm_ip_header_of(&h, &sidr), rows[i].want);
	}
}

/*
 * For each message type: with a single bit set, decoding and encoding returns that bit alone, or
 * nothing if it is reserved. The number of bits in fields is the one in the specification.
 */
static void each_bit_belongs_to_one_field(void **state)
{
	static const struct {
		enum cm_type type;
		unsigned int reserved;	/* reserved bits of the 232 bytes */
	} of[] = {
		{ CM_REQ, 8 + 32 + 6 + 3 + 3 + 6 + 3 + 2 },
		{ CM_MRA, 6 + 3 },
		{ CM_REJ, 6 + 1 },
		{ CM_REP, 4 },
		{ CM_RTU, 0 },
		{ CM_DREQ, 8 },
		{ CM_DREP, 0 },
		{ CM_SIDR_REQ, 16 },
		{ CM_SIDR_REP, 0 },
		{ CM_LAP, 32 + 3 + 32 + 4 + 2 + 3 + 3 },
		{ CM_APR, 16 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		unsigned int reserved = 0;

		for (unsigned int bit = 24 * 8; bit < CM_MAD_LEN * 8; bit++) {
			struct cm_msg m = { .type = of[i].type };
			uint8_t mad[CM_MAD_LEN], again[CM_MAD_LEN], nothing[CM_MAD_LEN];

			cm_encode(nothing, &m);
			memcpy(mad, nothing, sizeof(mad));
			mad[bit / 8] |= 0x80 >> bit % 8;
			assert_int_equal(cm_decode(&m, mad, sizeof(mad)), CM_DECODED);
			cm_encode(again, &m);
			if (!memcmp(again, nothing, sizeof(again)))
				reserved++;
			/* lengths are clamped */
			else if (bit / 8 != 24 + 9 && bit / 8 != 24 + 8 && bit / 8 != 24 + 5)
				assert_memory_equal(again, mad, sizeof(mad));
		}
		if (reserved != of[i].reserved)
			fail_msg("%s: %u bits belong to no field, not %u", cm_type_name(of[i].type),
				 reserved, of[i].reserved);
	}
}

static void other_mads_are_ignored(void **state)
{
	static const struct {
		uint8_t at, value;
		enum cm_decoded want;
	} changes[] = {
		{ 0, 2, CM_NOT_CM },    { 1, 3, CM_NOT_CM },      { 2, 1, CM_NOT_CM },
		{ 3, 0x81, CM_NOT_CM }, { 17, 0x0f, CM_UNKNOWN }, { 17, 0x1b, CM_UNKNOWN },
		{ 16, 1, CM_UNKNOWN },  { 5, 1, CM_DECODED },     { 7, 1, CM_DECODED },
		{ 19, 1, CM_DECODED },
	};
	struct cm_msg m = { .type = CM_RTU };
	uint8_t mad[CM_MAD_LEN];

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		cm_encode(mad, &(struct cm_msg){ .type = CM_RTU });
		mad[changes[i].at] = changes[i].value;
		assert_int_equal(cm_decode(&m, mad, sizeof(mad)), changes[i].want);
	}
	cm_encode(mad, &(struct cm_msg){ .type = CM_RTU });
	assert_int_equal(cm_decode(&m, mad, CM_MAD_LEN - 1), CM_NOT_CM);
}

static void lengths_are_clamped(void **state)
{
	struct cm_msg m = { .type = CM_REJ, .rej = { .info_len = 127 } };
	uint8_t mad[CM_MAD_LEN];

	cm_encode(mad, &m);
	cm_decode(&m, mad, sizeof(mad));
	assert_int_equal(m.rej.info_len, CM_REJ_INFO);
	cm_decode_head(&m, mad, sizeof(mad));
	assert_int_equal(m.rej.info_len, CM_REJ_INFO);
	cm_encode(mad, &(struct cm_msg){ .type = CM_SIDR_REP, .sidr_rep = { .info_len = 255 } });
	cm_decode(&m, mad, sizeof(mad));
	assert_int_equal(m.sidr_rep.info_len, CM_SIDR_INFO);
	cm_encode(mad, &(struct cm_msg){ .type = CM_APR, .apr = { .info_len = 255 } });
	cm_decode(&m, mad, sizeof(mad));
	assert_int_equal(m.apr.info_len, CM_APR_INFO);
}

static void reasons_have_texts(void **state)
{
	for (unsigned int i = 1; i <= CM_REJ_VENDOR_OPTION; i++)
		assert_int_equal(cm_rej_reason_text(i) != NULL, i != 34);
	assert_null(cm_rej_reason_text(0));
	assert_null(cm_rej_reason_text(36));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mads_of_soft_roce),
		cmocka_unit_test(fields_of_a_connection),
		cmocka_unit_test(ip_headers_mirror),
		cmocka_unit_test(ip_headers_of_requests),
		cmocka_unit_test(each_bit_belongs_to_one_field),
		cmocka_unit_test(other_mads_are_ignored),
		cmocka_unit_test(lengths_are_clamped),
		cmocka_unit_test(reasons_have_texts),
	};

	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
