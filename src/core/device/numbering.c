/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/numbering.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "core/device/sysfs_file.h"
#include "core/device/sysfs_tree.h"

static bool has_row(const struct vrb_numbers *t, uint32_t number)
{
	for (unsigned int i = 0; i < t->n; i++)
		if (t->row[i].number == number)
			return true;
	return false;
}

static bool exists(const struct netdev *nds, unsigned int n, uint32_t ifindex)
{
	for (unsigned int i = 0; i < n; i++)
		if (nds[i].ifindex == ifindex)
			return true;
	return false;
}

/* Reads one file; false if its interface is gone or its content is invalid. */
static bool read_row(struct vrb_numbers *t, const struct sysfs_place *p, const char *name,
		     const struct netdev *nds, unsigned int n)
{
	struct vrb_number row;
	uint64_t number;

	if (sscanf(name, "%u.%u", &row.ifindex, &row.ordinal) != 2 || !exists(nds, n, row.ifindex))
		return false;
	number = vrb_sysfs_number(p, name);
	row.number = (uint32_t)number;
	if (number >= VRB_NUMBERS || has_row(t, row.number) || t->n == VRB_NUMBERS)
		return false;
	t->row[t->n++] = row;
	return true;
}

void vrb_numbers_begin(struct vrb_numbers *t, const struct netdev *nds, unsigned int n)
{
	struct sysfs_place p;
	const struct dirent *e;
	DIR *d;

	t->n = 0;
	t->lock = vrb_sysfs_lock();
	if (t->lock < 0)
		return;
	p = vrb_sysfs_place("numbers");
	d = opendir(p.path);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && !read_row(t, &p, e->d_name, nds, n))
			vrb_sysfs_drop(&p, e->d_name);
	if (d)
		closedir(d);
}

static uint32_t lowest_free(const struct vrb_numbers *t, bool (*taken)(uint32_t number))
{
	uint32_t number = 0;

	while (has_row(t, number) || taken(number))
		number++;
	return number;
}

static void keep(struct vrb_numbers *t, const struct vrb_number *row)
{
	struct sysfs_place p;
	char name[32];

	if (t->n < VRB_NUMBERS)
		t->row[t->n++] = *row;
	if (t->lock < 0)
		return;
	p = vrb_sysfs_place("numbers");
	snprintf(name, sizeof(name), "%u.%u", row->ifindex, row->ordinal);
	vrb_sysfs_put(&p, name, "%u", row->number);
}

uint32_t vrb_number_of(struct vrb_numbers *t, uint32_t ifindex, uint32_t ordinal,
		       bool (*taken)(uint32_t number))
{
	struct vrb_number row = { .ifindex = ifindex, .ordinal = ordinal };

	for (unsigned int i = 0; i < t->n; i++)
		if (t->row[i].ifindex == ifindex && t->row[i].ordinal == ordinal &&
		    !taken(t->row[i].number))
			return t->row[i].number;
	row.number = lowest_free(t, taken);
	keep(t, &row);
	return row.number;
}

void vrb_numbers_end(struct vrb_numbers *t)
{
	if (t->lock >= 0)
		close(t->lock);
}
