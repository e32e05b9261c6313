/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: bytes from the network into decoder and ICRC check.  Input: one byte of choices, a
 * path, the packet.
 *
 * What decodes must lie inside the input, encode again to a packet that decodes the same, and pass
 * the ICRC check once it is given the right one.
 */
#include <stdbool.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "util/be.h"

enum {
	CHOICE_IPV4 = 1,
	CHOICE_KNOWN_OPCODE = 2, /* map the first byte to an opcode that exists, with version 0 */
	CHOICE_WHOLE_LENGTH = 4,	/* cut to a multiple of four */
	CHOICE_ID_KNOWN = 8,
};

static uint8_t some_opcode(uint8_t byte)
{
	while (roce_opcode_info(byte)->kind == ROCE_KIND_NONE)
		byte++;
	return byte;
}

static struct net_path make_path(const uint8_t *bytes, bool ipv4)
{
	struct net_path path;

	memcpy(&path, bytes, sizeof(path));
	path.dst.raw[0] |= 0x20;
	if (ipv4) {
		memcpy(path.src.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
		memcpy(path.dst.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	}
	return path;
}

static void check_decoded(const struct roce_pkt *pkt, const uint8_t *data, size_t len)
{
	const struct roce_opcode_info *op = roce_opcode_info(pkt->bth.opcode);
	uint8_t *again = malloc(len);
	struct roce_pkt other;

	FUZZ_CHECK(pkt->payload == data + op->hdr_len);
	FUZZ_CHECK(op->hdr_len + (size_t)pkt->payload_len + pkt->bth.pad + ROCE_ICRC_LEN == len);
	FUZZ_CHECK(pkt->payload_len <= op->max_payload && pkt->bth.dest_qpn <= 0xffffff &&
		   pkt->bth.psn <= 0xffffff);

	memcpy(again, data, len);
	FUZZ_CHECK(roce_encode_headers(again, pkt) == op->hdr_len);
	FUZZ_CHECK(roce_decode(&other, again, len) == ROCE_DECODED);
	FUZZ_CHECK(other.payload == again + op->hdr_len);
	other.payload = pkt->payload;
	FUZZ_CHECK(memcmp(&other, pkt, offsetof(struct roce_pkt, path)) == 0);
	free(again);
}

static void check_sealed(const struct net_path *path, uint16_t id, uint8_t *data, size_t len)
{
	uint32_t crc = htole32(roce_icrc(path, id, data, len - ROCE_ICRC_LEN));

	memcpy(data + len - ROCE_ICRC_LEN, &crc, sizeof(crc));
	FUZZ_CHECK(roce_icrc_check(path, true, id, data, len) == ROCE_ICRC_GOOD);
	FUZZ_CHECK(roce_icrc_check(path, false, 0, data, len) != ROCE_ICRC_BAD);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	const size_t path_at = 3, packet_at = path_at + sizeof(struct net_path);
	struct net_path path;
	struct roce_pkt pkt;
	uint8_t choice, *data;
	uint16_t id;
	size_t len;

	if (size < packet_at)
		return 0;
	choice = input[0];
	id = get_be16(input + 1);
	path = make_path(input + path_at, choice & CHOICE_IPV4);
	len = size - packet_at;
	if (choice & CHOICE_WHOLE_LENGTH)
		len &= ~(size_t)3;
	data = malloc(len ? len : 1);
	memcpy(data, input + packet_at, len);
	if (choice & CHOICE_KNOWN_OPCODE && len >= 2) {
		data[0] = some_opcode(data[0]);
		data[1] &= 0xf0;
	}
	if (roce_decode(&pkt, data, len) == ROCE_DECODED)
		check_decoded(&pkt, data, len);
	roce_icrc_check(&path, choice & CHOICE_ID_KNOWN, id, data, len);
	if (len >= ROCE_BTH_LEN + ROCE_ICRC_LEN)
		check_sealed(&path, id, data, len);
	free(data);
	return 0;
}
