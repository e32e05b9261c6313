/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw/cut.h"

#include <string.h>

#include "util/compiler.h"
#include "util/inet.h"

unsigned int raw_cut(const struct raw_frame *whole, uint32_t mss, uint8_t *room, raw_frame_fn fn,
		     void *arg)
{
	struct raw_frame part = *whole;
	struct inet_segment s = { 0 };
	struct inet f;
	uint32_t data;

	if (!mss || !inet_parse_frame(whole->data, whole->len, INET_BY_HEADER, &f) || !f.data)
		return 0;
	data = f.end - f.data;
	part.data = room;
	part.sum_ok = true;
	do {
		uint32_t n = min(mss, data - s.offset);

		memcpy(room, whole->data, f.data);
		memcpy(room + f.data, whole->data + f.data + s.offset, n);
		s.last = s.offset + n == data;
		f.end = part.len = f.data + n;
		inet_make_segment(room, &f, &s);
		inet_fill_header_sum(room, &f);
		inet_fill_payload_sum(room, &f);
		fn(arg, &part);
		s.index++;
		s.offset += n;
	} while (s.offset < data);
	return s.index;
}
