/* SPDX-License-Identifier: BSD-2-Clause */
/* rgetsockname(), rgetpeername(), and socket addresses. */
#include "rdmacm/rs_name.h"

#include <errno.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/rs.h"
#include "rdmacm/rs_dgram.h"

int rs_check_name(const struct sockaddr *addr, socklen_t len)
{
	socklen_t need;

	if (!addr || len < sizeof(addr->sa_family))
		return EINVAL;
	need = addr_len(addr);
	if (!need)
		return EAFNOSUPPORT;
	return len < need ? EINVAL : 0;
}

void rs_copy_name(const struct sockaddr *from, struct sockaddr *to, socklen_t *len)
{
	socklen_t full = addr_len(from);

	memcpy(to, from, min(*len, full));
	*len = full;
}

/* The id's address, or an unspecified one of the socket's family. */
static void copy_id_name(const struct rsocket *rs, const struct sockaddr *from,
			 struct sockaddr *addr, socklen_t *len)
{
	const struct sockaddr_storage any = { .ss_family = (sa_family_t)rs->domain };

	rs_copy_name(from->sa_family ? from : (const struct sockaddr *)&any, addr, len);
}

CMA_EXPORT int rgetsockname(int fd, struct sockaddr *addr, socklen_t *addrlen)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);

	if (!rs)
		return -1;
	if (!addr || !addrlen)
		return cma_result(EFAULT);
	if (!rs_is_stream(rs))
		return getsockname(fd, addr, addrlen);
	pthread_mutex_lock(&rs->lock);
	copy_id_name(rs, rdma_get_local_addr(rs->id), addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	return 0;
}

CMA_EXPORT int rgetpeername(int fd, struct sockaddr *addr, socklen_t *addrlen)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int err = 0;

	if (!rs)
		return -1;
	if (!addr || !addrlen)
		return cma_result(EFAULT);
	if (!rs_is_stream(rs))
		return getpeername(fd, addr, addrlen);
	pthread_mutex_lock(&rs->lock);
	if (rs->state < RS_OPEN || rs->state == RS_FAILED)
		err = ENOTCONN;
	else
		copy_id_name(rs, rdma_get_peer_addr(rs->id), addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	return cma_result(err);
}
