/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One row per variable: its name and the function that parses its value. Owns the process's
 * configuration; immutable once read (pthread_once).
 */
#include "run/config.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "run/clock.h"
#include "run/sanitizer.h"
#include "util/cancel.h"
#include "util/hash.h"
#include "util/net.h"

enum { COMPLAINTS = 16, COMPLAINT_LEN = 256, SHOWN_LEN = 65, DEFAULT_RECORD_MIB = 16 };

static struct config config;
static pthread_once_t config_once = PTHREAD_ONCE_INIT;

/* Decimal or 0x; a leading 0 means nothing. */
static bool parse_number(const char *s, uint64_t low, uint64_t high, uint64_t *value)
{
	int base = s[0] == '0' && s[1] == 'x' ? 16 : 10;
	unsigned long long v;
	char *end;

	if (s[0] < '0' || s[0] > '9')
		return false;
	errno = 0;
	v = strtoull(s, &end, base);
	if (errno || *end || v < low || v > high)
		return false;
	*value = v;
	return true;
}

/* Copies a string if it fits. */
static bool copy_text(char *to, size_t cap, const char *from, size_t len)
{
	if (!len || len >= cap)
		return false;
	memcpy(to, from, len);
	to[len] = 0;
	return true;
}

/* Index of the name that is the first len bytes of s; n if there is none. */
static size_t find_name(const char *const *names, size_t n, const char *s, size_t len)
{
	size_t i = 0;

	while (i < n && (strlen(names[i]) != len || memcmp(names[i], s, len) != 0))
		i++;
	return i;
}

static bool parse_transport(struct config *cfg, const char *s)
{
	static const char *const names[] = {
		[CONFIG_AUTO] = "auto", [CONFIG_UDP] = "udp", [CONFIG_LOCAL] = "local",
	};
	size_t i = find_name(names, ARRAY_SIZE(names), s, strlen(s));

	if (i == ARRAY_SIZE(names))
		return false;
	cfg->transport = (enum config_transport)i;
	return true;
}

static bool parse_raw(struct config *cfg, const char *s)
{
	static const char *const names[] = {
		[CONFIG_RAW_AUTO] = "auto",
		[CONFIG_RAW_PACKET] = "packet",
		[CONFIG_RAW_VIRTUAL] = "virtual",
	};
	size_t i = find_name(names, ARRAY_SIZE(names), s, strlen(s));

	if (i == ARRAY_SIZE(names))
		return false;
	cfg->raw = (enum config_raw)i;
	return true;
}

static bool parse_udp_port(struct config *cfg, const char *s)
{
	uint64_t port;

	if (!parse_number(s, 1, UINT16_MAX, &port))
		return false;
	cfg->udp_port = (uint16_t)port;
	return true;
}

/*
 * Names of devices are names of files, and stand in JSON and in lists as they are: printable ASCII
 * without what has a meaning there.
 */
static bool is_device_name(const char *name)
{
	if (name[0] == '.')
		return false;
	for (; *name; name++)
		if (*name <= ' ' || *name >= 0x7f || strchr("/\"\\", *name))
			return false;
	return true;
}

/* "ifname" or "name=ifname". */
static bool parse_device(struct config_device *dev, const char *s, size_t len)
{
	const char *eq = memchr(s, '=', len);

	memset(dev, 0, sizeof(*dev));
	if (eq && (!copy_text(dev->name, sizeof(dev->name), s, (size_t)(eq - s)) ||
		   !is_device_name(dev->name)))
		return false;
	if (eq) {
		len -= (size_t)(eq + 1 - s);
		s = eq + 1;
	}
	return copy_text(dev->ifname, sizeof(dev->ifname), s, len) && !strchr(dev->ifname, '=');
}

static bool device_named_twice(const struct config *cfg, const struct config_device *dev)
{
	unsigned int i;

	for (i = 0; dev->name[0] && i < cfg->n_devices; i++)
		if (!strcmp(cfg->device[i].name, dev->name))
			return true;
	return false;
}

