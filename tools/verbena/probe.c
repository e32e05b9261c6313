/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena-probe: what an ordinary program gets that is linked with libibverbs.so.1.  The doctor runs it and reads two lines: the file
 * that the loader found (or its complaint after "!"), and what ibv_get_device_list() answered: a count, or "-" and errno.
 * Linked with nothing, so that the loader decides here as it does for others.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

struct ibv_device;

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
	return 0;
}
