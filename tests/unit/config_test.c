/* SPDX-License-Identifier: BSD-2-Clause */
/* The environment: defaults, values, and values that are ignored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/config.h"
#include "util/compiler.h"

/* One variable is set; everything else is not. */
struct env {
	const char *name, *value;
	unsigned int complaints;
};

static const char *lookup(void *arg, const char *name)
{
	const struct env *e = arg;

	return e->name && !strcmp(name, e->name) ? e->value : NULL;
}

static void on_warning(void *arg, const char *line)
{
	struct env *e = arg;

	assert_non_null(strstr(line, e->name));
	assert_null(strchr(line, '\n'));
	e->complaints++;
}

static unsigned int parse(struct config *cfg, const char *name, const char *value)
{
	struct env e = { name, value, 0 };

	config_parse(cfg, lookup, on_warning, &e);
	return e.complaints;
}

static void defaults(void **state)
{
	struct config cfg;

	assert_int_equal(parse(&cfg, NULL, NULL), 0);
	assert_int_equal(cfg.transport, CONFIG_AUTO);
	assert_int_equal(cfg.raw, CONFIG_RAW_AUTO);
	assert_int_equal(cfg.udp_port, 4791);
	assert_int_equal(cfg.n_devices, 0);
	assert_false(cfg.restrict_devices);
	assert_true(cfg.progress_thread);
	assert_string_equal(cfg.dir, "");
	assert_int_equal(cfg.log_level[LOG_WIRE], LOG_WARN);
	assert_false(cfg.seeded);
}

static void bad_values_warn_once_and_keep_the_default(void **state)
{
	static const char *const rows[][2] = {
		{ "VERBENA_TRANSPORT", "tcp" },
		{ "VERBENA_UDP_PORT", "0" },
		{ "VERBENA_UDP_PORT", "65536" },
		{ "VERBENA_UDP_PORT", "-1" },
		{ "VERBENA_UDP_PORT", "4791x" },
		{ "VERBENA_UDP_PORT", " 4791" },
		{ "VERBENA_UDP_PORT", "18446744073709551617" },
		{ "VERBENA_DEVICES", "eth0,,lo" },
		{ "VERBENA_DEVICES", "=eth0" },
		{ "VERBENA_DEVICES", "a=" },
		{ "VERBENA_DEVICES", "a=b=c" },
		{ "VERBENA_DEVICES", "interface_name_too_long" },
		{ "VERBENA_DEVICES", "a=eth0,a=eth1" },
		{ "VERBENA_DEVICES", "a/b=eth0" },
		{ "VERBENA_DEVICES", "a b=eth0" },
		{ "VERBENA_DEVICES", "a\nb=eth0" },
		{ "VERBENA_DEVICES", "\"=eth0" },
		{ "VERBENA_DEVICES", "a\\=eth0" },
		{ "VERBENA_DEVICES", "\x7f=eth0" },
		{ "VERBENA_DEVICES", "\xc3\xa4=eth0" },
		{ "VERBENA_DEVICES", ".=eth0" },
		{ "VERBENA_DEVICES", "..=eth0" },
		{ "VERBENA_DEVICES", ".a=eth0" },
		{ "VERBENA_DIR", "relative" },
		{ "VERBENA_LOG", "loud" },
		{ "VERBENA_LOG", "warn,nothing=debug" },
		{ "VERBENA_LOG", "wire=" },
		{ "VERBENA_SEED", "random" },
		{ "VERBENA_PROGRESS", "maybe" },
		{ "VERBENA_ECN", "1" },
		{ "VERBENA_RAW", "socket" },
		{ "VERBENA_RECEIVERS", "0" },
		{ "VERBENA_RECEIVERS", "9" },
	};
	struct config cfg, plain;
	size_t i;

	parse(&plain, NULL, NULL);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int n = parse(&cfg, rows[i][0], rows[i][1]);

		if (n != 1)
			fail_msg("%s=%s: %u complaints", rows[i][0], rows[i][1], n);
		cfg.n_devices = 0;
		memset(cfg.device, 0, sizeof(cfg.device));
		assert_memory_equal(&cfg, &plain, sizeof(cfg));
	}
}

static void empty_is_unset(void **state)
{
	struct config cfg;

	assert_int_equal(parse(&cfg, "VERBENA_UDP_PORT", ""), 0);
	assert_int_equal(cfg.udp_port, 4791);
}

