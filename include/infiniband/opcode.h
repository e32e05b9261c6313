/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opcodes of the base transport header (IBTA volume 1, table 35): the transport service in bits
 * 7..5, the operation in bits 4..0.
 */
#ifndef INFINIBAND_OPCODE_H
#define INFINIBAND_OPCODE_H

/* Defines IBV_OPCODE_<transport>_<op> inside an enum. */
#define IBV_OPCODE(transport, op)                                                                  \
	IBV_OPCODE_##transport##_##op = IBV_OPCODE_##transport | IBV_OPCODE_##op

enum {
	/* services */
	IBV_OPCODE_RC = 0 << 5,
	IBV_OPCODE_UC = 1 << 5,
	IBV_OPCODE_RD = 2 << 5,
	IBV_OPCODE_UD = 3 << 5,

	/* operations */
	IBV_OPCODE_SEND_FIRST = 0,
	IBV_OPCODE_SEND_MIDDLE = 1,
	IBV_OPCODE_SEND_LAST = 2,
	IBV_OPCODE_SEND_LAST_WITH_IMMEDIATE = 3,
	IBV_OPCODE_SEND_ONLY = 4,
	IBV_OPCODE_SEND_ONLY_WITH_IMMEDIATE = 5,
	IBV_OPCODE_RDMA_WRITE_FIRST = 6,
	IBV_OPCODE_RDMA_WRITE_MIDDLE = 7,
	IBV_OPCODE_RDMA_WRITE_LAST = 8,
	IBV_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE = 9,
	IBV_OPCODE_RDMA_WRITE_ONLY = 10,
	IBV_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 11,
	IBV_OPCODE_RDMA_READ_REQUEST = 12,
	IBV_OPCODE_RDMA_READ_RESPONSE_FIRST = 13,
	IBV_OPCODE_RDMA_READ_RESPONSE_MIDDLE = 14,
	IBV_OPCODE_RDMA_READ_RESPONSE_LAST = 15,
	IBV_OPCODE_RDMA_READ_RESPONSE_ONLY = 16,
	IBV_OPCODE_ACKNOWLEDGE = 17,
	IBV_OPCODE_ATOMIC_ACKNOWLEDGE = 18,
	IBV_OPCODE_COMPARE_SWAP = 19,
	IBV_OPCODE_FETCH_ADD = 20,

/* Opcodes of messages of any length, in every connected service. */
#define __IBV_OPCODES_SEND_AND_WRITE(transport)                                                    \
	IBV_OPCODE(transport, SEND_FIRST), IBV_OPCODE(transport, SEND_MIDDLE),                     \
		IBV_OPCODE(transport, SEND_LAST),                                                  \
		IBV_OPCODE(transport, SEND_LAST_WITH_IMMEDIATE), IBV_OPCODE(transport, SEND_ONLY), \
		IBV_OPCODE(transport, SEND_ONLY_WITH_IMMEDIATE),                                   \
		IBV_OPCODE(transport, RDMA_WRITE_FIRST),                                           \
		IBV_OPCODE(transport, RDMA_WRITE_MIDDLE), IBV_OPCODE(transport, RDMA_WRITE_LAST),  \
		IBV_OPCODE(transport, RDMA_WRITE_LAST_WITH_IMMEDIATE),                             \
		IBV_OPCODE(transport, RDMA_WRITE_ONLY),                                            \
		IBV_OPCODE(transport, RDMA_WRITE_ONLY_WITH_IMMEDIATE)

/* Opcodes of requests with a response, in the reliable services. */
#define __IBV_OPCODES_READ_AND_ATOMIC(transport)                                                   \
	IBV_OPCODE(transport, RDMA_READ_REQUEST), IBV_OPCODE(transport, RDMA_READ_RESPONSE_FIRST), \
		IBV_OPCODE(transport, RDMA_READ_RESPONSE_MIDDLE),                                  \
		IBV_OPCODE(transport, RDMA_READ_RESPONSE_LAST),                                    \
		IBV_OPCODE(transport, RDMA_READ_RESPONSE_ONLY),                                    \
		IBV_OPCODE(transport, ACKNOWLEDGE), IBV_OPCODE(transport, ATOMIC_ACKNOWLEDGE),     \
		IBV_OPCODE(transport, COMPARE_SWAP), IBV_OPCODE(transport, FETCH_ADD)

	__IBV_OPCODES_SEND_AND_WRITE(RC),
	__IBV_OPCODES_READ_AND_ATOMIC(RC),
	__IBV_OPCODES_SEND_AND_WRITE(UC),
	__IBV_OPCODES_SEND_AND_WRITE(RD),
	__IBV_OPCODES_READ_AND_ATOMIC(RD),
	IBV_OPCODE(UD, SEND_ONLY),
	IBV_OPCODE(UD, SEND_ONLY_WITH_IMMEDIATE),
};

#undef __IBV_OPCODES_SEND_AND_WRITE
#undef __IBV_OPCODES_READ_AND_ATOMIC

#endif
