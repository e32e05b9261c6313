/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBENA_DEVICES: devices with a given name, two devices on one interface, and the default names
 * of the other interfaces; then the sysfs files of devices.
 */
#include <endian.h>
#include <limits.h>
#include <unistd.h>

#include "world.h"

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static struct ibv_device *by_name(struct ibv_device **list, const char *name)
{
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return list[i];
	return NULL;
}

static void check_node_guid(struct ibv_device *dev)
{
	uint64_t guid = be64toh(ibv_get_device_guid(dev));
	char text[64], want[64];

	snprintf(want, sizeof(want), "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		 (unsigned int)(guid & 0xffff));
	CHECK(ibv_read_sysfs_file(dev->ibdev_path, "node_guid", text, sizeof(text)) > 0);
	CHECK(!strcmp(text, want));
}

/* The layout that programs walk: <bus device>/infiniband/<device>, and the link "device" back. */
static void check_files(struct ibv_device *dev)
{
	char text[64], path[2 * PATH_MAX], real[PATH_MAX];

	CHECK(ibv_read_sysfs_file(dev->ibdev_path, "board_id", text, sizeof(text)) > 0);
	CHECK(ibv_read_sysfs_file(dev->ibdev_path, "ports/1/state", text, sizeof(text)) > 0);
	CHECK(!strcmp(text, "4: ACTIVE"));
	CHECK(ibv_read_sysfs_file(dev->ibdev_path, "ports/1/gid_attrs/types/0", text,
				  sizeof(text)) > 0);
	CHECK(!strcmp(text, "RoCE v2"));
	CHECK(ibv_read_sysfs_file(dev->ibdev_path, "device/numa_node", text, sizeof(text)) > 0);
	CHECK(ibv_read_sysfs_file(dev->dev_path, "ibdev", text, sizeof(text)) > 0);
	CHECK(!strcmp(text, dev->name));
	check_node_guid(dev);
	CHECK(realpath(dev->ibdev_path, real));
	snprintf(path, sizeof(path), "%s/../../vendor", real);
	CHECK_EQ(access(path, R_OK), 0);
}

static uint64_t counter(struct ibv_device *dev, const char *name)
{
	char text[64], file[96];

	snprintf(file, sizeof(file), "ports/1/hw_counters/%s", name);
	if (ibv_read_sysfs_file(dev->ibdev_path, file, text, sizeof(text)) < 0)
		return 0;
	return strtoull(text, NULL, 10);
}

static void counters_count(struct ibv_device *dev)
{
	struct world w = { .ctx = ibv_open_device(dev) };
	struct ibv_ah_attr to_self = { .port_num = 1, .is_global = 1 };
	struct buffer b;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint64_t before, after;

	CHECK(w.ctx);
	CHECK_EQ(ibv_query_port(w.ctx, 1, &w.port), 0);
	CHECK_EQ(ibv_query_gid(w.ctx, 1, 0, &w.gid), 0);
	CHECK((w.pd = ibv_alloc_pd(w.ctx)));
	cq = world_cq(&w, 8);
	qp = world_qp(&w, IBV_QPT_UD, cq, NULL);
	world_move(&w, qp, IBV_QPS_INIT, 0);
	world_move(&w, qp, IBV_QPS_RTR, 0);
	world_move(&w, qp, IBV_QPS_RTS, 0);
	b = world_buffer(&w, 128, WORLD_ACCESS);
	to_self.grh.dgid = w.gid;
	before = counter(dev, "sent_pkts");
	{
		struct ibv_ah *ah = ibv_create_ah(w.pd, &to_self);
		struct ibv_sge sge = world_sge(&b, 0, 16);
		struct ibv_send_wr wr = {
			.wr_id = 1,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = { ah, qp->qp_num, WORLD_QKEY },
		};

		CHECK(ah);
		world_post(qp, &wr);
		world_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_destroy_ah(ah), 0);
	}
	after = counter(dev, "sent_pkts");
	CHECK(after > before);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&b);
	world_close(&w);
	/* Sums include closed contexts. */
	CHECK(counter(dev, "sent_pkts") >= after);
}

int main(void)
{
	struct ibv_device **list, *a, *b;

	CHECK_EQ(setenv("VERBENA_DEVICES", "first=lo,second=lo", 1), 0);
	CHECK_EQ(setenv("VERBENA_TRANSPORT", "udp", 1), 0);
	list = ibv_get_device_list(NULL);
	CHECK(list);
	CHECK((a = by_name(list, "first")));
	CHECK((b = by_name(list, "second")));
	CHECK(ibv_get_device_guid(a) != ibv_get_device_guid(b));
	CHECK(ibv_get_device_index(a) != ibv_get_device_index(b));
	/* The other devices keep their own names. */
	for (int i = 0; list[i]; i++)
		CHECK(list[i] == a || list[i] == b || !strncmp(list[i]->name, "vrb", 3));
	if (strncmp(a->ibdev_path, "/sys/", 5)) {
		check_files(a);
		check_files(b);
		counters_count(a);
	}
	ibv_free_device_list(list);
	return 0;
}
