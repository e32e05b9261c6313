/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that describe a device: written once, changed with its port, removed with it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "core/device/device.h"
#include "core/device/sysfs_tree.h"
#include "run/netdev.h"
#include "util/compiler.h"

#define NODE "devices/vrb7/infiniband/vrb7/"
#define PORT NODE "ports/1/"

static char run_dir[] = "/tmp/verbena-sysfs-XXXXXX";
static struct vrb_device dev;
static struct netdev nd;

static void path_of(char path[PATH_MAX], const char *name)
{
	snprintf(path, PATH_MAX, "%s/%s", vrb_sysfs_root(), name);
}

/* The line in a file; "" if there is none. */
static const char *line(const char *name)
{
	static char text[256];
	char path[PATH_MAX];
	FILE *f;

	path_of(path, name);
	text[0] = '\0';
	f = fopen(path, "r");
	if (!f)
		return "";
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static bool exists(const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	path_of(path, name);
	return lstat(path, &st) == 0;
}

static ino_t inode(const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	path_of(path, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static void add_address(const char *text)
{
	struct netdev_addr *a = &nd.addr[nd.n_addrs++];

	*a = (struct netdev_addr){ .prefix_len = 24 };
	a->addr.raw[10] = a->addr.raw[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, a->addr.raw + 12), 1);
}

static int setup(void **state)
{
	memset(&nd, 0, sizeof(nd));
	memset(&dev, 0, sizeof(dev));
	strcpy(nd.name, "none0");
	nd.ifindex = 42;
	nd.mtu = 1500;
	nd.up = nd.running = true;
	add_address("192.0.2.5");
	strcpy(dev.ibv.name, "vrb7");
	strcpy(dev.ibv.dev_name, "uverbs7");
	dev.index = 7;
	dev.node_guid = 0x0200c0fffe00ab01;
	vrb_port_init(&dev.port, &nd);
	vrb_sysfs_publish(&dev);
	return 0;
}

static int teardown(void **state)
{
	vrb_sysfs_prune(NULL, 0);
	return 0;
}

static void describes_device(void **state)
{
	assert_string_equal(line(NODE "node_guid"), "0200:c0ff:fe00:ab01");
	assert_string_equal(line(NODE "node_type"), "1: CA");
	assert_string_equal(line(NODE "parent"), "none0");
	assert_string_equal(line("devices/vrb7/net/none0/ifindex"), "42");
	assert_string_equal(line(PORT "state"), "4: ACTIVE");
	assert_string_equal(line(PORT "link_layer"), "Ethernet");
	assert_string_equal(line(PORT "gids/0"), "0000:0000:0000:0000:0000:ffff:c000:0205");
	assert_string_equal(line(PORT "gid_attrs/types/0"), "RoCE v2");
	assert_string_equal(line(PORT "gid_attrs/ndevs/0"), "none0");
	assert_string_equal(line("class/infiniband_verbs/uverbs7/ibdev"), "vrb7");
	/* through the links that programs follow */
	assert_string_equal(line("class/infiniband/vrb7/node_guid"), "0200:c0ff:fe00:ab01");
	assert_string_equal(line("class/infiniband/vrb7/device/net/none0/ifindex"), "42");
}

static void names_paths(void **state)
{
	char path[PATH_MAX];

	vrb_sysfs_name(&dev);
	path_of(path, "class/infiniband/vrb7");
	assert_string_equal(dev.ibv.ibdev_path, path);
	path_of(path, "class/infiniband_verbs/uverbs7");
	assert_string_equal(dev.ibv.dev_path, path);
}

static void follows_port(void **state)
{
	ino_t guid = inode(NODE "node_guid");

	add_address("192.0.2.6");
	nd.running = false;
	nd.carrier_downs = 1;
	vrb_port_follow(&dev.port, &nd);
	vrb_sysfs_publish(&dev);
	assert_string_equal(line(PORT "state"), "1: DOWN");
	assert_string_equal(line(PORT "hw_counters/link_downed"), "1");
	assert_string_equal(line(PORT "gids/1"), "0000:0000:0000:0000:0000:ffff:c000:0206");
	/* unchanged files are not written again */
	assert_int_equal(inode(NODE "node_guid"), guid);

	nd.n_addrs = 1;
	nd.running = true;
	vrb_port_follow(&dev.port, &nd);
	vrb_sysfs_publish(&dev);
	assert_string_equal(line(PORT "state"), "4: ACTIVE");
	assert_false(exists(PORT "gids/1"));
	assert_false(exists(PORT "gid_attrs/types/1"));
}

/* A process that has just started finds files of another process with more addresses. */
static void drops_slots_of_others(void **state)
{
	add_address("192.0.2.6");
	vrb_port_follow(&dev.port, &nd);
	vrb_sysfs_publish(&dev);
	assert_true(exists(PORT "gids/1"));

	nd.n_addrs = 1;
	vrb_port_init(&dev.port, &nd);
	dev.described = dev.described_gids = 0;
	vrb_sysfs_publish(&dev);
	assert_false(exists(PORT "gids/1"));
}

/* As by a process that has just started. */
static void publish_anew(void)
{
	dev.described = dev.described_gids = 0;
	vrb_sysfs_publish(&dev);
}

static void drop(const char *name)
{
	char path[PATH_MAX];

	path_of(path, name);
	assert_int_equal(unlink(path), 0);
}

/* With the mark of the same description a process looks at nothing else. */
static void trusts_mark(void **state)
{
	drop(PORT "state");
	publish_anew();
	assert_false(exists(PORT "state"));

	nd.ifindex = 43;
	vrb_port_init(&dev.port, &nd);
	publish_anew();
	assert_true(exists(PORT "state"));
	assert_string_equal(line("devices/vrb7/net/none0/ifindex"), "43");
}

static void trusts_mark_for_a_day(void **state)
{
	struct timespec times[2] = { { .tv_sec = time(NULL) - 25 * 60 * 60 } };
	char path[PATH_MAX];

	drop(PORT "state");
	times[1] = times[0];
	path_of(path, NODE ".described");
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	publish_anew();
	assert_true(exists(PORT "state"));
}

static void restores_links(void **state)
{
	static const char *const links[] = {
		"class/infiniband/vrb7", "class/infiniband_verbs/uverbs7/ibdev",
		"dev/infiniband/uverbs7", PORT "hw_counters/sent_pkts",
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(links); i++) {
		drop(links[i]);
		if (i == ARRAY_SIZE(links) - 1)
			drop(NODE ".described");
		publish_anew();
		assert_true(exists(links[i]));
	}
}

static void prunes(void **state)
{
	struct vrb_device *const list[] = { &dev };

	vrb_sysfs_prune(list, 1);
	assert_true(exists("class/infiniband/vrb7"));
	assert_true(exists("class/infiniband_verbs/uverbs7/ibdev"));
	assert_true(exists("dev/infiniband/uverbs7"));

	vrb_sysfs_prune(NULL, 0);
	assert_false(exists("class/infiniband/vrb7"));
	assert_false(exists("class/infiniband_verbs/uverbs7"));
	assert_false(exists("dev/infiniband/uverbs7"));
	assert_true(exists("class/infiniband_verbs/abi_version"));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(describes_device, setup, teardown),
		cmocka_unit_test_setup_teardown(names_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(follows_port, setup, teardown),
		cmocka_unit_test_setup_teardown(drops_slots_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(trusts_mark, setup, teardown),
		cmocka_unit_test_setup_teardown(trusts_mark_for_a_day, setup, teardown),
		cmocka_unit_test_setup_teardown(restores_links, setup, teardown),
		cmocka_unit_test_setup_teardown(prunes, setup, teardown),
	};
	int failed;

	if (!mkdtemp(run_dir))
		return 1;
	setenv("VERBENA_DIR", run_dir, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	nftw(run_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return failed;
}
