/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the socket filters read of a packet: offsets from its BTH, and the numbers with which they
 * compare. The decoders of roce and cm know the rest; core/mad/gsi.c asserts that both agree.
 */
#ifndef VRB_WIRE_OFFSETS_H
#define VRB_WIRE_OFFSETS_H

enum {
	BTH_VERSION_AT = 1,
	BTH_VERSION_MASK = 0x0f,
	BTH_DEST_QP_AT = 4,	/* low 24 bits */
	BTH_BLOCK_AT = 5,	/* high 16 bits of the destination QP number */
	MAD_AT = 20,		/* after BTH and DETH */
	MAD_ATTRIBUTE_AT = MAD_AT + 16,
	MAD_REMOTE_ID_AT = MAD_AT + 24 + 4,

	/* Attributes of the communication manager; those from MRA to DREP answer a REQ. */
	MAD_REQ = 0x10,
	MAD_MRA = 0x11,
	MAD_DREP = 0x16,
	MAD_SIDR_REQ = 0x17,
	MAD_QPN = 1,
};

#endif
