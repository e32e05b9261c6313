/* SPDX-License-Identifier: BSD-2-Clause */
/* Process state: starts with the first open context, stops with the last. */
#ifndef VRB_CORE_PROCESS_PROCESS_H
#define VRB_CORE_PROCESS_PROCESS_H

/* Called for each context opened or closed. Return 0 or an errno value. Must hold no lock. */
int vrb_process_get(void);
void vrb_process_put(void);

#endif
