/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBENA_RECORD: a recording contains what the program did, however the program ends. The program
 * is this one, started again with the name of a role.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record/reader.h"
#include "wq/note.h"

#include "fork_single.h"
#include "world.h"

enum { BUF = 4096, THREADS = 40, MESSAGES = 1000, FILES = 8, LONG = 4000, BATCHES = 5,
       CROWD = 100000 };

static char folder[] = "/tmp/verbena-recording.XXXXXX";

/* ---------------------------------------------------------------- the roles */

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static struct buffer src, dst;

static void begin(void)
{
	world_open(&w);
	cq = world_cq(&w, 64);
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, a, b);
	src = world_buffer(&w, BUF, WORLD_ACCESS);
	dst = world_buffer(&w, BUF, WORLD_ACCESS);
}

static void end(void)
{
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&src);
	world_free(&dst);
	world_close(&w);
}

static void message(uint64_t wr_id)
{
	struct ibv_wc wc[2];

	world_recv(b, wr_id, world_sge(&dst, 0, 64));
	world_send(a, wr_id, world_sge(&src, 0, 64));
	world_poll(cq, wc, 2);
}

static int role_plain(void)
{
	begin();
	CHECK(!ibv_reg_mr(w.pd, NULL, 1, -1));
	for (uint64_t i = 0; i < 10; i++)
		message(100 + i);
	end();
	return 0;
}

/* Uses an invalid rkey. */
static int role_refused(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	begin();
	sge = world_sge(&src, 0, 64);
	wr = world_rdma(IBV_WR_RDMA_WRITE, 5, &sge, &dst, 0);
	wr.wr.rdma.rkey ^= 0x100;
	world_post(a, &wr);
	world_expect(cq, 5, IBV_WC_REM_ACCESS_ERR);
	return 0;
}

/* Posts refused requests again; for a run with fault rules. */
static int role_faulty(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc[2];
	int err;

	begin();
	sge = world_sge(&src, 0, 64);
	wr.sg_list = &sge;
	for (wr.wr_id = 0; wr.wr_id < 10; wr.wr_id++) {
		world_recv(b, wr.wr_id, world_sge(&dst, 0, 64));
		while ((err = ibv_post_send(a, &wr, &bad)))
			CHECK_EQ(err, ENOMEM);
		world_poll(cq, wc, 2);
	}
	end();
	return 0;
}

/* Runs until it is killed; writes to stdout when the recording has contents. */
static int role_killed(void)
{
	begin();
	for (uint64_t i = 0;; i++) {
		message(i);
		if (i == MESSAGES)
			CHECK_EQ(write(STDOUT_FILENO, "!", 1), 1);
	}
}

static int role_forked(void)
{
	int status;
	pid_t child;

	fork_single_threaded();		/* tests/tools/trace.py runs this role, too */
	begin();
	message(1);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		begin();
		message(2);
		end();
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	message(3);
	end();
	return 0;
}

static void *query(void *arg)
{
	struct ibv_device_attr attr;

	CHECK_EQ(ibv_query_device(w.ctx, &attr), 0);
	return NULL;
}

static int role_threads(void)
{
	pthread_t thread;

	world_open(&w);
	for (int i = 0; i < THREADS; i++) {
		CHECK_EQ(pthread_create(&thread, NULL, query, NULL), 0);
		CHECK_EQ(pthread_join(thread, NULL), 0);
	}
	world_close(&w);
	return 0;
}

static int role_idle(void)
{
	return 0;
}

/* Much more than the smallest recording can hold. */
static int role_long(void)
{
	begin();
	for (uint64_t i = 0; i < LONG; i++)
		message(i);
	end();
	return 0;
}

/* The contents for a test of a page by `verbena trace html`. */
static int role_crowd(void)
{
	begin();
	for (uint64_t i = 0; i < CROWD; i++)
		message(i);
	end();
	return 0;
}

/* Sends a message for each byte from stdin, and reports it. */
static int role_steps(void)
{
	uint64_t n = 0;
	char c;

	begin();
	while (read(STDIN_FILENO, &c, 1) == 1) {
		message(++n);
		CHECK_EQ(write(STDOUT_FILENO, "!", 1), 1);
	}
	end();
	return 0;
}

