/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes the rules on faults while the process runs, for `verbena fault add|list|clear`.
 *
 * The progress thread watches a datagram socket "sNNNN.faults" in the run directory. A request is
 * one datagram, so a tool that dies has asked for all of it or for nothing: a line with the command
 * ("add", "clear", "list"), the rules of an "add" behind it, and a descriptor to write the answer
 * to: "ok" and the rules in a line each, or the line that says what is wrong. Requests come from
 * this user or root, by the kernel's word and by the directory's mode. Without a progress thread
 * there is no answer.
 */
#ifndef VRB_CORE_FAULT_CONTROL_H
#define VRB_CORE_FAULT_CONTROL_H

/* Call start while vrb.host and vrb.progress exist. If it fails, rules cannot be changed. */
void vrb_fault_control_start(void);
void vrb_fault_control_stop(void);	/* must hold no lock that the progress thread takes */
void vrb_fault_control_forget(void);	/* in a forked child */

/* The progress thread settles what is pending. Any locks. */
void vrb_fault_control_poke(void);

#endif
