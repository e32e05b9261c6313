/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log line with the cause of the first failed connect, or of a server's failure: written once
 * per process. Each case runs in a process of its own, in a network namespace of the test.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "../unit/place.h"
#include "fork_settled.h"
#include "world.h"

#define FAR "10.77.0.2"
#define NOBODY "10.77.0.3"
#define FORBIDDEN "10.78.0.2"	/* FAR routes to it, and answers that this is prohibited */

static char log_file[64];

static void ip(const char *args)
{
	char line[200];

	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin ip %s", args);
	CHECK_EQ(system(line), 0);
}

static void on_remote_host(pid_t pid, const char *command)
{
	char line[200];

	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin nsenter -t %d -n %s", (int)pid,
		 command);
	CHECK_EQ(system(line), 0);
}

/* A host behind vrbt0 that has the address but no RDMA. */
static pid_t make_remote_host(void)
{
	char line[100], c;
	int ready[2];
	pid_t pid;

	CHECK_EQ(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		/* A test that fails waits for all that have its output. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || unshare(CLONE_NEWNET) ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	ip("link add vrbt0 type veth peer name vrbt1");
	ip("addr add 10.77.0.1/24 dev vrbt0");
	snprintf(line, sizeof(line), "link set vrbt1 netns %d", (int)pid);
	ip("link set vrbt0 up");
	ip(line);
	ip("route add " FORBIDDEN " via " FAR);
	on_remote_host(pid, "ip addr add " FAR "/24 dev vrbt1");
	on_remote_host(pid, "ip link set vrbt1 up");
	on_remote_host(pid, "ip route add prohibit " FORBIDDEN);
	on_remote_host(pid, "sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'");
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static struct rdma_cm_id *routed(struct rdma_event_channel *ch, enum rdma_port_space ps,
				 const char *to)
{
	struct sockaddr_storage a = world_addr(to, 4711);
	struct rdma_cm_id *id = world_id(ch, ps);

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static void connect_to(struct rdma_event_channel *ch, enum rdma_port_space ps, const char *to)
{
	static uint32_t qpn = 0x123;
	struct rdma_conn_param param = { .qp_num = qpn++ };

	CHECK_EQ(rdma_connect(routed(ch, ps, to), &param), 0);
}

static void no_listener(struct rdma_event_channel *ch)
{
	connect_to(ch, RDMA_PS_TCP, LOOPBACK);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 8)), 0);
	/* A second failure logs nothing. */
	connect_to(ch, RDMA_PS_TCP, LOOPBACK);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 8)), 0);
}

static void no_service(struct rdma_event_channel *ch)
{
	connect_to(ch, RDMA_PS_UDP, LOOPBACK);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_UNREACHABLE, 1)), 0);
}

/* The program's own answer, which its events carry, is not told; the failure behind it is. */
static void refused_first(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK);
	struct rdma_conn_param param = { .qp_num = 0x100 };
	struct rdma_cm_event *e;
	struct rdma_cm_id *child;

	CHECK_EQ(rdma_connect(id, &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_reject(child, NULL, 0), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 28)), 0);
	no_listener(ch);
}

static void no_device(struct rdma_event_channel *ch)
{
	struct sockaddr_storage a = world_addr(FAR, 4711);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV)), 0);
}

/* The ICMP error is logged when the request is retransmitted, long before the connect times out. */
static void icmp_error(struct rdma_event_channel *ch, const char *to)
{
	char text[4096] = "";

	connect_to(ch, RDMA_PS_TCP, to);
	for (int i = 0; i < WORLD_LIMIT_S * 10 && !text[0]; i++) {
		FILE *f = fopen(log_file, "r");

		usleep(100000);
		if (f && !fgets(text, sizeof(text), f))
			text[0] = 0;
		if (f)
			fclose(f);
	}
}

static void no_rdma(struct rdma_event_channel *ch)
{
	icmp_error(ch, FAR);
}

static void forbidden(struct rdma_event_channel *ch)
{
	icmp_error(ch, FORBIDDEN);
}

/* Nobody has the address, so the neighbour is not resolved. */
static void no_neighbour(struct rdma_event_channel *ch)
{
	struct sockaddr_storage a = world_addr(NOBODY, 4711);

	CHECK_EQ(rdma_resolve_addr(world_id(ch, RDMA_PS_TCP), NULL, (struct sockaddr *)&a, 200), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT)), 0);
}

