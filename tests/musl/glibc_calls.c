/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What Debian's libraries and its compiler's unwinder call in glibc, and musl has not, so that they
 * can be used in programs of musl (scripts/check-musl).  The checks that the names promise are left
 * out.
 */
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define CALL(ret, name, params) ret name params; ret name params

/* What printf() and the like do with the arguments after the format. */
#define FORMATTED(call)                                                                            \
	({                                                                                         \
		va_list args;                                                                      \
		int n;                                                                             \
		va_start(args, format);                                                            \
		n = call;                                                                          \
		va_end(args);                                                                      \
		return n;                                                                          \
	})

CALL(void *, __memset_chk, (void *to, int c, size_t n, size_t room))
{
	return memset(to, c, n);
}

CALL(char *, __strcat_chk, (char *to, const char *from, size_t room))
{
	return strcat(to, from);
}

CALL(int, __printf_chk, (int flag, const char *format, ...))
{
	FORMATTED(vprintf(format, args));
}

CALL(int, __fprintf_chk, (FILE *f, int flag, const char *format, ...))
{
	FORMATTED(vfprintf(f, format, args));
}

CALL(int, __snprintf_chk, (char *to, size_t n, int flag, size_t room, const char *format, ...))
{
	FORMATTED(vsnprintf(to, n, format, args));
}

CALL(int, __vfprintf_chk, (FILE *f, int flag, const char *format, va_list args))
{
	return vfprintf(f, format, args);
}

CALL(int, __vasprintf_chk, (char **to, int flag, const char *format, va_list args))
{
	return vasprintf(to, format, args);
}

CALL(int, __vsnprintf_chk, (char *to, size_t n, int flag, size_t room, const char *format,
			    va_list args))
{
	return vsnprintf(to, n, format, args);
}

CALL(void, __vsyslog_chk, (int priority, int flag, const char *format, va_list args))
{
	vsyslog(priority, format, args);
}

CALL(void, __longjmp_chk, (jmp_buf to, int value))
{
	longjmp(to, value);
}

/* ---- The unwinder's search for the object of an address ---- */

struct dl_find_object {
	unsigned long long flags;
	void *start, *end, *link_map, *eh_frame;
	unsigned long long reserved[7];
};

struct wanted {
	uintptr_t pc;
	struct dl_find_object *out;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct wanted *w = arg;
	int holds = 0;

	w->out->eh_frame = NULL;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;

		holds |= p->p_type == PT_LOAD && w->pc - at < p->p_memsz;
		if (p->p_type == PT_GNU_EH_FRAME)
			w->out->eh_frame = (void *)at;
	}
	return holds && w->out->eh_frame;
}

CALL(int, _dl_find_object, (void *pc, struct dl_find_object *out))
{
	struct wanted w = { (uintptr_t)pc, out };

	*out = (struct dl_find_object){ 0 };
	return dl_iterate_phdr(look_at, &w) ? 0 : -1;
}