/* Executes another program. */
static int role_exec(void)
{
	begin();
	message(1);
	execl("/proc/self/exe", "recording", "plain", NULL);
	return 127;
}

static struct ibv_qp *extended_qp(struct ibv_cq *polled, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = polled,
		.recv_cq = polled,
		.srq = srq,
		.sq_sig_all = 1,
		.cap = { 16, 16, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = w.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w.ctx, &attr);

	CHECK(qp != NULL);
	return qp;
}

static void poll_extended(struct ibv_cq_ex *polled, unsigned int n)
{
	struct ibv_poll_cq_attr attr = { 0 };

	while (n) {
		if (ibv_start_poll(polled, &attr))
			continue;
		do {
			CHECK_EQ(polled->status, IBV_WC_SUCCESS);
			CHECK(n-- > 0);
		} while (!ibv_next_poll(polled));
		ibv_end_poll(polled);
	}
}

static int send_batch(struct ibv_qp *qp, uint64_t wr_id, unsigned int n)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	for (unsigned int i = 0; i < n; i++) {
		ex->wr_id = wr_id + i;
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, src.mr->lkey, (uintptr_t)src.data, 64);
	}
	return ibv_wr_complete(ex);
}

static void fill_srq(struct ibv_srq *srq, uint64_t wr_id, unsigned int n)
{
	struct ibv_sge sge = world_sge(&dst, 0, 64);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	for (wr.wr_id = wr_id; n--; wr.wr_id++)
		CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

/* The extended calls, and an SRQ that grows; the last batch is refused. */
static int role_extended(void)
{
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 64 };
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_cq_ex *polled;
	struct ibv_srq *srq;

	world_open(&w);
	polled = ibv_create_cq_ex(w.ctx, &cq_attr);
	srq = ibv_create_srq(w.pd, &attr);
	CHECK(polled && srq);
	cq = ibv_cq_ex_to_cq(polled);
	a = extended_qp(cq, NULL);
	b = extended_qp(cq, srq);
	world_connect(&w, a, b);
	src = world_buffer(&w, BUF, WORLD_ACCESS);
	dst = world_buffer(&w, BUF, WORLD_ACCESS);
	for (uint64_t i = 0; i < BATCHES; i++) {
		fill_srq(srq, 100 + 2 * i, 2);
		CHECK_EQ(send_batch(a, 10 * i, 2), 0);
		poll_extended(polled, 4);
		attr.attr.max_wr = 64;
		if (i == BATCHES / 2)
			CHECK_EQ(ibv_modify_srq(srq, &attr.attr, IBV_SRQ_MAX_WR), 0);
	}
	CHECK_EQ(send_batch(a, 1000, 3), ENOMEM);
	CHECK_EQ(send_batch(a, 2000, 0), 0);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&src);
	world_free(&dst);
	world_close(&w);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} roles[] = {
	{ "plain", role_plain },   { "refused", role_refused }, { "killed", role_killed },
	{ "forked", role_forked }, { "threads", role_threads }, { "idle", role_idle },
	{ "faulty", role_faulty }, { "long", role_long },	    { "steps", role_steps },
	{ "exec", role_exec },	 { "extended", role_extended }, { "crowd", role_crowd },
};

/* ---------------------------------------------------------------- the recordings */

static struct seen {
	unsigned int verbs[VERB_END], failed[VERB_END], made, ended;
	unsigned int sends, recvs, completions, errors, out, in, direct, notes, tied, naks;
	unsigned int files, tids;
	uint64_t lost, torn, bad;
	uint32_t qpn[64], index[64];	/* of the sends */
	uint32_t pid[FILES], tid[THREADS * 2];
	uint64_t wr_id[FILES];		/* of the last send of each file */
	unsigned int srq_tied;
	uint64_t srq_recv[64];		/* wr_id of the SRQ's receives, by index */
} s;

static const char *faults;		/* rules for the program; NULL: none */

