/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers of verbs; the list is verb.def. */
#ifndef VRB_WQ_VERB_H
#define VRB_WQ_VERB_H

enum verb {
	VERB_NONE,
#define VERB(name, number, answer) VERB_##name = number,
#include "wq/verb.def"
#undef VERB
	VERB_END /* one more than the last */
};

#endif
