/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See nldev.h.  One row per command: what to report of a device, or of each object of a kind.
 * Device data comes from the tree's files; objects come from the user's processes (query.h), which
 * are asked anew for each request.  No lock: state is on the stack.
 */
#include "nldev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <json-c/json.h>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "../verbena/query.h"
#include "../verbena/view.h"
#include "nldev_device.h"
#include "util/compiler.h"

enum {
	DATAGRAM = 8192,	/* size of readers' buffers */
	ENTRY_MOST = 512,	/* of one object */
	PORT = 1,
	DUMP = NLM_F_DUMP,
};

/* A request, and the datagram being filled. */
struct request {
	const char *tree;
	const struct nlmsghdr *asked;
	uint32_t portid;
	nldev_put_fn put;
	void *arg;
	const struct nlattr *attr[RDMA_NLDEV_ATTR_MAX];
	struct json_object *processes;	/* NULL until asked for */
	struct nlmsghdr *reply;
	char buf[DATAGRAM] __attribute__((aligned(MNL_ALIGNTO)));
};

static bool is_dump(const struct request *r)
{
	return (r->asked->nlmsg_flags & DUMP) == DUMP;
}

static uint32_t asked_for(const struct request *r, unsigned int attr, uint32_t otherwise)
{
	const struct nlattr *a = r->attr[attr];

	return a && mnl_attr_validate(a, MNL_TYPE_U32) >= 0 ? mnl_attr_get_u32(a) : otherwise;
}

static void begin(struct request *r, uint16_t type, uint16_t flags)
{
	memset(r->buf, 0, sizeof(r->buf));
	r->reply = mnl_nlmsg_put_header(r->buf);
	r->reply->nlmsg_type = type;
	r->reply->nlmsg_flags = flags;
	r->reply->nlmsg_seq = r->asked->nlmsg_seq;
	r->reply->nlmsg_pid = r->portid;
}

static void end(struct request *r)
{
	r->put(r->arg, r->reply, r->reply->nlmsg_len);
}

/* err: positive; 0: acknowledgement. */
static void put_error(struct request *r, int err)
{
	struct nlmsgerr *e;

	begin(r, NLMSG_ERROR, err ? 0 : NLM_F_CAPPED);
	e = mnl_nlmsg_put_extra_header(r->reply, sizeof(*e));
	e->error = -err;
	e->msg = *r->asked;
	end(r);
}

static void put_done(struct request *r)
{
	int *status;

	begin(r, NLMSG_DONE, NLM_F_MULTI);
	status = mnl_nlmsg_put_extra_header(r->reply, sizeof(*status));
	*status = 0;
	end(r);
}

static void put_handle(struct request *r, const struct nldev_device *dev)
{
	mnl_attr_put_u32(r->reply, RDMA_NLDEV_ATTR_DEV_INDEX, dev->index);
	mnl_attr_put_strz(r->reply, RDMA_NLDEV_ATTR_DEV_NAME, dev->name);
}

static void begin_device(struct request *r, const struct nldev_device *dev)
{
	begin(r, r->asked->nlmsg_type, is_dump(r) ? NLM_F_MULTI : 0);
	put_handle(r, dev);
}

/* ---- Devices ---- */

