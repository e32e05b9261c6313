/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The active side: rdma_connect(), rdma_establish(); calls of both sides: rdma_disconnect(),
 * rdma_notify(), ECE.
 */
#include <errno.h>
#include <string.h>

#include <infiniband/ib.h>

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/diagnose.h"
#include "rdmacm/id.h"
#include "rdmacm/param.h"
#include "rdmacm/qp.h"
#include "util/be.h"

/* As Linux: 4.096 us * 2^20 = 4.3 s, and 15 retries. */
enum {
	RESPONSE_TIMEOUT = 20,
	MAX_CM_RETRIES = 15,
	PKEY = 0xffff,
	ROUTED_LID = 0xffff,
};

/* ---- Messages ---- */

/* Private data taken by the IP header; a request between GIDs has none. */
static size_t header_len(const struct cma_id *id)
{
	return addr_ip_version(&id->pub.route.addr.dst_addr) ? CM_IP_HEADER_LEN : 0;
}

static void put_private_data(const struct cma_id *id, const struct param *p, uint8_t *to,
			     size_t room)
{
	const struct rdma_addr *addr = &id->pub.route.addr;
	size_t header = header_len(id);
	struct cm_ip_header ip = {
		.ip_version = addr_ip_version(&addr->dst_addr),
		.src_port = addr_port(&addr->src_addr),
		.src = id->path.src,
		.dst = id->path.dst,
	};

	if (header)
		cm_ip_header_encode(to, &ip);
	memcpy(to + header, p->data, room - header);
}

static uint64_t service_of(const struct cma_id *id)
{
	const struct rdma_addr *addr = &id->pub.route.addr;
	const struct sockaddr_ib *ib = (const void *)&addr->dst_addr;

	if (addr->dst_addr.sa_family == AF_IB)
		return be64toh(ib->sib_sid);
	return cm_service_id(id->pub.ps, addr_port(&addr->dst_addr));
}

static struct cm_wire_path wire_path(const struct cma_id *id)
{
	const struct ibv_sa_path_rec *rec = &id->path_rec;

	return (struct cm_wire_path){
		.local_lid = ROUTED_LID,
		.remote_lid = ROUTED_LID,
		.local_gid = id->path.src,
		.remote_gid = id->path.dst,
		.flow_label = be32toh(rec->flow_label),
		.traffic_class = rec->traffic_class,
		.hop_limit = rec->hop_limit,
		.sl = rec->sl,
		.ack_timeout = cm_ack_timeout(id->path.place.dev->ack_delay, rec->packet_life_time),
	};
}

static void set_transport(const struct cma_id *id, struct cm_req *req)
{
	switch (id->pub.qp_type) {
	case IBV_QPT_UC:
		req->transport = CM_UC;
		break;
	case IBV_QPT_XRC_SEND:
		req->transport = CM_EXTENDED;
		req->ext_transport = CM_EXT_XRC;
		/*
		 * An XRC initiator serves no requests, and its retry counts do not concern the
		 * peer.
		 */
		req->responder_resources = req->retry_count = req->rnr_retry = 0;
		req->srq = false;
		break;
	default:
		req->transport = CM_RC;
	}
}

static struct cm_req req_of(const struct cma_id *id, const struct param *p)
{
	struct cm_req req = {
		.vendor_id = id->ece.vendor_id,
		.service_id = service_of(id),
		.ca_guid = id->path.place.dev->guid,
		.qpn = p->conn.qp_num,
		.responder_resources = p->conn.responder_resources,
		.initiator_depth = p->conn.initiator_depth,
		.remote_response_timeout = RESPONSE_TIMEOUT,
		.local_response_timeout = RESPONSE_TIMEOUT,
		.flow_control = p->conn.flow_control,
		.srq = p->conn.srq,
		.retry_count = min(p->conn.retry_count, (uint8_t)7),
		.rnr_retry = min(p->conn.rnr_retry_count, (uint8_t)7),
		.max_cm_retries = MAX_CM_RETRIES,
		.pkey = PKEY,
		.mtu = id->path_rec.mtu,
		.primary = wire_path(id),
	};

	set_transport(id, &req);
	put_private_data(id, p, req.private_data, CM_REQ_PRIVATE);
	return req;
}

/* The path of MADs. */
static struct net_path mad_path(const struct cma_id *id)
{
	return (struct net_path){
		.src = id->path.src,
		.dst = id->path.dst,
		.ifindex = id->path.place.ifindex,
		.traffic_class = id->path_rec.traffic_class,
		.hop_limit = id->path_rec.hop_limit,
	};
}

static int send_req(struct cma_id *id, const struct param *p)
{
	struct net_path path = mad_path(id);
	struct cm_req req = req_of(id, p);

	return cm_connect(&cma.engine, &id->conn->cm, &req, id->ece.options, &path,
			  id->path_rec.packet_life_time, qp1.now());
}

