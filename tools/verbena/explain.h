/* SPDX-License-Identifier: BSD-2-Clause */
/* A topic that can be explained. */
#ifndef VRB_TOOL_EXPLAIN_H
#define VRB_TOOL_EXPLAIN_H

struct topic {
	/* "status", "vendor_err", "event", "errno", "rej", "cm_event", "finding" */
	const char *kind;
	int number;
	const char *name;	/* without prefix */
	const char *prefix;	/* "IBV_WC_", "" */
	const char *of;		/* errno: of which verbs, else NULL */
	const char *meaning;
	const char *causes;	/* separated by "; ", may be empty */
	const char *look;	/* may be empty */
};

#endif