static int reply_device(struct request *r, const struct nldev_device *dev)
{
	begin_device(r, dev);
	mnl_attr_put_u32(r->reply, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);	/* number of ports */
	if (dev->fw_version[0])
		mnl_attr_put_strz(r->reply, RDMA_NLDEV_ATTR_FW_VERSION, dev->fw_version);
	mnl_attr_put_u64(r->reply, RDMA_NLDEV_ATTR_NODE_GUID, dev->node_guid);
	mnl_attr_put_u64(r->reply, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, dev->sys_image_guid);
	mnl_attr_put_u8(r->reply, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, dev->node_type);
	mnl_attr_put_strz(r->reply, RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
	end(r);
	return 0;
}

static int reply_port(struct request *r, const struct nldev_device *dev)
{
	begin_device(r, dev);
	mnl_attr_put_u32(r->reply, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
	mnl_attr_put_u8(r->reply, RDMA_NLDEV_ATTR_PORT_STATE, dev->port_state);
	mnl_attr_put_u8(r->reply, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, dev->phys_state);
	if (dev->ifindex) {
		mnl_attr_put_u32(r->reply, RDMA_NLDEV_ATTR_NDEV_INDEX, dev->ifindex);
		mnl_attr_put_strz(r->reply, RDMA_NLDEV_ATTR_NDEV_NAME, dev->ifname);
	}
	end(r);
	return 0;
}

static int reply_counters(struct request *r, const struct nldev_device *dev)
{
	struct nldev_counter list[NLDEV_COUNTERS];
	unsigned int n = nldev_counters(r->tree, dev, list);
	struct nlattr *table, *entry;

	if (r->attr[RDMA_NLDEV_ATTR_STAT_RES])
		return EOPNOTSUPP;	/* no object can have counters bound to it */
	begin_device(r, dev);
	mnl_attr_put_u32(r->reply, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
	table = mnl_attr_nest_start(r->reply, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (unsigned int i = 0; i < n; i++) {
		entry = mnl_attr_nest_start(r->reply, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
		mnl_attr_put_strz(r->reply, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME,
				  list[i].name);
		mnl_attr_put_u64(r->reply, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE,
				 list[i].value);
		mnl_attr_nest_end(r->reply, entry);
	}
	mnl_attr_nest_end(r->reply, table);
	end(r);
	return 0;
}

/* ---- Objects of the user's processes ---- */

static bool keep(struct json_object *process, void *arg)
{
	json_object_array_add(arg, process);
	return false;
}

static struct json_object *processes(struct request *r)
{
	if (!r->processes) {
		r->processes = json_object_new_array();
		query_all(keep, r->processes, NULL);
	}
	return r->processes;
}

/* An id that listens on all devices is shown on each, as by the kernel. */
static bool is_of(struct json_object *o, const struct nldev_device *dev)
{
	const char *name = json_object_get_string(json_object_object_get(o, "device"));

	return name && (strcmp(name, dev->name) == 0 ||
			(!*name && strcmp(text(o, "state"), "LISTEN") == 0));
}

static uint64_t count_ids(struct request *r, const struct nldev_device *dev)
{
	struct json_object *all = processes(r);
	uint64_t n = 0;

	for (size_t i = 0; i < list_length(all); i++) {
		struct json_object *ids = list(json_object_array_get_idx(all, i), "cm_ids");

		for (size_t j = 0; j < list_length(ids); j++)
			n += is_of(json_object_array_get_idx(ids, j), dev);
	}
	return n;
}

/* key: a number in each context; NULL: counts the contexts themselves. */
static uint64_t sum_of(struct request *r, const struct nldev_device *dev, const char *key)
{
	struct json_object *all = processes(r);
	uint64_t sum = 0;

	for (size_t i = 0; i < list_length(all); i++) {
		struct json_object *contexts = list(json_object_array_get_idx(all, i), "contexts");

		for (size_t j = 0; j < list_length(contexts); j++) {
			struct json_object *c = json_object_array_get_idx(contexts, j);

			if (is_of(c, dev))
				sum += key ? (uint64_t)number(c, key) : 1;
		}
	}
	return sum;
}

/* Names and order are the kernel's. */
static int reply_summary(struct request *r, const struct nldev_device *dev)
{
	static const struct {
		const char *name, *key;
		uint64_t (*sum)(struct request *r, const struct nldev_device *dev);
	} rows[] = {
		{ "pd", "pd" }, { "cq", "cq" },  { "qp", "qp" },   { "cm_id", .sum = count_ids },
		{ "mr", "mr" }, { "ctx", NULL }, { "srq", "srq" },
	};
	struct nlattr *table, *entry;

	begin_device(r, dev);
	table = mnl_attr_nest_start(r->reply, RDMA_NLDEV_ATTR_RES_SUMMARY);
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		entry = mnl_attr_nest_start(r->reply, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
		mnl_attr_put_strz(r->reply, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, rows[i].name);
		mnl_attr_put_u64(r->reply, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR,
				 rows[i].sum ? rows[i].sum(r, dev) : sum_of(r, dev, rows[i].key));
		mnl_attr_nest_end(r->reply, entry);
	}
	mnl_attr_nest_end(r->reply, table);
	end(r);
	return 0;
}

struct code {
	const char *name;
	uint8_t value;
};

static uint8_t code_of(const struct code *rows, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(rows[i].name, name) == 0)
			return rows[i].value;
	return UINT8_MAX;
}

/* The kernel's numbers of types and states differ from those of verbs. */
enum { KERNEL_RC = 2, KERNEL_UC, KERNEL_UD, KERNEL_RAW = 8, KERNEL_XRC_SEND, KERNEL_XRC_RECV };

static void put_qp(struct nlmsghdr *m, struct json_object *q)
{
	static const struct code types[] = { { "RC", KERNEL_RC },
					     { "UC", KERNEL_UC },
					     { "UD", KERNEL_UD },
					     { "RAW", KERNEL_RAW },
					     { "XRC_SEND", KERNEL_XRC_SEND },
					     { "XRC_RECV", KERNEL_XRC_RECV } };
	static const struct code states[] = { { "RESET", 0 }, { "INIT", 1 }, { "RTR", 2 },
					      { "RTS", 3 },   { "SQD", 4 },  { "SQE", 5 },
					      { "ERR", 6 } };
	uint8_t type = code_of(types, ARRAY_SIZE(types), text(q, "type"));

	mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
	mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_RES_LQPN, (uint32_t)number(q, "qpn"));
	if (type == KERNEL_RC || type == KERNEL_UC) {
		mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_RES_RQPN, (uint32_t)number(q, "peer_qpn"));
		mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_RES_RQ_PSN, (uint32_t)number(q, "rq_psn"));
	}
	mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_RES_SQ_PSN, (uint32_t)number(q, "sq_psn"));
	mnl_attr_put_u8(m, RDMA_NLDEV_ATTR_RES_TYPE, type);
	mnl_attr_put_u8(m, RDMA_NLDEV_ATTR_RES_STATE,
			code_of(states, ARRAY_SIZE(states), text(q, "state")));
}

