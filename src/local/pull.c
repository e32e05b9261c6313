/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies payloads that stay in the sender's memory, by cross-memory attach, and checks the sender's
 * identity.
 */
#include <errno.h>
#include <sys/uio.h>

#include "local/parts.h"
#include "local/segment.h"
#include "util/cancel.h"
#include "util/compiler.h"

/*
 * Fills up to n vectors with `len` bytes of segs from offset `done` on, and no more: the kernel
 * looks up every remote page it is given, whether it copies it or not.
 */
static unsigned int vectors_behind(struct iovec *v, const struct wq_seg *segs, unsigned int n,
				   uint64_t done, uint64_t len)
{
	unsigned int k = 0;

	for (unsigned int i = 0; i < n && len > 0; i++) {
		uint64_t bytes;

		if (done >= segs[i].len) {
			done -= segs[i].len;
			continue;
		}
		bytes = min(segs[i].len - done, len);
		v[k++] = (struct iovec){ (void *)(uintptr_t)(segs[i].addr + done), bytes };
		len -= bytes;
		done = 0;
	}
	return k;
}

/* Interprets the result of a read of *n bytes; *n becomes the number of payload bytes. */
static int judge_pull(const struct wq_pull *from, const struct seg_identity *found, ssize_t *n)
{
	if (*n < 0)
		return (int)-*n;
	/* The pid may name another process or program by now. */
	if (*n < (ssize_t)sizeof(*found) || found->magic != SEG_MAGIC ||
	    found->incarnation != from->incarnation)
		return ESRCH;
	*n -= sizeof(*found);
	return *n > 0 ? 0 : EFAULT;
}

int local_pull(const struct wq_pull *from, uint64_t skip, const struct wq_seg *dst,
	       unsigned int ndst, uint64_t total)
{
	struct iovec remote[SEGS_MAX + 1], local[SEGS_MAX + 1];
	struct seg_identity found;

	if (from->num_seg > SEGS_MAX || ndst > SEGS_MAX)
		return EPERM;
	remote[0] = (struct iovec){ (void *)(uintptr_t)from->identity, sizeof(found) };
	local[0] = (struct iovec){ &found, sizeof(found) };
	/* One call copies at most about 2 GiB. */
	for (uint64_t done = 0; done < total;) {
		unsigned int nfrom = vectors_behind(remote + 1, from->seg, from->num_seg,
						    skip + done, total - done);
		unsigned int nto = vectors_behind(local + 1, dst, ndst, done, total - done);
		ssize_t n = SYS_RESULT(process_vm_readv(from->pid, local, nto + 1, remote,
							nfrom + 1, 0));
		int err = judge_pull(from, &found, &n);

		if (err != 0)
			return err;
		done += n;
	}
	return 0;
}
