/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC messages: the sender can change them in shared memory, so every length must be checked. */
#include "core/xrc/msg.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { MAGIC = 0x32435258, BODY = 8, STATE = 16, PACKET = 24 };

static uint8_t raw[sizeof(struct xrc_head) + BODY + STATE + PACKET + 1];
static struct xrc_msg m;

static size_t build(struct xrc_head *head)
{
	*head = (struct xrc_head){ .magic = MAGIC, .kind = XRC_REQUEST, .qpn = 0x123456,
				   .body = BODY, .state = STATE, .packet = PACKET };
	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = (uint8_t)i;
	return sizeof(*head) + BODY + STATE + PACKET;
}

static bool parses(const struct xrc_head *head, size_t len)
{
	memcpy(raw, head, sizeof(*head));
	return xrc_parse(&m, raw, len);
}

static void splits_into_parts(void **state)
{
	struct xrc_head head;
	size_t len = build(&head);

	assert_true(parses(&head, len));
	assert_memory_equal(m.body, raw + sizeof(head), BODY);
	assert_memory_equal(m.state, raw + sizeof(head) + BODY, STATE);
	assert_ptr_equal(m.packet, raw + sizeof(head) + BODY + STATE);
}

static void refuses_other_lengths(void **state)
{
	struct xrc_head head;
	size_t len = build(&head);

	for (size_t n = 0; n <= sizeof(raw); n++)
		assert_int_equal(parses(&head, n), n == len);
}

static void refuses_wild_fields(void **state)
{
	static const struct {
		const char *what;
		uint32_t magic, qpn, body, state, packet;
	} rows[] = {
		{ "magic", MAGIC + 1, 1, BODY, STATE, PACKET },
		{ "QP number", MAGIC, 0x1000000, BODY, STATE, PACKET },
		{ "body", MAGIC, 1, sizeof(m.body) + 1, STATE, PACKET },
		{ "state", MAGIC, 1, BODY, sizeof(m.state) + 1, PACKET },
		{ "packet", MAGIC, 1, BODY, STATE, UINT32_MAX },
		/* the sum of the 32-bit lengths wraps around to the correct one */
		{ "sum", MAGIC, 1, BODY, STATE, PACKET + (1u << 31) },
	};
	struct xrc_head head;
	size_t len = build(&head);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		head.magic = rows[i].magic;
		head.qpn = rows[i].qpn;
		head.body = rows[i].body;
		head.state = rows[i].state;
		head.packet = rows[i].packet;
		if (parses(&head, len))
			fail_msg("accepted: %s", rows[i].what);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(splits_into_parts),
		cmocka_unit_test(refuses_other_lengths),
		cmocka_unit_test(refuses_wild_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