/* "10.0.0.1" or "fe80::1" with a port; "*": any. */
static void put_sockaddr(struct nlmsghdr *m, uint16_t attr, const char *addr, int port)
{
	struct sockaddr_storage a = { .ss_family = AF_INET };
	struct sockaddr_in *four = (void *)&a;
	struct sockaddr_in6 *six = (void *)&a;

	if (!port && strcmp(addr, "*") == 0)
		return;
	if (inet_pton(AF_INET6, addr, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
	} else {
		memset(&a, 0, sizeof(a));
		four->sin_family = AF_INET;
		if (inet_pton(AF_INET, addr, &four->sin_addr) != 1)
			four->sin_addr.s_addr = htonl(INADDR_ANY);
	}
	four->sin_port = htons((uint16_t)port);	/* the offset is the same in both families */
	mnl_attr_put(m, attr, sizeof(a), &a);
}

static void put_id(struct nlmsghdr *m, struct json_object *id)
{
	static const struct code types[] = { { "RC", KERNEL_RC },
					     { "UC", KERNEL_UC },
					     { "UD", KERNEL_UD },
					     { "XRC_SEND", KERNEL_XRC_SEND },
					     { "XRC_RECV", KERNEL_XRC_RECV } };
	static const struct code states[] = { { "IDLE", 0 },          { "ADDR_QUERY", 1 },
					      { "ADDR_RESOLVED", 2 }, { "ROUTE_RESOLVED", 4 },
					      { "CONNECT", 5 },       { "DISCONNECT", 6 },
					      { "ADDR_BOUND", 7 },    { "LISTEN", 8 },
					      { "DEVICE_REMOVAL", 9 }, { "DESTROYING", 10 } };
	static const struct {
		const char *name;
		uint32_t value;
	} spaces[] = { { "IPOIB", 0x2 }, { "TCP", 0x106 }, { "UDP", 0x111 }, { "IB", 0x13f } };

	mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		if (strcmp(spaces[i].name, text(id, "port_space")) == 0)
			mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_RES_PS, spaces[i].value);
	if (number(id, "qpn"))
		mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_RES_LQPN, (uint32_t)number(id, "qpn"));
	mnl_attr_put_u8(m, RDMA_NLDEV_ATTR_RES_TYPE,
			code_of(types, ARRAY_SIZE(types), text(id, "type")));
	mnl_attr_put_u8(m, RDMA_NLDEV_ATTR_RES_STATE,
			code_of(states, ARRAY_SIZE(states), text(id, "state")));
	put_sockaddr(m, RDMA_NLDEV_ATTR_RES_SRC_ADDR, text(id, "src"), (int)number(id, "src_port"));
	put_sockaddr(m, RDMA_NLDEV_ATTR_RES_DST_ADDR, text(id, "dst"), (int)number(id, "dst_port"));
}

