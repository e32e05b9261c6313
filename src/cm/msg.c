/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Codec.  One field table per message serves decoding and encoding.  Offsets are those of IBTA
 * volume 1, chapter 12.6, in bytes from the start of the CM data; bit 7 is the most significant bit
 * of a byte.
 */
#include "cm/msg.h"

#include <assert.h>

#include "util/be.h"
#include "util/compiler.h"

enum {
	DATA_AT = 24,	/* after the MAD header */
	DATA_LEN = CM_MAD_LEN - DATA_AT,
	BASE_VERSION = 1,
	CLASS_CM = 7,
	CLASS_VERSION = 2,
	METHOD_SEND = 3,
	TID_AT = 8,
	MODIFIER_AT = 20,
};

/*
 * An integer of up to 64 bits on the wire, stored in a member from bit `shift` on; or, if `len` is
 * set, raw bytes.
 */
struct field {
	uint16_t bit;		/* from the start of the CM data, most significant bit first */
	uint8_t width;
	uint8_t shift;
	uint16_t at;		/* offset of the member in struct cm_msg */
	uint8_t size;		/* size of the member, bytes */
	uint8_t len;
	bool in_parts;		/* other fields hold the rest of the member */
};

#define SIZE(member) sizeof(((struct cm_msg *)0)->member)
#define PART(byte, high, wide, member, low)                                                        \
	{                                                                                          \
		.bit = (byte)*8 + 7 - (high), .width = (wide), .shift = (low),                     \
		.at = offsetof(struct cm_msg, member), .size = SIZE(member), .in_parts = true      \
	}
#define BITS(byte, high, wide, member)                                                             \
	{                                                                                          \
		.bit = (byte)*8 + 7 - (high), .width = (wide),                                     \
		.at = offsetof(struct cm_msg, member), .size = SIZE(member)                        \
	}
#define INT(byte, wide, member) BITS(byte, 7, wide, member)
#define BYTES(byte, member)                                                                        \
	{ .bit = (byte) * 8, .at = offsetof(struct cm_msg, member), .len = SIZE(member) }

#define WIRE_PATH(byte, member)                                                                    \
	INT((byte) + 0, 16, member.local_lid), INT((byte) + 2, 16, member.remote_lid),             \
		BYTES((byte) + 4, member.local_gid), BYTES((byte) + 20, member.remote_gid),        \
		INT((byte) + 36, 20, member.flow_label), BITS((byte) + 42, 7, 4, member.sl),       \
		BITS((byte) + 42, 3, 1, member.subnet_local),                                      \
		BITS((byte) + 43, 7, 5, member.ack_timeout)

static const struct field req_fields[] = {
	INT(0, 32, req.local_id), INT(5, 24, req.vendor_id), INT(8, 64, req.service_id),
	INT(16, 64, req.ca_guid), INT(28, 32, req.qkey), INT(32, 24, req.qpn),
	INT(35, 8, req.responder_resources), INT(36, 24, req.local_eecn),
	INT(39, 8, req.initiator_depth), INT(40, 24, req.remote_eecn),
	BITS(43, 7, 5, req.remote_response_timeout), BITS(43, 2, 2, req.transport),
	BITS(43, 0, 1, req.flow_control), INT(44, 24, req.psn),
	BITS(47, 7, 5, req.local_response_timeout), BITS(47, 2, 3, req.retry_count),
	INT(48, 16, req.pkey), BITS(50, 7, 4, req.mtu), BITS(50, 3, 1, req.rdc_exists),
	BITS(50, 2, 3, req.rnr_retry), BITS(51, 7, 4, req.max_cm_retries), BITS(51, 3, 1, req.srq),
	BITS(51, 2, 3, req.ext_transport), WIRE_PATH(52, req.primary),
	BITS(91, 5, 6, req.primary.rate), INT(92, 8, req.primary.traffic_class),
	INT(93, 8, req.primary.hop_limit), WIRE_PATH(96, req.alternate),
	BITS(135, 5, 6, req.alternate.rate), INT(136, 8, req.alternate.traffic_class),
	INT(137, 8, req.alternate.hop_limit), BITS(139, 2, 1, req.sap_supported),
	BYTES(140, req.private_data),
};

