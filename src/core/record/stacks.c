/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The call stacks of posts. A module is looked up once in each chunk of a thread, so that a ring
 * never loses the module of a stack that it keeps.
 */
#ifdef HAVE_EXECINFO_H
#include <execinfo.h>
#else
#include <unwind.h>
#endif
#include <limits.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "core/record/recorder.h"
#include "run/clock.h"
#include "util/compiler.h"

enum { OWN = 16 };	/* frames of the library above the program's call, at most */

/* The library's own mapping; empty in a program that contains it. */
static struct record_module own;

struct wanted {
	uintptr_t addr;
	struct record_module module;
	const char *path;	/* empty: the program */
};

static bool holds(const struct record_module *m, uintptr_t addr)
{
	return addr - m->base < m->length;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct wanted *w = arg;
	uintptr_t first = UINTPTR_MAX, end = 0;

	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD)
			continue;
		first = min(first, (uintptr_t)(info->dlpi_addr + p->p_vaddr));
		end = max(end, (uintptr_t)(info->dlpi_addr + p->p_vaddr + p->p_memsz));
	}
	w->module = (struct record_module){ first, end > first ? end - first : 0 };
	w->path = info->dlpi_name;
	return holds(&w->module, w->addr);
}

static bool find_module(struct wanted *w)
{
	return dl_iterate_phdr(look_at, w) != 0;
}

#ifndef HAVE_EXECINFO_H
struct walk {
	void **frame;
	int n, max;
};

static _Unwind_Reason_Code put_frame(struct _Unwind_Context *context, void *arg)
{
	struct walk *w = arg;

	if (w->n == w->max)
		return _URC_END_OF_STACK;
	w->frame[w->n++] = (void *)_Unwind_GetIP(context);
	return _URC_NO_REASON;
}

/* musl has none. */
static int backtrace(void **frame, int max)
{
	struct walk w = { frame, 0, max };

	_Unwind_Backtrace(put_frame, &w);
	return w.n;
}
#endif

/* backtrace(3) loads a library when it is first called. */
void vrb_record_stacks_start(void)
{
	struct wanted w = { .addr = (uintptr_t)vrb_record_stacks_start };
	void *frame[1];

	backtrace(frame, 1);
	if (find_module(&w) && w.path[0])
		own = w.module;
}

static void put_module(struct recorder *r, const struct wanted *w)
{
	char self[PATH_MAX];
	const char *path = w->path;
	struct record_module *out;
	size_t len = strlen(path);

	if (!len) {
		ssize_t n = readlink("/proc/self/exe", self, sizeof(self));

		path = self;
		len = n > 0 ? (size_t)n : 0;
	}
	out = recorder_reserve(r, sizeof(*out) + len);
	if (!out)
		return;
	*out = w->module;
	memcpy(out + 1, path, len);
	record_commit(&r->writer, RECORD_MODULE, sizeof(*out) + len, clock_now());
	recorder_renew(r);
	if (r->modules < RECORDER_MODULES)
		r->module[r->modules++] = w->module;
}

static void tell_module(struct recorder *r, uintptr_t addr)
{
	struct wanted w = { .addr = addr };

	for (unsigned int i = 0; i < r->modules; i++)
		if (holds(&r->module[i], addr))
			return;
	if (r->modules < RECORDER_MODULES && find_module(&w))
		put_module(r, &w);
}

/*
 * Skips the library's own frames, and what is above them: a tool that replaces backtrace(3), as
 * AddressSanitizer does.
 */
static int first_of_program(void *const *frame, int n)
{
	int i = 0;

	while (i < n && !holds(&own, (uintptr_t)frame[i]))
		i++;
	if (i == n)
		return 0;
	while (i < n && holds(&own, (uintptr_t)frame[i]))
		i++;
	return i;
}

unsigned int vrb_record_stack(struct recorder *r, void *frame[RECORD_DEPTH])
{
	void *all[RECORD_DEPTH + OWN];
	int n = backtrace(all, ARRAY_SIZE(all)), skip = first_of_program(all, n);
	unsigned int depth;

	depth = min((unsigned int)(n - skip), (unsigned int)RECORD_DEPTH);
	memcpy(frame, all + skip, depth * sizeof(*frame));
	recorder_renew(r);
	for (unsigned int i = 0; i < depth; i++)
		tell_module(r, (uintptr_t)frame[i]);
	return depth;
}
