/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mem/refusal.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* Names of refused accesses in the report. */
static const char *const access_names[] = {
	[MEM_LOCAL_READ] = "LOCAL_READ",	[MEM_LOCAL_WRITE] = "LOCAL_WRITE",
	[MEM_RECV_WRITE] = "LOCAL_WRITE",	[MEM_REMOTE_READ] = "REMOTE_READ",
	[MEM_REMOTE_WRITE] = "REMOTE_WRITE",	[MEM_REMOTE_ATOMIC] = "REMOTE_ATOMIC",
	[MEM_REMOTE_FLUSH_GLOBAL] = "FLUSH_GLOBAL",
	[MEM_REMOTE_FLUSH_PERSISTENT] = "FLUSH_PERSISTENT",
};

__thread struct refusal vrb_refusal;

void vrb_refusal_note(const struct wq_qp *wq, uint32_t key, uint64_t va, uint64_t len,
		    enum mem_access access, enum reason why, const struct mr_entry *e)
{
	vrb_refusal =
		(struct refusal){ .qpn = wq->qpn, .key = key, .va = va, .len = len, .access =
			access,
				 .why = why, .named = e != NULL };
	if (e)
		vrb_refusal.entry = *e;
}

/* Appends the code location that registered a region, in a form that addr2line accepts. */
static void add_site(struct text *t, uint32_t key)
{
	const void *site = mr_site(key);
	const char *file;
	Dl_info info;

	if (!site || !dladdr(site, &info) || !info.dli_fname)
		return;
	file = strrchr(info.dli_fname, '/');
	text_add(t, ", registered at %s+0x%tx", file ? file + 1 : info.dli_fname,
		 (const char *)site - (const char *)info.dli_fbase);
	if (info.dli_sname)
		text_add(t, " in %s", info.dli_sname);
}

bool vrb_refusal_own_key(uint32_t key)
{
	const struct mr_entry *e = mr_entry_get(key);
	bool own = e && e->rkey == key;

	if (e)
		mr_entry_put((struct mr_entry *)e);
	return own;
}

/* What a key that names nothing may have been meant for. */
static void add_unknown(struct text *t, const struct refusal *r, const char *kind)
{
	struct mr_entry was;

	if (!r->remote && mr_entry_was(r->key, &was)) {
		text_add(t, ": the %s was that of a region [0x%llx, 0x%llx), which is deregistered",
			 kind, (unsigned long long)was.va,
			 (unsigned long long)(was.va + was.length));
		add_site(t, r->key);
		return;
	}
	text_add(t, ": the %s names nothing", kind);
	if (!r->remote && vrb_refusal_own_key(__builtin_bswap32(r->key)))
		text_add(t, "; in the other byte order it names a region");
}

static bool inside(const struct refusal *r, uint64_t va)
{
	return va >= r->entry.va && va - r->entry.va < r->entry.length;
}

/* What may have become of an address inside the region. */
static void add_outside(struct text *t, const struct refusal *r)
{
	uint64_t upper = r->entry.va & ~(uint64_t)UINT32_MAX, low = (uint32_t)r->va;
	bool cut = r->va == low || r->va == (uint64_t)(int32_t)low;

	if (inside(r, r->va))
		text_add(t, "; the access starts inside and ends outside");
	else if (inside(r, __builtin_bswap64(r->va)))
		text_add(t, "; in the other byte order the address lies inside");
	else if (cut && (inside(r, upper | low) || inside(r, (upper + UINT32_MAX + 1) | low)))
		text_add(t, "; the address may have been cut to 32 bits");
	else if (r->va < r->entry.length)
		text_add(t, "; the address looks like an offset");
}

void vrb_refusal_add(struct text *t, const struct refusal *r)
{
	const char *kind = mem_access_is_remote(r->access) ? "rkey" : "lkey";
	const struct mr_entry *e = &r->entry;

	text_add(t, "; %s 0x%x, address 0x%llx, length %llu", kind, r->key,
		 (unsigned long long)r->va, (unsigned long long)r->len);
	if (r->why == REASON_QP_ACCESS) {
		text_add(t, ": the peer's QP lacks IBV_ACCESS_%s in its qp_access_flags",
			 access_names[r->access]);
		return;
	}
	if (!r->named || r->why == REASON_LKEY_UNKNOWN || r->why == REASON_RKEY_UNKNOWN) {
		add_unknown(t, r, kind);
		return;
	}
	text_add(t, ": the %s names a %s [0x%llx, 0x%llx)", kind,
		 e->kind == MR_WINDOW ? "window" : "region", (unsigned long long)e->va,
		 (unsigned long long)(e->va + e->length));
	if (r->why == REASON_LKEY_ACCESS || r->why == REASON_RKEY_ACCESS)
		text_add(t, " without %s", access_names[r->access]);
	else if (r->why == REASON_LKEY_PD || r->why == REASON_RKEY_PD)
		text_add(t, " in another protection domain");
	if (!r->remote && e->kind == MR_REGION)
		add_site(t, r->key);
	if (r->why == REASON_LKEY_RANGE || r->why == REASON_RKEY_RANGE)
		add_outside(t, r);
}
