/* SPDX-License-Identifier: BSD-2-Clause */
#include "nldev_device.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line of a file; "" if there is none. */
static __attribute__((format(printf, 3, 4))) void read_line(char *to, size_t cap, const char *fmt,
							    ...)
{
	char path[PATH_MAX];
	va_list ap;
	FILE *f = NULL;

	va_start(ap, fmt);
	if (vsnprintf(path, sizeof(path), fmt, ap) < (int)sizeof(path))
		f = fopen(path, "re");
	va_end(ap);
	if (!f || !fgets(to, (int)cap, f))
		to[0] = '\0';
	to[strcspn(to, "\n")] = '\0';
	if (f)
		fclose(f);
}

/* "7c9a:d8ff:feaa:3ad2" */
static uint64_t parse_guid(const char *text)
{
	unsigned int group[4];
	uint64_t guid = 0;

	if (sscanf(text, "%4x:%4x:%4x:%4x", &group[0], &group[1], &group[2], &group[3]) != 4)
		return 0;
	for (unsigned int i = 0; i < 4; i++)
		guid = guid << 16 | group[i];
	return guid;
}

static int is_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static void read_interface(struct nldev_device *dev, const char *tree)
{
	struct dirent **names;
	char path[PATH_MAX];
	int n;

	snprintf(path, sizeof(path), "%s/devices/%s/net", tree, dev->name);
	n = scandir(path, &names, is_visible, alphasort);
	for (int i = 0; i < n; i++) {
		if (!i)
			snprintf(dev->ifname, sizeof(dev->ifname), "%.15s", names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	dev->ifindex = dev->ifname[0] ? if_nametoindex(dev->ifname) : 0;
}

static void read_device(struct nldev_device *dev, const char *tree)
{
	char base[PATH_MAX], line[64];

	snprintf(base, sizeof(base), "%s/devices/%s/infiniband/%s", tree, dev->name, dev->name);
	read_line(line, sizeof(line), "%s/node_guid", base);
	dev->node_guid = parse_guid(line);
	read_line(line, sizeof(line), "%s/sys_image_guid", base);
	dev->sys_image_guid = parse_guid(line);
	read_line(line, sizeof(line), "%s/node_type", base);
	dev->node_type = (uint8_t)atoi(line);
	read_line(line, sizeof(line), "%s/ports/1/state", base);
	dev->port_state = (uint8_t)atoi(line);
	read_line(line, sizeof(line), "%s/ports/1/phys_state", base);
	dev->phys_state = (uint8_t)atoi(line);
	read_line(dev->fw_version, sizeof(dev->fw_version), "%s/fw_ver", base);
	read_interface(dev, tree);
}

static int by_index(const void *a, const void *b)
{
	const struct nldev_device *x = a, *y = b;

	return (x->index > y->index) - (x->index < y->index);
}

unsigned int nldev_devices(const char *tree, struct nldev_device list[NLDEV_DEVICES])
{
	unsigned int n = 0;
	const struct dirent *e;
	char path[PATH_MAX];
	DIR *d;

	snprintf(path, sizeof(path), "%s/class/infiniband_verbs", tree);
	d = opendir(path);
	while (d && n < NLDEV_DEVICES && (e = readdir(d))) {
		struct nldev_device *dev = &list[n];

		*dev = (struct nldev_device){ 0 };
		if (sscanf(e->d_name, "uverbs%u", &dev->index) != 1)
			continue;
		read_line(dev->name, sizeof(dev->name), "%s/%s/ibdev", path, e->d_name);
		if (!dev->name[0] || strchr(dev->name, '/'))
			continue;
		read_device(dev, tree);
		n++;
	}
	if (d)
		closedir(d);
	qsort(list, n, sizeof(*list), by_index);
	return n;
}

unsigned int nldev_counters(const char *tree, const struct nldev_device *dev,
			    struct nldev_counter list[NLDEV_COUNTERS])
{
	struct dirent **names;
	char path[PATH_MAX], line[32];
	unsigned int count = 0;
	int n;

	snprintf(path, sizeof(path), "%s/devices/%s/infiniband/%s/ports/1/hw_counters", tree,
		 dev->name, dev->name);
	n = scandir(path, &names, is_visible, alphasort);
	for (int i = 0; i < n; i++) {
		if (count < NLDEV_COUNTERS) {
			read_line(line, sizeof(line), "%s/%s", path, names[i]->d_name);
			snprintf(list[count].name, sizeof(list[count].name), "%.63s",
				 names[i]->d_name);
			list[count++].value = strtoull(line, NULL, 10);
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return count;
}
