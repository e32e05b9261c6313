/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The communication ids of this process. The first ten bits are its place, by which MADs find it:
 * its slot or its relay number (util/net.h). The others are a serial number that is reused late and
 * cannot be guessed from earlier ones.
 */
#ifndef VRB_CORE_MAD_COMM_ID_H
#define VRB_CORE_MAD_COMM_ID_H

#include <stdbool.h>
#include <stdint.h>

/* Call once the process has its slot and number. */
void vrb_comm_id_start(void);

/* Never 0. Any thread. */
uint32_t vrb_comm_id(void);

unsigned int vrb_comm_id_place(uint32_t id);
bool vrb_comm_id_mine(uint32_t id);

#endif
