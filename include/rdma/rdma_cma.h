/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management: connects the queue pairs of two programs that know each other's IP address
 * and port.  rdma_cm(7), verbena-rdmacm(7); the calls' manual pages are rdma-core's.
 *
 * Source and binary compatible with the header of the same name in rdma-core 44, plus additions of
 * later releases.
 *
 * An id (struct rdma_cm_id) is to a queue pair what a socket is to a TCP connection.  The active
 * side calls rdma_resolve_addr(), rdma_resolve_route(), rdma_create_qp() and rdma_connect(); the
 * passive side rdma_bind_addr() and rdma_listen(), and for each request, which has a new id,
 * rdma_create_qp() and rdma_accept() or rdma_reject().  Each of these operations ends with an event
 * on the id's channel.
 *
 * Conventions, unless stated otherwise for a call:
 *
 *   Results     0, or -1 with errno.  Calls that return a pointer: NULL with errno.
 *   Errors      EINVAL: the id is in the wrong state, or an argument is invalid.  ENOMEM: out of
 *               memory.  ENODEV: no device, or none with that address.  Only others are listed per
 *               call, with the failures that an event reports.
 *   Synchronous An id created without a channel has its own, and calls marked "waits" return only
 *               after their event.  It stays in id->event, with its private data, until the next
 *               such call.  If the event reports a failure, the call fails: -1 with ECONNREFUSED
 *               for RDMA_CM_EVENT_REJECTED, else with the event's status as errno.  If O_NONBLOCK
 *               is set on the channel's descriptor, the call fails with EAGAIN, and the next one
 *               continues to wait.
 *   Ownership   The library owns ids, channels and events, until the call that destroys or
 *               acknowledges them.  Calls copy addresses, parameters and private data.
 *   Threads     Every call may be made from any thread.  One thread may wait for events while
 *               others use ids of that channel.  A call that destroys an object must not race
 *               with its use.
 *   Units       Timeouts are milliseconds.  Ports, __be16 and __be32 are in network byte order.
 *   Source      The manual page of the call's name, section 3; messages and reasons: IBTA volume 1,
 *               chapter 12, and annex A11 (service IDs and private data of IP addresses).
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

/* Events.  In brackets: the call that the event completes.  "status" is rdma_cm_event's. */
enum rdma_cm_event_type {
	RDMA_CM_EVENT_ADDR_RESOLVED,	/* [rdma_resolve_addr] the id has a device and a source */
	RDMA_CM_EVENT_ADDR_ERROR,	/* [rdma_resolve_addr] status: -errno */
	RDMA_CM_EVENT_ROUTE_RESOLVED,	/* [rdma_resolve_route] the id has a path */
	RDMA_CM_EVENT_ROUTE_ERROR,	/* [rdma_resolve_route] status: -errno */
	RDMA_CM_EVENT_CONNECT_REQUEST,	/* [rdma_listen] id is new, listen_id the listener's */
	RDMA_CM_EVENT_CONNECT_RESPONSE, /* [rdma_connect] accepted; call rdma_establish() */
	RDMA_CM_EVENT_CONNECT_ERROR,	/* the QP could not be moved; status: -errno */
	RDMA_CM_EVENT_UNREACHABLE,	/* no answer: -ETIMEDOUT; UD: the positive SIDR status */
	RDMA_CM_EVENT_REJECTED,		/* status: the reason of IBTA 12.6.7.2, positive */
	RDMA_CM_EVENT_ESTABLISHED,	/* connected, both sides may send */
	RDMA_CM_EVENT_DISCONNECTED,	/* once per connection, whichever side ended it */
	RDMA_CM_EVENT_DEVICE_REMOVAL,	/* the id's device was removed: destroy QP and id */
	RDMA_CM_EVENT_MULTICAST_JOIN,	/* [rdma_join_multicast] param.ud: how to send */
	RDMA_CM_EVENT_MULTICAST_ERROR,	/* [rdma_join_multicast] status: -errno */
	RDMA_CM_EVENT_ADDR_CHANGE,	/* the link address of the id's interface changed */
	RDMA_CM_EVENT_TIMEWAIT_EXIT,	/* timewait is over: the QP number may be reused */
	RDMA_CM_EVENT_ADDRINFO_RESOLVED, /* [rdma_resolve_addrinfo] see rdma_query_addrinfo() */
	RDMA_CM_EVENT_ADDRINFO_ERROR,	/* [rdma_resolve_addrinfo] status: EAI_* or -errno */
	RDMA_CM_EVENT_USER,		/* [rdma_write_cm_event] param.arg */
	RDMA_CM_EVENT_INTERNAL,		/* not delivered to programs */
};

