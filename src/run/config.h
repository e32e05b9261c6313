/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The environment, read once.  An invalid value is reported in one warning line, and the default is
 * used. A set-user-ID or otherwise privileged-on-exec program ignores the environment.
 *
 *	VERBENA_TRANSPORT   auto (default) | udp | local
 *	VERBENA_UDP_PORT    1..65535, default 4791
 *	VERBENA_DEVICES     comma-separated.  "ifname" restricts the devices to those listed;
 *	                    "name=ifname" names the device of an interface, a second one for the
 *	                    same interface adds a device.  If all entries have names, interfaces
 *	                    that are not listed keep theirs.
 *	VERBENA_DIR         absolute path of the run directory that processes of one host share
 *	VERBENA_LOG         a level (off error warn info debug trace), then module=level ...:
 *	                    "warn,wire=debug"
 *	VERBENA_LOG_FILE    file to which records are appended instead of stderr
 *	VERBENA_SEED        decimal or 0x number: makes the random numbers repeatable
 *	VERBENA_RAW         auto (default) | packet | virtual: how raw packet QPs reach their
 *	                    interface
 *	VERBENA_ECN         on (default) | off: off, routers drop packets instead of marking them
 *	VERBENA_RECEIVERS   auto (default) | 1..8: how many threads can receive from the wire at
 *	                    once; auto: one, and more once several threads poll
 *	VERBENA_RECORD      folder where each process writes a recording (docs/RECORD.md)
 *	VERBENA_RECORD_WHAT verbs,packets,engine (default); memory: whole payloads, too; stacks:
 *	                    call stacks of posts
 *	VERBENA_RECORD_SIZE MiB of a recording, which keeps the newest records; default 16;
 *	                    all: keeps everything
 *	VERBENA_FAULTS      fault injection rules, or @ and the name of a file with rules
 *	VERBENA_PROGRESS    thread (default) | none: without the progress thread, programs must poll
 */
#ifndef VRB_RUN_CONFIG_H
#define VRB_RUN_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "run/log.h"

enum config_transport {
	CONFIG_AUTO,
	CONFIG_UDP,
	CONFIG_LOCAL,
};

enum config_raw {
	/* packet sockets; if not permitted, the virtual segment on loopback */
	CONFIG_RAW_AUTO,
	CONFIG_RAW_PACKET,
	CONFIG_RAW_VIRTUAL,
};

/* Bits of VERBENA_RECORD_WHAT. */
enum config_record {
	CONFIG_RECORD_VERBS = 1,
	CONFIG_RECORD_PACKETS = 2,
	CONFIG_RECORD_ENGINE = 4,
	CONFIG_RECORD_MEMORY = 8,
	CONFIG_RECORD_STACKS = 16,
};

enum {
	CONFIG_DEVICES = 64,	/* entries in VERBENA_DEVICES */
	CONFIG_RECEIVERS = 8,	/* VERBENA_RECEIVERS at most */
	CONFIG_FAULTS = 16384,	/* bytes of VERBENA_FAULTS */
};

struct config_device {
	char ifname[16];
	char name[64];		/* empty: the default name */
};

struct config {
	enum config_transport transport;
	enum config_raw raw;
	uint16_t udp_port;
	bool restrict_devices;	/* only interfaces in device[] have devices */
	bool progress_thread;
	bool ecn;
	unsigned int receivers;	/* 0: as many as it takes */
	unsigned int n_devices;
	struct config_device device[CONFIG_DEVICES];
	char dir[PATH_MAX];	/* empty: host/dir.c chooses */
	uint8_t log_level[LOG_MODULES];
	char log_file[PATH_MAX];	/* empty: stderr */
	bool seeded;
	uint64_t seed;
	char record[PATH_MAX];	/* empty: nothing is recorded */
	uint32_t record_what;	/* bits of enum config_record */
	uint32_t record_mib;	/* 0: everything */
	char faults[CONFIG_FAULTS];	/* as it is: core/fault/plan.h reads it */
	bool faults_too_long;	/* core/fault/plan.h refuses it, as it does invalid rules */
};

/* The configuration of this process. Immutable after the first call; any thread. */
const struct config *config_get(void);

typedef const char *(*config_lookup_fn)(void *arg, const char *name);
typedef void (*config_complain_fn)(void *arg, const char *line);

/*
 * Fills *cfg from what lookup returns for the names above (NULL: unset); complain gets one line for
 * each bad value.
 */
void config_parse(struct config *cfg, config_lookup_fn lookup, config_complain_fn complain,
		  void *arg);

/*
 * A random number: from the kernel, or from the sequence of $VERBENA_SEED, which is then no secret.
 * Any thread.
 */
uint64_t config_random(void);

#endif