static void see_tid(uint32_t tid)
{
	for (unsigned int i = 0; i < s.tids; i++)
		if (s.tid[i] == tid)
			return;
	CHECK(s.tids < THREADS * 2);
	s.tid[s.tids++] = tid;
}

static void see_recv(const struct record_recv *r)
{
	s.recvs++;
	if (r->kind == RECORD_SRQ && r->index < 64)
		s.srq_recv[r->index] = r->wr_id;
}

static void see_completion(const struct record_completion *c)
{
	s.completions++;
	s.srq_tied += c->kind == RECORD_SRQ && c->index < 64 && s.srq_recv[c->index] == c->wr_id;
	s.errors += c->status != IBV_WC_SUCCESS;
	for (unsigned int i = 0; i < 64 && i < s.sends; i++)
		s.tied += s.qpn[i] == c->number && s.index[i] == c->index &&
			  c->opcode != IBV_WC_RECV;
}

static void see_engine(const struct record_engine *e)
{
	s.notes++;
	s.direct += e->what == NOTE_DIRECT ? e->value : 0;
	s.naks += e->what == NOTE_NAK_SENT;
}

static void see(const struct record *r)
{
	const struct record_verb *v = r->body;
	const struct record_send *send = r->body;

	see_tid(r->tid);
	switch (r->type) {
	case RECORD_VERB:
		CHECK(v->verb < VERB_END);
		s.verbs[v->verb]++;
		s.failed[v->verb] += v->result != 0;
		break;
	case RECORD_OBJECT:
		s.made += ((const struct record_object *)r->body)->change == RECORD_CREATED;
		s.ended += ((const struct record_object *)r->body)->change == RECORD_DESTROYED;
		break;
	case RECORD_SEND:
		if (s.sends < 64) {
			s.qpn[s.sends] = send->qpn;
			s.index[s.sends] = send->index;
		}
		s.sends++;
		s.wr_id[r->file] = send->wr_id;
		break;
	case RECORD_RECV:
		see_recv(r->body);
		break;
	case RECORD_COMPLETION:
		see_completion(r->body);
		break;
	case RECORD_PACKET:
		s.out += ((const struct record_packet *)r->body)->way == RECORD_OUT;
		s.in += ((const struct record_packet *)r->body)->way == RECORD_IN;
		break;
	case RECORD_ENGINE:
		see_engine(r->body);
		break;
	}
}

/* Reads and removes all recordings. */
static void read_folder(void)
{
	struct record_reader *r = record_reader_new();
	DIR *dir = opendir(folder);
	struct record record;
	struct dirent *e;
	int ret;

	CHECK(r && dir);
	memset(&s, 0, sizeof(s));
	while ((e = readdir(dir))) {
		char path[PATH_MAX];

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		CHECK_EQ(record_reader_add(r, open(path, O_RDONLY | O_CLOEXEC)), 0);
		CHECK_EQ(unlink(path), 0);
	}
	closedir(dir);
	CHECK_EQ(record_reader_start(r, NULL), 0);
	while (!(ret = record_reader_next(r, &record)))
		see(&record);
	CHECK_EQ(ret, ENODATA);
	s.files = (unsigned int)record_reader_files(r);
	for (unsigned int i = 0; i < s.files; i++) {
		const struct record_file *f = record_reader_file(r, i);

		CHECK(i < FILES);
		s.pid[i] = f->origin.pid;
		s.lost += f->lost;
		s.torn += f->torn;
		s.bad += f->bad;
	}
	record_reader_free(r);
}

static pid_t start(const char *role, int *out)
{
	int fd[2];
	pid_t pid;

	CHECK_EQ(pipe2(fd, O_CLOEXEC), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		setenv("VERBENA_RECORD", folder, 1);
		if (faults)
			setenv("VERBENA_FAULTS", faults, 1);
		dup2(fd[1], STDOUT_FILENO);
		execl("/proc/self/exe", "recording", role, NULL);
		_exit(127);
	}
	close(fd[1]);
	*out = fd[0];
	return pid;
}

