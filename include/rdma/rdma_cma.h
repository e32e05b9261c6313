/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management: how two programs that know each other by IP address and port get connected
 * queue pairs.
 *
 * Source and binary compatible with the header of the same name in rdma-core 44, plus what later
 * releases added.
 *
 * An id (struct rdma_cm_id) is to a queue pair what a socket is to a TCP connection.  The active
 * side calls rdma_resolve_addr(), rdma_resolve_route(), rdma_create_qp() and rdma_connect(); the
 * passive side rdma_bind_addr() and rdma_listen(), and for each request, which brings an id of its
 * own, rdma_create_qp() and rdma_accept() or rdma_reject().  What these calls begin ends in an event
 * on the id's channel.
 *
 * Conventions, valid wherever a call does not say otherwise:
 *
 *   Results     0, or -1 with errno.  A call that returns a pointer gives NULL with errno.
 *   Errors      EINVAL: the id is in the wrong state, or an argument can never be right.  ENOMEM: no
 *               memory.  ENODEV: no device, or none for that address.  Only others are listed per
 *               call, with the failures that come as an event.
 *   Synchronous An id made without a channel has one of its own, and calls marked "waits" return
 *               only when their event has come.  It stays in id->event, private data and all, until
 *               the next such call.  An event that reports a failure makes the call fail: -1 with
 *               ECONNREFUSED for RDMA_CM_EVENT_REJECTED, else with the event's status as errno.
 *               Where O_NONBLOCK is set on the channel's descriptor, the call fails with EAGAIN and
 *               the next one goes on waiting.
 *   Ownership   Ids, channels and events are the library's memory until the call that gives them
 *               back.  Addresses, parameters and private data are copied before a call returns.
 *   Threads     Every call may be made from any thread.  One thread may wait for events while others
 *               use ids of that channel.  Only what destroys an object must not race with its use.
 *   Units       Timeouts are milliseconds.  Ports and __be16, __be32 are in network byte order.
 *   Fork        A child must not use ids and channels of its parent; its calls fail with EIO.
 */
#ifndef RDMA_CMA_H
#define RDMA_CMA_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What an event reports.  In brackets the call that it answers; "status" is rdma_cm_event's. */
enum rdma_cm_event_type {
	RDMA_CM_EVENT_ADDR_RESOLVED,	/* [rdma_resolve_addr] the id has a device and a source */
	RDMA_CM_EVENT_ADDR_ERROR,	/* [rdma_resolve_addr] status: -errno */
	RDMA_CM_EVENT_ROUTE_RESOLVED,	/* [rdma_resolve_route] the id has a path */
	RDMA_CM_EVENT_ROUTE_ERROR,	/* [rdma_resolve_route] status: -errno */
	RDMA_CM_EVENT_CONNECT_REQUEST,	/* [rdma_listen] id is new, listen_id the listener's */
	RDMA_CM_EVENT_CONNECT_RESPONSE, /* [rdma_connect] accepted; rdma_establish() is up to you */
	RDMA_CM_EVENT_CONNECT_ERROR,	/* the QP could not follow; status: -errno */
	RDMA_CM_EVENT_UNREACHABLE,	/* no answer: -ETIMEDOUT; UD: the positive SIDR status */
	RDMA_CM_EVENT_REJECTED,		/* status: the reason of IBTA 12.6.7.2, positive */
	RDMA_CM_EVENT_ESTABLISHED,	/* both sides may send */
	RDMA_CM_EVENT_DISCONNECTED,	/* once for each connection, whoever ended it */
	RDMA_CM_EVENT_DEVICE_REMOVAL,	/* the id's device has gone: destroy QP and id */
	RDMA_CM_EVENT_MULTICAST_JOIN,	/* [rdma_join_multicast] param.ud says how to send */
	RDMA_CM_EVENT_MULTICAST_ERROR,	/* [rdma_join_multicast] status: -errno */
	RDMA_CM_EVENT_ADDR_CHANGE,	/* the id's source address has left its device */
	RDMA_CM_EVENT_TIMEWAIT_EXIT,	/* nothing of the old connection is under way any more */
	RDMA_CM_EVENT_ADDRINFO_RESOLVED, /* [rdma_resolve_addrinfo] rdma_query_addrinfo() has it */
	RDMA_CM_EVENT_ADDRINFO_ERROR,	/* [rdma_resolve_addrinfo] status: EAI_* or -errno */
	RDMA_CM_EVENT_USER,		/* [rdma_write_cm_event] param.arg */
	RDMA_CM_EVENT_INTERNAL,		/* never seen by programs */
};

