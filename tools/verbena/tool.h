/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbena tool: one file per subcommand, a table of them in main.c, and common parts in tool.c.
 *
 * Results go to stdout, errors to stderr, one line each.  Single-threaded, except perf.
 */
#ifndef VRB_TOOL_H
#define VRB_TOOL_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

struct json_object;

/* Exit statuses; verbena(1) documents them. */
enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,	/* the operation failed, or doctor found a problem */
	/* invalid option, argument or environment variable */
	EXIT_USAGE = 2,
	EXIT_NO_DEVICE = 3,	/* no such device, or none at all */
	EXIT_REFUSED = 4,	/* denied by the system: permissions, limits */
	EXIT_CANNOT_RUN = 126,	/* run: the program cannot be started */
	EXIT_NOT_FOUND = 127,	/* run: no such program */
};

struct command {
	const char *name;
	int (*run)(int argc, char **argv);	/* argv[0] is the command's name */
	const char *args;
	const char *help;
	bool any_environment;	/* works with an invalid $VERBENA_* */
};

int cmd_run(int argc, char **argv);
int cmd_rdma(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_gids(int argc, char **argv);
int cmd_netdevs(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_fault(int argc, char **argv);
int cmd_capture(int argc, char **argv);
int cmd_perf(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_completion(int argc, char **argv);

/* Programs with other names: links to the same binary that behave like rdma-core's. */
int alias_ibv_devices(int argc, char **argv);
int alias_ibv_devinfo(int argc, char **argv);
int alias_ibv_asyncwatch(int argc, char **argv);
int alias_show_gids(int argc, char **argv);
int alias_ibdev2netdev(int argc, char **argv);
int alias_device_info(int argc, char **argv);

extern const struct command commands[];

/* A $VERBENA_* is invalid; its first error has been printed. */
bool environment_is_bad(void);

/* "EINVAL"; NULL: none is known. */
const char *tool_errno_name(int value);

/* Prints one line on stderr, "verbena NAME: ...".  Returns status. */
int complain(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The command named by complain(). */
extern const char *tool_command;

/*
 * getopt_long() for a command: unknown options are reported in one line, and '?' means "return
 * EXIT_USAGE".  --help prints the command's usage and exits.
 */
struct option;
int next_option(int argc, char **argv, const char *letters, const struct option *options,
		const char *help);

/* Prints the usage of the command that complain() names, and its options. */
void print_help(const char *help);

/* Returns false, after an error message, if there are arguments after the options. */
bool no_arguments(int argc, char **argv, int first);

/*
 * Lists all devices; NULL after an error message, with *status set.  Free with
 * ibv_free_device_list().
 */
struct ibv_device **all_devices(int *count, int *status);

/* Opens the named device, NULL: the first one.  NULL after an error message, with *status set. */
struct ibv_context *open_device(const char *name, int *status);

/* The interface behind a port, by its first GID; "" if it has none. */
void port_netdev(struct ibv_context *ctx, unsigned int port, char name[16]);

/* True if the interface is up and running. */
bool netdev_is_up(const char *name);

/* Exported by libibverbs for providers and tools, but in no public header. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* A string; what is not UTF-8 in it is replaced, for JSON must be. */
struct json_object *json_text(const char *text);

/* Prints it with a newline, and frees it. */
void print_json(struct json_object *o);

/* Escape sequence if stdout is a terminal (and $NO_COLOR is not set), else "". */
const char *colour(const char *sequence);
#define BOLD   colour("\033[1m")
#define RED    colour("\033[31m")
#define GREEN  colour("\033[32m")
#define YELLOW colour("\033[33m")
#define PLAIN  colour("\033[0m")

/* "a:b:c" groups of four digits. */
void group_text(const unsigned char *raw, size_t len, char *text);

#endif
