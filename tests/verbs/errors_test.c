/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every error that the manual lists, one row each in errors/NOUN.def: the call, the mistake and the
 * result. docs/ERRORS.md is the output of `--table`, and `abi errors` compares the two.
 *
 *	NULLS(verb, mistake, errno, call)	returns NULL and sets errno
 *	ERRNO(verb, mistake, errno, call)	returns the errno value
 *	MINUS(verb, mistake, errno, call)	returns -1 and sets errno
 *	COMMAND(verb, mistake, errno, call)	returns IBV_REREG_MR_ERR_CMD and sets errno
 *	NEGATIVE(verb, mistake, errno, call)	returns the negative errno value
 *	VALUE(verb, case, value, call)		not an error: returns the value
 *	SHOWN(verb, mistake, result, test, function)	covered by another test
 *
 * The rows share their objects and must leave them unchanged: at the end the test destroys all of
 * them.
 */
#include <errno.h>
#include <stdio.h>

#include "errors/bench.h"

enum form {
	FORM_NULL,
	FORM_ERRNO,
	FORM_MINUS,
	FORM_COMMAND,
	FORM_NEGATIVE,
	FORM_VALUE,
	FORM_SHOWN,	/* covered by another test */
	FORM_CHAPTER,
};

#define GLUE_(a, b)	       a##b
#define GLUE(a, b)	       GLUE_(a, b)
#define CALL(...)                                                                                  \
	static long GLUE(FILE_TAG, __LINE__)(void)                                                 \
	{                                                                                          \
		return (long)(__VA_ARGS__);                                                        \
	}
#define CHAPTER(name)
#define NULLS(v, m, e, ...)    CALL(__VA_ARGS__)
#define ERRNO(v, m, e, ...)    CALL(__VA_ARGS__)
#define MINUS(v, m, e, ...)    CALL(__VA_ARGS__)
#define COMMAND(v, m, e, ...)  CALL(__VA_ARGS__)
#define NEGATIVE(v, m, e, ...) CALL(__VA_ARGS__)
#define VALUE(v, m, e, ...)    CALL(__VA_ARGS__)
#define SHOWN(v, m, a, t, f)

#include "errors/chapters.def"

#undef CHAPTER
#undef NULLS
#undef ERRNO
#undef MINUS
#undef COMMAND
#undef NEGATIVE
#undef VALUE
#undef SHOWN
#define ROW(form, v, m, name, e) { form, #v, m, name, e, GLUE(FILE_TAG, __LINE__), NULL, NULL },
#define CHAPTER(name)	       { FORM_CHAPTER, name, NULL, NULL, 0, NULL, NULL, NULL },
#define NULLS(v, m, e, ...)    ROW(FORM_NULL, v, m, #e, e)
#define ERRNO(v, m, e, ...)    ROW(FORM_ERRNO, v, m, #e, e)
#define MINUS(v, m, e, ...)    ROW(FORM_MINUS, v, m, #e, e)
#define COMMAND(v, m, e, ...)  ROW(FORM_COMMAND, v, m, #e, e)
#define NEGATIVE(v, m, e, ...) ROW(FORM_NEGATIVE, v, m, #e, e)
#define VALUE(v, m, e, ...)    ROW(FORM_VALUE, v, m, #e, e)
#define SHOWN(v, m, a, t, f)   { FORM_SHOWN, #v, m, a, 0, NULL, t, f },

static const struct row {
	enum form form;
	const char *verb, *mistake, *answer;
	long value;
	long (*call)(void);
	const char *test, *function;	/* FORM_SHOWN */
} rows[] = {
#include "errors/chapters.def"
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* The value that the call must return. */
static long wanted(const struct row *r)
{
	switch (r->form) {
	case FORM_NULL:
		return 0;
	case FORM_MINUS:
		return -1;
	case FORM_COMMAND:
		return IBV_REREG_MR_ERR_CMD;
	case FORM_NEGATIVE:
		return -r->value;
	default:
		return r->value;
	}
}

/* Returns 1 on failure instead of exiting, so that one run reports all failing rows. */
static int run_row(const struct row *r)
{
	long got;

	if (!r->call)
		return 0;
	errno = 0;
	got = r->call();
	if (got != wanted(r)) {
		printf("%s, %s: gives %ld, wanted %ld\n", r->verb, r->mistake, got, wanted(r));
		return 1;
	}
	if ((r->form == FORM_NULL || r->form == FORM_MINUS || r->form == FORM_COMMAND) &&
	    errno != r->value) {
		printf("%s, %s: errno %d, wanted %s\n", r->verb, r->mistake, errno, r->answer);
		return 1;
	}
	return 0;
}

static void print_answer(const struct row *r)
{
	static const char *const before[] = {
		[FORM_NULL] = "NULL, `", [FORM_ERRNO] = "`", [FORM_MINUS] = "-1, `",
		[FORM_COMMAND] = "-4 (`IBV_REREG_MR_ERR_CMD`), `",
		[FORM_NEGATIVE] = "`-", [FORM_VALUE] = "", [FORM_SHOWN] = "",
	};

	printf("%s%s%s", before[r->form], r->answer, r->form < FORM_VALUE ? "`" : "");
}

/* The tables of docs/ERRORS.md. */
static void print_table(void)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct row *r = &rows[i];

		if (r->form == FORM_CHAPTER) {
			printf("\n## %s\n\n| Verb | Mistake | Answer | Test |\n|---|---|---|---|\n",
			       r->verb);
			continue;
		}
		printf("| `%s` | %s | ", r->verb, r->mistake);
		print_answer(r);
		printf(" | %s%s%s |\n", r->test ? r->test : "verbs errors",
		       r->function && *r->function ? ": " : "", r->function ? r->function : "");
	}
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc > 1 && !strcmp(argv[1], "--table")) {
		print_table();
		return 0;
	}
	bench_open();
	for (size_t i = 0; i < N_ROWS; i++)
		failed += run_row(&rows[i]);
	CHECK_EQ(failed, 0);
	bench_close();
	printf("%zu rows\n", N_ROWS);
	return 0;
}