/* Spaces of port numbers, independent of each other and of TCP's and UDP's. */
enum rdma_port_space {
	RDMA_PS_IPOIB = 0x0002, /* IP over InfiniBand, which no device of Verbena has */
	RDMA_PS_TCP   = 0x0106, /* connections */
	RDMA_PS_UDP   = 0x0111, /* datagrams */
	RDMA_PS_IB    = 0x013F, /* any type of QP; see rdma_create_ep() */
};

/* Parts of an InfiniBand service id that contains an IP port. */
#define RDMA_IB_IP_PS_MASK   0xFFFFFFFFFFFF0000ULL
#define RDMA_IB_IP_PORT_MASK 0x000000000000FFFFULL
#define RDMA_IB_IP_PS_TCP    0x0000000001060000ULL
#define RDMA_IB_IP_PS_UDP    0x0000000001110000ULL
#define RDMA_IB_PS_IB	     0x00000000013F0000ULL

/* Q_Key of datagram QPs and groups of ids. */
#define RDMA_UDP_QKEY 0x01234567

/* Source and destination of an id's path. */
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
	struct ibv_sa_path_rec *path_rec; /* num_paths of them; NULL before the route is resolved */
	int num_paths;
};

/*
 * Destination of events.  The descriptor is readable while an event is queued: use poll(2), or set
 * O_NONBLOCK.
 */
struct rdma_event_channel {
	int fd;
};

/* An id.  The program owns "context"; all other members are read-only, unless a call says so. */
struct rdma_cm_id {
	struct ibv_context *verbs; /* the device, shared by all its ids; NULL without one */
	struct rdma_event_channel *channel;
	void *context;
	struct ibv_qp *qp; /* of rdma_create_qp(), or NULL */
	struct rdma_route route;
	enum rdma_port_space ps;
	uint8_t port_num;	     /* 1 or more; 0 without a device */
	struct rdma_cm_event *event; /* synchronous ids: event of the last call */
	struct ibv_comp_channel *send_cq_channel;
	struct ibv_cq *send_cq;
	struct ibv_comp_channel *recv_cq_channel;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_pd *pd; /* the device's, shared by all ids, or that of rdma_create_qp() */
	enum ibv_qp_type qp_type;
};

/* In rdma_conn_param: as many as the device supports. */
enum {
	RDMA_MAX_RESP_RES = 0xFF,
	RDMA_MAX_INIT_DEPTH = 0xFF,
};

/*
 * Parameters of a connection, sent and received.  Private data, at most (bytes): rdma_connect() 56,
 * rdma_accept() 196, rdma_reject() 148; for datagrams 180, 136, 136.  In events private_data_len is
 * always this maximum; the rest is padded with zeroes.
 */
struct rdma_conn_param {
	const void *private_data;
	uint8_t private_data_len;
	uint8_t responder_resources; /* READs and atomics of the peer served at a time */
	uint8_t initiator_depth;     /* READs and atomics outstanding at a time */
	uint8_t flow_control;
	uint8_t retry_count;	 /* 0..7; ignored by rdma_accept() */
	uint8_t rnr_retry_count; /* 0..7; 7: unlimited retries by the peer */
	/* Those of the id's QP if it has one, else the program's. */
	uint8_t srq;
	uint32_t qp_num;
};

/* How to send to a datagram service or multicast group. */
struct rdma_ud_param {
	const void *private_data;
	uint8_t private_data_len;
	struct ibv_ah_attr ah_attr;
	uint32_t qp_num;
	uint32_t qkey;
};

struct rdma_cm_event {
	struct rdma_cm_id *id;
	struct rdma_cm_id *listen_id; /* request: the listener; else NULL */
	enum rdma_cm_event_type event;
	int status; /* 0, or as enum rdma_cm_event_type says */
	union {
		struct rdma_conn_param conn;
		struct rdma_ud_param ud;
		uint64_t arg;
	} param;
};

/* ai_flags. */
#define RAI_PASSIVE	0x00000001 /* an address to listen on */
#define RAI_NUMERICHOST 0x00000002 /* node is an address, not a name */
#define RAI_NOROUTE	0x00000004 /* do not resolve a route */
#define RAI_FAMILY	0x00000008 /* ai_family is the family of node */
#define RAI_SA		0x00000010 /* query InfiniBand's subnet administrator */
#define RAI_DNS		0x00000020 /* query the resolver */

