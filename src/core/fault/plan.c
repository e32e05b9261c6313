/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plan and all counts are under one lock: a process with faults need not be fast. Counts of a
 * QP are kept by its index and outlive it, since a program's third QP is its third, whenever the
 * first was destroyed.
 */
#include "core/fault/plan.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/tap.h"
#include "fault/parse.h"
#include "fault/print.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/log.h"
#include "util/cancel.h"
#include "util/lock.h"
#include "util/time.h"

enum {
	PENDING_FIRST = 16,
	BAD_RULES = 2,	/* exit status, as of `verbena fault` */
	QPS_MAX = 1 << 20,
	QPS_FIRST = 64,
};

struct act {
	struct fault_action action;
	uint32_t qpn;
};

uint32_t vrb_fault_kinds;
const struct fault_effects *vrb_fault_effects;

static pthread_once_t started = PTHREAD_ONCE_INIT;

/* Held while acts are done, but not during a stall; outside vrb.lock, inside vrb.life. */
static pthread_mutex_t settling = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t stall_over_made = PTHREAD_ONCE_INIT;
static pthread_cond_t stall_over;	/* of CLOCK_MONOTONIC; with `settling` */

static struct {
	struct lock lock;
	struct fault_plan plan;
	uint64_t hits[FAULT_RULES];
	struct fault_counts of_process;
	struct fault_counts **of_qp;	/* by index; NULL: none yet */
	uint32_t n_qps;			/* elements of of_qp */
	struct act *pending;	/* [next, end): not begun */
	unsigned int next, end, room;
	bool busy;		/* an act is being done */
	uint64_t stalled_until;	/* clock_now(); 0: no stall */
} faults = { .plan = { .seed = 1 } };

/* ---- the plan ---- */

/* Must hold faults.lock. */
static void show_kinds(void)
{
	bool any = faults.next != faults.end || faults.busy || faults.stalled_until;
	uint32_t kinds = any ? 1u << VRB_FAULTS_PENDING : 0;

	for (uint32_t i = 0; i < faults.plan.n_rules; i++)
		kinds |= 1u << faults.plan.rule[i].kind;
	store_relaxed(&vrb_fault_kinds, kinds);
}

static void make_stall_over(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&stall_over, &attr);
	pthread_condattr_destroy(&attr);
}

static void end_stall(void)
{
	pthread_once(&stall_over_made, make_stall_over);
	pthread_mutex_lock(&settling);
	pthread_cond_broadcast(&stall_over);
	pthread_mutex_unlock(&settling);
}

/* And what they have led to. Must hold faults.lock. */
static void forget_counts(void)
{
	for (uint32_t i = 0; i < faults.n_qps; i++)
		free(faults.of_qp[i]);
	free(faults.of_qp);
	faults.of_qp = NULL;
	faults.n_qps = 0;
	faults.next = faults.end = 0;
	faults.stalled_until = 0;
}

/* Must hold faults.lock. */
static void begin_anew(void)
{
	faults.plan.generation++;
	memset(faults.hits, 0, sizeof(faults.hits));
	show_kinds();
}

bool vrb_faults_add(const char *source, const char *text, size_t len,
		    char error[VRB_FAULTS_ERROR])
{
	struct fault_error wrong;
	bool good;

	lock_acquire(&faults.lock);
	good = fault_parse(&faults.plan, text, len, &wrong);
	if (good)
		begin_anew();
	lock_release(&faults.lock);
	if (!good)
		fault_error_print(error, VRB_FAULTS_ERROR, source, &wrong);
	return good;
}

void vrb_faults_clear(void)
{
	lock_acquire(&faults.lock);
	faults.plan.seed = 1;
	faults.plan.n_rules = 0;
	forget_counts();
	begin_anew();
	lock_release(&faults.lock);
	end_stall();
}