/* All or nothing: half of a list of devices would be more surprising than the default. */
static bool parse_devices(struct config *cfg, const char *s)
{
	while (*s) {
		struct config_device dev;
		size_t len = strcspn(s, ",");

		if (cfg->n_devices == CONFIG_DEVICES || !parse_device(&dev, s, len) ||
		    device_named_twice(cfg, &dev))
			goto bad;
		if (!dev.name[0])
			cfg->restrict_devices = true;
		cfg->device[cfg->n_devices++] = dev;
		s += len;
		s += *s == ',';
	}
	return true;
bad:
	cfg->n_devices = 0;
	cfg->restrict_devices = false;
	return false;
}

static bool parse_path(char to[PATH_MAX], const char *s)
{
	return s[0] == '/' && copy_text(to, PATH_MAX, s, strlen(s));
}

static bool parse_dir(struct config *cfg, const char *s)
{
	return parse_path(cfg->dir, s);
}

static bool parse_log_file(struct config *cfg, const char *s)
{
	return copy_text(cfg->log_file, sizeof(cfg->log_file), s, strlen(s));
}

/* One element: "level" for all modules, or "module=level". */
static bool parse_log_item(uint8_t level[LOG_MODULES], const char *s, size_t len)
{
	const char *eq = memchr(s, '=', len);
	size_t module = LOG_MODULES, value;

	if (eq) {
		module = find_name(log_module_names, LOG_MODULES, s, (size_t)(eq - s));
		if (module == LOG_MODULES)
			return false;
		len -= (size_t)(eq + 1 - s);
		s = eq + 1;
	}
	value = find_name(log_level_names, LOG_LEVELS, s, len);
	if (value == LOG_LEVELS)
		return false;
	if (eq)
		level[module] = (uint8_t)value;
	else
		memset(level, (int)value, LOG_MODULES);
	return true;
}

static bool parse_log(struct config *cfg, const char *s)
{
	uint8_t level[LOG_MODULES];

	memcpy(level, cfg->log_level, sizeof(level));
	while (*s) {
		size_t len = strcspn(s, ",");

		if (!parse_log_item(level, s, len))
			return false;
		s += len;
		s += *s == ',';
	}
	memcpy(cfg->log_level, level, sizeof(level));
	return true;
}

/* Always true: rules are not ignored, since a test must not succeed because it met no faults. */
static bool parse_faults(struct config *cfg, const char *s)
{
	cfg->faults_too_long = !copy_text(cfg->faults, sizeof(cfg->faults), s, strlen(s));
	return true;
}

static bool parse_seed(struct config *cfg, const char *s)
{
	cfg->seeded = parse_number(s, 0, UINT64_MAX, &cfg->seed);
	return cfg->seeded;
}

static bool parse_progress(struct config *cfg, const char *s)
{
	if (strcmp(s, "thread") && strcmp(s, "none"))
		return false;
	cfg->progress_thread = s[0] == 't';
	return true;
}

static bool parse_ecn(struct config *cfg, const char *s)
{
	if (strcmp(s, "on") && strcmp(s, "off"))
		return false;
	cfg->ecn = !strcmp(s, "on");
	return true;
}

static bool parse_receivers(struct config *cfg, const char *s)
{
	uint64_t n;

	if (!strcmp(s, "auto")) {
		cfg->receivers = 0;
		return true;
	}
	if (!parse_number(s, 1, CONFIG_RECEIVERS, &n))
		return false;
	cfg->receivers = (unsigned int)n;
	return true;
}

static bool parse_record(struct config *cfg, const char *s)
{
	return copy_text(cfg->record, sizeof(cfg->record), s, strlen(s));
}

static bool parse_record_what(struct config *cfg, const char *s)
{
	static const char *const names[] = { "verbs", "packets", "engine", "memory",
					     "stacks" };
	uint32_t what = 0;

	while (*s) {
		size_t len = strcspn(s, ","), i = find_name(names, ARRAY_SIZE(names), s, len);

		if (i == ARRAY_SIZE(names))
			return false;
		what |= 1u << i;
		s += len;
		s += *s == ',';
	}
	cfg->record_what = what;
	return what != 0;
}

static bool parse_record_size(struct config *cfg, const char *s)
{
	uint64_t mib = 0;

	if (strcmp(s, "all") != 0 && !parse_number(s, 1, 1 << 20, &mib))
		return false;
	cfg->record_mib = (uint32_t)mib;
	return true;
}

