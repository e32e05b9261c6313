/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Formats a record into a buffer of the caller's stack and writes it at once.  Owns the descriptor
 * of the log file, which stays open for the life of the process.  No lock: thresholds and
 * descriptor are set once, before the first record.
 */
#include "run/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "run/clock.h"
#include "run/config.h"
#include "util/cancel.h"
#include "util/file_room.h"
#include "util/time.h"

enum { LINE = 1024 };

uint8_t log_threshold[LOG_MODULES] = {
	[0 ... LOG_MODULES - 1] = LOG_TRACE,
};

static bool configured;		/* released by log_configure(), acquired by log_write() */
static int log_fd = STDERR_FILENO;	/* -1: none */

const char *const log_level_names[LOG_LEVELS] = {
	[LOG_OFF] = "off",   [LOG_ERROR] = "error", [LOG_WARN] = "warn",
	[LOG_INFO] = "info", [LOG_DEBUG] = "debug", [LOG_TRACE] = "trace",
};

const char *const log_module_names[LOG_MODULES] = {
	[LOG_VERBS] = "verbs", [LOG_CORE] = "core", [LOG_LOCAL] = "local", [LOG_ROCE] = "roce",
	[LOG_WIRE] = "wire",   [LOG_HOST] = "host", [LOG_RUN] = "run",
	[LOG_FAULT] = "fault",
};

/*
 * A program that starts without standard error gets its number for another file, perhaps for one of
 * ours, where no line must go.
 */
static __attribute__((constructor)) void look_at_standard_error(void)
{
	int before = errno;

	if (fcntl(STDERR_FILENO, F_GETFD) < 0)
		log_fd = -1;
	errno = before;
}

static int open_log(const char *file)
{
	return file_above_stdio(
		open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600));
}

void log_configure(const uint8_t threshold[LOG_MODULES], const char *file)
{
	int failed = 0;
	int i;

	if (file[0]) {
		int fd = open_log(file);

		failed = fd < 0 ? errno : 0;
		log_fd = fd < 0 ? log_fd : fd;
	}
	for (i = 0; i < LOG_MODULES; i++)
		store_relaxed(&log_threshold[i], threshold[i]);
	store_release(&configured, true);
	if (failed) {
		errno = failed;
		log_warn(LOG_RUN, "cannot append to VERBENA_LOG_FILE %s: %m", file);
	}
}

static size_t format_head(char line[LINE], enum log_module module, enum log_level level)
{
	uint64_t now = clock_now();
	int n = snprintf(line, LINE, "verbena %llu.%06u [%d] %s %s: ",
			 (unsigned long long)(now / VRB_SECOND),
			 (unsigned int)(now % VRB_SECOND / VRB_USEC), (int)getpid(),
			 log_level_names[level], log_module_names[module]);

	return (size_t)n;
}

static void write_line(const char *line, size_t len)
{
	ssize_t n;

	if (!file_may_grow(log_fd, len))
		return;
	do
		n = sys_write(log_fd, line, len);
	while (n == -EINTR);
}

void log_write(enum log_module module, enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[LINE];
	va_list ap;
	size_t len;
	int n;

	if (!load_acquire(&configured))
		config_get();
	if (level > load_relaxed(&log_threshold[module]))
		goto out;
	len = format_head(line, module, level);
	errno = saved;
	va_start(ap, fmt);
	n = vsnprintf(line + len, sizeof(line) - 1 - len, fmt, ap);
	va_end(ap);
	if (n > 0)
		len = min(len + (size_t)n, sizeof(line) - 2);
	line[len++] = '\n';
	write_line(line, len);
out:
	errno = saved;
}

bool log_first(bool *seen)
{
	return !swap_acq_rel(seen, true);
}

bool log_seldom(uint64_t *stamp)
{
	uint64_t last = load_relaxed(stamp);
	uint64_t now = clock_now();

	if (last && now - last < VRB_SECOND)
		return false;
	return cas_acq_rel(stamp, &last, now);
}
