/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Call stacks by names. A return address is looked up in the symbols of the file that is mapped
 * there, as that file is now on this machine; without one it is the module and the offset in it.
 * Recordings name any file, and files hold anything: only regular ones are read, and all offsets
 * are checked.
 */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"
#include "trace.h"
#include "util/compiler.h"

enum {
	TABLE_MAX = 256 << 20,	/* bytes of a table that is read */
	MODULES_MAX = 65536,
};

struct symbol {
	uint64_t addr, size;
	uint32_t name;
};

/* Of a file; kept for all recordings. */
struct image {
	struct image *next;
	char *path;
	uint64_t first;		/* address of its first segment */
	struct symbol *symbol;	/* by address */
	size_t n;
	char *names;
	size_t names_len;	/* the last is a zero */
};

struct module {
	size_t file;
	uint64_t base, length;
	struct image *image;
};

struct trace_stacks {
	struct module *module;
	size_t n;
	struct image *images;
};

static void *need(void *p)
{
	if (!p)
		exit(complain(EXIT_FAILED, "out of memory"));
	return p;
}

/* ---------------------------------------------------------------- files */

/* NULL: it is not there. One byte more, a zero. */
static void *read_part(int fd, uint64_t at, uint64_t len)
{
	char *data;

	if (len > TABLE_MAX || at > INT64_MAX - len)
		return NULL;
	data = need(malloc(len + 1));
	for (size_t got = 0; got < len;) {
		ssize_t n = pread(fd, data + got, len - got, (off_t)(at + got));

		if (n <= 0) {
			free(data);
			return NULL;
		}
		got += (size_t)n;
	}
	data[len] = '\0';
	return data;
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void take_symbols(struct image *m, const Elf64_Sym *sym, size_t n)
{
	m->symbol = need(calloc(n + 1, sizeof(*m->symbol)));
	for (size_t i = 0; i < n; i++)
		if (ELF64_ST_TYPE(sym[i].st_info) == STT_FUNC && sym[i].st_shndx != SHN_UNDEF &&
		    sym[i].st_name < m->names_len)
			m->symbol[m->n++] = (struct symbol){ sym[i].st_value, sym[i].st_size,
							     sym[i].st_name };
	qsort(m->symbol, m->n, sizeof(*m->symbol), by_address);
}

/* The symbols of a section, with the strings that it links to. */
static void read_symbols(struct image *m, int fd, const Elf64_Shdr *all, unsigned int n,
			 const Elf64_Shdr *s)
{
	Elf64_Sym *sym;

	if (s->sh_link >= n)
		return;
	sym = read_part(fd, s->sh_offset, s->sh_size);
	m->names = sym ? read_part(fd, all[s->sh_link].sh_offset, all[s->sh_link].sh_size) : NULL;
	m->names_len = m->names ? all[s->sh_link].sh_size : 0;
	if (m->names)
		take_symbols(m, sym, s->sh_size / sizeof(*sym));
	free(sym);
}

static const Elf64_Shdr *section_of(const Elf64_Shdr *all, unsigned int n, uint32_t type)
{
	for (unsigned int i = 0; i < n; i++)
		if (all[i].sh_type == type)
			return &all[i];
	return NULL;
}

static void read_sections(struct image *m, int fd, const Elf64_Ehdr *h)
{
	Elf64_Shdr *all = read_part(fd, h->e_shoff, h->e_shnum * sizeof(*all));
	const Elf64_Shdr *s;

	if (!all)
		return;
	s = section_of(all, h->e_shnum, SHT_SYMTAB);
	if (!s)
		s = section_of(all, h->e_shnum, SHT_DYNSYM);
	if (s)
		read_symbols(m, fd, all, h->e_shnum, s);
	free(all);
}

static void read_segments(struct image *m, int fd, const Elf64_Ehdr *h)
{
	Elf64_Phdr *all = read_part(fd, h->e_phoff, h->e_phnum * sizeof(*all));

	m->first = UINT64_MAX;
	for (unsigned int i = 0; all && i < h->e_phnum; i++)
		if (all[i].p_type == PT_LOAD)
			m->first = min(m->first, all[i].p_vaddr);
	free(all);
}

static void read_image(struct image *m, int fd)
{
	Elf64_Ehdr *h;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return;
	h = read_part(fd, 0, sizeof(*h));
	if (h && !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
	    h->e_phentsize == sizeof(Elf64_Phdr) && h->e_shentsize == sizeof(Elf64_Shdr)) {
		read_segments(m, fd, h);
		read_sections(m, fd, h);
	}
	free(h);
}

static struct image *image_of(struct trace_stacks *s, const char *path)
{
	struct image *m;
	int fd;

	for (m = s->images; m; m = m->next)
		if (!strcmp(m->path, path))
			return m;
	m = need(calloc(1, sizeof(*m)));
	m->path = need(strdup(path));
	m->next = s->images;
	s->images = m;
	fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	if (fd >= 0) {
		read_image(m, fd);
		close(fd);
	}
	return m;
}

/* ---------------------------------------------------------------- addresses */

struct trace_stacks *trace_stacks_new(void)
{
	return calloc(1, sizeof(struct trace_stacks));
}

void trace_stacks_free(struct trace_stacks *s)
{
	while (s && s->images) {
		struct image *m = s->images;

		s->images = m->next;
		free(m->path);
		free(m->symbol);
		free(m->names);
		free(m);
	}
	if (s)
		free(s->module);
	free(s);
}

static struct module *module_at(const struct trace_stacks *s, size_t file, uint64_t addr)
{
	for (size_t i = s->n; i-- > 0;)	/* the newest there */
		if (s->module[i].file == file && addr - s->module[i].base < s->module[i].length)
			return &s->module[i];
	return NULL;
}

void trace_stacks_see(struct trace_stacks *s, const struct record *r)
{
	const struct record_module *m = r->body;
	struct module *known;
	char path[PATH_MAX];

	if (r->type != RECORD_MODULE || r->tail_len >= sizeof(path))
		return;
	memcpy(path, r->tail, r->tail_len);
	path[r->tail_len] = '\0';
	known = module_at(s, r->file, m->base);
	if (known && known->base == m->base && known->length == m->length)
		known->image = image_of(s, path);
	else if (s->n < MODULES_MAX) {
		if (!(s->n & (s->n - 1)))
			s->module = need(realloc(s->module,
						 max(2 * s->n, (size_t)1) * sizeof(*s->module)));
		s->module[s->n++] = (struct module){ r->file, m->base, m->length,
						     image_of(s, path) };
	}
}

/* The last one that begins at or before the address, and holds it. */
static const struct symbol *symbol_at(const struct image *m, uint64_t addr)
{
	size_t low = 0, high = m->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (m->symbol[middle].addr <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || addr - m->symbol[low - 1].addr >= max(m->symbol[low - 1].size, 1ull))
		return NULL;
	return &m->symbol[low - 1];
}

/* A return address is behind its call, which may be the last instruction of a function. */
static int put_address(const struct trace_stacks *s, size_t file, uint64_t addr, char *text,
		       size_t size)
{
	const struct module *m = module_at(s, file, addr - 1);
	const struct symbol *f;
	const char *base;
	uint64_t at;

	if (!m)
		return snprintf(text, size, "0x%" PRIx64, addr);
	at = addr - m->base;
	f = symbol_at(m->image, at - 1 + m->image->first);
	base = strrchr(m->image->path, '/') ? strrchr(m->image->path, '/') + 1 : m->image->path;
	if (!f)
		return snprintf(text, size, "%.64s+0x%" PRIx64, base, at);
	return snprintf(text, size, "%.128s+0x%" PRIx64 " (%.64s+0x%" PRIx64 ")",
			m->image->names + f->name, at + m->image->first - f->addr, base, at);
}

void trace_stacks_text(struct trace_stacks *s, const struct record *r, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < r->tail_len / 8 && used < size; i++) {
		uint64_t addr;
		int n;

		memcpy(&addr, (const uint8_t *)r->tail + 8 * i, sizeof(addr));
		n = snprintf(text + used, size - used, "%s", i ? " < " : "");
		used += (size_t)n;
		if (used >= size)
			break;
		n = put_address(s, r->file, addr, text + used, size - used);
		used += (size_t)n;
	}
	trace_make_printable(text);
}
