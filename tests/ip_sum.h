/* SPDX-License-Identifier: BSD-2-Clause */
/* The Internet checksum (RFC 1071), written without regard to speed, to compare with. */
#ifndef TESTS_IP_SUM_H
#define TESTS_IP_SUM_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t ip_sum(uint32_t sum, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum += i & 1 ? p[i] : p[i] << 8;
	return sum;
}

static inline uint16_t ip_sum_fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

#endif