/* Spaces of port numbers, independent of each other and of the ports of TCP and UDP. */
enum rdma_port_space {
	RDMA_PS_IPOIB = 0x0002, /* groups of IP over InfiniBand: no device here has them */
	RDMA_PS_TCP   = 0x0106, /* connections */
	RDMA_PS_UDP   = 0x0111, /* datagrams */
	RDMA_PS_IB    = 0x013F, /* any type of QP; see rdma_create_ep() */
};

/* The parts of an InfiniBand service id that stands for an IP port. */
#define RDMA_IB_IP_PS_MASK   0xFFFFFFFFFFFF0000ULL
#define RDMA_IB_IP_PORT_MASK 0x000000000000FFFFULL
#define RDMA_IB_IP_PS_TCP    0x0000000001060000ULL
#define RDMA_IB_IP_PS_UDP    0x0000000001110000ULL
#define RDMA_IB_PS_IB	     0x00000000013F0000ULL

/* The Q_Key of datagram QPs and groups that belong to ids. */
#define RDMA_UDP_QKEY 0x01234567

/* The ends of an id's path as its device names them. */
struct rdma_ib_addr {
	union ibv_gid sgid;
	union ibv_gid dgid;
	__be16 pkey;
};

struct rdma_addr {
	__extension__ union {
		struct sockaddr src_addr;
		struct sockaddr_in src_sin;
		struct sockaddr_in6 src_sin6;
		struct sockaddr_storage src_storage;
	};
	__extension__ union {
		struct sockaddr dst_addr;
		struct sockaddr_in dst_sin;
		struct sockaddr_in6 dst_sin6;
		struct sockaddr_storage dst_storage;
	};
	union {
		struct rdma_ib_addr ibaddr;
	} addr;
};

struct rdma_route {
	struct rdma_addr addr;
	struct ibv_sa_path_rec *path_rec; /* num_paths of them; NULL before the route is known */
	int num_paths;
};

/*
 * Where events arrive.  The descriptor is readable exactly while one waits: poll(2) it, or set
 * O_NONBLOCK on it.
 */
struct rdma_event_channel {
	int fd;
};

/* An id.  "context" is the program's; everything else is only to be read, unless a call says so. */
struct rdma_cm_id {
	struct ibv_context *verbs; /* the device; NULL before there is one; shared by all its ids */
	struct rdma_event_channel *channel;
	void *context;
	struct ibv_qp *qp; /* rdma_create_qp()'s, or NULL */
	struct rdma_route route;
	enum rdma_port_space ps;
	uint8_t port_num;	     /* of the device, from 1; 0 before there is one */
	struct rdma_cm_event *event; /* synchronous ids: that of the last call */
	struct ibv_comp_channel *send_cq_channel;
	struct ibv_cq *send_cq;
	struct ibv_comp_channel *recv_cq_channel;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_pd *pd; /* the device's, shared by all ids, unless a QP came with its own */
	enum ibv_qp_type qp_type;
};

/* In rdma_conn_param: as many as the device can do. */
enum {
	RDMA_MAX_RESP_RES = 0xFF,
	RDMA_MAX_INIT_DEPTH = 0xFF,
};

/*
 * What a program says, and hears, of a connection.  How much private data a message has room for
 * (bytes): rdma_connect() 56, rdma_accept() 196, rdma_reject() 148; for datagrams 180, 136, 136.  In
 * events private_data_len is always all of it, filled up with zeroes.
 */
struct rdma_conn_param {
	const void *private_data;
	uint8_t private_data_len;
	uint8_t responder_resources; /* READs and atomics of the peer that are served at once */
	uint8_t initiator_depth;     /* READs and atomics that are sent at once */
	uint8_t flow_control;
	uint8_t retry_count;	 /* 0..7; not looked at by rdma_accept() */
	uint8_t rnr_retry_count; /* 0..7, 7 for ever: how often the peer shall try again */
	/* Of the id's QP, where it has one; else the program's. */
	uint8_t srq;
	uint32_t qp_num;
};

/* What an event says of a datagram service or a multicast group: all that a send to it needs. */
struct rdma_ud_param {
	const void *private_data;
	uint8_t private_data_len;
	struct ibv_ah_attr ah_attr;
	uint32_t qp_num;
	uint32_t qkey;
};

struct rdma_cm_event {
	struct rdma_cm_id *id;
	struct rdma_cm_id *listen_id; /* of a request: who listened; else NULL */
	enum rdma_cm_event_type event;
	int status; /* 0, or as rdma_cm_event_type says */
	union {
		struct rdma_conn_param conn;
		struct rdma_ud_param ud;
		uint64_t arg;
	} param;
};

/* ai_flags. */
#define RAI_PASSIVE	0x00000001 /* the address is to listen on */
#define RAI_NUMERICHOST 0x00000002 /* node is an address, not a name */
#define RAI_NOROUTE	0x00000004 /* do not look for a route */
#define RAI_FAMILY	0x00000008 /* ai_family says how node is written */
#define RAI_SA		0x00000010 /* ask InfiniBand's subnet administrator */
#define RAI_DNS		0x00000020 /* ask the resolver */

