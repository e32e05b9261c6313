/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The doctor: each check is a function that reports findings (doctor.def).  doctor.c runs the
 * checks and prints findings; doctor_library.c, doctor_net.c, doctor_port_users.c and
 * doctor_host.c contain the checks.
 */
#ifndef VRB_TOOL_DOCTOR_H
#define VRB_TOOL_DOCTOR_H

#include <stddef.h>

#include "explain.h"

/* Reports finding VD<number>, with details. */
void found(unsigned int number, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reports that a check found nothing wrong. */
void fine(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The checks, in order. */
void check_environment(void);
void check_library(void);
void check_system_files(void);
void check_devices(void);
void check_netlink(void);
void check_ipv6(void);
void check_mtu(void);
void check_port(void);
void check_port_users(void);
void check_directory(void);
void check_version(void);
void check_processes(void);
void check_attach(void);
void check_limits(void);

/* The directory that the processes share; the requested one if none can be used. */
const char *doctor_run_dir(void);

/* The configuration from the environment. */
const struct config *doctor_config(void);

/* The findings, as topics of `verbena explain`. */
size_t doctor_topics(void);
struct topic doctor_topic(size_t i);

#endif