/* The parent's id and channel, in a child: told once. */
static void inherited(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	struct rdma_cm_event *e;
	pid_t pid = fork_settled();
	int status;

	if (!pid) {
		CHECK_FAILS(rdma_listen(id, 1), EIO);
		CHECK_FAILS(rdma_get_cm_event(ch, &e), EIO);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* A server that forks once it listens, as daemons do. */
static void forked_server(struct rdma_event_channel *ch)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), ep;
	struct epoll_event e = { .events = EPOLLIN };
	pid_t pid = fork_settled();
	int status;

	if (!pid) {
		ep = repoll_create(0);
		CHECK_EQ(repoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), -1);
		CHECK_EQ(errno, EIO);
		CHECK_EQ(rlisten(fd, 1), -1);
		CHECK_EQ(errno, EIO);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* Calls that are refused; each logs one line. */
static void no_route(struct rdma_event_channel *ch)
{
	struct rdma_conn_param param = { .qp_num = 0x100 };

	CHECK_FAILS(rdma_connect(world_id(ch, RDMA_PS_TCP), &param), EINVAL);
}

static void no_qp(struct rdma_event_channel *ch)
{
	CHECK_FAILS(rdma_connect(routed(ch, RDMA_PS_TCP, LOOPBACK), NULL), EINVAL);
}

static void long_data(struct rdma_event_channel *ch)
{
	static const char data[57];
	struct rdma_conn_param param = { .qp_num = 0x100, .private_data = data,
					 .private_data_len = sizeof(data) };

	CHECK_FAILS(rdma_connect(routed(ch, RDMA_PS_TCP, LOOPBACK), &param), EINVAL);
}

static void many_reads(struct rdma_event_channel *ch)
{
	struct rdma_conn_param param = { .qp_num = 0x100, .responder_resources = 200 };

	CHECK_FAILS(rdma_connect(routed(ch, RDMA_PS_TCP, LOOPBACK), &param), EINVAL);
}

static void no_request(struct rdma_event_channel *ch)
{
	struct rdma_conn_param param = { .qp_num = 0x100 };

	CHECK_FAILS(rdma_accept(world_id(ch, RDMA_PS_TCP), &param), EINVAL);
}

static void too_early(struct rdma_event_channel *ch)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	CHECK_FAILS(rdma_create_qp(world_id(ch, RDMA_PS_TCP), NULL, &attr), EINVAL);
}

/* Not refused: a program may have a QP of its own. */
/* The request waits at a listener: its rejection would be a second line. */
static void no_qp_number(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	struct rdma_conn_param param = { 0 };

	CHECK_EQ(rdma_connect(world_route(ch, listener, LOOPBACK), &param), 0);
}

static void no_address(struct rdma_event_channel *ch)
{
	CHECK_FAILS(rdma_resolve_route(world_id(ch, RDMA_PS_TCP), WORLD_TIMEOUT_MS), EINVAL);
}

static void resolved_twice(struct rdma_event_channel *ch)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 4711);

	CHECK_FAILS(rdma_resolve_addr(routed(ch, RDMA_PS_TCP, LOOPBACK), NULL,
				      (struct sockaddr *)&a, WORLD_TIMEOUT_MS), EINVAL);
}

static void no_family(struct rdma_event_channel *ch)
{
	struct sockaddr_storage none = { 0 };

	CHECK_FAILS(rdma_resolve_addr(world_id(ch, RDMA_PS_TCP), NULL, (struct sockaddr *)&none,
				      WORLD_TIMEOUT_MS), EINVAL);
}

static void port_in_use(struct rdma_event_channel *ch)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 4711);

	CHECK_EQ(rdma_bind_addr(world_id(ch, RDMA_PS_TCP), (struct sockaddr *)&a), 0);
	CHECK_FAILS(rdma_bind_addr(world_id(ch, RDMA_PS_TCP), (struct sockaddr *)&a),
		    EADDRNOTAVAIL);
}

static void foreign_address(struct rdma_event_channel *ch)
{
	struct sockaddr_storage a = world_addr("203.0.113.9", 4711);

	CHECK_FAILS(rdma_bind_addr(world_id(ch, RDMA_PS_TCP), (struct sockaddr *)&a),
		    EADDRNOTAVAIL);
}

static void bound_twice(struct rdma_event_channel *ch)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 4711);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&a), EINVAL);
}

static void other_service(struct rdma_event_channel *ch)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	CHECK_FAILS(rdma_create_qp(routed(ch, RDMA_PS_UDP, LOOPBACK), NULL, &attr), EINVAL);
}

static void qp_of_listener(struct rdma_event_channel *ch)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct sockaddr_storage any = world_addr("0.0.0.0", 4711);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	CHECK_EQ(rdma_listen(id, 1), 0);
	CHECK_FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
}

static void *acknowledge_once_told(void *event)
{
	struct stat s = { 0 };

	while (stat(log_file, &s) || !s.st_size)
		usleep(10000);
	CHECK_EQ(rdma_ack_cm_event(event), 0);
	return NULL;
}

/* Waits for the event's acknowledgement, and says so. */
static void unacknowledged(struct rdma_event_channel *ch)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 4711);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	pthread_t helper;

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	CHECK_EQ(pthread_create(&helper, NULL, acknowledge_once_told,
				world_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0)), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(pthread_join(helper, NULL), 0);
}

