/* SPDX-License-Identifier: BSD-2-Clause */
/* A robust list of one futex; see keeper.h. */
#include "local/keeper.h"

#include <sys/syscall.h>
#include <unistd.h>

void keeper_begin(struct keeper *k, uint32_t *word)
{
	k->node.next = &k->head.list;
	k->head.list.next = &k->node;
	k->head.futex_offset = (intptr_t)word - (intptr_t)&k->node;
	k->head.list_op_pending = NULL;
	if (syscall(SYS_set_robust_list, &k->head, sizeof(k->head)) == 0)
		store_release(word, (uint32_t)syscall(SYS_gettid));
}