static void put_cq(struct nlmsghdr *m, struct json_object *c)
{
	mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_RES_CQE, (uint32_t)number(c, "entries"));
	mnl_attr_put_u64(m, RDMA_NLDEV_ATTR_RES_USECNT, (uint64_t)number(c, "users"));
	mnl_attr_put_u32(m, RDMA_NLDEV_ATTR_RES_CQN, (uint32_t)number(c, "handle"));
}

/* A kind of objects: the list in a process's answer, and the attributes that carry it. */
static const struct kind {
	unsigned int command;
	const char *list;
	uint16_t table, entry;
	void (*put)(struct nlmsghdr *m, struct json_object *o);
} kinds[] = {
	{ RDMA_NLDEV_CMD_RES_QP_GET, "qps", RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY,
	  put_qp },
	{ RDMA_NLDEV_CMD_RES_CQ_GET, "cqs", RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
	  put_cq },
	{ RDMA_NLDEV_CMD_RES_CM_ID_GET, "cm_ids", RDMA_NLDEV_ATTR_RES_CM_ID,
	  RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, put_id },
};

static struct nlattr *begin_table(struct request *r, const struct nldev_device *dev,
				  const struct kind *k)
{
	begin_device(r, dev);
	return mnl_attr_nest_start(r->reply, k->table);
}

static void reply_objects(struct request *r, const struct nldev_device *dev, const struct kind *k)
{
	struct nlattr *table = begin_table(r, dev, k), *entry;
	struct json_object *all = processes(r);

	for (size_t i = 0; i < list_length(all); i++) {
		struct json_object *p = json_object_array_get_idx(all, i),
				   *objects = list(p, k->list);

		for (size_t j = 0; j < list_length(objects); j++) {
			struct json_object *o = json_object_array_get_idx(objects, j);

			if (!is_of(o, dev))
				continue;
			if (r->reply->nlmsg_len > DATAGRAM - ENTRY_MOST) {
				mnl_attr_nest_end(r->reply, table);
				end(r);
				table = begin_table(r, dev, k);
			}
			entry = mnl_attr_nest_start(r->reply, k->entry);
			k->put(r->reply, o);
			mnl_attr_put_u32(r->reply, RDMA_NLDEV_ATTR_RES_PID,
					 (uint32_t)number(p, "pid"));
			mnl_attr_nest_end(r->reply, entry);
		}
	}
	mnl_attr_nest_end(r->reply, table);
	end(r);
}

/* ---- Requests ---- */

/*
 * Fixed values: each network namespace has the devices of its own interfaces (netns exclusive), and
 * copy-on-fork is supported.
 */
