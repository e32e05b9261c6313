/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena-probe: reports what an ordinary program gets that is linked with libibverbs.so.1.  The
 * doctor runs it and reads three lines: the file that the loader found (or its error message after
 * "!", and nothing else); the result of ibv_get_device_list(): a count, or "-" and errno; and the
 * file of librdmacm.so.1, empty if there is none.  It is linked with no library, so that the loader
 * decides here as for other programs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

struct ibv_device;

static const char *file_of(const char *library, const char *symbol)
{
	void *lib = dlopen(library, RTLD_NOW);
	void *fn = lib ? dlsym(lib, symbol) : NULL;
	Dl_info info;

	return fn && dladdr(fn, &info) ? info.dli_fname : "";
}

int main(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW);
	struct ibv_device **(*list)(int *) = NULL;
	Dl_info info = { 0 };
	int n = 0;

	if (lib)
		*(void **)&list = dlsym(lib, "ibv_get_device_list");
	if (!list || !dladdr(*(void **)&list, &info)) {
		printf("!%s\n", dlerror());
		return 1;
	}
	printf("%s\n", info.dli_fname);
	fflush(stdout);
	errno = 0;
	if (list(&n))
		printf("%d\n", n);
	else
		printf("-%d\n", errno);
	printf("%s\n", file_of("librdmacm.so.1", "rdma_create_id"));
	return 0;
}
