/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of preload_config, row by row. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "rspreload/allow.h"
#include "util/compiler.h"

static void rows(void **state)
{
	static const struct {
		const char *line;
		int domain, type;
		bool want;
	} row[] = {
		{ "* * * *", AF_INET, SOCK_STREAM, true },
		{ "prog * * *", AF_INET6, SOCK_DGRAM, true },
		{ "pro INET STREAM TCP", AF_INET, SOCK_STREAM, true },
		{ "other * * *", AF_INET, SOCK_STREAM, false },
		{ "program2 * * *", AF_INET, SOCK_STREAM, false },
		{ "* INET * *", AF_INET6, SOCK_STREAM, false },
		{ "* AF_INET6 SOCK_STREAM IPPROTO_TCP", AF_INET6, SOCK_STREAM, true },
		{ "* pf_inet dgram udp", AF_INET, SOCK_DGRAM, true },
		{ "* * dgram *", AF_INET, SOCK_STREAM, false },
		{ "* * * udp", AF_INET, SOCK_STREAM, false },
		{ "* * *", AF_INET, SOCK_STREAM, false },
		{ "", AF_INET, SOCK_STREAM, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		if (allow_line(row[i].line, "program", row[i].domain, row[i].type, 0) !=
		    row[i].want)
			fail_msg("'%s'", row[i].line);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rows) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