static void reply_system(struct request *r)
{
	begin(r, r->asked->nlmsg_type, 0);
	mnl_attr_put_u8(r->reply, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0);
	mnl_attr_put_u8(r->reply, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
	end(r);
}

static const struct {
	unsigned int command;
	int (*say)(struct request *r, const struct nldev_device *dev);
} of_device[] = {
	{ RDMA_NLDEV_CMD_GET, reply_device },
	{ RDMA_NLDEV_CMD_PORT_GET, reply_port },
	{ RDMA_NLDEV_CMD_RES_GET, reply_summary },
	{ RDMA_NLDEV_CMD_STAT_GET, reply_counters },
};

static bool is_known(unsigned int command)
{
	bool known = false;

	for (unsigned int i = 0; i < ARRAY_SIZE(of_device); i++)
		known |= of_device[i].command == command;
	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++)
		known |= kinds[i].command == command;
	return known;
}

/* Answers a known command.  Returns 0 or a positive errno value. */
static int say(struct request *r, unsigned int command, const struct nldev_device *dev)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(of_device); i++)
		if (of_device[i].command == command)
			return of_device[i].say(r, dev);
	if (!is_dump(r))
		return EOPNOTSUPP;	/* single objects: callers can search the table */
	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].command == command)
			reply_objects(r, dev, &kinds[i]);
	return 0;
}

/* Answers for the requested device; a dump without one covers all. */
static int reply_devices(struct request *r, unsigned int command)
{
	struct nldev_device list[NLDEV_DEVICES];
	unsigned int n = nldev_devices(r->tree, list), said = 0;
	uint32_t wanted = asked_for(r, RDMA_NLDEV_ATTR_DEV_INDEX, UINT32_MAX);
	int err = 0;

	if (!is_known(command))
		return EOPNOTSUPP;
	if (command != RDMA_NLDEV_CMD_GET && asked_for(r, RDMA_NLDEV_ATTR_PORT_INDEX, PORT) != PORT)
		return EINVAL;
	if (wanted == UINT32_MAX && !is_dump(r))
		return EINVAL;
	for (unsigned int i = 0; i < n && !err; i++) {
		if (wanted != UINT32_MAX && list[i].index != wanted)
			continue;
		err = say(r, command, &list[i]);
		said++;
	}
	if (!err && wanted != UINT32_MAX && !said)
		return ENODEV;
	return err;
}

static int note_attr(const struct nlattr *a, void *arg)
{
	struct request *r = arg;

	if (mnl_attr_get_type(a) < RDMA_NLDEV_ATTR_MAX)
		r->attr[mnl_attr_get_type(a)] = a;
	return MNL_CB_OK;
}

static void answer(struct request *r)
{
	unsigned int command = RDMA_NL_GET_OP(r->asked->nlmsg_type);
	int err = EOPNOTSUPP;

	mnl_attr_parse(r->asked, 0, note_attr, r);
	if (RDMA_NL_GET_CLIENT(r->asked->nlmsg_type) == RDMA_NL_NLDEV &&
	    command == RDMA_NLDEV_CMD_SYS_GET) {
		reply_system(r);
		err = 0;
	} else if (RDMA_NL_GET_CLIENT(r->asked->nlmsg_type) == RDMA_NL_NLDEV) {
		err = reply_devices(r, command);
	}
	if (err)
		put_error(r, err);
	else if (is_dump(r))
		put_done(r);
	else if (r->asked->nlmsg_flags & NLM_F_ACK)
		put_error(r, 0);
	json_object_put(r->processes);
}

__attribute__((visibility("default"))) void verbena_nldev_answer(const char *tree, uint32_t portid,
								 const void *data, size_t len,
								 nldev_put_fn put, void *arg)
{
	int left = (int)len;

	for (const struct nlmsghdr *m = data; mnl_nlmsg_ok(m, left); m = mnl_nlmsg_next(m, &left)) {
		struct request r = {
			.tree = tree, .asked = m, .portid = portid, .put = put, .arg = arg
		};

		answer(&r);
	}
}
