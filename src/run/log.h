/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line per record, to stderr or to $VERBENA_LOG_FILE:
 *
 *	verbena 12.345678 [4711] warn wire: port 4791 belongs to another user
 *
 * $VERBENA_LOG (run/config.h) sets the level per module; the default is warnings and errors. A
 * disabled record costs one load and one predicted branch; its arguments are not evaluated. A
 * record is written with one write(2), so records of several threads and processes do not mix.
 *
 * The first detector of a failure logs it; no caller repeats it.  errno is preserved, "%m" works.
 * May be called with any lock held (leaf), not from a signal handler.
 */
#ifndef VRB_RUN_LOG_H
#define VRB_RUN_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/compiler.h"

enum log_level {
	LOG_OFF,
	LOG_ERROR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
	LOG_TRACE,
	LOG_LEVELS,
};

/* Modules, named in $VERBENA_LOG like the directories of src/. */
enum log_module {
	LOG_VERBS,
	LOG_CORE,
	LOG_LOCAL,
	LOG_ROCE,
	LOG_WIRE,
	LOG_HOST,
	LOG_RUN,
	LOG_FAULT,
	LOG_MODULES,
};

/*
 * Most verbose enabled level, per module. LOG_TRACE until the first record makes log.c read the
 * configuration.
 */
extern uint8_t log_threshold[LOG_MODULES];

/* Sets thresholds and file ("" = stderr); called once, by config_get(). */
void log_configure(const uint8_t threshold[LOG_MODULES], const char *file);

/* Names as in the environment and in records. */
extern const char *const log_level_names[LOG_LEVELS], *const log_module_names[LOG_MODULES];

/* True if records of this level are enabled, or if the configuration is not read yet. */
static inline bool log_on(enum log_module module, enum log_level level)
{
	return unlikely(level <= load_relaxed(&log_threshold[module]));
}

/* Writes the record if its level is enabled. */
void log_write(enum log_module module, enum log_level level, const char *fmt, ...)
	format_printf(3, 4);

#define log_at(module, level, ...)                                                                 \
	do {                                                                                       \
		if (log_on((module), (level)))                                                     \
			log_write((module), (level), __VA_ARGS__);                                 \
	} while (0)

#define log_error(module, ...) log_at((module), LOG_ERROR, __VA_ARGS__)
#define log_warn(module, ...)  log_at((module), LOG_WARN, __VA_ARGS__)
#define log_info(module, ...)  log_at((module), LOG_INFO, __VA_ARGS__)
#define log_debug(module, ...) log_at((module), LOG_DEBUG, __VA_ARGS__)
#define log_trace(module, ...) log_at((module), LOG_TRACE, __VA_ARGS__)

/* Returns true only the first time, per flag. */
bool log_first(bool *seen);

/* At most once per process from this place in the source. */
#define log_once(module, level, ...)                                                               \
	do {                                                                                       \
		static bool seen_;                                                                 \
		if (log_on((module), (level)) && log_first(&seen_))                                \
			log_write((module), (level), __VA_ARGS__);                                 \
	} while (0)

/* Returns true at most once a second, per stamp. */
bool log_seldom(uint64_t *stamp);

/*
 * At most once a second from this place in the source: for events that a peer can cause at any
 * rate.
 */
#define log_limited(module, level, ...)                                                            \
	do {                                                                                       \
		static uint64_t stamp_;                                                            \
		if (log_on((module), (level)) && log_seldom(&stamp_))                              \
			log_write((module), (level), __VA_ARGS__);                                 \
	} while (0)

#endif
