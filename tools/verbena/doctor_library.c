/* SPDX-License-Identifier: BSD-2-Clause */
/* Which library programs load, what it returns, and what they see in /dev and /sys. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "doctor.h"
#include "run/config.h"
#include "run/netdev.h"

#define TMPFS_MAGIC 0x01021994

static bool contains(const char *path, const char *word)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map = MAP_FAILED;
	bool yes = false;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size)
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map != MAP_FAILED) {
		yes = memmem(map, (size_t)st.st_size, word, strlen(word)) != NULL;
		munmap(map, (size_t)st.st_size);
	}
	if (fd >= 0)
		close(fd);
	return yes;
}

static bool same_content(const char *a, const char *b)
{
	FILE *fa = fopen(a, "r"), *fb = fopen(b, "r");
	bool same = fa && fb;
	char pa[65536], pb[65536];

	while (same) {
		size_t na = fread(pa, 1, sizeof(pa), fa), nb = fread(pb, 1, sizeof(pb), fb);

		same = na == nb && memcmp(pa, pb, na) == 0;
		if (!na)
			break;
	}
	if (fa)
		fclose(fa);
	if (fb)
		fclose(fb);
	return same;
}

/* True if Verbena's folder is in LD_LIBRARY_PATH. */
static bool path_has_ours(void)
{
	char *copy = strdup(getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : ""),
	     *rest = copy;
	bool yes = false;

	for (char *folder; copy && !yes && (folder = strsep(&rest, ":;"));) {
		char file[PATH_MAX];

		if (snprintf(file, sizeof(file), "%s/libibverbs.so.1", folder) < PATH_MAX)
			yes = contains(file, "VERBENA_TRANSPORT");
	}
	free(copy);
	return yes;
}

/* Output of verbena-probe, which is in the same folder as this program. */
struct probe {
	char verbs[PATH_MAX];	/* or the loader's error message after "!" */
	char cm[PATH_MAX];	/* "": none */
	int count;
	bool no_process;
};

static void read_line(FILE *f, char line[PATH_MAX])
{
	if (!fgets(line, PATH_MAX, f))
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
}

static bool run_probe(struct probe *p)
{
	char own[PATH_MAX], count[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	FILE *f;

	if (n <= 0)
		return false;
	own[n] = '\0';
	*strrchr(own, '/') = '\0';
	/* In a variable, as it may have any characters. */
	setenv("folder", own, 1);
	f = popen("exec \"$folder/verbena-probe\" 2>/dev/null", "re");
	p->no_process = !f;
	if (!f)
		return false;
	read_line(f, p->verbs);
	read_line(f, count);
	p->count = atoi(count);
	read_line(f, p->cm);
	pclose(f);
	return p->verbs[0];
}

/* Verbena's librdmacm is in the same folder as its libibverbs, if this build has one. */
static void check_cm(const char *theirs, const char *own_verbs)
{
	char own[PATH_MAX];

	snprintf(own, sizeof(own), "%.*s/librdmacm.so.1",
		 (int)(strrchr(own_verbs, '/') - own_verbs), own_verbs);
	if (theirs[0] && !same_content(theirs, own))
		found(27, "they load %s", theirs);
}

void check_library(void)
{
	static struct probe probe;
	const char *theirs = probe.verbs;
	char own[PATH_MAX];
	Dl_info info;
	int count;

	if (!dladdr((const void *)ibv_get_device_list, &info) || !realpath(info.dli_fname, own))
		return;
	if (!run_probe(&probe)) {
		found(26, probe.no_process ? "no process can be started"
					   : "verbena-probe could not be run");
		return;
	}
	count = probe.count;
	if (theirs[0] == '!')
		found(1, "%s", theirs + 1);
	else if (!contains(theirs, "VERBENA_TRANSPORT") && count < 0)
		found(path_has_ours() ? 2 : 1,
		      "they load %s; its ibv_get_device_list returns NULL (%s)", theirs,
		      strerror(-count));
	else if (!contains(theirs, "VERBENA_TRANSPORT"))
		found(path_has_ours() ? 2 : 1, "they load %s, which has %d device%s", theirs, count,
		      count == 1 ? "" : "s");
	else if (!same_content(theirs, own))
		found(3, "they load %s, this tool uses %s", theirs, own);
	else
		fine("programs started from here load %s", theirs);
	if (contains(theirs, "VERBENA_TRANSPORT"))
		check_cm(probe.cm, own);
}

static bool is_tmpfs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

void check_system_files(void)
{
	bool dev =
		is_tmpfs("/dev") && access("/dev/kmsg", F_OK) < 0 && access("/dev/mem", F_OK) < 0;
	bool sys = access("/sys/class/net", F_OK) < 0;

	if (dev || sys)
		found(4, "%s%s%s", dev ? "/dev has no devices of the host" : "",
		      dev && sys ? ", " : "", sys ? "/sys/class/net is missing" : "");
	else
		fine("/dev and /sys are the host's");
	/* The kernel's folder, also under `verbena run`, whose preloaded access() shows ours. */
	if (syscall(SYS_faccessat, AT_FDCWD, "/sys/class/infiniband", F_OK) == 0)
		found(34, "/sys/class/infiniband exists");
}

/* Says why there are no devices. */
static void explain_none(void)
{
	const struct config *cfg = doctor_config();
	struct netdev *list = NULL;
	unsigned int n = 0, usable = 0;
	char text[400] = "";

	if (netdev_list(&list, &n))
		n = 0;
	for (unsigned int i = 0; i < n; i++) {
		usable += list[i].up && list[i].n_addrs;
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s is %s",
			 i ? ", " : "", list[i].name,
			 !list[i].up       ? "down"
			 : list[i].n_addrs ? "usable"
					   : "up without address");
	}
	free(list);
	if (usable && cfg->n_devices)
		found(7, "VERBENA_DEVICES=%s; %s", getenv("VERBENA_DEVICES"), text);
	else
		found(6, "%s", n ? text : "no interfaces");
}

static void check_names(void)
{
	const struct config *cfg = doctor_config();

	for (unsigned int i = 0; i < cfg->n_devices; i++)
		if (!if_nametoindex(cfg->device[i].ifname))
			found(7, "no interface '%s'", cfg->device[i].ifname);
}

static bool check_open(struct ibv_device *dev)
{
	struct ibv_context *ctx = ibv_open_device(dev);

	if (!ctx) {
		found(9, "%s: %s", ibv_get_device_name(dev), strerror(errno));
		return false;
	}
	ibv_close_device(ctx);
	return true;
}

void check_devices(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list) {
		found(5, "%s", strerror(errno));
		return;
	}
	if (!n)
		explain_none();
	else
		check_names();
	if (n && check_open(list[0]))
		fine("%d device%s, %s can be opened", n, n == 1 ? "" : "s",
		     ibv_get_device_name(list[0]));
	ibv_free_device_list(list);
}