static const struct {
	const char *name;
	bool (*parse)(struct config *cfg, const char *value);
	const char *expected;
} variables[] = {
	{ "VERBENA_LOG", parse_log, "a level (off error warn info debug trace), module=level ..." },
	{ "VERBENA_LOG_FILE", parse_log_file, "a file name" },
	{ "VERBENA_TRANSPORT", parse_transport, "auto, udp or local" },
	{ "VERBENA_RAW", parse_raw, "auto, packet or virtual" },
	{ "VERBENA_UDP_PORT", parse_udp_port, "1..65535" },
	{ "VERBENA_DEVICES", parse_devices,
	  "ifname or name=ifname, separated by commas, 64 at most" },
	{ "VERBENA_DIR", parse_dir, "an absolute path" },
	{ "VERBENA_SEED", parse_seed, "a number" },
	{ "VERBENA_FAULTS", parse_faults, "rules or @FILE" },
	{ "VERBENA_PROGRESS", parse_progress, "thread or none" },
	{ "VERBENA_ECN", parse_ecn, "on or off" },
	{ "VERBENA_RECORD", parse_record, "a folder" },
	{ "VERBENA_RECORD_WHAT", parse_record_what,
	  "verbs, packets, engine, memory or stacks, separated by commas" },
	{ "VERBENA_RECORD_SIZE", parse_record_size, "1..1048576 (MiB) or all" },
	{ "VERBENA_RECEIVERS", parse_receivers, "auto or 1..8" },
};

/* Truncates a value to one line, without control characters. */
static const char *printable(const char *value, char text[SHOWN_LEN])
{
	size_t i;

	for (i = 0; value[i] && i < SHOWN_LEN - 1; i++)
		text[i] = (unsigned char)value[i] < ' ' || value[i] == 0x7f ? '?' : value[i];
	text[i] = '\0';
	return text;
}

void config_parse(struct config *cfg, config_lookup_fn lookup, config_complain_fn complain,
		  void *arg)
{
	char line[COMPLAINT_LEN], shown[SHOWN_LEN];
	unsigned int i;

	memset(cfg, 0, sizeof(*cfg));
	cfg->udp_port = ROCE_UDP_PORT;
	cfg->progress_thread = true;
	cfg->ecn = true;
	cfg->record_what = CONFIG_RECORD_VERBS | CONFIG_RECORD_PACKETS | CONFIG_RECORD_ENGINE;
	cfg->record_mib = DEFAULT_RECORD_MIB;
	memset(cfg->log_level, LOG_WARN, sizeof(cfg->log_level));

	for (i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *value = lookup(arg, variables[i].name);

		if (!value || !value[0] || variables[i].parse(cfg, value))
			continue;
		snprintf(line, sizeof(line), "%s=%s is ignored: it should be %s",
			 variables[i].name, printable(value, shown), variables[i].expected);
		complain(arg, line);
	}
}

struct complaints {
	unsigned int n;
	char line[COMPLAINTS][COMPLAINT_LEN];
};

static const char *lookup_environment(void *arg, const char *name)
{
	return secure_getenv(name);
}

static void keep_complaint(void *arg, const char *line)
{
	struct complaints *c = arg;

	if (c->n < COMPLAINTS)
		snprintf(c->line[c->n++], COMPLAINT_LEN, "%s", line);
}

static void read_environment(void)
{
	struct complaints c = { .n = 0 };
	int before = errno;	/* the first caller may be about to report a failure */
	const char *advice;
	unsigned int i;

	config_parse(&config, lookup_environment, keep_complaint, &c);
	log_configure(config.log_level, config.log_file);
	for (i = 0; i < c.n; i++)
		log_warn(LOG_RUN, "%s", c.line[i]);
	advice = sanitizer_advice();
	if (advice)
		log_warn(LOG_RUN, "%s", advice);
	errno = before;
}

const struct config *config_get(void)
{
	pthread_once(&config_once, read_environment);
	return &config;
}

uint64_t config_random(void)
{
	static uint64_t drawn;
	const struct config *cfg = config_get();
	uint64_t n = fetch_add_relaxed(&drawn, 1);
	uint64_t v;

	if (cfg->seeded)
		return hash_mix(cfg->seed + (n + 1) * 0x9e3779b97f4a7c15ull);
	if (SYS_CALL(SYS_getrandom, &v, sizeof(v), GRND_NONBLOCK) == sizeof(v))
		return v;
	return hash_mix(clock_now() ^ (uint64_t)getpid() << 48 ^ n << 32);
}
