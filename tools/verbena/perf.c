/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena perf: measures both transports by size, and memcpy and bare UDP for comparison; prints a
 * table, JSON or an SVG plot.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "perf_limits.h"
#include "perf_pair.h"
#include "tool.h"

enum {
	TRANSPORTS = 2,
	SIZES = 7,
	WIDTH = 640,
	HEIGHT = 360,
	LEFT = 60,
	BOTTOM = 320,
	TOP = 40,
	RIGHT = 600
};

static const char *const transports[TRANSPORTS] = { "local", "udp" };
static const size_t sizes[SIZES] = { 8, 64, 512, 4096, 32768, 262144, 1048576 };

static struct perf_point points[TRANSPORTS][SIZES];
static struct perf_limits limits;
static unsigned int steps;

/* Progress, on a terminal only. */
static void step(void)
{
	unsigned int all = TRANSPORTS * SIZES;

	steps++;
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r[%-*.*s] %u/%u%s", (int)all, (int)steps, "####################", steps,
		all, steps == all ? "\r\033[K" : "");
}

/* Limit of the local transport: memcpy; of UDP: bare UDP. */
static double limit_mib_s(int t)
{
	return t == 0 ? limits.memcpy_mib_s : limits.udp_mib_s;
}

static void print_table(void)
{
	printf("memcpy of 1 MiB: %.0f MiB/s\nbare UDP on loopback: %.2f us one way (8 bytes, "
	       "polling), %.0f MiB/s (stream)\n",
	       limits.memcpy_mib_s, limits.udp_us, limits.udp_mib_s);
	for (int t = 0; t < TRANSPORTS; t++) {
		printf("\n%s%-9s %12s %10s %12s %12s %10s%s\n", BOLD, transports[t], "SEND us",
		       "of UDP", "WRITE/s", "WRITE MiB/s", t == 0 ? "of memcpy" : "of UDP", PLAIN);
		for (int i = 0; i < SIZES; i++) {
			const struct perf_point *p = &points[t][i];

			printf("%-9zu %12.2f %9.2fx %12.0f %12.1f %9.2fx\n", p->size, p->latency_us,
			       p->latency_us / limits.udp_us, p->rate, p->mib_s,
			       p->mib_s / limit_mib_s(t));
		}
	}
}

static struct json_object *to_json(void)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "memcpy_mib_s", json_object_new_double(limits.memcpy_mib_s));
	json_object_object_add(o, "udp_latency_us", json_object_new_double(limits.udp_us));
	json_object_object_add(o, "udp_mib_s", json_object_new_double(limits.udp_mib_s));
	for (int t = 0; t < TRANSPORTS; t++) {
		struct json_object *rows = json_object_new_array();

		for (int i = 0; i < SIZES; i++) {
			const struct perf_point *p = &points[t][i];
			struct json_object *row = json_object_new_object();

			json_object_object_add(row, "size",
					       json_object_new_int64((int64_t)p->size));
			json_object_object_add(row, "send_latency_us",
					       json_object_new_double(p->latency_us));
			json_object_object_add(row, "write_mib_s",
					       json_object_new_double(p->mib_s));
			json_object_object_add(row, "write_rate", json_object_new_double(p->rate));
			json_object_array_add(rows, row);
		}
		json_object_object_add(o, transports[t], rows);
	}
	return o;
}

/* Decades from 0.1 to 10^6 share the height. */
static double y_of(double v)
{
	return BOTTOM - (log10(v > 0.1 ? v : 0.1) + 1) / 7 * (BOTTOM - TOP);
}

static void plot_line(FILE *f, int t, bool latency, const char *ink)
{
	fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", ink,
		latency ? " stroke-dasharray=\"5 3\"" : "");
	for (int i = 0; i < SIZES; i++)
		fprintf(f, "%d,%.1f ", LEFT + i * (RIGHT - LEFT) / (SIZES - 1),
			y_of(latency ? points[t][i].latency_us : points[t][i].mib_s));
	fprintf(f, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\">%s %s</text>\n",
		LEFT + 10 + 270 * latency, 14 + 16 * t, ink, transports[t],
		latency ? "SEND us (dashed)" : "WRITE MiB/s");
}

static int plot(FILE *f, const char *path)
{
	static const char *const inks[TRANSPORTS] = { "#1f6f8b", "#c1440e" };

	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"sans-serif\" "
		"font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		WIDTH, HEIGHT);
	for (int d = -1; d <= 6; d++)
		fprintf(f,
			"<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text "
			"x=\"5\" y=\"%.1f\">%g</text>\n",
			LEFT, RIGHT, y_of(pow(10, d)), y_of(pow(10, d)), y_of(pow(10, d)) + 4,
			pow(10, d));
	for (int i = 0; i < SIZES; i++)
		fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%zu</text>\n",
			LEFT + i * (RIGHT - LEFT) / (SIZES - 1), BOTTOM + 18, sizes[i]);
	for (int t = 0; t < TRANSPORTS; t++) {
		plot_line(f, t, false, inks[t]);
		plot_line(f, t, true, inks[t]);
	}
	fputs("</svg>\n", f);
	return fclose(f) ? complain(EXIT_FAILED, "%s: %s", path, strerror(errno)) : EXIT_OK;
}

int cmd_perf(int argc, char **argv)
{
	static const struct option options[] = { { "svg", required_argument, NULL, 's' },
						 { "quick", no_argument, NULL, 'q' },
						 { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	const char *svg = NULL;
	double seconds = 0.3;
	bool json = false;
	FILE *f = NULL;
	int c;

	while ((c = next_option(argc, argv, ":s:qjh", options,
				"Two processes on loopback, by shared memory and by UDP, for sizes "
				"from 8 bytes to 1 MiB.\n"
				"  -s, --svg FILE   a plot of latency and bandwidth by size\n"
				"  -q, --quick      a tenth of the time\n"
				"  -j, --json       machine-readable\n")) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		if (c == 's')
			svg = optarg;
		else if (c == 'q')
			seconds = 0.03;
		else
			json = true;
	}
	if (!no_arguments(argc, argv, optind))
		return EXIT_USAGE;
	/* Before a minute of measuring. */
	if (svg)
		f = fopen(svg, "we");
	if (svg && !f)
		return complain(EXIT_FAILED, "%s: %s", svg, strerror(errno));
	perf_measure_limits(&limits, seconds);
	for (int t = 0; t < TRANSPORTS; t++) {
		for (int i = 0; i < SIZES; i++)
			points[t][i].size = sizes[i];
		if (perf_pair(transports[t], points[t], SIZES, seconds, step))
			return complain(EXIT_FAILED,
					"transport %s does not work here; verbena doctor says why",
					transports[t]);
	}
	if (json)
		print_json(to_json());
	else
		print_table();
	return f ? plot(f, svg) : EXIT_OK;
}
