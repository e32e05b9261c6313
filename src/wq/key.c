/* SPDX-License-Identifier: BSD-2-Clause */
/* The access check of memory keys; key.h defines keys. */
#include "wq/key.h"

#include <string.h>

/* The right that the entry must grant for a remote access. */
static const uint32_t rights[] = {
	[MEM_REMOTE_READ] = IBV_ACCESS_REMOTE_READ,
	[MEM_REMOTE_WRITE] = IBV_ACCESS_REMOTE_WRITE,
	[MEM_REMOTE_ATOMIC] = IBV_ACCESS_REMOTE_ATOMIC,
	[MEM_REMOTE_FLUSH_GLOBAL] = IBV_ACCESS_FLUSH_GLOBAL,
	[MEM_REMOTE_FLUSH_PERSISTENT] = IBV_ACCESS_FLUSH_PERSISTENT,
};

uint32_t mr_entry_sum(const struct mr_entry *e)
{
	uint64_t word[sizeof(*e) / sizeof(uint64_t)], sum = 0;
	struct mr_entry copy = *e;

	copy.refs = copy.sum = 0;
	memcpy(word, &copy, sizeof(word));
	for (size_t i = 0; i < ARRAY_SIZE(word); i++)
		sum = (sum ^ word[i]) * 0x9e3779b97f4a7c15ull + (sum >> 29);
	return sum >> 32;
}

enum reason mr_entry_check_remote(const struct mr_entry *e, uint32_t key, uint32_t pdn,
				  uint32_t qpn,
				   uint64_t va, uint64_t len, enum mem_access access)
{
	if (e->rkey != key || e->kind == MR_NULL)
		return REASON_RKEY_UNKNOWN;
	if (e->pdn != pdn)
		return REASON_RKEY_PD;
	if (e->kind == MR_WINDOW && e->mw_type == IBV_MW_TYPE_2 && e->qpn != qpn)
		return REASON_RKEY_WINDOW_QP;
	if (rights[access] & ~e->access)
		return REASON_RKEY_ACCESS;
	return mr_entry_spans(e, va, len) ? REASON_NONE : REASON_RKEY_RANGE;
}
