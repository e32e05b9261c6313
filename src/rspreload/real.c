/* SPDX-License-Identifier: BSD-2-Clause */
/* Looks up the system's calls, which follow ours in the search order (RTLD_NEXT). */
#include "rspreload/real.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static struct real calls;
static const void *our_bases[2];

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static const void *base_of(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) ? info.dli_fbase : NULL;
}

static void find(void)
{
#define FIND(name) calls.name = (__typeof__(calls.name))next(#name)
	FIND(socket);
	FIND(bind);
	FIND(listen);
	FIND(accept4);
	FIND(connect);
	FIND(shutdown);
	FIND(close);
	FIND(close_range);
	FIND(closefrom);
	FIND(recv);
	FIND(recvfrom);
	FIND(recvmsg);
	FIND(read);
	FIND(readv);
	FIND(send);
	FIND(sendto);
	FIND(sendmsg);
	FIND(write);
	FIND(writev);
	FIND(sendfile);
	FIND(splice);
	FIND(sendmmsg);
	FIND(recvmmsg);
	FIND(poll);
	FIND(ppoll);
	FIND(select);
	FIND(pselect);
	FIND(getpeername);
	FIND(getsockname);
	FIND(setsockopt);
	FIND(getsockopt);
	FIND(fcntl);
	FIND(ioctl);
	FIND(dup);
	FIND(dup2);
	FIND(dup3);
	FIND(fdopen);
	FIND(vdprintf);
	FIND(__vdprintf_chk);
	FIND(sigaction);
	FIND(signal);
	FIND(__sysv_signal);
	FIND(longjmp);
	FIND(_longjmp);
	FIND(siglongjmp);
	FIND(__longjmp_chk);
	FIND(epoll_create1);
	FIND(epoll_ctl);
	FIND(epoll_wait);
	FIND(epoll_pwait);
	FIND(epoll_pwait2);
#undef FIND
	our_bases[0] = base_of((const void *)dlsym(RTLD_DEFAULT, "rclose"));
	our_bases[1] = base_of((const void *)dlsym(RTLD_DEFAULT, "ibv_dealloc_pd"));
}

const struct real *real(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return &calls;
}

bool real_is_ours(const void *caller)
{
	const void *base;

	real();
	base = base_of(caller);
	return base && (base == our_bases[0] || base == our_bases[1]);
}
