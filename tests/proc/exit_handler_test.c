/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A signal's handler calls exit() in a thread that is posting and so holds its QP's lock, while a
 * packet for the QP waits in the socket: the process ends. A list of requests leads into memory
 * without access, which raises the signal. The progress thread, which would take the packet, is
 * held meanwhile.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"

enum { SIZE = 4096, TIMEOUT = 14, RETRIES = 7, POLLS = 100, SKIP = 77 };

static int to_parent;

/* LeakSanitizer, too, would stop the thread that the parent holds. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
	return to_parent != 0;
}

static void leave(int signal)
{
	char sent;

	child_send(to_parent, "l", 1);
	child_recv(to_parent, &sent, 1);
	exit(0);
}

static void victim(int sock)
{
	struct ibv_send_wr *bad, first = { .opcode = IBV_WR_SEND };
	struct rc_addr peer;
	struct rc rc;

	alarm(RC_LIMIT_S);
	to_parent = sock;
	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	first.next = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(first.next != MAP_FAILED);
	signal(SIGSEGV, leave);
	ibv_post_send(rc.qp, &first, &bad);
	CHECK(false);
}

static bool is_progress_thread(pid_t pid, const char *tid)
{
	char path[300], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)pid, tid);
	f = fopen(path, "r");
	if (f && !fgets(name, sizeof(name), f))
		name[0] = '\0';
	if (f)
		fclose(f);
	return strcmp(name, "verbena\n") == 0;
}

static pid_t progress_thread(pid_t pid)
{
	struct dirent *e;
	pid_t found = 0;
	char path[32];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	CHECK(tasks);
	while (!found && (e = readdir(tasks)))
		if (is_progress_thread(pid, e->d_name))
			found = atoi(e->d_name);
	closedir(tasks);
	CHECK(found);
	return found;
}

/* Until the process ends. */
static void hold(pid_t thread)
{
	int status;

	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL)) {
		printf("no thread may be held: %s\n", strerror(errno));
		exit(SKIP);
	}
	CHECK(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0);
	CHECK_EQ(waitpid(thread, &status, __WALL), thread);
	CHECK(WIFSTOPPED(status));
}

int main(void)
{
	struct rc_addr peer;
	struct child child;
	struct ibv_wc wc;
	struct rc rc;
	int status;
	char leaves;

	alarm(RC_LIMIT_S);
	setenv("VERBENA_TRANSPORT", "udp", 1);
	child = child_fork(victim);
	rc_open(&rc, SIZE);
	rc_pair(&rc, child.sock, &peer, TIMEOUT, RETRIES);
	child_recv(child.sock, &leaves, 1);
	hold(progress_thread(child.pid));
	CHECK(rc_post_send(&rc, rc.qp, IBV_WR_RDMA_WRITE, 8, &peer, 0) == 0);
	for (int i = 0; i < POLLS; i++)
		CHECK(ibv_poll_cq(rc.cq, 1, &wc) == 0);
	child_send(child.sock, "s", 1);
	while (waitpid(-1, &status, __WALL) != child.pid)
		;
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	rc_close(&rc);
	return 0;
}