static const struct {
	const char *what, *devices;
	void (*run)(struct rdma_event_channel *ch);
	const char *line;
	const char *log;	/* NULL: the default */
} cases[] = {
	{ "no route", NULL, no_route, "has no route: rdma_resolve_route() comes first", "info" },
	{ "no QP", NULL, no_qp, "rdma_connect: neither parameters nor a QP", "info" },
	{ "long data", NULL, long_data, "private_data_len is 57, but must be at most 56", "info" },
	{ "many READs", NULL, many_reads, "responder_resources is 200, but the device's limit is ",
	  "info" },
	{ "no request", NULL, no_request, "rdma_accept: no request waits", "info" },
	{ "too early", NULL, too_early, "no device: rdma_resolve_addr() comes first", "info" },
	{ "no address", NULL, no_address, "rdma_resolve_route: the id has no address", "info" },
	{ "resolved twice", NULL, resolved_twice, "rdma_resolve_addr: the id has an address",
	  "info" },
	{ "no family", NULL, no_family, "rdma_resolve_addr: no destination, or its sa_family",
	  "info" },
	{ "port in use", NULL, port_in_use, "bind: port 4711 is in use", "info" },
	{ "foreign address", NULL, foreign_address, "bind: the address is no device's", "info" },
	{ "bound twice", NULL, bound_twice, "bind: the id has an address already", "info" },
	{ "other service", NULL, other_service, "rdma_create_qp: qp_type does not fit", "info" },
	{ "QP of a listener", NULL, qp_of_listener, "rdma_create_qp: the id listens", "info" },
	{ "no QP number", NULL, no_qp_number, "rdma_connect: the id has no QP", "info" },
	{ "inherited", NULL, inherited, "is the parent process's, from before fork()", "info" },
	/* From here on without "info": it says that the last process had a connection. */
	{ "unacknowledged", NULL, unacknowledged, "its events: rdma_ack_cm_event()" },
	{ "no listener", NULL, no_listener,
	  "no listener at 127.0.0.1 on port 4711 of rdma_cm's port space TCP" },
	{ "no service", NULL, no_service,
	  "no listener at 127.0.0.1 on port 4711 of rdma_cm's port space UDP" },
	{ "refused, no listener", NULL, refused_first,
	  "no listener at 127.0.0.1 on port 4711 of rdma_cm's port space TCP" },
	{ "no device", "lo", no_device, "no device can send to " FAR },
	{ "forked server", NULL, forked_server, "RDMAV_FORK_SAFE=1 on both sides" },
	{ "no neighbour", NULL, no_neighbour, NOBODY " cannot be reached: its next hop " NOBODY },
	{ "no RDMA", NULL, no_rdma, FAR " answers, but has no RDMA" },
	{ "forbidden", NULL, forbidden, FORBIDDEN " cannot be reached: a firewall rejects it" },
};

/* Without UDP no packet is sent, and no ICMP error arrives. */
static const char *expected_line(size_t i)
{
	const char *transport = getenv("VERBENA_TRANSPORT");
	bool local = transport && !strcmp(transport, "local");

	return !local ? cases[i].line : cases[i].run == no_rdma ? FAR " is another host" :
	       cases[i].run == forbidden ? FORBIDDEN " is another host" : cases[i].line;
}

static void run_case(size_t i)
{
	char text[4096] = "", more[4096];
	pid_t pid = fork();
	int status;
	FILE *f;

	if (!pid) {
		struct rdma_event_channel *ch;

		setenv("VERBENA_LOG_FILE", log_file, 1);
		if (cases[i].log)
			setenv("VERBENA_LOG", cases[i].log, 1);
		if (cases[i].devices)
			setenv("VERBENA_DEVICES", cases[i].devices, 1);
		CHECK((ch = rdma_create_event_channel()));
		cases[i].run(ch);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK((f = fopen(log_file, "r")));
	if (!fgets(text, sizeof(text), f) || !strstr(text, expected_line(i)) ||
	    fgets(more, sizeof(more), f)) {
		fprintf(stderr, "%s: expected one line with \"%s\", not \"%s%s\"\n",
			cases[i].what, expected_line(i), text, more);
		exit(1);
	}
	fclose(f);
	unlink(log_file);
}

int main(void)
{
	pid_t far;

	if (!place_enter_netns())
		SKIP("no network namespaces");
	snprintf(log_file, sizeof(log_file), "/tmp/verbena-diagnose-%d", (int)getpid());
	far = make_remote_host();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		run_case(i);
	CHECK_EQ(kill(far, SIGKILL), 0);
	CHECK_EQ(waitpid(far, NULL, 0), far);
	return 0;
}