size_t vrb_faults_list(char text[VRB_FAULTS_TEXT])
{
	char line[FAULT_LINE];
	size_t len = 0;

	text[0] = '\0';
	lock_acquire(&faults.lock);
	for (uint32_t i = 0; i < faults.plan.n_rules; i++) {
		fault_rule_print(line, sizeof(line), &faults.plan.rule[i]);
		len += (size_t)snprintf(text + len, VRB_FAULTS_TEXT - len, "%s # %llu\n", line,
					(unsigned long long)faults.hits[i]);
		if (len >= VRB_FAULTS_TEXT)
			break;
	}
	lock_release(&faults.lock);
	return len < VRB_FAULTS_TEXT ? len : VRB_FAULTS_TEXT - 1;
}

/*
 * Ends the process: a test that is to meet faults must not succeed without them. Not by exit(),
 * whose handlers would come back here.  file: which cannot be read; NULL: `why` names the place.
 */
static void refuse(const char *file, const char *why)
{
	fflush(NULL);
	if (file)
		fprintf(stderr, "verbena: VERBENA_FAULTS: %s: %s\n", file, why);
	else
		fprintf(stderr, "verbena: %s\n", why);
	_exit(BAD_RULES);
}

/* The rules of a file. */
static void read_file(const char *name, char text[VRB_FAULTS_TEXT], size_t *len)
{
	FILE *f = fopen(name, "re");

	if (!f)
		refuse(name, strerror(errno));
	*len = fread(text, 1, VRB_FAULTS_TEXT, f);
	/* A directory can be opened. */
	if (ferror(f))
		refuse(name, strerror(errno));
	fclose(f);
	if (*len >= VRB_FAULTS_TEXT)
		refuse(name, "too many bytes of rules");
}

static void read_environment(void)
{
	const char *rules = config_get()->faults, *source = "VERBENA_FAULTS";
	char error[VRB_FAULTS_ERROR], *text = NULL;
	size_t len = strlen(rules);

	if (config_get()->faults_too_long)
		refuse(NULL, "VERBENA_FAULTS: too many bytes of rules");
	if (rules[0] == '@') {
		source = rules + 1;
		text = malloc(VRB_FAULTS_TEXT);
		if (!text)
			refuse(source, "out of memory");
		read_file(source, text, &len);
		rules = text;
	}
	if (!vrb_faults_add(source, rules, len, error))
		refuse(NULL, error);
	free(text);
}

void vrb_faults_start(void)
{
	pthread_once(&started, read_environment);
}

void vrb_faults_before_fork(void)
{
	lock_acquire(&faults.lock);
}

void vrb_faults_after_fork_parent(void)
{
	lock_release(&faults.lock);
}

void vrb_faults_after_fork_child(void)
{
	lock_release(&faults.lock); /* taken by this thread, before the fork */
	pthread_mutex_init(&settling, NULL);
	pthread_once(&stall_over_made, make_stall_over);
	make_stall_over();
	faults.busy = false;
	forget_counts();
	begin_anew();
}

/* ---- occasions ---- */

/* The counts of a QP; NULL: out of memory. Must hold faults.lock. */
static struct fault_counts *counts_of(uint32_t qp_index)
{
	if (qp_index >= QPS_MAX)
		return NULL;
	if (qp_index >= faults.n_qps) {
		uint32_t n = faults.n_qps ? faults.n_qps : QPS_FIRST;
		struct fault_counts **more;

		while (n <= qp_index)
			n *= 2;
		more = realloc(faults.of_qp, n * sizeof(*more));
		if (!more)
			return NULL;
		memset(more + faults.n_qps, 0, (n - faults.n_qps) * sizeof(*more));
		faults.of_qp = more;
		faults.n_qps = n;
	}
	if (!faults.of_qp[qp_index])
		faults.of_qp[qp_index] = calloc(1, sizeof(struct fault_counts));
	return faults.of_qp[qp_index];
}

static bool is_later(enum fault_what what)
{
	return what == FAULT_RAISE || what == FAULT_STALL || what == FAULT_KILL;
}

