/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pairs of this process by number, in two levels.  Finding: under the lock of any receiver (receiver.h).  Removing: under all of
 * them.  Everything else: under vrb.drive.
 */
#ifndef VRB_CORE_QPTAB_H
#define VRB_CORE_QPTAB_H

#include <stdint.h>

struct roce_counters;
struct vrb_device;
struct vrb_qp;

/* NULL if the number is nobody's here. */
struct vrb_qp *vrb_qptab_find(uint32_t qpn);

/* Returns 0 or ENOMEM. */
int vrb_qptab_add(struct vrb_qp *qp);
void vrb_qptab_remove(const struct vrb_qp *qp);

/* fn may remove the QP that it is given. */
void vrb_qptab_for_each(void (*fn)(struct vrb_qp *qp, void *arg), void *arg);

void vrb_counters_add(struct roce_counters *sum, const struct roce_counters *c);

/* What the packets of all QPs, living and destroyed, of a device's port add up to. Takes vrb.drive. */
void vrb_qptab_counters(const struct vrb_device *dev, struct roce_counters *sum);

/* Frees the table itself, which is empty. */
void vrb_qptab_free(void);

/* In a forked child: the QPs of the parent stay in memory, unreachable. */
void vrb_qptab_forget(void);

#endif
