/* SPDX-License-Identifier: BSD-2-Clause */
/* See view.h. */
#include "view.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <json-c/json.h>

#include "util/compiler.h"

int64_t number(struct json_object *o, const char *key)
{
	return json_object_get_int64(json_object_object_get(o, key));
}

uint64_t unsigned_number(struct json_object *o, const char *key)
{
	return json_object_get_uint64(json_object_object_get(o, key));
}

const char *text(struct json_object *o, const char *key)
{
	static char kept[8][64];
	static unsigned int next;
	const char *s = json_object_get_string(json_object_object_get(o, key));
	char *to = kept[next++ % ARRAY_SIZE(kept)];

	snprintf(to, sizeof(kept[0]), "%s", s ? s : "");
	for (char *p = to; *p; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
			*p = '?';
	return to;
}

struct json_object *list(struct json_object *o, const char *key)
{
	struct json_object *l = json_object_object_get(o, key);

	return l && json_object_is_type(l, json_type_array) ? l : NULL;
}

size_t list_length(struct json_object *l)
{
	return l ? json_object_array_length(l) : 0;
}

static const char *device_of(struct json_object *contexts, size_t i)
{
	return text(json_object_array_get_idx(contexts, i), "device");
}

static bool is_first_of_device(struct json_object *contexts, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(device_of(contexts, k), device_of(contexts, i)))
			return false;
	return true;
}

const char *devices_of(struct json_object *process)
{
	static char names[256];
	struct json_object *contexts = list(process, "contexts");

	names[0] = '\0';
	for (size_t i = 0; i < list_length(contexts); i++) {
		size_t n = strlen(names);

		if (is_first_of_device(contexts, i))
			snprintf(names + n, sizeof(names) - n, "%s%s", n ? " " : "",
				 device_of(contexts, i));
	}
	return names;
}

const char *access_text(unsigned int access, char *buf, size_t size)
{
	static const struct {
		unsigned int bit;
		const char *name;
	} rows[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "local-write" },
		{ IBV_ACCESS_REMOTE_WRITE, "remote-write" },
		{ IBV_ACCESS_REMOTE_READ, "remote-read" },
		{ IBV_ACCESS_REMOTE_ATOMIC, "atomic" },
		{ IBV_ACCESS_MW_BIND, "bind" },
		{ IBV_ACCESS_ZERO_BASED, "zero-based" },
		{ IBV_ACCESS_ON_DEMAND, "on-demand" },
	};
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (access & rows[i].bit)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? " " : "",
					      rows[i].name);
	return n ? buf : "read";
}

/* "10.0.0.1:4791", "[fe80::1]:4791", or "". */
static const char *endpoint(struct json_object *id, const char *addr, const char *port, char to[64])
{
	const char *a = text(id, addr);
	int n = (int)number(id, port);

	to[0] = '\0';
	if (n || strcmp(a, "*") != 0)
		snprintf(to, 64, strchr(a, ':') ? "[%s]:%d" : "%s:%d", a, n);
	return to;
}

void print_cm_id_head(void)
{
	printf("%-5s %-8s %-14s %-14s %-24s %-24s %-8s %s\n", "CM id", "type", "state", "exchange",
	       "address", "peer", "QP", "device");
}

void print_cm_id(struct json_object *id)
{
	char src[64], dst[64], qp[16] = "-";

	if (number(id, "qpn"))
		snprintf(qp, sizeof(qp), "0x%06llx", (unsigned long long)number(id, "qpn"));
	printf("%-5s %-8s %-14s %-14s %-24s %-24s %-8s %s\n", text(id, "port_space"),
	       text(id, "type"), text(id, "state"), text(id, "exchange"),
	       endpoint(id, "src", "src_port", src), endpoint(id, "dst", "dst_port", dst), qp,
	       text(id, "device"));
}
