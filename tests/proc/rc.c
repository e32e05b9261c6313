/* SPDX-License-Identifier: BSD-2-Clause */
/* See rc.h. */
#include <dirent.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rc.h"

static const union ibv_gid loopback = { .raw = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 } };

/* The index of an address in the device's GID table; -1 if it is not there. */
static int index_of(struct ibv_context *ctx, const union ibv_gid *wanted)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (ibv_query_port(ctx, 1, &port))
		return -1;
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (ibv_query_gid(ctx, 1, i, &gid) == 0 && memcmp(&gid, wanted, sizeof(gid)) == 0)
			return i;
	return -1;
}

static void open_device(struct rc *rc)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list);
	for (int i = 0; list[i]; i++) {
		rc->ctx = ibv_open_device(list[i]);
		CHECK(rc->ctx);
		rc->gid_index = index_of(rc->ctx, &rc->gid);
		if (rc->gid_index >= 0)
			break;
		CHECK(ibv_close_device(rc->ctx) == 0);
		rc->ctx = NULL;
	}
	ibv_free_device_list(list);
	if (!rc->ctx)
		SKIP("no device has the address (usually 127.0.0.1)");
}

void rc_open(struct rc *rc, size_t size)
{
	rc_open_at(rc, size, &loopback);
}

void rc_open_at(struct rc *rc, size_t size, const union ibv_gid *gid)
{
	struct ibv_port_attr port;

	memset(rc, 0, sizeof(*rc));
	rc->gid = *gid;
	open_device(rc);
	CHECK(ibv_query_port(rc->ctx, 1, &port) == 0);
	rc->mtu = port.active_mtu;
	rc->pd = ibv_alloc_pd(rc->ctx);
	CHECK(rc->pd);
	rc->channel = ibv_create_comp_channel(rc->ctx);
	CHECK(rc->channel);
	rc->cq = ibv_create_cq(rc->ctx, 4 * RC_DEPTH, NULL, rc->channel, 0);
	CHECK(rc->cq);
	rc->size = size;
	rc->buf = calloc(1, size);
	CHECK(rc->buf);
	rc->mr = ibv_reg_mr(rc->pd, rc->buf, size,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(rc->mr);
	rc->qp = rc_new_qp(rc);
}

void rc_share(struct rc *rc)
{
	int fd = memfd_create("rc", MFD_CLOEXEC);

	CHECK(ibv_dereg_mr(rc->mr) == 0);
	free(rc->buf);
	CHECK(fd >= 0 && ftruncate(fd, rc->size) == 0);
	rc->buf = mmap(NULL, rc->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(rc->buf != MAP_FAILED);
	/* The descriptor stays open: peers open the file through it. */
	rc->shared = true;
	rc->mr = ibv_reg_mr(rc->pd, rc->buf, rc->size,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(rc->mr);
}

static struct ibv_qp *new_qp(struct rc *rc, bool sig_all)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq,
		.recv_cq = rc->cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = sig_all,
		.cap = {
			.max_send_wr = RC_DEPTH,
			.max_recv_wr = RC_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp *qp = ibv_create_qp(rc->pd, &init);

	CHECK(qp);
	CHECK(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
	return qp;
}

struct ibv_qp *rc_new_qp(struct rc *rc)
{
	return new_qp(rc, true);
}

struct ibv_qp *rc_new_quiet_qp(struct rc *rc)
{
	return new_qp(rc, false);
}

struct rc_addr rc_address(const struct rc *rc, const struct ibv_qp *qp)
{
	return (struct rc_addr){
		.gid = rc->gid,
		.addr = (uintptr_t)rc->buf,
		.rkey = rc->mr->rkey,
		.qpn = qp->qp_num,
	};
}

struct ibv_qp_attr rc_rtr_attr(const struct rc *rc, const struct rc_addr *peer)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = rc->mtu,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = { .dgid = peer->gid, .sgid_index = rc->gid_index, .hop_limit = 64 },
		},
	};
}

void rc_to_rtr(struct rc *rc, struct ibv_qp *qp, const struct rc_addr *peer)
{
	struct ibv_qp_attr attr = rc_rtr_attr(rc, peer);

	CHECK(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0);
}

void rc_connect(struct rc *rc, struct ibv_qp *qp, const struct rc_addr *peer, uint8_t timeout,
		uint8_t retry_cnt)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = timeout,
		.retry_cnt = retry_cnt,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	rc_to_rtr(rc, qp, peer);
	CHECK(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

void rc_post_recv(struct rc *rc, struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rc->buf,
		.length = rc->size,
		.lkey = rc->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
}

int rc_post_send(struct rc *rc, struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t len,
		 const struct rc_addr *peer, uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rc->buf,
		.length = len,
		.lkey = rc->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = peer->addr, .rkey = peer->rkey },
	};
	struct ibv_send_wr *bad;

	return KEEPS_ERRNO(ibv_post_send(qp, &wr, &bad));
}

