/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The doctor: checks, each a function that reports findings (doctor.def).  doctor.c runs and prints them;
 * doctor_library.c, doctor_net.c, doctor_sharers.c, doctor_host.c look.
 */
#ifndef VRB_TOOL_DOCTOR_H
#define VRB_TOOL_DOCTOR_H

#include <stddef.h>

#include "explain.h"

/* Reports finding VD<number> with what was seen. */
void found(unsigned int number, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Something was checked and is as it should be. */
void fine(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The checks, in the order in which they run. */
void check_environment(void);
void check_library(void);
void check_system_files(void);
void check_devices(void);
void check_ipv6(void);
void check_mtu(void);
void check_port(void);
void check_sharers(void);
void check_directory(void);
void check_version(void);
void check_processes(void);
void check_attach(void);
void check_limits(void);

/* The directory that the processes share; what was asked for if there is none. */
const char *doctor_run_dir(void);

/* The configuration as the environment has it. */
const struct config *doctor_config(void);

/* For explain: the findings as topics. */
size_t doctor_topics(void);
struct topic doctor_topic(size_t i);

#endif
