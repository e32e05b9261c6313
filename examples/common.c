/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See common.h.  Read it from top to bottom: the functions are in the order in which a connection
 * uses them.
 */
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

enum {
	CQ_ENTRIES = 64,
	QUEUE_DEPTH = 16,
	TIMEOUT_S = 30,
};

void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "failed");
	exit(1);
}

/* ---- options and TCP ---- */

static void usage(const char *program)
{
	fprintf(stderr,
		"Usage: %s [-d device] [-i ib-port] [-g gid-index] [-p tcp-port] [server]\n"
		"Start it without a server name on one side, then with that side's name on the "
		"other.\n",
		program);
	exit(2);
}

void parse_options(struct options *opt, int argc, char **argv)
{
	int c;

	*opt = (struct options){ .tcp_port = 19875, .ib_port = 1, .gid_index = -1 };
	while ((c = getopt(argc, argv, "d:i:g:p:")) != -1) {
		switch (c) {
		case 'd':
			opt->device = optarg;
			break;
		case 'i':
			opt->ib_port = atoi(optarg);
			break;
		case 'g':
			opt->gid_index = atoi(optarg);
			break;
		case 'p':
			opt->tcp_port = atoi(optarg);
			break;
		default:
			usage(argv[0]);
		}
	}
	if (argc - optind > 1)
		usage(argv[0]);
	opt->server = argv[optind];
}

static int connect_to(const struct addrinfo *list)
{
	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);

		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	fail("connecting to the server");
}

static int accept_one(const struct addrinfo *a)
{
	int listener = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
	int on = 1, fd;

	if (listener < 0)
		fail("socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, a->ai_addr, a->ai_addrlen) || listen(listener, 1))
		fail("listening");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		fail("accept");
	close(listener);
	return fd;
}

void connect_tcp(struct side *s)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	char port[8];
	int err;

	hints.ai_flags = is_client(s) ? 0 : AI_PASSIVE;
	hints.ai_family = is_client(s) ? AF_UNSPEC : AF_INET;
	snprintf(port, sizeof(port), "%d", s->opt.tcp_port & 0xffff);
	err = getaddrinfo(s->opt.server, port, &hints, &list);
	if (err) {
		fprintf(stderr, "looking up the server: %s\n", gai_strerror(err));
		exit(1);
	}
	s->sock = is_client(s) ? connect_to(list) : accept_one(list);
	freeaddrinfo(list);
}

static void swap_bytes(struct side *s, const void *mine, void *theirs, size_t len)
{
	size_t done = 0;

	if (write(s->sock, mine, len) != (ssize_t)len)
		fail("writing to the peer");
	while (done < len) {
		ssize_t n = read(s->sock, (char *)theirs + done, len - done);

		if (n == 0)
			errno = ECONNRESET;
		if (n <= 0)
			fail("reading from the peer");
		done += n;
	}
}

void sync_sides(struct side *s)
{
	char mine = 'S', theirs;

	swap_bytes(s, &mine, &theirs, 1);
}

/* ---- device and objects ---- */

static struct ibv_device *find_device(struct ibv_device **list, const char *name)
{
	for (; *list; list++)
		if (!name || strcmp(ibv_get_device_name(*list), name) == 0)
			return *list;
	return NULL;
}

/*
 * On Ethernet a path is addressed by GIDs.  Without an option, takes the first one that contains an
 * IPv4 address (::ffff:a.b.c.d), or else entry 0.
 */
static int choose_gid(struct side *s)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	union ibv_gid gid;

	for (int i = 0; i < s->port.gid_tbl_len; i++)
		if (ibv_query_gid(s->ctx, s->opt.ib_port, i, &gid) == 0 &&
		    memcmp(gid.raw, mapped, sizeof(mapped)) == 0)
			return i;
	return 0;
}

void open_device(struct side *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *dev;

	if (!list)
		fail("ibv_get_device_list");
	dev = find_device(list, s->opt.device);
	if (!dev) {
		errno = ENODEV;
		fail("finding the device");
	}
	s->ctx = ibv_open_device(dev);
	if (!s->ctx)
		fail("ibv_open_device");
	/* An open device does not need the list any more. */
	ibv_free_device_list(list);

	if (ibv_query_port(s->ctx, s->opt.ib_port, &s->port))
		fail("ibv_query_port");
	if (s->opt.gid_index < 0 && s->port.link_layer == IBV_LINK_LAYER_ETHERNET)
		s->opt.gid_index = choose_gid(s);
	if (s->opt.gid_index >= 0 &&
	    ibv_query_gid(s->ctx, s->opt.ib_port, s->opt.gid_index, &s->gid))
		fail("ibv_query_gid");
}

void create_objects(struct side *s, size_t size)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_ATOMIC;

	s->pd = ibv_alloc_pd(s->ctx);
	if (!s->pd)
		fail("ibv_alloc_pd");
	s->cq = ibv_create_cq(s->ctx, CQ_ENTRIES, NULL, NULL, 0);
	if (!s->cq)
		fail("ibv_create_cq");
	s->size = size;
	s->buf = calloc(1, size);
	if (!s->buf)
		fail("calloc");
	s->mr = ibv_reg_mr(s->pd, s->buf, size, access);
	if (!s->mr)
		fail("ibv_reg_mr");
}