/* Addresses of a connection, and further arguments of rdma_create_ep(). */
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
	void *ai_connect; /* precedes the private data of rdma_connect() */
	struct rdma_addrinfo *ai_next;
};

/* comp_mask of rdma_cm_join_mc_attr_ex; both are required. */
enum rdma_cm_join_mc_attr_mask {
	RDMA_CM_JOIN_MC_ATTR_ADDRESS	= 1 << 0,
	RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS = 1 << 1,
	RDMA_CM_JOIN_MC_ATTR_RESERVED	= 1 << 2,
};

enum rdma_cm_mc_join_flags {
	RDMA_MC_JOIN_FLAG_FULLMEMBER,
	RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, /* only sends to the group */
	RDMA_MC_JOIN_FLAG_RESERVED,
};

struct rdma_cm_join_mc_attr_ex {
	uint32_t comp_mask;  /* enum rdma_cm_join_mc_attr_mask */
	uint32_t join_flags; /* enum rdma_cm_mc_join_flags */
	struct sockaddr *addr;
};

/* ---- Channels and events ---- */

/* Creates a channel.  Its descriptor is closed on exec.  EMFILE, ENFILE: too many descriptors. */
struct rdma_event_channel *rdma_create_event_channel(void);

/* Destroys a channel.  Connections of its ids end, and the ids may only be destroyed. */
void rdma_destroy_event_channel(struct rdma_event_channel *channel);

/*
 * Waits for the next event of any id of the channel.  EAGAIN: none, and the descriptor is
 * non-blocking.  EINTR: interrupted by a signal.
 */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);

/* Acknowledges and frees an event, with its private data. */
int rdma_ack_cm_event(struct rdma_cm_event *event);

/* Name of the constant, such as "RDMA_CM_EVENT_ESTABLISHED".  Static; never NULL. */
const char *rdma_event_str(enum rdma_cm_event_type event);

/* Queues an RDMA_CM_EVENT_USER event with this status and param.arg.  EINVAL: other types. */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* ---- Ids ---- */

/*
 * Creates an id; without a channel it is synchronous.  Its qp_type is IBV_QPT_UD for RDMA_PS_UDP
 * and RDMA_PS_IPOIB, else IBV_QPT_RC.
 */
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps);

/*
 * Destroys an id: leaves its groups, ends its connection, drops its events that were not fetched,
 * and waits until all that were fetched are acknowledged.  Destroy QP, CQs and SRQ first.
 */
int rdma_destroy_id(struct rdma_cm_id *id);

/*
 * Moves an id with its queued events to another channel; NULL makes it synchronous.  Waits until
 * its fetched events are acknowledged.
 */
int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

/*
 * Creates a synchronous id, ready to connect (address and route resolved; waits) or, if res has
 * RAI_PASSIVE, bound.  With qp_init_attr it gets a QP in pd, or in the device's PD; a passive id
 * passes these to the ids of rdma_get_request().  On failure nothing is left; errno of the step
 * that failed.
 */
int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr);

/* Destroys QP, SRQ and id. */
void rdma_destroy_ep(struct rdma_cm_id *id);

/* Level RDMA_OPTION_ID.  TOS and ACK_TIMEOUT are one byte, the others an int. */
enum {
	RDMA_OPTION_ID	= 0,
	RDMA_OPTION_IB	= 1,
};

enum {
	RDMA_OPTION_ID_TOS = 0,		/* traffic class; before rdma_resolve_route() */
	RDMA_OPTION_ID_REUSEADDR = 1,	/* share the port; before binding */
	RDMA_OPTION_ID_AFONLY = 2,	/* :: does not accept IPv4; before rdma_listen() */
	RDMA_OPTION_ID_ACK_TIMEOUT = 3, /* of the local QP: 4.096 us * 2^n, 0: none; RC, XRC */
};

enum {
	RDMA_OPTION_IB_PATH = 1, /* struct ibv_path_data[]; replaces rdma_resolve_route() */
};

/* Sets an option.  ENOSYS: unknown level or option.  EINVAL: wrong length, or too late. */
int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);

/* ---- Addresses ---- */

/*
 * Binds an id to a source address.  A wildcard address means all devices, port 0 any free port.
 * EADDRINUSE: the port is in use with this address.  EADDRNOTAVAIL: no interface has the address,
 * the port is in use with an overlapping wildcard, or no port is free.
 * EACCES: a port below 1024 without CAP_NET_BIND_SERVICE.
 */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);

