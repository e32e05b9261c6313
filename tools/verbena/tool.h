/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbena tool: one subcommand a file, a table of them in main.c, and what they share (tool.c).
 *
 * Results go to stdout, complaints to stderr, one line each.  Single-threaded but for perf.
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
	EXIT_FAILED = 1,	/* what was asked for failed, or doctor found a problem */
	EXIT_USAGE = 2,		/* an option, an argument or an environment variable that cannot be understood */
	EXIT_NO_DEVICE = 3,	/* no such device, or none at all */
	EXIT_REFUSED = 4,	/* the system refuses: permissions, limits */
	EXIT_CANNOT_RUN = 126,	/* run: the program is there but cannot be started */
	EXIT_NOT_FOUND = 127,	/* run: there is no such program */
};

struct command {
	const char *name;
	int (*run)(int argc, char **argv);	/* argv[0] is the command's name */
	const char *args;
	const char *help;
	bool any_environment;	/* works although $VERBENA_* cannot be understood */
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
int cmd_capture(int argc, char **argv);
int cmd_perf(int argc, char **argv);
int cmd_completion(int argc, char **argv);

/* Programs of other names: the same binary, called by a link. They answer as their namesakes do. */
int alias_ibv_devices(int argc, char **argv);
int alias_ibv_devinfo(int argc, char **argv);
int alias_ibv_asyncwatch(int argc, char **argv);
int alias_show_gids(int argc, char **argv);
int alias_ibdev2netdev(int argc, char **argv);
int alias_device_info(int argc, char **argv);

extern const struct command commands[];

/* $VERBENA_* cannot be understood; the first complaint has been told. */
bool environment_is_bad(void);

/* One line on stderr, "verbena NAME: ...". Returns status. */
int complain(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The command that complain() names. */
extern const char *tool_command;

/*
 * getopt_long() for a command: unknown options are told in one line.  '?' then means "return EXIT_USAGE".
 * --help prints the command's line and its options, and ends the program.
 */
struct option;
int next_option(int argc, char **argv, const char *letters, const struct option *options,
		const char *help);

/* Nothing may be left after the options; says so and returns false otherwise. */
bool no_arguments(int argc, char **argv, int first);

/* All devices; NULL after a complaint, with *status set. Free with ibv_free_device_list(). */
struct ibv_device **all_devices(int *count, int *status);

/* Opens the named device, NULL: the first one. NULL after a complaint, with *status set. */
struct ibv_context *open_device(const char *name, int *status);

/* The interface behind a port: the one of its first GID; "" if it has none. */
void port_netdev(struct ibv_context *ctx, unsigned int port, char name[16]);

/* Is the interface up and running? */
bool netdev_is_up(const char *name);

/* Exported by libibverbs for its providers and tools, and declared in none of its public headers. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* Prints, adds a newline, frees. */
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
