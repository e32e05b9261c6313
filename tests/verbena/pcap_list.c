/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libpcap reads from a file: the link type, then each packet's length, a space, and its bytes
 * in hex.
 */
#include <pcap/pcap.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	char why[PCAP_ERRBUF_SIZE];
	pcap_t *file = pcap_open_offline_with_tstamp_precision(argc > 1 ? argv[1] : "-",
							       PCAP_TSTAMP_PRECISION_NANO, why);
	struct pcap_pkthdr *header;
	const unsigned char *data;
	struct timeval last = { 0 };
	int more;

	if (!file) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	printf("%s\n", pcap_datalink_val_to_name(pcap_datalink(file)));
	while ((more = pcap_next_ex(file, &header, &data)) == 1) {
		if (header->caplen != header->len || header->ts.tv_sec < last.tv_sec) {
			fprintf(stderr, "%u of %u bytes, or earlier than the packet before\n",
				header->caplen, header->len);
			return 1;
		}
		last = header->ts;
		printf("%u ", header->len);
		for (unsigned int i = 0; i < header->caplen; i++)
			printf("%02x", data[i]);
		putchar('\n');
	}
	if (more != PCAP_ERROR_BREAK)
		fprintf(stderr, "%s\n", pcap_geterr(file));
	pcap_close(file);
	return more != PCAP_ERROR_BREAK;
}