/* Ends of a connection, and what rdma_create_ep() needs besides. */
struct rdma_addrinfo {
	int ai_flags;
	int ai_family;
	int ai_qp_type;	   /* enum ibv_qp_type */
	int ai_port_space; /* enum rdma_port_space */
	socklen_t ai_src_len;
	socklen_t ai_dst_len;
	struct sockaddr *ai_src_addr;
	struct sockaddr *ai_dst_addr;
	char *ai_src_canonname;
	char *ai_dst_canonname;
	size_t ai_route_len; /* bytes */
	void *ai_route;	     /* struct ibv_path_data[] */
	size_t ai_connect_len;
	void *ai_connect; /* goes before the private data of rdma_connect() */
	struct rdma_addrinfo *ai_next;
};

/* comp_mask of rdma_cm_join_mc_attr_ex: both are needed. */
enum rdma_cm_join_mc_attr_mask {
	RDMA_CM_JOIN_MC_ATTR_ADDRESS	= 1 << 0,
	RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS = 1 << 1,
	RDMA_CM_JOIN_MC_ATTR_RESERVED	= 1 << 2,
};

enum rdma_cm_mc_join_flags {
	RDMA_MC_JOIN_FLAG_FULLMEMBER,
	RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, /* sends to the group, receives nothing of it */
	RDMA_MC_JOIN_FLAG_RESERVED,
};

struct rdma_cm_join_mc_attr_ex {
	uint32_t comp_mask;  /* enum rdma_cm_join_mc_attr_mask */
	uint32_t join_flags; /* enum rdma_cm_mc_join_flags */
	struct sockaddr *addr;
};

/* ---- Channels and events ---- */

/* A new channel.  Its descriptor is closed on exec.  EMFILE, ENFILE: no descriptor left. */
struct rdma_event_channel *rdma_create_event_channel(void);

/* Closes a channel.  Connections of ids that are still on it end; their ids may only be destroyed. */
void rdma_destroy_event_channel(struct rdma_event_channel *channel);

/*
 * The next event of any id of the channel; waits for it.  EAGAIN: none, and the descriptor is
 * non-blocking.  EINTR: a signal came first.
 */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);

/* Gives an event back: its memory and private data are gone. */
int rdma_ack_cm_event(struct rdma_cm_event *event);

/* The name of the constant. */
const char *rdma_event_str(enum rdma_cm_event_type event);

/*
 * Queues an event of the program's own: RDMA_CM_EVENT_USER with this status and param.arg.  EINVAL:
 * another type.
 */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* ---- Ids ---- */

/*
 * A new id; without a channel a synchronous one.  Its qp_type is IBV_QPT_UD for RDMA_PS_UDP and
 * RDMA_PS_IPOIB, else IBV_QPT_RC.
 */
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps);

/*
 * Destroys an id: leaves its groups, ends its connection, drops its events that nobody has fetched,
 * and waits until all that were fetched have been acknowledged.  QP, CQs and SRQ are not touched;
 * destroy them before.
 */
int rdma_destroy_id(struct rdma_cm_id *id);

/*
 * Moves an id, with the events that wait for it, to another channel; NULL makes it synchronous.
 * Waits until its events that were fetched have been acknowledged.
 */
int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

/*
 * A synchronous id, ready to connect (address and route resolved; waits) or, where res says
 * RAI_PASSIVE, bound.  With qp_init_attr it gets a QP in pd, or in its device's; a passive id hands
 * these to the ids of rdma_get_request().  Whatever fails, nothing is left; errno is that of the
 * step.
 */
int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr);

/* Destroys QP, SRQ and id. */
void rdma_destroy_ep(struct rdma_cm_id *id);

/*
 * Level RDMA_OPTION_ID.  TOS and ACK_TIMEOUT are one byte, the others an int.
 */
enum {
	RDMA_OPTION_ID	= 0,
	RDMA_OPTION_IB	= 1,
};

enum {
	RDMA_OPTION_ID_TOS = 0,		/* traffic class; before rdma_resolve_route() */
	RDMA_OPTION_ID_REUSEADDR = 1,	/* share the port; before it is bound */
	RDMA_OPTION_ID_AFONLY = 2,	/* :: does not take IPv4's; before rdma_listen() */
	RDMA_OPTION_ID_ACK_TIMEOUT = 3, /* of the local QP: 4.096 us * 2^n, 0 for ever; RC, XRC */
};

enum {
	RDMA_OPTION_IB_PATH = 1, /* struct ibv_path_data[]; takes the place of rdma_resolve_route() */
};

