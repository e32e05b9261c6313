/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two of this program, one on Verbena and one on a kernel's soft RoCE, do with each other what the
 * distribution's programs do not:
 *
 *	probe -d DEVICE -g GID_INDEX -m MTU -p TCP_PORT SCENARIO [NUMBER...] [-h SERVER]
 *
 * The end with -h makes the requests.
 */
#include <unistd.h>

#include "probe.h"

static char **numbers;

const char *status_name(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "SUCCESS",
		[IBV_WC_LOC_LEN_ERR] = "LOC_LEN",
		[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP",
		[IBV_WC_LOC_PROT_ERR] = "LOC_PROT",
		[IBV_WC_WR_FLUSH_ERR] = "FLUSH",
		[IBV_WC_MW_BIND_ERR] = "MW_BIND",
		[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS",
		[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ",
		[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS",
		[IBV_WC_REM_OP_ERR] = "REM_OP",
		[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC",
	};

	return status < sizeof(names) / sizeof(*names) && names[status] ? names[status] : "OTHER";
}

const char *event_name(int event)
{
	switch (event) {
	case -1:
		return "no event";
	case IBV_EVENT_QP_FATAL:
		return "QP_FATAL";
	case IBV_EVENT_QP_REQ_ERR:
		return "QP_REQ_ERR";
	case IBV_EVENT_QP_ACCESS_ERR:
		return "QP_ACCESS_ERR";
	case IBV_EVENT_COMM_EST:
		return "COMM_EST";
	default:
		return "another event";
	}
}

unsigned probe_number(int index, unsigned otherwise)
{
	for (int i = 0; i < index; i++)
		if (!numbers[i])
			return otherwise;
	return numbers[index] ? (unsigned)strtoul(numbers[index], NULL, 0) : otherwise;
}

static enum ibv_mtu mtu_of(int bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (128 << mtu < bytes)
		mtu++;
	return mtu;
}

int main(int argc, char **argv)
{
	struct end_place place = { .port = "4712", .mtu = IBV_MTU_1024 };
	struct end end;
	int option;

	while ((option = getopt(argc, argv, "d:g:m:p:h:")) != -1) {
		switch (option) {
		case 'd':
			place.device = optarg;
			break;
		case 'g':
			place.gid_index = atoi(optarg);
			break;
		case 'm':
			place.mtu = mtu_of(atoi(optarg));
			break;
		case 'p':
			place.port = optarg;
			break;
		case 'h':
			place.host = optarg;
			break;
		default:
			return 2;
		}
	}
	if (!place.device || optind >= argc) {
		fprintf(stderr,
			"usage: %s -d DEVICE -g GID_INDEX -m MTU -p TCP_PORT SCENARIO [NUMBER...] "
			"[-h SERVER]\n",
			argv[0]);
		return 2;
	}
	numbers = argv + optind + 1;
	end_open(&end, &place);
	if (!probe_fault(&end, argv[optind]) && !probe_window(&end, argv[optind]) &&
	    !probe_mix(&end, argv[optind]) && !probe_datagram(&end, argv[optind]) &&
	    !probe_a19(&end, argv[optind])) {
		fprintf(stderr, "%s: no such scenario\n", argv[optind]);
		return 2;
	}
	end_close(&end);
	return 0;
}
