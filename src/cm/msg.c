/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One table of fields per message serves both directions, so that encoding mirrors decoding.  Offsets are
 * those of IBTA volume 1, chapter 12.6: bytes from the start of the CM data, bit 7 of a byte being the most
 * significant.
 */
#include "cm/msg.h"

#include <assert.h>

#include "util/be.h"
#include "util/compiler.h"

enum {
	DATA_AT = 24,	/* behind the MAD's header */
	DATA_LEN = CM_MAD_LEN - DATA_AT,
	BASE_VERSION = 1,
	CLASS_CM = 7,
	CLASS_VERSION = 2,
	METHOD_SEND = 3,
	TID_AT = 8,
	ATTRIBUTE_AT = 16,
	MODIFIER_AT = 20,
};

/*
 * An integer of up to 64 bits on the wire, which is the part of a member that begins at its bit `shift`; or
 * with `len`, bytes as they are.
 */
struct field {
	uint16_t bit;		/* from the start of the CM data, from the most significant one of the first byte */
	uint8_t width;
	uint8_t shift;
	uint16_t at;		/* of the member in struct cm_msg, */
	uint8_t size;		/* and its size */
	uint8_t len;
};

#define SIZE(member) sizeof(((struct cm_msg *)0)->member)
#define PART(byte, high, wide, member, low)                                                                           \
	{ .bit = (byte) * 8 + 7 - (high), .width = (wide), .shift = (low), .at = offsetof(struct cm_msg, member),      \
	  .size = SIZE(member) }
#define BITS(byte, high, wide, member) PART(byte, high, wide, member, 0)
#define INT(byte, wide, member) BITS(byte, 7, wide, member)
#define BYTES(byte, member) { .bit = (byte) * 8, .at = offsetof(struct cm_msg, member), .len = SIZE(member) }

#define WIRE_PATH(byte, member)                                                                                        \
	INT((byte) + 0, 16, member.local_lid), INT((byte) + 2, 16, member.remote_lid),                                 \
	BYTES((byte) + 4, member.local_gid), BYTES((byte) + 20, member.remote_gid),                                    \
	INT((byte) + 36, 20, member.flow_label), BITS((byte) + 42, 7, 4, member.sl),                                   \
	BITS((byte) + 42, 3, 1, member.subnet_local), BITS((byte) + 43, 7, 5, member.ack_timeout)

static const struct field req_fields[] = {
	INT(0, 32, req.local_id), INT(5, 24, req.vendor_id), INT(8, 64, req.service_id), INT(16, 64, req.ca_guid),
	INT(28, 32, req.qkey), INT(32, 24, req.qpn), INT(35, 8, req.responder_resources), INT(36, 24, req.local_eecn),
	INT(39, 8, req.initiator_depth), INT(40, 24, req.remote_eecn), BITS(43, 7, 5, req.remote_response_timeout),
	BITS(43, 2, 2, req.transport), BITS(43, 0, 1, req.flow_control), INT(44, 24, req.psn),
	BITS(47, 7, 5, req.local_response_timeout), BITS(47, 2, 3, req.retry_count), INT(48, 16, req.pkey),
	BITS(50, 7, 4, req.mtu), BITS(50, 3, 1, req.rdc_exists), BITS(50, 2, 3, req.rnr_retry),
	BITS(51, 7, 4, req.max_cm_retries), BITS(51, 3, 1, req.srq), BITS(51, 2, 3, req.ext_transport),
	WIRE_PATH(52, req.primary), BITS(91, 5, 6, req.primary.rate), INT(92, 8, req.primary.traffic_class),
	INT(93, 8, req.primary.hop_limit), WIRE_PATH(96, req.alternate), BITS(135, 5, 6, req.alternate.rate),
	INT(136, 8, req.alternate.traffic_class), INT(137, 8, req.alternate.hop_limit), BITS(139, 2, 1, req.sap_supported),
	BYTES(140, req.private_data),
};

static const struct field mra_fields[] = {
	INT(0, 32, mra.local_id), INT(4, 32, mra.remote_id), BITS(8, 7, 2, mra.about), BITS(9, 7, 5, mra.service_timeout),
	BYTES(10, mra.private_data),
};