/* False: out of memory. Must hold faults.lock. */
static bool room_for_pending(void)
{
	unsigned int room = faults.room ? 2 * faults.room : PENDING_FIRST;
	struct act *more;

	if (faults.next == faults.end)
		faults.next = faults.end = 0;
	if (faults.end < faults.room)
		return true;
	more = realloc(faults.pending, room * sizeof(*more));
	if (!more)
		return false;
	faults.pending = more;
	faults.room = room;
	return true;
}

/* Must hold faults.lock. */
static void do_later(const struct fault_action *action, uint32_t qpn)
{
	if (room_for_pending())
		faults.pending[faults.end++] = (struct act){ *action, qpn };
	else
		log_warn(LOG_FAULT, "out of memory: a rule that strikes has no effect");
	show_kinds();
}

/* Must hold faults.lock. Returns true if the caller has to do something. */
static bool struck(const struct fault_hit *hit, struct tap_fault *f, char line[FAULT_LINE])
{
	faults.hits[hit->rule]++;
	fault_rule_print(line, FAULT_LINE, &faults.plan.rule[hit->rule]);
	f->rule = line;
	f->number = hit->rule + 1;
	f->count = hit->count;
	f->kind = (uint16_t)faults.plan.rule[hit->rule].kind;
	f->what = (uint16_t)hit->action.what;
	if (!is_later(hit->action.what))
		return true;
	do_later(&hit->action, f->qpn);
	return false;
}

void vrb_faults_fail_later(uint32_t qpn)
{
	lock_acquire(&faults.lock);
	do_later(&(struct fault_action){ .what = FAULT_STATUS }, qpn);
	lock_release(&faults.lock);
}

static void tell(const struct tap_fault *f)
{
	if (f->qpn)
		log_info(LOG_FAULT, "QP 0x%x: rule %u (%s) strikes its number %llu", f->qpn,
			 f->number, f->rule, (unsigned long long)f->count);
	else
		log_info(LOG_FAULT, "rule %u (%s) strikes its number %llu", f->number, f->rule,
			 (unsigned long long)f->count);
	if (tapped())
		vrb_tap_fault(f);
}

typedef bool (*decide_fn)(struct fault_counts *counts, const void *occasion,
			  struct fault_hit *hit);

/* f: what is known of the occasion. */
static bool decide(decide_fn fn, const struct fault_queue *queue, const void *occasion,
		   struct fault_hit *hit, struct tap_fault *f)
{
	struct fault_counts *counts;
	bool hits = false, now = false;
	char line[FAULT_LINE];

	if (queue) {
		f->qpn = queue->qpn;
		f->direction = (uint8_t)queue->direction;
	}
	lock_acquire(&faults.lock);
	counts = queue ? counts_of(queue->qp_index) : &faults.of_process;
	if (counts)
		hits = fn(counts, occasion, hit);
	if (hits)
		now = struck(hit, f, line);
	lock_release(&faults.lock);
	if (hits)
		tell(f);
	return now;
}

static bool decide_packet(decide_fn fn, const struct fault_packet *p, struct fault_hit *hit)
{
	return decide(fn, &p->queue, p, hit,
		      &(struct tap_fault){ .opcode = p->opcode, .psn = p->psn });
}

static bool on_packet(struct fault_counts *counts, const void *occasion, struct fault_hit *hit)
{
	return fault_on_packet(&faults.plan, counts, occasion, hit);
}

bool vrb_fault_packet(const struct fault_packet *packet, struct fault_hit *hit)
{
	return decide_packet(on_packet, packet, hit);
}

static bool on_message(struct fault_counts *counts, const void *occasion, struct fault_hit *hit)
{
	return fault_on_message(&faults.plan, counts, occasion, hit);
}

bool vrb_fault_message(const struct fault_packet *message, struct fault_hit *hit)
{
	return decide_packet(on_message, message, hit);
}

static bool on_completion(struct fault_counts *counts, const void *occasion,
			  struct fault_hit *hit)
{
	return fault_on_completion(&faults.plan, counts, occasion, hit);
}

bool vrb_fault_completion(const struct fault_queue *queue, struct fault_hit *hit)
{
	return decide(on_completion, queue, queue, hit, &(struct tap_fault){ 0 });
}

