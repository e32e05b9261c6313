/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this process does, for those who ask: verbena ps, top and doctor.
 *
 * A listening socket "sNNNN.ask" in the run directory, watched by the progress thread.  Who connects gets one byte with a descriptor of a
 * memory file that holds one JSON object, and the connection ends.  Nothing is counted or written before somebody asks; a process that
 * is gone does not listen; the directory's mode keeps others out.  Without the progress thread nobody is answered.
 */
#ifndef VRB_CORE_ASK_H
#define VRB_CORE_ASK_H

/* Called by the process while vrb.host and vrb.progress exist. Failing only means that nobody is answered. */
void vrb_ask_start(void);
void vrb_ask_stop(void);	/* must hold no lock that the progress thread takes */
void vrb_ask_forget(void);	/* in a forked child */

#endif
