/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/record/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/device/device.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/hash.h"
#include "util/lock.h"
#include "util/net.h"
#include "util/time.h"

enum {
	MIB = 1 << 20,
	ALL_MIB = 1 << 20,	/* room that a file may take which keeps everything */
	NAMES = 1000,		/* recordings of one process number in a folder */
};

enum { CLOSED, OPEN, FAILED };

static struct lock opening;	/* protects the change of `state` */
static uint32_t state;		/* atomic */
static uint32_t generation;	/* changes with fork, when there is one thread */
static struct recording recording;
uint32_t vrb_record_what;
static pthread_key_t key;
static bool has_key;

static __thread struct recorder *mine static_tls;

/* ---------------------------------------------------------------- the file */

static void read_line(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	for (ssize_t i = 0; i + 1 < n; i++)	/* arguments end with a zero each */
		if (!text[i])
			text[i] = ' ';
	text[strcspn(text, "\n")] = 0;
}

/* The boot ID is a UUID in text. */
static void read_boot_id(uint8_t id[16])
{
	char text[64], digits[3] = { 0 };
	unsigned int n = 0;

	read_line("/proc/sys/kernel/random/boot_id", text, sizeof(text));
	for (const char *p = text; p[0] && p[1] && n < 16; p += 2) {
		if (*p == '-')
			p++;
		memcpy(digits, p, 2);
		id[n++] = (uint8_t)strtoul(digits, NULL, 16);
	}
}

static void identify(struct record_origin *o)
{
	struct timespec wall;
	struct stat ns;

	memset(o, 0, sizeof(*o));
	o->started = clock_now();
	clock_gettime(CLOCK_REALTIME, &wall);
	o->wall = (uint64_t)wall.tv_sec * VRB_SECOND + (uint64_t)wall.tv_nsec;
	o->pid = (uint32_t)getpid();
	gethostname(o->host, sizeof(o->host) - 1);
	read_line("/proc/self/cmdline", o->command, sizeof(o->command));
	read_boot_id(o->boot_id);
	o->time_ns = stat("/proc/self/ns/time", &ns) ? 0 : (uint32_t)ns.st_ino;
}

/* A program that calls exec() is another one with the same number. */
static int make_file(const struct config *cfg)
{
	char path[PATH_MAX], name[32], whose[sizeof(((struct record_origin *)0)->host) + 32];
	struct record_origin origin;
	bool ring = cfg->record_mib != 0;
	uint64_t size = (uint64_t)(ring ? cfg->record_mib : ALL_MIB) * MIB;
	int err = EEXIST;

	identify(&origin);
	read_line("/proc/self/comm", name, sizeof(name));
	snprintf(whose, sizeof(whose), "%s.%s", origin.host, name);
	for (char *p = whose; *p; p++)	/* both can be set to anything */
		if (*p == '/' || (unsigned char)*p <= ' ')
			*p = '_';
	if (mkdir(cfg->record, 0777) && errno != EEXIST)
		return errno;
	for (unsigned int i = 0; err == EEXIST && i < NAMES; i++) {
		char again[16] = "";

		if (i)
			snprintf(again, sizeof(again), ".%u", i);
		if ((size_t)snprintf(path, sizeof(path), "%s/%s.%u%s.vrec", cfg->record,
				     whose, origin.pid, again) >= sizeof(path))
			return ENAMETOOLONG;
		err = recording_open(&recording, path, size, ring, &origin);
	}
	return err;
}

static uint32_t open_recording(void)
{
	const struct config *cfg = config_get();
	uint32_t now;
	int cancel, err;

	cancel = cancel_off();
	lock_acquire(&opening);
	if (load_relaxed(&state) == CLOSED) {
		err = cfg->record[0] ? make_file(cfg) : ENOENT;
		if (err && cfg->record[0])
			log_warn(LOG_CORE, "VERBENA_RECORD=%s: %s; nothing is recorded",
				 cfg->record, strerror(err));
		vrb_record_what = cfg->record_what;
		record_ticks_start();
		if (!err && vrb_record_what & CONFIG_RECORD_STACKS)
			vrb_record_stacks_start();
		store_release(&state, err ? FAILED : OPEN); /* pairs with vrb_recorder() */
	}
	now = load_relaxed(&state);
	lock_release(&opening);
	cancel_on(cancel);
	return now;
}

/* ---------------------------------------------------------------- threads */

/* Also of a thread that records again after its end: then it is called again. */
static void end_thread(void *arg)
{
	struct recorder *r = arg;

	mine = NULL;
	if (r->generation == generation)
		record_writer_end(&r->writer);
	free(r);
}

static struct recorder *make_mine(void)
{
	struct recorder *r;
	void *room;

	if (!has_key || posix_memalign(&room, _Alignof(struct recorder), sizeof(*r)))
		return NULL;
	r = room;
	memset(r, 0, sizeof(*r));
	r->generation = generation;
	record_writer_start(&r->writer, &recording, (uint32_t)syscall(SYS_gettid));
	pthread_setspecific(key, r);
	mine = r;
	return r;
}

