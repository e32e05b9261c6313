/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Defaults of rsockets: files of one number each in /etc/rdma/rsocket, with the names that the
 * stock library uses.
 */
#ifndef VRB_RDMACM_RS_CONFIG_H
#define VRB_RDMACM_RS_CONFIG_H

#include <stdint.h>

/* Bounds of the settings, whether from a file or by rsetsockopt(). */
enum {
	RS_QUEUE_LEAST = 16,
	RS_QUEUE_MOST = 0xfffe,
	RS_MEMORY_LEAST = 4096,	/* bytes */
	RS_MEMORY_MOST = 1 << 30,
	RS_IOMAP_MOST = 0x7f00,	/* what the connection data can tell */
};

struct rs_config {
	uint32_t polling_time;     /* us that a call polls before it sleeps */
	uint32_t inline_default;
	uint32_t sqsize_default, rqsize_default;
	uint32_t mem_default, wmem_default; /* bytes */
	uint32_t iomap_size;
	uint32_t keep_idle; /* seconds; default: the system's */
};

/* Reads the files once, from $VERBENA_RSOCKET_DIR if set.  Any thread. */
const struct rs_config *rs_config(void);

#endif