/* Sets an option.  ENOSYS: no such level or option.  EINVAL: its length, or too late. */
int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);

/* ---- Addresses ---- */

/*
 * Gives an id its source.  A wildcard address means all devices, port 0 any free port.  EADDRINUSE,
 * EADDRNOTAVAIL: the port is taken.  EADDRNOTAVAIL: no interface has the address.  EACCES: a port
 * below 1024 without CAP_NET_BIND_SERVICE.
 */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);

/*
 * Finds the device and the source address for a destination; waits.  src_addr may be NULL: the
 * routing decides.  ENETUNREACH, EHOSTUNREACH: no route.  Later failures are
 * RDMA_CM_EVENT_ADDR_ERROR; the call may then be made again.
 */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms);

/* Finds the path to the destination; waits. */
int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);

/* The id's ports; 0 before there is one. */
__be16 rdma_get_src_port(struct rdma_cm_id *id);
__be16 rdma_get_dst_port(struct rdma_cm_id *id);

/* The id's addresses, in the id itself. */
static inline struct sockaddr *rdma_get_local_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.src_addr;
}

static inline struct sockaddr *rdma_get_peer_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.dst_addr;
}

/*
 * Names to addresses, as getaddrinfo(3).  Fails with -1 and errno, or with the negative EAI_* code
 * of the resolver.  Give the list back by rdma_freeaddrinfo().
 */
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res);
void rdma_freeaddrinfo(struct rdma_addrinfo *res);

/*
 * rdma_getaddrinfo() without waiting: RDMA_CM_EVENT_ADDRINFO_RESOLVED or _ERROR follows.  EBUSY: one
 * is under way.  ENOENT, EOPNOTSUPP: RAI_SA, which only InfiniBand has.
 */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);

/* Its result, once.  EBUSY: not there yet.  ENOENT: none was asked for, or it was fetched. */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

/* ---- Queue pairs ---- */

/*
 * A QP for an id that has a device.  It follows the connection by itself: receives can be posted at
 * once, and sends when it is established (datagrams: at once).  CQs that attr lacks are made, with
 * a channel each: id->send_cq, id->recv_cq.  pd may be NULL: the device's.  errno of the verbs.
 */
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);
int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr);

/* Destroys id->qp, and with it id->send_cq, id->recv_cq and their channels. */
void rdma_destroy_qp(struct rdma_cm_id *id);

/*
 * For a QP of the program's own: the attributes and the mask with which ibv_modify_qp() takes it to
 * qp_attr->qp_state (INIT, RTR or RTS).  RTR and RTS need a request or a response of the peer.
 */
int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask);

/* Enhanced connection establishment, for a QP of the program's own: what vendors tell each other. */
int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece);
int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

/* ---- Connections ---- */

/*
 * Asks for a connection, or for the QP of a datagram service; waits.  conn_param may be NULL where
 * the id has a QP.  Events: ESTABLISHED (CONNECT_RESPONSE without a QP), REJECTED, UNREACHABLE,
 * CONNECT_ERROR.  After a failure the id can only be destroyed.
 */
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/* Confirms a RDMA_CM_EVENT_CONNECT_RESPONSE, for an id without a QP. */
int rdma_establish(struct rdma_cm_id *id);

/*
 * Takes requests for the id's address and port; backlog counts those that nobody has fetched, 0 or
 * less as many as the library can bear.  An id that is not bound yet gets any port.
 */
int rdma_listen(struct rdma_cm_id *id, int backlog);

/*
 * The next request of a synchronous listener; waits.  The new id is synchronous, too, and has a QP
 * if rdma_create_ep() was given attributes; its id->event is the request.
 */
int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);

/* Accepts a request; waits.  conn_param may be NULL where the id has a QP. */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/* Refuses a request; its id still has to be destroyed. */
int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/* The same because of the peer's ECE options. */
int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/*
 * Says what happened to the id's QP: IBV_EVENT_COMM_EST stands for a confirmation that got lost.
 * EISCONN: it was established already.
 */
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event);

/* Ends a connection, or answers its end; waits.  The QP is in the error state afterwards. */
int rdma_disconnect(struct rdma_cm_id *id);

/* ---- Multicast ---- */

/*
 * Joins a group with an id that has a datagram QP and a device, or only the device; waits.  The
 * event's private_data is context.
 */
int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context);

/* Leaves it.  EADDRNOTAVAIL: never joined. */
int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);

/* ---- Devices ---- */

/*
 * All devices, open, in an array that ends with NULL; num_devices may be NULL.  The contexts are
 * those of ids, and stay open.  ENODEV: there are none.
 */
struct ibv_context **rdma_get_devices(int *num_devices);

/* Frees the array. */
void rdma_free_devices(struct ibv_context **list);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