static int send_sidr_req(struct cma_id *id, const struct param *p)
{
	struct net_path path = mad_path(id);
	struct cm_sidr_req req = {
		.pkey = PKEY,
		.service_id = service_of(id),
	};

	put_private_data(id, p, req.private_data, CM_SIDR_REQ_PRIVATE);
	return cm_sidr_connect(&cma.engine, &id->conn->cm, &req, &path, qp1.now());
}

/* ---- Connecting ---- */

/* Under the lock. */
static int start(struct cma_id *id, const struct param *p)
{
	int err = id_new_conn(id);

	if (err)
		return err;
	err = id_is_datagram(id) ? send_sidr_req(id, p) : send_req(id, p);
	if (err)
		id_end_conn(id);
	else
		id->state = ID_CONNECT;
	id->qp_num = p->conn.qp_num;
	return err;
}

static int connect_id(struct cma_id *id, const struct rdma_conn_param *param)
{
	size_t room = (id_is_datagram(id) ? CM_SIDR_REQ_PRIVATE : CM_REQ_PRIVATE) - header_len(id);
	struct param p;
	int err;

	if (id->state != ID_ROUTE_RESOLVED)
		return diagnose_invalid("rdma_connect: the id %s",
					id->state < ID_ROUTE_RESOLVED
						? "has no route: rdma_resolve_route() comes first"
						: "has connected before, or its device has gone");
	err = param_of_connect(id, param, room, &p);
	return err ? err : start(id, &p);
}

CMA_EXPORT int rdma_connect(struct rdma_cm_id *pub, struct rdma_conn_param *param)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	bool sync;
	int err;

	cma_settle();
	err = id_enter(id);
	if (err)
		return cma_result(err);
	sync = id->sync;
	err = connect_id(id, param);
	cma_unlock();
	return err || !sync ? cma_result(err) : id_wait(id);
}

CMA_EXPORT int rdma_establish(struct rdma_cm_id *pub)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);

	if (err)
		return cma_result(err);
	if (pub->qp || !id->conn)
		err = EINVAL;
	else
		err = cm_establish(&cma.engine, &id->conn->cm, NULL, 0);
	cma_unlock();
	return cma_result(err);
}

/* ---- Both sides ---- */

CMA_EXPORT int rdma_notify(struct rdma_cm_id *pub, enum ibv_event_type event)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);

	if (err)
		return cma_result(err);
	if (!id->conn)
		err = EINVAL;
	else if (event == IBV_EVENT_COMM_EST)
		err = cm_notify(&cma.engine, &id->conn->cm);
	else
		err = event == IBV_EVENT_PATH_MIG ? 0 : EINVAL;
	cma_unlock();
	return cma_result(err);
}

/* Does nothing before the connection is established, or when it has ended. */
static int disconnect(struct cma_id *id)
{
	int err = id_enter(id);

	if (err)
		return err;
	if (id->conn)
		cm_disconnect(&cma.engine, &id->conn->cm, NULL, 0, qp1.now());
	else
		err = EINVAL;
	cma_unlock();
	return err;
}

CMA_EXPORT int rdma_disconnect(struct rdma_cm_id *pub)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);
	bool waits;

	if (err)
		return cma_result(err);
	err = pub->verbs ? 0 : EINVAL;
	/* Datagrams have no connection whose end would be an event. */
	waits = id->sync && !id_is_datagram(id);
	cma_unlock();
	cma_settle();
	/* Flushes posted work requests before the DREQ is sent. */
	if (!err)
		err = qp_fail(id);
	if (!err)
		err = disconnect(id);
	/* Else the thread that gets the event may have destroyed the id. */
	return err || !waits ? cma_result(err) : id_wait(id);
}

/* ---- ECE ---- */

/*
 * Copies the local or the peer's ECE options. Only for QPs that the program created itself: the
 * library's have none.
 */
static int move_ece(struct rdma_cm_id *pub, struct ibv_ece *ece, bool set)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = ece ? id_enter(id) : EINVAL;

	if (err)
		return cma_result(err);
	if (pub->qp)
		err = EINVAL;
	else if (set)
		id->ece = *ece;
	else
		*ece = (struct ibv_ece){ .vendor_id = id->peer_ece.vendor_id,
					 .options = id->peer_ece.options };
	cma_unlock();
	return cma_result(err);
}

CMA_EXPORT int rdma_set_local_ece(struct rdma_cm_id *pub, struct ibv_ece *ece)
{
	return move_ece(pub, ece, true);
}

CMA_EXPORT int rdma_get_remote_ece(struct rdma_cm_id *pub, struct ibv_ece *ece)
{
	return move_ece(pub, ece, false);
}