static void values(void **state)
{
	struct config cfg;

	parse(&cfg, "VERBENA_TRANSPORT", "local");
	assert_int_equal(cfg.transport, CONFIG_LOCAL);
	parse(&cfg, "VERBENA_UDP_PORT", "65535");
	assert_int_equal(cfg.udp_port, 65535);
	parse(&cfg, "VERBENA_DIR", "/run/x");
	assert_string_equal(cfg.dir, "/run/x");
	parse(&cfg, "VERBENA_SEED", "0x10");
	assert_true(cfg.seeded && cfg.seed == 16);
	parse(&cfg, "VERBENA_SEED", "010");
	assert_int_equal(cfg.seed, 10);
	assert_int_equal(parse(&cfg, "VERBENA_SEED", "0x"), 1);
	parse(&cfg, "VERBENA_RAW", "virtual");
	assert_int_equal(cfg.raw, CONFIG_RAW_VIRTUAL);
	parse(&cfg, "VERBENA_ECN", "off");
	assert_false(cfg.ecn);
	parse(&cfg, "VERBENA_ECN", "on");
	assert_true(cfg.ecn);
	parse(&cfg, "VERBENA_RECEIVERS", "8");
	assert_int_equal(cfg.receivers, 8);
	parse(&cfg, "VERBENA_RECEIVERS", "auto");
	assert_int_equal(cfg.receivers, 0);
	parse(&cfg, "VERBENA_PROGRESS", "none");
	assert_false(cfg.progress_thread);
}

static void recordings(void **state)
{
	struct config cfg;

	parse(&cfg, "VERBENA_RECORD", "some folder");
	assert_string_equal(cfg.record, "some folder");
	assert_int_equal(cfg.record_mib, 16);
	assert_int_equal(cfg.record_what,
			 CONFIG_RECORD_VERBS | CONFIG_RECORD_PACKETS | CONFIG_RECORD_ENGINE);
	parse(&cfg, "VERBENA_RECORD_SIZE", "all");
	assert_int_equal(cfg.record_mib, 0);
	parse(&cfg, "VERBENA_RECORD_SIZE", "64");
	assert_int_equal(cfg.record_mib, 64);
	parse(&cfg, "VERBENA_RECORD_SIZE", "0");
	assert_int_equal(cfg.record_mib, 16);
	parse(&cfg, "VERBENA_RECORD_WHAT", "packets,memory");
	assert_int_equal(cfg.record_what, CONFIG_RECORD_PACKETS | CONFIG_RECORD_MEMORY);
	parse(&cfg, "VERBENA_RECORD_WHAT", "verbs,stacks");
	assert_int_equal(cfg.record_what, CONFIG_RECORD_VERBS | CONFIG_RECORD_STACKS);
	parse(&cfg, "VERBENA_RECORD_WHAT", "packets,packet");
	assert_int_equal(cfg.record_what,
			 CONFIG_RECORD_VERBS | CONFIG_RECORD_PACKETS | CONFIG_RECORD_ENGINE);
}

static void devices_restrict_rename_and_add(void **state)
{
	struct config cfg;

	assert_int_equal(parse(&cfg, "VERBENA_DEVICES", "eth0,mlx5_0=lo,second=lo"), 0);
	assert_true(cfg.restrict_devices);
	assert_int_equal(cfg.n_devices, 3);
	assert_string_equal(cfg.device[0].ifname, "eth0");
	assert_string_equal(cfg.device[0].name, "");
	assert_string_equal(cfg.device[1].name, "mlx5_0");
	assert_string_equal(cfg.device[2].ifname, "lo");

	parse(&cfg, "VERBENA_DEVICES", "mlx5_0=lo");
	assert_false(cfg.restrict_devices);
}

static void too_many_devices_are_refused(void **state)
{
	char list[CONFIG_DEVICES * 8 + 16] = "";
	struct config cfg;
	int i;

	for (i = 0; i <= CONFIG_DEVICES; i++)
		sprintf(list + strlen(list), "eth%d,", i);
	assert_int_equal(parse(&cfg, "VERBENA_DEVICES", list), 1);
	assert_int_equal(cfg.n_devices, 0);
}

static void log_levels_per_module(void **state)
{
	struct config cfg;

	assert_int_equal(parse(&cfg, "VERBENA_LOG", "info,wire=trace,host=off"), 0);
	assert_int_equal(cfg.log_level[LOG_CORE], LOG_INFO);
	assert_int_equal(cfg.log_level[LOG_WIRE], LOG_TRACE);
	assert_int_equal(cfg.log_level[LOG_HOST], LOG_OFF);
}

static void a_seed_repeats_and_numbers_differ(void **state)
{
	uint64_t a = config_random(), b = config_random();

	assert_true(config_get()->seeded);
	assert_true(a != b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(recordings),
		cmocka_unit_test(bad_values_warn_once_and_keep_the_default),
		cmocka_unit_test(empty_is_unset),
		cmocka_unit_test(values),
		cmocka_unit_test(devices_restrict_rename_and_add),
		cmocka_unit_test(too_many_devices_are_refused),
		cmocka_unit_test(log_levels_per_module),
		cmocka_unit_test(a_seed_repeats_and_numbers_differ),
	};

	setenv("VERBENA_SEED", "1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
