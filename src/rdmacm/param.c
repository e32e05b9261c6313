/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection parameters. */
#include "rdmacm/param.h"

#include <errno.h>
#include <string.h>

#include "rdmacm/diagnose.h"
#include "rdmacm/id.h"
#include "run/log.h"

enum { RETRIES = 7 };

/* As rdma-core: other port spaces leave it to the program what its QP and its peer can do. */
static bool is_checked(const struct cma_id *id)
{
	return id->pub.ps == RDMA_PS_TCP;
}

/* Number of READs and atomics; 0xff: as many as the device supports. */
static int limit(const struct cma_id *id, const char *name, uint8_t *asked, uint8_t device)
{
	if (*asked == RDMA_MAX_RESP_RES)
		*asked = device;
	if (*asked <= device || !is_checked(id))
		return 0;
	return diagnose_invalid("rdma_conn_param: %s is %u, but the device's limit is %u", name,
				*asked, device);
}

/* The id's own QP overrides what the program gives. */
static void take_qp(const struct cma_id *id, struct rdma_conn_param *conn)
{
	conn->qp_num &= 0xffffff;
	if (!id->pub.qp)
		return;
	conn->qp_num = id->pub.qp->qp_num;
	conn->srq = id->pub.qp->srq != NULL;
}

static int take_data(const struct cma_id *id, const struct rdma_conn_param *in, size_t room,
		     struct param *out)
{
	size_t before = id->ep.connect_len;
	size_t len = in && in->private_data ? in->private_data_len : 0;

	memset(out->data, 0, sizeof(out->data));
	if (before + len > room)
		return diagnose_invalid("rdma_conn_param: private_data_len is %zu, but must be at "
					"most %zu", len, room - min(room, before));
	if (before)
		memcpy(out->data, id->ep.connect, before);
	if (len)
		memcpy(out->data + before, in->private_data, len);
	return 0;
}

static int complete(const struct cma_id *id, const struct rdma_conn_param *in, size_t room,
		    struct param *out)
{
	const struct device *dev = id->path.place.dev;
	int err;

	if (!dev)
		return EINVAL;
	take_qp(id, &out->conn);
	err = take_data(id, in, room, out);
	if (!err && !id_is_datagram(id))
		err = limit(id, "responder_resources", &out->conn.responder_resources,
			    dev->max_rd_atomic);
	if (!err && !id_is_datagram(id))
		err = limit(id, "initiator_depth", &out->conn.initiator_depth,
			    dev->max_init_rd_atomic);
	return err;
}

static const struct rdma_conn_param defaults = {
	.responder_resources = RDMA_MAX_RESP_RES,
	.initiator_depth = RDMA_MAX_INIT_DEPTH,
	.retry_count = RETRIES,
	.rnr_retry_count = RETRIES,
};

/* A program with a QP of its own names it; one that forgot to create it has none. */
static void note_number(const struct cma_id *id, const char *call,
			const struct rdma_conn_param *conn)
{
	if (!id->pub.qp && !conn->qp_num)
		log_info(LOG_VERBS, "%s: the id has no QP (rdma_create_qp() comes first), and "
				    "qp_num is 0", call);
}

int param_of_connect(const struct cma_id *id, const struct rdma_conn_param *in, size_t room,
		     struct param *out)
{
	int err;

	if (!in && !id->pub.qp && is_checked(id))
		return diagnose_invalid("rdma_connect: neither parameters nor a QP of the id");
	out->conn = in ? *in : defaults;
	err = complete(id, in, room, out);
	if (!err && !id_is_datagram(id))
		note_number(id, "rdma_connect", &out->conn);
	return err;
}

/*
 * Replaces 0xff by what the peer requested, limited by the device: the peer's QP cannot hold more
 * READs.
 */
static void limit_to_request(const struct cma_id *id, struct rdma_conn_param *conn)
{
	const struct device *dev = id->path.place.dev;

	if (conn->responder_resources == RDMA_MAX_RESP_RES)
		conn->responder_resources =
			min(id->conn->cm.responder_resources, dev->max_rd_atomic);
	if (conn->initiator_depth == RDMA_MAX_INIT_DEPTH)
		conn->initiator_depth = min(id->conn->cm.initiator_depth, dev->max_init_rd_atomic);
}

int param_of_accept(const struct cma_id *id, const struct rdma_conn_param *in, size_t room,
		    struct param *out)
{
	int err;

	if (!in && !id->pub.qp)
		return diagnose_invalid("rdma_accept: neither parameters nor a QP of the id");
	out->conn = in ? *in : defaults;
	if (id->conn && id->path.place.dev)
		limit_to_request(id, &out->conn);
	err = complete(id, in, room, out);
	if (!err)
		note_number(id, "rdma_accept", &out->conn);
	return err;
}
