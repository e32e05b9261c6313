/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In libibverbs.a only: what rdma-core's <infiniband/verbs.h> refers to in a program that is
 * compiled with RDMA_STATIC_PROVIDERS, see ibv_get_device_list(3). The names stand for drivers
 * that the program wants linked; the only device is in the archive anyway.
 */
void ibv_static_providers(void *unused, ...);

/* The header declares an incomplete struct and takes the address. */
#define PROVIDER(name)						\
	extern const char verbs_provider_##name[1];		\
	const char verbs_provider_##name[1] = { 0 }

PROVIDER(all);
PROVIDER(none);
PROVIDER(bnxt_re);
PROVIDER(cxgb4);
PROVIDER(efa);
PROVIDER(erdma);
PROVIDER(hfi1verbs);
PROVIDER(hns);
PROVIDER(ionic);
PROVIDER(ipathverbs);
PROVIDER(irdma);
PROVIDER(mana);
PROVIDER(mlx4);
PROVIDER(mlx5);
PROVIDER(mthca);
PROVIDER(ocrdma);
PROVIDER(qedr);
PROVIDER(rxe);
PROVIDER(siw);
PROVIDER(vmw_pvrdma);

void ibv_static_providers(void *unused, ...)
{
	(void)unused;
}
