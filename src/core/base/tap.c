/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/tap.h"

#include "util/compiler.h"

bool vrb_tapped;
bool vrb_tap_interfered;
bool vrb_tap_whole;
void (*vrb_tap_table)(struct verbs_context *vctx);

static const struct tap_ops *attached[TAPS]; /* atomic */

/* Calls of this thread that have not returned. Calls within the first are the library's own. */
static __thread unsigned int depth static_tls;

void vrb_tap_attach(enum tap tap, const struct tap_ops *ops)
{
	store_release(&attached[tap], ops); /* pairs with ops_of() */
	if (ops && tap == TAP_FAULT)
		store_relaxed(&vrb_tap_interfered, true);
	if (ops)
		store_relaxed(&vrb_tapped, true);
}

static const struct tap_ops *ops_of(unsigned int tap)
{
	return load_acquire(&attached[tap]);
}

bool vrb_tap_enter(struct tap_call *call)
{
	bool run = true;

	call->seen = !depth++;
	for (unsigned int i = 0; call->seen && i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->enter && !ops_of(i)->enter(call))
			run = false;
	return run;
}

void vrb_tap_leave(struct tap_call *call)
{
	int err = errno;

	depth--;
	for (unsigned int i = 0; call->seen && i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->leave)
			ops_of(i)->leave(call);
	errno = err;
}

int vrb_tap_post_for(enum tap tap, const struct tap_post *post)
{
	const struct tap_ops *ops = ops_of(tap);

	return ops && ops->post ? ops->post(post) : 0;
}

int vrb_tap_post(const struct tap_post *post)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < TAPS; i++)
		err = vrb_tap_post_for(i, post);
	return err;
}

void vrb_tap_complete(struct tap_completion *c)
{
	for (unsigned int i = 0; i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->complete)
			ops_of(i)->complete(c);
}

bool vrb_tap_out(struct tap_packet *p)
{
	bool pass = true;

	for (unsigned int i = 0; pass && i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->out)
			pass = ops_of(i)->out(p);
	return pass;
}

bool vrb_tap_in(struct tap_packet *p)
{
	bool pass = true;

	for (unsigned int i = 0; pass && i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->in)
			pass = ops_of(i)->in(p);
	return pass;
}

void vrb_tap_direct(struct vrb_qp *qp, unsigned int n)
{
	for (unsigned int i = 0; i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->direct)
			ops_of(i)->direct(qp, n);
}

void vrb_tap_note(struct vrb_qp *qp, const struct wq_note *note)
{
	for (unsigned int i = 0; i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->note)
			ops_of(i)->note(qp, note);
}

bool vrb_tap_mad(const struct tap_mad *mad)
{
	bool pass = true;

	for (unsigned int i = 0; pass && i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->mad)
			pass = ops_of(i)->mad(mad);
	return pass;
}

void vrb_tap_event(const struct tap_event *e)
{
	for (unsigned int i = 0; i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->event)
			ops_of(i)->event(e);
}

void vrb_tap_fault(const struct tap_fault *f)
{
	for (unsigned int i = 0; i < TAPS; i++)
		if (ops_of(i) && ops_of(i)->fault)
			ops_of(i)->fault(f);
}
