/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"
#include "util/compiler.h"

#define SUFFIX ".vrec"

static int add_file(struct trace *t, const char *path)
{
	int err, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return complain(errno == EACCES ? EXIT_REFUSED : EXIT_FAILED, "%s: %s", path,
				strerror(errno));
	err = record_reader_add(t->reader, fd);
	if (err)
		close(fd);
	switch (err) {
	case 0:
		return 0;
	case EINVAL:
		return complain(EXIT_FAILED, "%s is no recording", path);
	case ENOTSUP:
		return complain(EXIT_FAILED, "%s: a recording of another version", path);
	default:
		return complain(EXIT_FAILED, "%s: %s", path, strerror(err));
	}
}

static bool is_recording(const char *name)
{
	size_t n = strlen(name);

	return n > strlen(SUFFIX) && strcmp(name + n - strlen(SUFFIX), SUFFIX) == 0;
}

static int only_recordings(const struct dirent *e)
{
	return is_recording(e->d_name);
}

/*
 * A file of it that cannot be read is told and left out: the machine may have crashed before the
 * others had all their bytes, too.
 */
static int add_folder(struct trace *t, const char *folder)
{
	struct dirent **list;
	int status = 0, added = 0, n = scandir(folder, &list, only_recordings, alphasort);

	if (n < 0)
		return complain(errno == EACCES ? EXIT_REFUSED : EXIT_FAILED, "%s: %s", folder,
				strerror(errno));
	if (!n)
		status = complain(EXIT_FAILED, "%s: no recording (*" SUFFIX ") in it", folder);
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", folder, list[i]->d_name);
		status = add_file(t, path);
		added += !status;
		free(list[i]);
	}
	free(list);
	return added ? 0 : status;
}

void trace_make_printable(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || (unsigned char)*s >= 0x7f)
			*s = '?';
}

static void make_label(char label[80], const struct record_origin *o, bool hosts)
{
	char name[sizeof(o->command)];
	const char *base;

	snprintf(name, sizeof(name), "%s", o->command);
	name[strcspn(name, " ")] = 0;
	base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
	snprintf(label, 80, "%.20s%s%.20s.%u", hosts ? o->host : "", hosts ? "/" : "", base,
		 o->pid);
	trace_make_printable(label);
}

static int label_files(struct trace *t)
{
	bool hosts = false;

	t->files = record_reader_files(t->reader);
	t->label = calloc(t->files, sizeof(*t->label));
	if (!t->label)
		return complain(EXIT_FAILED, "out of memory");
	for (size_t i = 0; i < t->files; i++)
		hosts |= strcmp(record_reader_file(t->reader, i)->origin.host,
				record_reader_file(t->reader, 0)->origin.host) != 0;
	for (size_t i = 0; i < t->files; i++)
		make_label(t->label[i], &record_reader_file(t->reader, i)->origin, hosts);
	return 0;
}

/* All on the common clock, from the first record on. */
static int begin(struct trace *t)
{
	int err, status = trace_align(t);

	if (status)
		return status;
	err = record_reader_start(t->reader, t->ahead);
	if (err)
		return complain(EXIT_FAILED, "%s", strerror(err));
	t->begin = UINT64_MAX;
	for (size_t i = 0; i < t->files; i++) {
		uint64_t at = record_reader_file(t->reader, i)->origin.started;

		t->begin = min(t->begin, at - (uint64_t)t->ahead[i]);
	}
	return 0;
}

int trace_open(struct trace *t, char **names)
{
	int status = 0;

	*t = (struct trace){ .reader = record_reader_new(), .stacks = trace_stacks_new() };
	if (!t->reader || !t->stacks)
		status = complain(EXIT_FAILED, "out of memory");
	else if (!*names)
		status = complain(EXIT_USAGE, "no recording given; try --help");
	for (; *names && !status; names++) {
		struct stat st;

		if (stat(*names, &st) == 0 && S_ISDIR(st.st_mode))
			status = add_folder(t, *names);
		else
			status = add_file(t, *names);
	}
	if (!status)
		status = label_files(t);
	if (!status)
		status = begin(t);
	if (status)
		trace_close(t);
	return status;
}

void trace_close(struct trace *t)
{
	if (t->reader)
		record_reader_free(t->reader);
	trace_stacks_free(t->stacks);
	for (size_t i = 0; t->lead && i < t->files; i++)
		free(t->lead[i]);
	free(t->lead);
	free(t->ahead);
	free(t->label);
}

bool trace_next(struct trace *t, struct record *r, int *status)
{
	int err = record_reader_next(t->reader, r);

	if (err && err != ENODATA)
		*status = complain(EXIT_FAILED, "%s", strerror(err));
	if (!err)
		trace_stacks_see(t->stacks, r);
	return !err;
}

uint64_t trace_wall(const struct trace *t, uint64_t time)
{
	const struct record_origin *o = &record_reader_file(t->reader, 0)->origin;

	return time - o->started + o->wall;
}

/* "-": stdout; NULL, after an error message. */
static FILE *create(const char *name)
{
	FILE *f = strcmp(name, "-") ? fopen(name, "wb") : stdout;

	if (!f)
		complain(EXIT_FAILED, "%s: %s", name, strerror(errno));
	return f;
}

static int finish(FILE *f, const char *name)
{
	bool failed = fflush(f) || ferror(f);
	int err = errno;

	if (f != stdout)
		fclose(f);
	return failed ? complain(EXIT_FAILED, "%s: %s", name, strerror(err)) : EXIT_OK;
}

int trace_convert(int argc, char **argv, int (*convert)(struct trace *t, FILE *out))
{
	static const struct option options[] = { { "output", required_argument, NULL, 'o' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	const char *name = "-";
	int c, status, end;
	struct trace t;
	FILE *out;

	while ((c = next_option(argc, argv, ":o:h", options,
				"  -o, --output FILE   instead of stdout\n"
				"  FILE...             recordings, or folders of them\n")) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		name = optarg;
	}
	status = trace_open(&t, argv + optind);
	if (status)
		return status;
	out = create(name);
	status = out ? convert(&t, out) : EXIT_FAILED;
	end = out ? finish(out, name) : status;
	trace_close(&t);
	return status ? status : end;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} actions[] = {
	{ "show", trace_show },
	{ "summary", trace_summary },
	{ "pcapng", trace_pcapng },
	{ "perfetto", trace_perfetto },
	{ "html", trace_html },
};

int cmd_trace(int argc, char **argv)
{
	if (argc < 2)
		return complain(EXIT_USAGE, "show, summary, pcapng, perfetto or html? try --help");
	for (unsigned int i = 0; i < ARRAY_SIZE(actions); i++)
		if (strcmp(argv[1], actions[i].name) == 0)
			return actions[i].run(argc - 1, argv + 1);
	if (argv[1][0] == '-')
		return trace_show(argc, argv);
	return complain(EXIT_USAGE, "no action '%s'; try --help", argv[1]);
}
