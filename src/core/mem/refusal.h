/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why this thread's last memory access was refused. The check notes it; the QP's error report
 * (qp/error_report.h) logs it if the QP fails.
 */
#ifndef VRB_CORE_MEM_REFUSAL_H
#define VRB_CORE_MEM_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mem/key_table.h"
#include "util/text.h"
#include "wq/qp.h"

struct refusal {
	uint32_t qpn;
	uint32_t key;
	uint64_t va, len;
	enum mem_access access;
	enum reason why;
	bool named;		/* `entry` is a copy of what the key names */
	bool remote;		/* the key is in a local peer's table */
	struct mr_entry entry;
};

extern __thread struct refusal vrb_refusal;	/* qpn 0: empty */

/*
 * Records a refused access. e is what the key names, or NULL; the caller holds a reference on it.
 */
void vrb_refusal_note(const struct wq_qp *wq, uint32_t key, uint64_t va, uint64_t len,
		    enum mem_access access, enum reason why, const struct mr_entry *e);

/* Is it the rkey of a region or window of this process? */
bool vrb_refusal_own_key(uint32_t key);

/* Appends the key and the property of its region or window that made the access fail. */
void vrb_refusal_add(struct text *t, const struct refusal *r);

#endif
