/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of what a QP sees: a letter each, and whether its program is believed to answer afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/habit.h"
#include "util/compiler.h"

static const struct row {
	const char *what;
	/* a: asked and answered in time; l: answered too late; p: posted unasked; s: the ACK left alone soon; w: it waited in vain */
	const char *events;
	bool believed;
} rows[] = {
	{ "nothing is believed at first", "", false },
	{ "a habit has to show", "aaaaaaa", false },
	{ "and then is one", "aaaaaaaa", true },
	{ "it stays one", "aaaaaaaaaaaaaaaaaaaaaaaa", true },
	{ "posting unasked is no answer", "pppppppppppp", false },
	{ "nor does it harm", "aaaapppaaaa", true },
	{ "one answer too late ends it", "aaaaaaaaaaaal", false },
	{ "and it has to show again", "aaaaaaaaaaaalaaaaaaa", false },
	{ "as at first", "aaaaaaaaaaaalaaaaaaaa", true },
	{ "so does an ACK that waited in vain", "aaaaaaaaaaaaw", false },
	{ "one that a poller sent soon does not", "aaaaaaaaaaaas", true },
	{ "who never answers is never believed", "wwwwwwwwwwwwwwwwwwww", false },
	{ "nor who answers every other time", "awawawawawawawawawaw", false },
};

static void happen(struct habit *h, char event, uint64_t *now)
{
	*now += 10 * VRB_USEC;
	if (event != 'p')
		habit_asked(h, *now);
	switch (event) {
	case 'a':
		*now += HABIT_SOON;
		habit_posted(h, *now);
		break;
	case 'l':
		*now += HABIT_SOON + 1;
		habit_posted(h, *now);
		break;
	case 'p':
		habit_posted(h, *now);
		break;
	case 's':
		*now += HABIT_SOON - 1;
		habit_alone(h, *now);
		break;
	case 'w':
		*now += HABIT_SOON;
		habit_alone(h, *now);
		break;
	}
}

static void habits_show_and_end(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct habit h = { 0 };
		uint64_t now = 1;

		for (const char *e = rows[i].events; *e; e++)
			happen(&h, *e, &now);
		if (habit_believed(&h) != rows[i].believed)
			fail_msg("%s (%s)", rows[i].what, rows[i].events);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(habits_show_and_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
