/* SPDX-License-Identifier: BSD-2-Clause */
/* rgetsockname(), rgetpeername(), and socket addresses. */
#include "rdmacm/rs_name.h"

#include <errno.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/rs.h"
#include "rdmacm/rs_dgram.h"
#include "rdmacm/rs_from.h"

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

void rs_copy_id_name(const struct rsocket *rs, const struct sockaddr *from, struct sockaddr *to,
		     socklen_t *len)
{
	struct sockaddr_storage own = { .ss_family = (sa_family_t)rs->domain };
	struct rs_from ipv4;

	if (rs->domain == AF_INET6 && from->sa_family == AF_INET) {
		rs_from_of((const struct sockaddr_storage *)(const void *)from, &ipv4);
		rs_from_to_addr(&ipv4, AF_INET6, &own);
	} else if (from->sa_family) {
		memcpy(&own, from, addr_len(from));
	}
	rs_copy_name((struct sockaddr *)&own, to, len);
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
	rs_copy_id_name(rs, rdma_get_local_addr(rs->id), addr, addrlen);
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
		rs_copy_id_name(rs, rdma_get_peer_addr(rs->id), addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	return cma_result(err);
}
