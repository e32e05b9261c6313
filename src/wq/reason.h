/* SPDX-License-Identifier: BSD-2-Clause */
/* The catalogue of reasons as an enum and as text; the rows are in reason.def. */
#ifndef VRB_WQ_REASON_H
#define VRB_WQ_REASON_H

#define REASON(name, number, text) REASON_##name = number,
enum reason {
#include "wq/reason.def"
};
#undef REASON

/*
 * The sentence of a reason; "unknown reason" for a number that is not in the catalogue. Never NULL.
 */
const char *reason_str(unsigned int number);

/* The symbolic name without its prefix, e.g. "RKEY_RANGE"; NULL for an unknown number. */
const char *reason_name(unsigned int number);

#endif
