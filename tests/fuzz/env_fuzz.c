/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The environment: every variable that the library reads, with any bytes for a value.  What comes
 * out is in range, each complaint is one line that can be printed, and what was complained about
 * has its default.
 *
 * The input is a list of values, each ended by a zero byte, for the variables in the order of
 * names[]; behind the last they begin anew.
 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "run/config.h"
#include "util/compiler.h"

enum {
	VALUE_MAX = 512,
	LINE_MAX_ = 1024,	/* of a complaint */
};

static const char *const names[] = {
	"VERBENA_TRANSPORT", "VERBENA_UDP_PORT",  "VERBENA_DEVICES",  "VERBENA_DIR",
	"VERBENA_LOG",       "VERBENA_LOG_FILE",  "VERBENA_SEED",     "VERBENA_RAW",
	"VERBENA_ECN",       "VERBENA_RECEIVERS", "VERBENA_PROGRESS",
};

struct env {
	char value[ARRAY_SIZE(names)][VALUE_MAX];
	bool set[ARRAY_SIZE(names)];
	bool blamed[ARRAY_SIZE(names)];
};

static const char *lookup(void *arg, const char *name)
{
	struct env *e = arg;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return e->set[i] ? e->value[i] : NULL;
	return NULL;
}

/* Control characters of a value could write on the terminal what they like. */
static void check_line(const char *line)
{
	FUZZ_CHECK(strlen(line) < LINE_MAX_);
	for (const char *c = line; *c; c++)
		FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
}

static void complain(void *arg, const char *line)
{
	struct env *e = arg;
	bool known = false;

	check_line(line);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t len = strlen(names[i]);

		if (strncmp(line, names[i], len) == 0 && line[len] == '=') {
			known = true;
			e->blamed[i] = true;
		}
	}
	FUZZ_CHECK(known);
}

static void fill(struct env *e, const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;

	for (size_t i = 0; i < size && data < end; i++) {
		size_t len = strnlen((const char *)data, end - data);
		size_t kept = min(len, (size_t)VALUE_MAX - 1);
		size_t at = i % ARRAY_SIZE(names);

		memcpy(e->value[at], data, kept);
		e->value[at][kept] = '\0';
		e->set[at] = true;
		data += len < (size_t)(end - data) ? len + 1 : len;
	}
}

static bool terminated(const char *s, size_t size)
{
	return memchr(s, '\0', size) != NULL;
}

static void check_config(const struct config *cfg)
{
	FUZZ_CHECK(cfg->transport <= CONFIG_LOCAL);
	FUZZ_CHECK(cfg->raw <= CONFIG_RAW_VIRTUAL);
	FUZZ_CHECK(cfg->udp_port > 0);
	FUZZ_CHECK(cfg->receivers <= CONFIG_RECEIVERS);
	FUZZ_CHECK(cfg->n_devices <= CONFIG_DEVICES);
	for (unsigned int i = 0; i < cfg->n_devices; i++) {
		FUZZ_CHECK(terminated(cfg->device[i].ifname, sizeof(cfg->device[i].ifname)));
		FUZZ_CHECK(terminated(cfg->device[i].name, sizeof(cfg->device[i].name)));
		FUZZ_CHECK(cfg->device[i].ifname[0]);
		FUZZ_CHECK(!strchr(cfg->device[i].name, '/'));
	}
	FUZZ_CHECK(terminated(cfg->dir, sizeof(cfg->dir)));
	FUZZ_CHECK(!cfg->dir[0] || cfg->dir[0] == '/');
	FUZZ_CHECK(terminated(cfg->log_file, sizeof(cfg->log_file)));
}

static void check_defaults(const struct env *e, const struct config *cfg)
{
	struct env nothing = { 0 };
	struct config plain;

	config_parse(&plain, lookup, complain, &nothing);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		FUZZ_CHECK(!nothing.blamed[i]);
	if (e->blamed[0])
		FUZZ_CHECK(cfg->transport == plain.transport);
	if (e->blamed[1])
		FUZZ_CHECK(cfg->udp_port == plain.udp_port);
	if (e->blamed[6])
		FUZZ_CHECK(cfg->seeded == plain.seeded);
	if (e->blamed[8])
		FUZZ_CHECK(cfg->ecn == plain.ecn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct env unset;
	struct env e = unset;
	struct config cfg;

	memset(&cfg, 0xa5, sizeof(cfg));
	fill(&e, data, size);
	config_parse(&cfg, lookup, complain, &e);
	check_config(&cfg);
	check_defaults(&e, &cfg);
	return 0;
}