/*
 * Finds device, source address and link address of the next hop for a destination; waits.
 * src_addr may be NULL: the route decides.  ENETUNREACH, EHOSTUNREACH: no route.  Later failures
 * raise RDMA_CM_EVENT_ADDR_ERROR, after which the call may be repeated.
 */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms);

/* Determines the path to the destination; waits. */
int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);

/* The id's ports; 0 if not set. */
__be16 rdma_get_src_port(struct rdma_cm_id *id);
__be16 rdma_get_dst_port(struct rdma_cm_id *id);

/* The id's addresses; they point into the id. */
static inline struct sockaddr *rdma_get_local_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.src_addr;
}

static inline struct sockaddr *rdma_get_peer_addr(struct rdma_cm_id *id)
{
	return &id->route.addr.dst_addr;
}

/*
 * Name resolution, as getaddrinfo(3).  Fails with -1 and errno, or with a negative EAI_* code. Free
 * the list with rdma_freeaddrinfo().
 */
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res);
void rdma_freeaddrinfo(struct rdma_addrinfo *res);

/*
 * As rdma_getaddrinfo(), but does not wait: RDMA_CM_EVENT_ADDRINFO_RESOLVED or _ERROR follows.
 * EBUSY: one is in progress.  ENOENT, EOPNOTSUPP: RAI_SA, which only InfiniBand has.
 */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);

/* Returns the result, once.  EBUSY: in progress.  ENOENT: none, or already fetched. */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

/* ---- Queue pairs ---- */

/*
 * Creates a QP for an id with a device.  The library moves it along with the connection: receives
 * can be posted immediately, sends once established (datagrams: immediately).  CQs missing in attr
 * are created with a channel each: id->send_cq, id->recv_cq.  pd NULL: the device's.  errno of the
 * verbs.
 */
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);
int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr);

/* Destroys id->qp, and id->send_cq, id->recv_cq and their channels if the library created them. */
void rdma_destroy_qp(struct rdma_cm_id *id);

/*
 * For a QP that the program created itself: attributes and mask for ibv_modify_qp() to
 * qp_attr->qp_state (INIT, RTR or RTS).  RTR and RTS: EINVAL before a request or response of the
 * peer has arrived.
 */
int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask);

/* Enhanced connection establishment: vendor options, for a QP that the program created itself. */
int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece);
int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece);

/* ---- Connections ---- */

/*
 * Requests a connection, or the QP of a datagram service; waits.  conn_param may be NULL if the id
 * has a QP.  Events: ESTABLISHED (CONNECT_RESPONSE without a QP), REJECTED, UNREACHABLE,
 * CONNECT_ERROR.  After a failure the id can only be destroyed.
 */
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/* Answers RDMA_CM_EVENT_CONNECT_RESPONSE, for an id without a QP. */
int rdma_establish(struct rdma_cm_id *id);

/*
 * Listens on the id's address and port.  backlog: requests not fetched, at most; 0 or less: the
 * library's limit, 1024.  An unbound id gets any port.
 */
int rdma_listen(struct rdma_cm_id *id, int backlog);

/*
 * Returns the next request of a synchronous listener; waits.  The new id is synchronous, too, and
 * has a QP if rdma_create_ep() was given attributes; its id->event is the request.
 */
int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);

/* Accepts a request; waits.  conn_param may be NULL if the id has a QP. */
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);

/* Refuses a request; its id must still be destroyed. */
int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/* The same, because of the peer's ECE options: the peer reads reason 35. */
int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);

/*
 * Reports an event of the id's QP: IBV_EVENT_COMM_EST replaces a lost RTU.  EISCONN: already
 * established.
 */
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event);

/* Ends a connection, or answers the peer's end; waits.  Moves the QP to the error state. */
int rdma_disconnect(struct rdma_cm_id *id);

/* ---- Multicast ---- */

/*
 * Joins a group with an id that has a datagram QP and a device, or only a device; waits.  context
 * is the private_data of the event.
 */
int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
			   void *context);

/* Leaves a group.  EADDRNOTAVAIL: not a member. */
int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);

/* ---- Devices ---- */

/*
 * Returns all devices, opened, in an array that ends with NULL; num_devices may be NULL.  The
 * contexts are those of ids, and stay open.  ENODEV: none.
 */
struct ibv_context **rdma_get_devices(int *num_devices);

/* Frees the array of rdma_get_devices(). */
void rdma_free_devices(struct ibv_context **list);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
