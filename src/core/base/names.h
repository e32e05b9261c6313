/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of constants, for the log and for introspection. */
#ifndef VRB_CORE_BASE_NAMES_H
#define VRB_CORE_BASE_NAMES_H

/* Names such as "RTS", "?" if invalid; and "RC" or "XRC_SEND", "RAW" for raw packet QPs. */
const char *vrb_qp_state_name(unsigned int state);
const char *vrb_qp_type_name(unsigned int type);

/* "IBV_WC_LOC_LEN_ERR"; NULL: no error, or unknown */
const char *vrb_status_name(unsigned int status);

#endif