static bool on_wr(struct fault_counts *counts, const void *occasion, struct fault_hit *hit)
{
	return fault_on_wr(&faults.plan, counts, occasion, hit);
}

int vrb_fault_wr(const struct fault_queue *queue)
{
	struct tap_fault f = { 0 };
	struct fault_hit hit;

	return decide(on_wr, queue, queue, &hit, &f) ? (int)hit.action.value : 0;
}

static bool on_verb(struct fault_counts *counts, const void *occasion, struct fault_hit *hit)
{
	return fault_on_verb(&faults.plan, counts, *(const enum verb *)occasion, hit);
}

int vrb_fault_verb(enum verb verb)
{
	struct tap_fault f = { 0 };
	struct fault_hit hit;

	return decide(on_verb, NULL, &verb, &hit, &f) ? (int)hit.action.value : 0;
}

struct cm_occasion {
	enum fault_cm message;
	enum fault_direction direction;
};

static bool on_cm(struct fault_counts *counts, const void *occasion, struct fault_hit *hit)
{
	const struct cm_occasion *o = occasion;

	return fault_on_cm(&faults.plan, counts, o->message, o->direction, hit);
}

bool vrb_fault_cm(enum fault_cm message, enum fault_direction direction, struct fault_hit *hit)
{
	return decide(on_cm, NULL, &(struct cm_occasion){ message, direction }, hit,
		      &(struct tap_fault){ .direction = (uint8_t)direction });
}

/* ---- what the process does to itself ---- */

/* The next act, unless the process is stalled. */
static bool begin_pending(struct act *act)
{
	bool any;

	lock_acquire(&faults.lock);
	any = faults.next != faults.end && !faults.stalled_until;
	if (any)
		*act = faults.pending[faults.next++];
	faults.busy = any;
	show_kinds();
	lock_release(&faults.lock);
	return any;
}

static void begin_stall(uint64_t ns)
{
	lock_acquire(&faults.lock);
	faults.stalled_until = time_after(clock_now(), ns);
	show_kinds();
	lock_release(&faults.lock);
}

/* Until when the process is stalled; 0: it is not, or not any more. */
static uint64_t stalled_until(void)
{
	uint64_t until;

	lock_acquire(&faults.lock);
	if (faults.stalled_until && time_reached(faults.stalled_until, clock_now()))
		faults.stalled_until = 0;
	until = faults.stalled_until;
	show_kinds();
	lock_release(&faults.lock);
	return until;
}

static void settle(const struct act *act)
{
	/* Pairs with vrb_fault_taps_update(). */
	const struct fault_effects *effects = load_acquire(&vrb_fault_effects);

	if (act->action.what == FAULT_KILL)
		kill(getpid(), SIGKILL);
	else if (act->action.what == FAULT_STALL)
		begin_stall(act->action.value);
	else if (act->action.what == FAULT_STATUS)
		effects->fail(act->qpn);
	else if (effects)
		effects->raise((int)act->action.value, act->qpn);
}

uint64_t vrb_faults_settle_until_stall(void)
{
	uint64_t until;
	struct act act;

	pthread_mutex_lock(&settling);
	while (!(until = stalled_until()) && begin_pending(&act))
		settle(&act);
	pthread_mutex_unlock(&settling);
	return until;
}

/* All threads that come here during a stall wait for its end. */
void vrb_faults_do_pending(void)
{
	int cancel = cancel_off();
	uint64_t until;

	pthread_once(&stall_over_made, make_stall_over);
	while ((until = vrb_faults_settle_until_stall())) {
		const struct timespec at = {
			.tv_sec = (time_t)(until / VRB_SECOND),
			.tv_nsec = (long)(until % VRB_SECOND),
		};

		pthread_mutex_lock(&settling);
		if (stalled_until() == until)
			pthread_cond_timedwait(&stall_over, &settling, &at);
		pthread_mutex_unlock(&settling);
	}
	cancel_on(cancel);
}
