/* SPDX-License-Identifier: BSD-2-Clause */
/* IPoIB packets inside UD datagrams; ipoib.h documents the interface. */
#include "roce/ipoib.h"

#include "util/be.h"

enum {
	ENCAP_LEN = 4, /* RFC 4391, 6: EtherType and two reserved bytes */
};

static bool parse(const uint8_t *p, uint32_t len, enum inet_end end, struct inet *f)
{
	return len >= ENCAP_LEN && inet_parse(p, len, get_be16(p), ENCAP_LEN, end, f) && f->sum;
}

static void fill(uint8_t *p, const struct inet *f)
{
	inet_fill_header_sum(p, f);
	inet_fill_payload_sum(p, f);
}

void ipoib_fill_checksums(uint8_t *datagram, uint32_t len)
{
	struct inet f;

	if (parse(datagram, len, INET_AT_END, &f))
		fill(datagram, &f);
}

void ipoib_make_segment(uint8_t *datagram, uint32_t len, const struct inet_segment *s)
{
	struct inet f;

	if (!parse(datagram, len, INET_AT_END, &f))
		return;
	inet_make_segment(datagram, &f, s);
	fill(datagram, &f);
}

bool ipoib_checksums_ok(const uint8_t *datagram, uint32_t len)
{
	struct inet f;

	return parse(datagram, len, INET_BY_HEADER, &f) && f.end == len &&
	       inet_sums_ok(datagram, &f);
}