void side_open(struct side *s, int argc, char **argv, size_t size)
{
	memset(s, 0, sizeof(*s));
	parse_options(&s->opt, argc, argv);
	connect_tcp(s);
	open_device(s);
	create_objects(s, size);
}

/* ---- the queue pair ---- */

struct ibv_qp *create_qp(struct side *s, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = QUEUE_DEPTH,
			.max_recv_wr = QUEUE_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	if (!qp)
		fail("ibv_create_qp");
	move_to_init(s, qp);
	return qp;
}

/* From INIT on, receives may be posted; nothing arrives yet. */
void move_to_init(struct side *s, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = s->opt.ib_port,
		.pkey_index = 0,
		/* What the peer may do to our memory through this queue pair, on top of what each
		   region allows. */
		.qp_access_flags =
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};

	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (errno)
		fail("moving the queue pair to INIT");
}

/* From RTR (ready to receive) on, requests of the peer are served. */
void move_to_rtr(struct side *s, struct ibv_qp *qp, const struct address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = s->port.active_mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = 0,
		.max_dest_rd_atomic = 1, /* READs and atomics of the peer in flight */
		.min_rnr_timer = 12, /* 0.64 ms: how long the peer waits if no receive is posted */
		.ah_attr = { .dlid = peer->lid, .port_num = s->opt.ib_port },
	};

	if (s->opt.gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = peer->gid;
		attr.ah_attr.grh.sgid_index = s->opt.gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	if (errno)
		fail("moving the queue pair to RTR");
}

/* From RTS (ready to send) on, requests may be posted. */
void move_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0,
		.timeout = 14, /* 67 ms until a request is sent again */
		.retry_cnt = 7,
		.rnr_retry = 7, /* for ever */
		.max_rd_atomic = 1,
	};

	errno = ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (errno)
		fail("moving the queue pair to RTS");
}

/* struct address as it travels over TCP: big endian, no holes. */
struct wire_address {
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn;
	uint8_t gid[16];
	uint16_t lid;
	uint16_t unused[3];
};

void exchange_addresses(struct side *s, const struct ibv_qp *qp, struct address *peer)
{
	struct wire_address theirs, mine = {
		.addr = htobe64((uintptr_t)s->buf),
		.rkey = htobe32(s->mr->rkey),
		.qpn = htobe32(qp->qp_num),
		.lid = htobe16(s->port.lid),
	};

	memcpy(mine.gid, s->gid.raw, sizeof(mine.gid));
	swap_bytes(s, &mine, &theirs, sizeof(mine));
	peer->addr = be64toh(theirs.addr);
	peer->rkey = be32toh(theirs.rkey);
	peer->qpn = be32toh(theirs.qpn);
	peer->lid = be16toh(theirs.lid);
	memcpy(peer->gid.raw, theirs.gid, sizeof(theirs.gid));
}

void connect_qp(struct side *s, struct ibv_qp *qp, struct address *peer)
{
	exchange_addresses(s, qp, peer);
	move_to_rtr(s, qp, peer);
	move_to_rts(qp);
	/* A request to a queue pair that is not in RTR yet would be lost and sent again: wait for
	 * the peer. */
	sync_sides(s);
}

void destroy_qp(struct ibv_qp *qp)
{
	errno = ibv_destroy_qp(qp);
	if (errno)
		fail("ibv_destroy_qp");
}

/* ---- work ---- */

void post_receive(struct side *s, struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)s->buf, .length = s->size, .lkey = s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	errno = ibv_post_recv(qp, &wr, &bad);
	if (errno)
		fail("ibv_post_recv");
}

void post_request(struct side *s, struct ibv_qp *qp, enum ibv_wr_opcode opcode, size_t len,
		  const struct address *peer)
{
	struct ibv_sge sge = { .addr = (uintptr_t)s->buf, .length = len, .lkey = s->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_send_wr *bad;

	if (peer) {
		wr.wr.rdma.remote_addr = peer->addr;
		wr.wr.rdma.rkey = peer->rkey;
	}
	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		fail("ibv_post_send");
}

struct ibv_wc wait_completion(struct side *s)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	int n;

	alarm(TIMEOUT_S);
	do {
		n = ibv_poll_cq(s->cq, 1, &wc);
	} while (n == 0);
	alarm(0);
	if (n < 0)
		fail("ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "work request %llu: %s (status %d, vendor_err 0x%x)\n",
			(unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), wc.status,
			wc.vendor_err);
		exit(1);
	}
	return wc;
}

/* Objects go in the reverse order of their creation: what others still use refuses to be destroyed.
 */
void side_close(struct side *s)
{
	errno = ibv_dereg_mr(s->mr);
	if (errno)
		fail("ibv_dereg_mr");
	errno = ibv_destroy_cq(s->cq);
	if (errno)
		fail("ibv_destroy_cq");
	errno = ibv_dealloc_pd(s->pd);
	if (errno)
		fail("ibv_dealloc_pd");
	if (ibv_close_device(s->ctx))
		fail("ibv_close_device");
	free(s->buf);
	close(s->sock);
}
