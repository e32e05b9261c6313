/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Standard I/O over rsockets. The C library's streams and dprintf() enter the system without a call
 * that can be intercepted, and would find the number's placeholder. So a stream of a number is
 * one with functions of its own, whose fileno() is the number.  So is a standard stream once its
 * number has been a socket; it goes on with what the number stands for.
 */
#include "rspreload/stdio.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <unistd.h>

#include "rspreload/entry.h"
#include "rspreload/real.h"
#include "util/atomic.h"

PRELOAD_EXPORT int __dprintf_chk(int number, int flag, const char *format, ...);
PRELOAD_EXPORT int __vdprintf_chk(int number, int flag, const char *format, va_list args);

enum { IS_UNBUFFERED = 2 /* glibc's _IO_UNBUFFERED */ };

static bool any_stream; /* atomic */

static bool is_socket(int number)
{
	const struct entry *e = entry_find(number);

	return e && e->kind != ENTRY_EPOLL;
}

/* Returns how many were written: fewer after an error. */
static size_t write_all(int number, const char *buf, size_t n)
{
	size_t done = 0;
	ssize_t some;

	do {
		some = write(number, buf + done, n - done);
		if (some > 0)
			done += (size_t)some;
	} while (done < n && some > 0);
	return done;
}

/* ---- Streams ---- */

static int number_of(void *cookie)
{
	return (int)(intptr_t)cookie;
}

static ssize_t stream_read(void *cookie, char *buf, size_t n)
{
	return read(number_of(cookie), buf, n);
}

static ssize_t stream_write(void *cookie, const char *buf, size_t n)
{
	return (ssize_t)write_all(number_of(cookie), buf, n);
}

static int stream_seek(void *cookie, off64_t *at, int whence)
{
	errno = ESPIPE;
	return -1;
}

static int stream_close(void *cookie)
{
	return close(number_of(cookie));
}

static FILE *open_stream(int number, const char *mode)
{
	static const cookie_io_functions_t calls = { stream_read, stream_write, stream_seek,
						     stream_close };
	FILE *f = fopencookie((void *)(intptr_t)number, mode, calls);

	if (!f)
		return NULL;
#ifdef HAVE_FILE_MEMBERS
	f->_fileno = number;
#endif
	store_relaxed(&any_stream, true);
	return f;
}

PRELOAD_EXPORT FILE *fdopen(int number, const char *mode)
{
	return is_socket(number) ? open_stream(number, mode) : real()->fdopen(number, mode);
}

#ifdef HAVE_FILE_MEMBERS
static FILE **standard_stream(int number)
{
	return number == STDIN_FILENO ? &stdin : number == STDOUT_FILENO ? &stdout : &stderr;
}

/* What the program has written and not flushed is for the socket, as it would be with TCP. */
static void inherit(FILE *from, FILE *to)
{
	const bool none = from->_flags & IS_UNBUFFERED;

	if (none || __flbf(from))
		setvbuf(to, NULL, none ? _IONBF : _IOLBF, 0);
	if (!__fwritable(from) || !__fpending(from))
		return;
	fwrite(from->_IO_write_base, 1, __fpending(from), to);
	__fpurge(from);
}

void stdio_follow(int number)
{
	static bool follows[STDERR_FILENO + 1];
	FILE **stream, *made;

	if (number > STDERR_FILENO || follows[number])
		return;
	stream = standard_stream(number);
	made = open_stream(number, number == STDIN_FILENO ? "r" : "w");
	if (!made)
		return;
	follows[number] = true;
	inherit(*stream, made);
	*stream = made;
}
#else
/* musl's standard streams are constants. */
void stdio_follow(int number)
{
}
#endif

/* exit() writes what is buffered when librdmacm has ended already. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	if (load_relaxed(&any_stream))
		fflush(NULL);
}

/* ---- dprintf() ---- */

PRELOAD_EXPORT int vdprintf(int number, const char *format, va_list args)
{
	char *text;
	size_t done;
	int n;

	if (!is_socket(number))
		return real()->vdprintf(number, format, args);
	n = vasprintf(&text, format, args);
	if (n < 0)
		return -1;
	pthread_cleanup_push(free, text);
	done = write_all(number, text, (size_t)n);
	pthread_cleanup_pop(1);
	return done == (size_t)n ? n : -1;
}

PRELOAD_EXPORT int dprintf(int number, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vdprintf(number, format, args);
	va_end(args);
	return n;
}

PRELOAD_EXPORT int __vdprintf_chk(int number, int flag, const char *format, va_list args)
{
	return is_socket(number) ? vdprintf(number, format, args)
				 : real()->__vdprintf_chk(number, flag, format, args);
}

PRELOAD_EXPORT int __dprintf_chk(int number, int flag, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = __vdprintf_chk(number, flag, format, args);
	va_end(args);
	return n;
}