static void run(const char *role)
{
	int status, out;
	pid_t pid = start(role, &out);

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	close(out);
	read_folder();
	CHECK_EQ(s.bad, 0);
	CHECK_EQ(s.lost, 0);
}

static void test_plain(void)
{
	run("plain");
	CHECK_EQ(s.files, 1);
	CHECK_EQ(s.verbs[VERB_open_device], 1);
	CHECK_EQ(s.verbs[VERB_close_device], 1);
	CHECK_EQ(s.verbs[VERB_create_qp], 2);
	CHECK_EQ(s.verbs[VERB_modify_qp], 6);
	CHECK_EQ(s.verbs[VERB_reg_mr], 3);
	CHECK_EQ(s.failed[VERB_reg_mr], 1);
	CHECK_EQ(s.verbs[VERB_post_send], 0);
	CHECK_EQ(s.made, 7);
	CHECK_EQ(s.ended, 7);
	CHECK_EQ(s.sends, 10);
	CHECK_EQ(s.recvs, 10);
	CHECK_EQ(s.completions, 20);
	CHECK_EQ(s.tied, 10);
	CHECK(s.out >= 10);
	CHECK(s.in >= 10);
}

static void test_refused(void)
{
	run("refused");
	CHECK_EQ(s.sends, 1);
	CHECK(s.errors >= 1);
	CHECK_EQ(s.naks, 1);
}

static void test_killed(void)
{
	int out, status;
	pid_t pid = start("killed", &out);
	char c;

	CHECK_EQ(read(out, &c, 1), 1);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	close(out);
	read_folder();
	CHECK_EQ(s.files, 1);
	CHECK_EQ(s.bad, 0);
	CHECK(s.sends >= MESSAGES);
	CHECK(s.recvs >= s.sends);
	CHECK(s.wr_id[0] >= MESSAGES);
}

/* Each file contains the records of its own process and no others. */
static void test_forked(void)
{
	fork_single_threaded();
	run("forked");
	unsetenv("VERBENA_PROGRESS");
	CHECK_EQ(s.files, 2);
	CHECK(s.pid[0] != s.pid[1]);
	CHECK_EQ(s.sends, 3);
	CHECK_EQ(s.wr_id[0] * s.wr_id[1], 2 * 3);
	CHECK_EQ(s.verbs[VERB_open_device], 2);
}

static void test_threads(void)
{
	run("threads");
	CHECK_EQ(s.verbs[VERB_query_device], THREADS);
	CHECK(s.tids > THREADS);
}

static void test_exec(void)
{
	run("exec");
	CHECK_EQ(s.files, 2);
	CHECK_EQ(s.pid[0], s.pid[1]);
	CHECK_EQ(s.sends, 11);
	CHECK_EQ(s.verbs[VERB_open_device], 2);
}

/*
 * Extended calls are recorded like the others: posts, polls that returned a completion, and the SRQ
 * receive of each completion. If one request of a batch is refused, none of the batch is posted.
 */
static void test_extended(void)
{
	faults = "wr tx nth 12 fail ENOMEM";
	run("extended");
	faults = NULL;
	CHECK_EQ(s.sends, 2 * BATCHES);
	CHECK_EQ(s.recvs, 2 * BATCHES);
	CHECK_EQ(s.completions, 4 * BATCHES);
	CHECK_EQ(s.srq_tied, 2 * BATCHES);
	CHECK_EQ(s.verbs[VERB_start_poll] + s.verbs[VERB_next_poll], 4 * BATCHES);
	CHECK_EQ(s.verbs[VERB_wr_complete], 1);
	CHECK_EQ(s.failed[VERB_wr_complete], 1);
}

static void test_idle(void)
{
	run("idle");
	CHECK_EQ(s.files, 0);
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(roles) / sizeof(roles[0]); i++)
		if (!strcmp(argv[1], roles[i].name))
			return roles[i].run();
	CHECK(mkdtemp(folder) != NULL);
	test_plain();
	test_refused();
	test_killed();
	test_forked();
	test_threads();
	test_exec();
	test_extended();
	test_idle();
	CHECK_EQ(rmdir(folder), 0);
	return 0;
}