static const struct field mra_fields[] = {
	INT(0, 32, mra.local_id), INT(4, 32, mra.remote_id), BITS(8, 7, 2, mra.about),
	BITS(9, 7, 5, mra.service_timeout), BYTES(10, mra.private_data),
};

static const struct field rej_fields[] = {
	INT(0, 32, rej.local_id), INT(4, 32, rej.remote_id), BITS(8, 7, 2, rej.about),
	BITS(9, 7, 7, rej.info_len), INT(10, 16, rej.reason), BYTES(12, rej.info),
	BYTES(84, rej.private_data),
};

static const struct field rep_fields[] = {
	INT(0, 32, rep.local_id), INT(4, 32, rep.remote_id), INT(8, 32, rep.qkey),
	INT(12, 24, rep.qpn), PART(15, 7, 8, rep.vendor_id, 16), INT(16, 24, rep.eecn),
	PART(19, 7, 8, rep.vendor_id, 8), INT(20, 24, rep.psn), PART(23, 7, 8, rep.vendor_id, 0),
	INT(24, 8, rep.responder_resources), INT(25, 8, rep.initiator_depth),
	BITS(26, 7, 5, rep.target_ack_delay), BITS(26, 2, 2, rep.failover),
	BITS(26, 0, 1, rep.flow_control), BITS(27, 7, 3, rep.rnr_retry), BITS(27, 4, 1, rep.srq),
	INT(28, 64, rep.ca_guid), BYTES(36, rep.private_data),
};

static const struct field rtu_fields[] = {
	INT(0, 32, rtu.local_id), INT(4, 32, rtu.remote_id), BYTES(8, rtu.private_data),
};

static const struct field dreq_fields[] = {
	INT(0, 32, dreq.local_id), INT(4, 32, dreq.remote_id), INT(8, 24, dreq.remote_qpn),
	BYTES(12, dreq.private_data),
};

static const struct field drep_fields[] = {
	INT(0, 32, drep.local_id), INT(4, 32, drep.remote_id), BYTES(8, drep.private_data),
};

static const struct field sidr_req_fields[] = {
	INT(0, 32, sidr_req.request_id), INT(4, 16, sidr_req.pkey), INT(8, 64, sidr_req.service_id),
	BYTES(16, sidr_req.private_data),
};

static const struct field sidr_rep_fields[] = {
	INT(0, 32, sidr_rep.request_id), INT(4, 8, sidr_rep.status), INT(5, 8, sidr_rep.info_len),
	PART(6, 7, 16, sidr_rep.vendor_id, 8), INT(8, 24, sidr_rep.qpn),
	PART(11, 7, 8, sidr_rep.vendor_id, 0), INT(12, 64, sidr_rep.service_id),
	INT(20, 32, sidr_rep.qkey), BYTES(24, sidr_rep.info), BYTES(96, sidr_rep.private_data),
};

static const struct field lap_fields[] = {
	INT(0, 32, lap.local_id), INT(4, 32, lap.remote_id), INT(12, 24, lap.remote_qpn),
	BITS(15, 7, 5, lap.remote_response_timeout), WIRE_PATH(20, lap.alternate),
	INT(59, 8, lap.alternate.traffic_class), INT(60, 8, lap.alternate.hop_limit),
	BITS(61, 5, 6, lap.alternate.rate), BYTES(64, lap.private_data),
};

static const struct field apr_fields[] = {
	INT(0, 32, apr.local_id), INT(4, 32, apr.remote_id), INT(8, 8, apr.info_len),
	INT(9, 8, apr.status), BYTES(12, apr.info), BYTES(84, apr.private_data),
};