static const struct field rej_fields[] = {
	INT(0, 32, rej.local_id), INT(4, 32, rej.remote_id), BITS(8, 7, 2, rej.about), BITS(9, 7, 7, rej.info_len),
	INT(10, 16, rej.reason), BYTES(12, rej.info), BYTES(84, rej.private_data),
};

static const struct field rep_fields[] = {
	INT(0, 32, rep.local_id), INT(4, 32, rep.remote_id), INT(8, 32, rep.qkey), INT(12, 24, rep.qpn),
	PART(15, 7, 8, rep.vendor_id, 16), INT(16, 24, rep.eecn), PART(19, 7, 8, rep.vendor_id, 8), INT(20, 24, rep.psn),
	PART(23, 7, 8, rep.vendor_id, 0), INT(24, 8, rep.responder_resources), INT(25, 8, rep.initiator_depth),
	BITS(26, 7, 5, rep.target_ack_delay), BITS(26, 2, 2, rep.failover), BITS(26, 0, 1, rep.flow_control),
	BITS(27, 7, 3, rep.rnr_retry), BITS(27, 4, 1, rep.srq), INT(28, 64, rep.ca_guid), BYTES(36, rep.private_data),
};

static const struct field rtu_fields[] = {
	INT(0, 32, rtu.local_id), INT(4, 32, rtu.remote_id), BYTES(8, rtu.private_data),
};

static const struct field dreq_fields[] = {
	INT(0, 32, dreq.local_id), INT(4, 32, dreq.remote_id), INT(8, 24, dreq.remote_qpn), BYTES(12, dreq.private_data),
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
	PART(6, 7, 16, sidr_rep.vendor_id, 8), INT(8, 24, sidr_rep.qpn), PART(11, 7, 8, sidr_rep.vendor_id, 0),
	INT(12, 64, sidr_rep.service_id), INT(20, 32, sidr_rep.qkey), BYTES(24, sidr_rep.info),
	BYTES(96, sidr_rep.private_data),
};

static const struct field lap_fields[] = {
	INT(0, 32, lap.local_id), INT(4, 32, lap.remote_id), INT(12, 24, lap.remote_qpn),
	BITS(15, 7, 5, lap.remote_response_timeout), WIRE_PATH(20, lap.alternate), INT(59, 8, lap.alternate.traffic_class),
	INT(60, 8, lap.alternate.hop_limit), BITS(61, 5, 6, lap.alternate.rate), BYTES(64, lap.private_data),
};

static const struct field apr_fields[] = {
	INT(0, 32, apr.local_id), INT(4, 32, apr.remote_id), INT(8, 8, apr.info_len), INT(9, 8, apr.status),
	BYTES(12, apr.info), BYTES(84, apr.private_data),
};

static const struct layout {
	const char *name;
	const struct field *field;
	unsigned int n;
} layouts[] = {
#define LAYOUT(type, name) [type - CM_REQ] = { #type, name##_fields, ARRAY_SIZE(name##_fields) }
	LAYOUT(CM_REQ, req), LAYOUT(CM_MRA, mra), LAYOUT(CM_REJ, rej), LAYOUT(CM_REP, rep), LAYOUT(CM_RTU, rtu),
	LAYOUT(CM_DREQ, dreq), LAYOUT(CM_DREP, drep), LAYOUT(CM_SIDR_REQ, sidr_req), LAYOUT(CM_SIDR_REP, sidr_rep),
	LAYOUT(CM_LAP, lap), LAYOUT(CM_APR, apr),
};

static_assert(140 + CM_REQ_PRIVATE == DATA_LEN && 36 + CM_REP_PRIVATE == DATA_LEN && 8 + CM_RTU_PRIVATE == DATA_LEN &&
	      84 + CM_REJ_PRIVATE == DATA_LEN && 10 + CM_MRA_PRIVATE == DATA_LEN && 12 + CM_DREQ_PRIVATE == DATA_LEN &&
	      8 + CM_DREP_PRIVATE == DATA_LEN && 16 + CM_SIDR_REQ_PRIVATE == DATA_LEN &&
	      96 + CM_SIDR_REP_PRIVATE == DATA_LEN && 64 + CM_LAP_PRIVATE == DATA_LEN && 84 + CM_APR_PRIVATE == DATA_LEN,
	      "private data ends with the MAD");

