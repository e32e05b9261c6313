/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mad/group_mad.h"

#include <string.h>

#include "util/be.h"
#include "wire/offsets.h"

enum {
	BASE_VERSION = 1,
	VENDOR_CLASS = 0x0f,
	CLASS_VERSION = 1,
	SLOT_AT = MAD_REMOTE_ID_AT - MAD_AT,
	MAGIC_AT = 32,
	COUNT_AT = 36,
	GROUPS_AT = 40,
	GROUP_LEN = 20,
	MAGIC = 0x56524247,	/* "VRBG" */
};

_Static_assert(GROUPS_AT + GROUP_MAD_MAX * GROUP_LEN <= CM_MAD_LEN, "the groups fit");

static bool is_kind(uint8_t method)
{
	return method == GROUP_MAD_WHO || method == GROUP_MAD_KEEP || method == GROUP_MAD_HERE ||
	       method == GROUP_MAD_KEPT || method == GROUP_MAD_GONE;
}

void group_mad_encode(uint8_t mad[CM_MAD_LEN], const struct group_mad *m)
{
	memset(mad, 0, CM_MAD_LEN);
	mad[0] = BASE_VERSION;
	mad[1] = VENDOR_CLASS;
	mad[2] = CLASS_VERSION;
	mad[3] = (uint8_t)m->kind;
	put_be16(mad + CM_ATTRIBUTE_AT, MAD_MRA);
	put_be32(mad + SLOT_AT, m->slot << NET_COMM_ID_SERIAL_BITS);
	put_be32(mad + MAGIC_AT, MAGIC);
	put_be16(mad + COUNT_AT, (uint16_t)m->n);
	for (unsigned int i = 0; m->kind == GROUP_MAD_KEEP && i < m->n; i++) {
		uint8_t *to = mad + GROUPS_AT + i * GROUP_LEN;

		put_be32(to, m->group[i].ifindex);
		memcpy(to + 4, m->group[i].addr.raw, sizeof(m->group[i].addr.raw));
	}
}

bool group_mad_decode(struct group_mad *m, const uint8_t *mad, uint32_t len)
{
	if (len != CM_MAD_LEN || mad[0] != BASE_VERSION || mad[1] != VENDOR_CLASS ||
	    mad[2] != CLASS_VERSION || !is_kind(mad[3]) || get_be32(mad + MAGIC_AT) != MAGIC)
		return false;
	m->kind = (enum group_mad_kind)mad[3];
	m->slot = get_be32(mad + SLOT_AT) >> NET_COMM_ID_SERIAL_BITS;
	m->n = get_be16(mad + COUNT_AT);
	if (m->n > GROUP_MAD_MAX)
		return false;
	for (unsigned int i = 0; m->kind == GROUP_MAD_KEEP && i < m->n; i++) {
		const uint8_t *from = mad + GROUPS_AT + i * GROUP_LEN;

		m->group[i].ifindex = get_be32(from);
		memcpy(m->group[i].addr.raw, from + 4, sizeof(m->group[i].addr.raw));
		if (!m->group[i].ifindex || !net_is_multicast(&m->group[i].addr))
			return false;
	}
	return true;
}
