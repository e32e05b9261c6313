/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters (beyond release 64): this device has none.  The capabilities say so, and
 * nobody can have one, so the calls that take one refuse as well.  No state.
 */
#include <errno.h>
#include <stddef.h>

#include <infiniband/verbs.h>

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size)
{
	return EOPNOTSUPP;
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr)
{
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr)
{
	return EOPNOTSUPP;
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
{
	return EOPNOTSUPP;
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
{
	return EOPNOTSUPP;
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
{
	return EOPNOTSUPP;
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
{
	return EOPNOTSUPP;
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
{
	return EOPNOTSUPP;
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
{
	return EOPNOTSUPP;
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr)
{
	return EOPNOTSUPP;
}