static unsigned int last_bit(const struct field *f)
{
	return f->bit + f->width - 1u;
}

static uint64_t ones(unsigned int width)
{
	return width < 64 ? (1ull << width) - 1 : UINT64_MAX;
}

static uint64_t get_bits(const uint8_t *data, const struct field *f)
{
	uint64_t v = 0;

	for (unsigned int i = f->bit / 8u; i <= last_bit(f) / 8; i++)
		v = v << 8 | data[i];
	return v >> (7 - last_bit(f) % 8) & ones(f->width);
}

static void put_bits(uint8_t *data, const struct field *f, uint64_t v)
{
	v = (v & ones(f->width)) << (7 - last_bit(f) % 8);
	for (unsigned int i = last_bit(f) / 8 + 1; i-- > f->bit / 8u; v >>= 8)
		data[i] |= (uint8_t)v;
}

/* This host is little endian, as the build demands: an integer of any size begins with its low bytes. */
static uint64_t load(const struct cm_msg *m, const struct field *f)
{
	uint64_t v = 0;

	memcpy(&v, (const uint8_t *)m + f->at, f->size);
	return v;
}

static void store(struct cm_msg *m, const struct field *f, uint64_t v)
{
	memcpy((uint8_t *)m + f->at, &v, f->size);
}

static void decode_field(struct cm_msg *m, const struct field *f, const uint8_t *data)
{
	if (f->len)
		memcpy((uint8_t *)m + f->at, data + f->bit / 8, f->len);
	else
		store(m, f, load(m, f) | get_bits(data, f) << f->shift);
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

/* Lengths that the wire has more bits for than there are bytes. */
static void limit_lengths(struct cm_msg *m)
{
	if (m->type == CM_REJ)
		m->rej.info_len = min(m->rej.info_len, (uint8_t)CM_REJ_INFO);
	else if (m->type == CM_SIDR_REP)
		m->sidr_rep.info_len = min(m->sidr_rep.info_len, (uint8_t)CM_SIDR_INFO);
	else if (m->type == CM_APR)
		m->apr.info_len = min(m->apr.info_len, (uint8_t)CM_APR_INFO);
}

enum cm_decoded cm_decode(struct cm_msg *m, const uint8_t *mad, size_t len)
{
	const struct layout *l;

	if (len != CM_MAD_LEN || mad[0] != BASE_VERSION || mad[1] != CLASS_CM || mad[2] != CLASS_VERSION ||
	    mad[3] != METHOD_SEND)
		return CM_NOT_CM;
	l = layout_of(get_be16(mad + ATTRIBUTE_AT));
	if (!l)
		return CM_UNKNOWN;
	memset(m, 0, sizeof(*m));
	m->type = get_be16(mad + ATTRIBUTE_AT);
	m->tid = get_be64(mad + TID_AT);
	m->modifier = get_be32(mad + MODIFIER_AT);
	for (unsigned int i = 0; i < l->n; i++)
		decode_field(m, &l->field[i], mad + DATA_AT);
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
	put_be16(mad + ATTRIBUTE_AT, m->type);
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
	[CM_REJ_INVALID_SERVICE_ID] = "nobody listens on that port (invalid service id)",
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

/* IPv4 addresses are in the last four bytes, behind zeroes. */
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

void cm_ip_header_encode(uint8_t p[CM_IP_HEADER_LEN], const struct cm_ip_header *h)
{
	p[0] = h->version;
	p[IP_VERSION_AT] = (uint8_t)(h->ip_version << 4);
	put_be16(p + IP_PORT_AT, h->src_port);
	put_ip(p + IP_SRC_AT, &h->src, h->ip_version);
	put_ip(p + IP_DST_AT, &h->dst, h->ip_version);
}