int rc_post_fetch_add(struct rc *rc, struct ibv_qp *qp, uint64_t add, const struct rc_addr *peer,
		      uint64_t wr_id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rc->buf, .length = 8, .lkey = rc->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = peer->addr, .rkey = peer->rkey, .compare_add = add },
	};
	struct ibv_send_wr *bad;

	return KEEPS_ERRNO(ibv_post_send(qp, &wr, &bad));
}

void rc_barrier(int sock)
{
	char byte = 'R';

	CHECK(write(sock, &byte, 1) == 1);
	CHECK(read(sock, &byte, 1) == 1);
}

void rc_pair(struct rc *rc, int sock, struct rc_addr *peer, uint8_t timeout, uint8_t retry_cnt)
{
	struct rc_addr own = rc_address(rc, rc->qp);

	CHECK(write(sock, &own, sizeof(own)) == sizeof(own));
	CHECK(read(sock, peer, sizeof(*peer)) == sizeof(*peer));
	rc_connect(rc, rc->qp, peer, timeout, retry_cnt);
	rc_barrier(sock);
}

static int poll_any(struct rc *rc, struct ibv_wc *wc)
{
	int n;

	do {
		n = ibv_poll_cq(rc->cq, 1, wc);
	} while (n == 0);
	return n;
}

struct ibv_wc rc_wait(struct rc *rc)
{
	struct ibv_wc wc;

	CHECK(KEEPS_ERRNO(poll_any(rc, &wc)) == 1);
	return wc;
}

void rc_poll_until_told(struct rc *rc, int sock)
{
	struct ibv_wc wc;
	char c;

	while (recv(sock, &c, 1, MSG_DONTWAIT) != 1)
		CHECK_EQ(KEEPS_ERRNO(ibv_poll_cq(rc->cq, 1, &wc)), 0);
}

void rc_tell(int sock)
{
	CHECK(write(sock, "t", 1) == 1);
}

enum ibv_qp_state rc_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

void rc_close(struct rc *rc)
{
	CHECK(ibv_destroy_qp(rc->qp) == 0);
	CHECK(ibv_dereg_mr(rc->mr) == 0);
	CHECK(ibv_destroy_cq(rc->cq) == 0);
	CHECK(ibv_destroy_comp_channel(rc->channel) == 0);
	CHECK(ibv_dealloc_pd(rc->pd) == 0);
	CHECK(ibv_close_device(rc->ctx) == 0);
	if (rc->shared)
		CHECK(munmap(rc->buf, rc->size) == 0);
	else
		free(rc->buf);
}

int rc_slot_files(void)
{
	DIR *d = opendir(getenv("VERBENA_DIR"));
	struct dirent *entry;
	int n = 0;

	CHECK(d);
	while ((entry = readdir(d)))
		if (entry->d_name[0] == 's' && strspn(entry->d_name + 1, "0123456789") == 4) {
			printf("%s\n", entry->d_name);
			n++;
		}
	closedir(d);
	return n;
}