static const struct layout {
	const char *name;
	const struct field *field;
	unsigned int n;
	unsigned int head;	/* cm_decode_head() takes so many, and the last */
} layouts[] = {
#define LAYOUT(type, name, head)                                                                   \
	[type - CM_REQ] = { #type, name##_fields, ARRAY_SIZE(name##_fields), head }
	LAYOUT(CM_REQ, req, 3),           LAYOUT(CM_MRA, mra, 2),
	LAYOUT(CM_REJ, rej, 5),           LAYOUT(CM_REP, rep, 2),
	LAYOUT(CM_RTU, rtu, 2),           LAYOUT(CM_DREQ, dreq, 2),
	LAYOUT(CM_DREP, drep, 2),         LAYOUT(CM_SIDR_REQ, sidr_req, 3),
	LAYOUT(CM_SIDR_REP, sidr_rep, 1), LAYOUT(CM_LAP, lap, 2),
	LAYOUT(CM_APR, apr, 2),
};

static_assert(140 + CM_REQ_PRIVATE == DATA_LEN && 36 + CM_REP_PRIVATE == DATA_LEN &&
		      8 + CM_RTU_PRIVATE == DATA_LEN && 84 + CM_REJ_PRIVATE == DATA_LEN &&
		      10 + CM_MRA_PRIVATE == DATA_LEN && 12 + CM_DREQ_PRIVATE == DATA_LEN &&
		      8 + CM_DREP_PRIVATE == DATA_LEN && 16 + CM_SIDR_REQ_PRIVATE == DATA_LEN &&
		      96 + CM_SIDR_REP_PRIVATE == DATA_LEN && 64 + CM_LAP_PRIVATE == DATA_LEN &&
		      84 + CM_APR_PRIVATE == DATA_LEN,
	      "private data ends with the MAD");

/*
 * An integer fits in the eight bytes from its first byte on, and each message ends with more than
 * eight bytes of private data: one load of 64 bits reads any integer.
 */
static uint64_t get_bits(const uint8_t *data, const struct field *f)
{
	return get_be64(data + f->bit / 8) << f->bit % 8 >> (64 - f->width);
}

static void put_bits(uint8_t *data, const struct field *f, uint64_t v)
{
	uint8_t *p = data + f->bit / 8;

	put_be64(p, get_be64(p) | v << (64 - f->width) >> f->bit % 8);
}

static uint64_t load(const struct cm_msg *m, const struct field *f)
{
	const uint8_t *p = (const uint8_t *)m + f->at;
	uint32_t v32;
	uint16_t v16;
	uint64_t v;

	switch (f->size) {
	case 1:
		return *p;
	case 2:
		memcpy(&v16, p, sizeof(v16));
		return v16;
	case 4:
		memcpy(&v32, p, sizeof(v32));
		return v32;
	default:
		memcpy(&v, p, sizeof(v));
		return v;
	}
}

static void store(struct cm_msg *m, const struct field *f, uint64_t v)
{
	uint8_t *p = (uint8_t *)m + f->at;
	uint32_t v32 = (uint32_t)v;
	uint16_t v16 = (uint16_t)v;

	switch (f->size) {
	case 1:
		*p = (uint8_t)v;
		break;
	case 2:
		memcpy(p, &v16, sizeof(v16));
		break;
	case 4:
		memcpy(p, &v32, sizeof(v32));
		break;
	default:
		memcpy(p, &v, sizeof(v));
	}
}

static void decode_field(struct cm_msg *m, const struct field *f, const uint8_t *data)
{
	if (f->len)
		memcpy((uint8_t *)m + f->at, data + f->bit / 8, f->len);
	else if (f->in_parts)
		store(m, f, load(m, f) | get_bits(data, f) << f->shift);
	else
		store(m, f, get_bits(data, f));
}

static void encode_field(uint8_t *data, const struct field *f, const struct cm_msg *m)
{
	if (f->len)
		memcpy(data + f->bit / 8, (const uint8_t *)m + f->at, f->len);
	else
		put_bits(data, f, load(m, f) >> f->shift);
}

static const struct layout *layout_of(unsigned int type)
{
	return type >= CM_REQ && type <= CM_APR ? &layouts[type - CM_REQ] : NULL;
}

/* Clamps lengths: the wire has more bits for them than the fields have bytes. */
static void limit_lengths(struct cm_msg *m)
{
	if (m->type == CM_REJ)
		m->rej.info_len = min(m->rej.info_len, (uint8_t)CM_REJ_INFO);
	else if (m->type == CM_SIDR_REP)
		m->sidr_rep.info_len = min(m->sidr_rep.info_len, (uint8_t)CM_SIDR_INFO);
	else if (m->type == CM_APR)
		m->apr.info_len = min(m->apr.info_len, (uint8_t)CM_APR_INFO);
}

/* Sets *layout if it returns CM_DECODED. */
static enum cm_decoded begin(struct cm_msg *m, const uint8_t *mad, size_t len,
			     const struct layout **layout)
{
	if (len != CM_MAD_LEN || mad[0] != BASE_VERSION || mad[1] != CLASS_CM ||
	    mad[2] != CLASS_VERSION || mad[3] != METHOD_SEND)
		return CM_NOT_CM;
	*layout = layout_of(get_be16(mad + CM_ATTRIBUTE_AT));
	if (!*layout)
		return CM_UNKNOWN;
	memset(m, 0, sizeof(*m));
	m->type = get_be16(mad + CM_ATTRIBUTE_AT);
	m->tid = get_be64(mad + TID_AT);
	m->modifier = get_be32(mad + MODIFIER_AT);
	return CM_DECODED;
}

enum cm_decoded cm_decode(struct cm_msg *m, const uint8_t *mad, size_t len)
{
	const struct layout *l;
	enum cm_decoded what = begin(m, mad, len, &l);

	if (what != CM_DECODED)
		return what;
	for (unsigned int i = 0; i < l->n; i++)
		decode_field(m, &l->field[i], mad + DATA_AT);
	limit_lengths(m);
	return CM_DECODED;
}

enum cm_decoded cm_decode_head(struct cm_msg *m, const uint8_t *mad, size_t len)
{
	const struct layout *l;
	enum cm_decoded what = begin(m, mad, len, &l);

	if (what != CM_DECODED)
		return what;
	for (unsigned int i = 0; i < l->head; i++)
		decode_field(m, &l->field[i], mad + DATA_AT);
	decode_field(m, &l->field[l->n - 1], mad + DATA_AT);
	limit_lengths(m);
	return CM_DECODED;
}

void cm_encode(uint8_t mad[CM_MAD_LEN], const struct cm_msg *m)
{
	const struct layout *l = layout_of(m->type);

	memset(mad, 0, CM_MAD_LEN);
	mad[0] = BASE_VERSION;
	mad[1] = CLASS_CM;
	mad[2] = CLASS_VERSION;
	mad[3] = METHOD_SEND;
	put_be64(mad + TID_AT, m->tid);
	put_be16(mad + CM_ATTRIBUTE_AT, m->type);
	put_be32(mad + MODIFIER_AT, m->modifier);
	for (unsigned int i = 0; i < l->n; i++)
		encode_field(mad + DATA_AT, &l->field[i], m);
}

const char *cm_type_name(enum cm_type type)
{
	const struct layout *l = layout_of(type);

	return l ? l->name + sizeof("CM_") - 1 : "?";
}

static const char *const rej_texts[] = {
	[CM_REJ_NO_QP] = "no QP available",
	[CM_REJ_NO_EEC] = "no EE context available",
	[CM_REJ_NO_RESOURCES] = "no resources available",
	[CM_REJ_TIMEOUT] = "the peer gave up",
	[CM_REJ_UNSUPPORTED] = "unsupported request",
	[CM_REJ_INVALID_COMM_ID] = "invalid communication id",
	[CM_REJ_INVALID_COMM_INSTANCE] = "invalid communication instance",
	[CM_REJ_INVALID_SERVICE_ID] = "no listener on that port (invalid service id)",
	[CM_REJ_INVALID_TRANSPORT_TYPE] = "invalid transport service type",
	[CM_REJ_STALE_CONN] = "stale connection",
	[CM_REJ_RDC_NOT_EXIST] = "RDC does not exist",
	[CM_REJ_INVALID_GID] = "primary remote GID rejected",
	[CM_REJ_INVALID_LID] = "primary remote LID rejected",
	[CM_REJ_INVALID_SL] = "primary SL rejected",
	[CM_REJ_INVALID_TRAFFIC_CLASS] = "primary traffic class rejected",
	[CM_REJ_INVALID_HOP_LIMIT] = "primary hop limit rejected",
	[CM_REJ_INVALID_PACKET_RATE] = "primary packet rate rejected",
	[CM_REJ_INVALID_ALT_GID] = "alternate remote GID rejected",
	[CM_REJ_INVALID_ALT_LID] = "alternate remote LID rejected",
	[CM_REJ_INVALID_ALT_SL] = "alternate SL rejected",
	[CM_REJ_INVALID_ALT_TRAFFIC_CLASS] = "alternate traffic class rejected",
	[CM_REJ_INVALID_ALT_HOP_LIMIT] = "alternate hop limit rejected",
	[CM_REJ_INVALID_ALT_PACKET_RATE] = "alternate packet rate rejected",
	[CM_REJ_PORT_CM_REDIRECT] = "port and CM redirection",
	[CM_REJ_PORT_REDIRECT] = "port redirection",
	[CM_REJ_INVALID_MTU] = "path MTU rejected",
	[CM_REJ_INSUFFICIENT_RESP_RESOURCES] = "insufficient responder resources",
	[CM_REJ_CONSUMER] = "the program at the other end refused",
	[CM_REJ_RNR_RETRY] = "RNR retry count rejected",
	[CM_REJ_DUPLICATE_LOCAL_COMM_ID] = "duplicate local communication id",
	[CM_REJ_INVALID_CLASS_VERSION] = "unsupported class version",
	[CM_REJ_INVALID_FLOW_LABEL] = "primary flow label rejected",
	[CM_REJ_INVALID_ALT_FLOW_LABEL] = "alternate flow label rejected",
	[CM_REJ_VENDOR_OPTION] = "vendor option not supported",
};

const char *cm_rej_reason_text(unsigned int reason)
{
	return reason < ARRAY_SIZE(rej_texts) ? rej_texts[reason] : NULL;
}

enum {
	IP_VERSION_AT = 1,
	IP_PORT_AT = 2,
	IP_SRC_AT = 4,
	IP_DST_AT = 20,
};

/* An IPv4 address is in the last 4 of the 16 bytes, after zeroes. */
static struct net_addr get_ip(const uint8_t *p, unsigned int version)
{
	struct net_addr a;

	memcpy(a.raw, p, sizeof(a.raw));
	if (version == 4) {
		memset(a.raw, 0, 10);
		memset(a.raw + 10, 0xff, 2);
	}
	return a;
}

static void put_ip(uint8_t *p, const struct net_addr *a, unsigned int version)
{
	memset(p, 0, sizeof(a->raw));
	if (version == 4)
		memcpy(p + 12, a->raw + 12, 4);
	else
		memcpy(p, a->raw, sizeof(a->raw));
}

void cm_ip_header_decode(struct cm_ip_header *h, const uint8_t p[CM_IP_HEADER_LEN])
{
	h->version = p[0];
	h->ip_version = p[IP_VERSION_AT] >> 4;
	h->src_port = get_be16(p + IP_PORT_AT);
	h->src = get_ip(p + IP_SRC_AT, h->ip_version);
	h->dst = get_ip(p + IP_DST_AT, h->ip_version);
}

uint8_t cm_ip_header_of(struct cm_ip_header *h, const struct cm_msg *m)
{
	cm_ip_header_decode(h, m->type == CM_REQ ? m->req.private_data : m->sidr_req.private_data);
	return h->version == 0 && (h->ip_version == 4 || h->ip_version == 6) ? h->ip_version : 0;
}

void cm_ip_header_encode(uint8_t p[CM_IP_HEADER_LEN], const struct cm_ip_header *h)
{
	p[0] = h->version;
	p[IP_VERSION_AT] = (uint8_t)(h->ip_version << 4);
	put_be16(p + IP_PORT_AT, h->src_port);
	put_ip(p + IP_SRC_AT, &h->src, h->ip_version);
	put_ip(p + IP_DST_AT, &h->dst, h->ip_version);
}