struct recorder *vrb_recorder(enum config_record what)
{
	uint32_t now = load_acquire(&state);

	if (unlikely(now != OPEN) && (now == FAILED || open_recording() != OPEN))
		return NULL;
	if (!(vrb_record_what & what))
		return NULL;
	return likely(mine != NULL) ? mine : make_mine();
}

void recorder_renew(struct recorder *r)
{
	if (r->chunk == r->writer.chunk)
		return;
	memset(r->paths, 0, sizeof(r->paths));
	memset(r->recent, 0, sizeof(r->recent));
	r->modules = 0;
	r->chunk = r->writer.chunk;
}

static void put_device(struct recorder *r, uint32_t path, const struct vrb_device *dev,
		       uint64_t now)
{
	size_t len = strlen(dev->ibv.name);
	struct record_device *out = recorder_reserve(r, sizeof(*out) + len);

	if (!out)
		return;
	*out = (struct record_device){ .path = path, .guid = dev->node_guid };
	memcpy(out + 1, dev->ibv.name, len);
	record_commit(&r->writer, RECORD_DEVICE, sizeof(*out) + len, now);
}

/* False: it was not told, since there is no room. */
static bool tell_path(struct recorder *r, const struct record_path *p,
		      const struct vrb_device *dev, uint64_t now)
{
	uint32_t *known = &r->paths[p->id >> 1 & (RECORDER_PATHS - 1)];
	struct record_path *out;

	if (*known == p->id)
		return true;
	out = recorder_reserve(r, sizeof(*p));
	if (!out)
		return false;
	*out = *p;
	record_commit(&r->writer, RECORD_PATH, sizeof(*p), now);
	*known = p->id;
	if (dev)
		put_device(r, p->id, dev, now);
	return true;
}

/* 0: it is not among the recent ones. */
static uint32_t recent_path(const struct recorder *r, const uint64_t word[6])
{
	for (unsigned int i = 0; i < RECORDER_RECENT; i++) {
		const uint64_t *w = r->recent[i].word;

		if (!((w[0] ^ word[0]) | (w[1] ^ word[1]) | (w[2] ^ word[2]) | (w[3] ^ word[3]) |
		      (w[4] ^ word[4]) | (w[5] ^ word[5])))
			return r->recent[i].id;
	}
	return 0;
}

uint32_t recorder_path(struct recorder *r, const struct net_path *path,
		       const struct vrb_device *dev, uint64_t now)
{
	struct record_path p = {
		.src_port = path->src_port,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
	};
	uint64_t word[6], id;

	memcpy(word, path->src.raw, 16);
	memcpy(word + 2, path->dst.raw, 16);
	word[4] = p.src_port | (uint64_t)p.traffic_class << 16 | (uint64_t)p.hop_limit << 24;
	word[5] = dev ? dev->node_guid : 0;
	recorder_renew(r);
	p.id = recent_path(r, word);
	if (likely(p.id))
		return p.id;
	id = word[4];
	for (unsigned int i = 0; i < 4; i++)
		id = hash_mix(id ^ word[i]);
	p.id = (uint32_t)hash_mix(id ^ word[5]) | 1;
	memcpy(p.src, path->src.raw, sizeof(p.src));
	memcpy(p.dst, path->dst.raw, sizeof(p.dst));
	if (tell_path(r, &p, dev, now)) {
		struct recorder_recent *recent = &r->recent[r->oldest++ % RECORDER_RECENT];

		memcpy(recent->word, word, sizeof(word));
		recent->id = p.id;
	}
	return p.id;
}

/* ---------------------------------------------------------------- process */

/*
 * In the child, of one thread: the file is the parent's, and so are the chunks; nothing there is
 * touched any more.
 */
static void after_fork(void)
{
	lock_renew(&opening);
	generation++;
	if (state == OPEN)
		recording_close(&recording);
	state = CLOSED;
	free(mine);
	mine = NULL;
	if (has_key)
		pthread_setspecific(key, NULL);
}

void vrb_recorder_link(void)
{
}

static const struct tap_ops ops = {
	.enter = vrb_record_enter,
	.leave = vrb_record_leave,
	.post = vrb_record_post,
	.complete = vrb_record_complete,
	.out = vrb_record_out,
	.in = vrb_record_in,
	.direct = vrb_record_direct,
	.note = vrb_record_note,
	.event = vrb_record_event,
	.fault = vrb_record_fault,
};

/* The rest of the configuration is read with the first verb, which most programs never call. */
static __attribute__((constructor)) void attach(void)
{
	const char *folder = secure_getenv("VERBENA_RECORD");

	if (!folder || !folder[0])
		return;
	has_key = pthread_key_create(&key, end_thread) == 0;
	pthread_atfork(NULL, NULL, after_fork);
	vrb_tap_attach(TAP_RECORD, &ops);
}
