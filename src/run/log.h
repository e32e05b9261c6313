/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line per record, to stderr or to $VERBENA_LOG_FILE:
 *
 *	verbena 12.345678 [4711] warn wire: port 4791 belongs to another user
 *
 * Which records are written is set per module by $VERBENA_LOG (run/config.h); without it warnings
 * and errors are.  A record that is off costs one load and one predicted branch, its arguments are
 * not evaluated. A record is written with one write(2), so records of several threads and processes
 * do not mix.
 *
 * The first detector of a failure logs it; no caller repeats it.  errno is preserved, "%m"
 * works. May be called with any lock held (leaf), not from a signal handler.
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
};

/* Named in $VERBENA_LOG as the directories of src/ are. */
enum log_module {
	LOG_VERBS,
	LOG_CORE,
	LOG_LOCAL,
	LOG_ROCE,
	LOG_WIRE,
	LOG_HOST,
	LOG_RUN,
	LOG_MODULES,
};

/*
 * Most verbose level that is written, per module.  LOG_TRACE until the first record has made log.c
 * read the configuration.
 */
extern uint8_t log_threshold[LOG_MODULES];

/* Sets thresholds and file ("" = stderr); called once, by config_get(). */
void log_configure(const uint8_t threshold[LOG_MODULES], const char *file);

/* Name of a level or module as in the environment and in records. */
const char *log_level_name(enum log_level level);
const char *log_module_name(enum log_module module);

/* True if records of this level are written (or if it is not yet known). */
static inline bool log_on(enum log_module module, enum log_level level)
{
	return unlikely(level <= load_relaxed(&log_threshold[module]));
}

/* Writes the record if its level is on. */
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

/* True the first time only, per flag. */
bool log_first(bool *seen);

/* At most once per process from this place in the source. */
#define log_once(module, level, ...)                                                               \
	do {                                                                                       \
		static bool seen_;                                                                 \
		if (log_on((module), (level)) && log_first(&seen_))                                \
			log_write((module), (level), __VA_ARGS__);                                 \
	} while (0)

/* True at most once a second, per stamp. */
bool log_seldom(uint64_t *stamp);

/*
 * At most once a second from this place in the source: for what a peer can cause as often as it
 * likes.
 */
#define log_limited(module, level, ...)                                                            \
	do {                                                                                       \
		static uint64_t stamp_;                                                            \
		if (log_on((module), (level)) && log_seldom(&stamp_))                              \
			log_write((module), (level), __VA_ARGS__);                                 \
	} while (0)

#endif
