/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures the limit of a server of PUT requests: libmicrohttpd adds each body to a sum of 32-bit
 * floating point numbers, and keeps nothing. bareput [KEY CERTIFICATE AUTHORITY], each a file of
 * PEM: TLS, and clients without a certificate are refused. Prints its port; ends with its input.
 */

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUMBERS	     ((size_t)1 << 20)
#define MEMORY_BYTES ((size_t)4 << 20)

static float sums[NUMBERS];

/* NOLINTNEXTLINE(readability-function-size): the library prescribes the parameters */
static enum MHD_Result take_body(void *context, struct MHD_Connection *connection, const char *url,
				 const char *method, const char *version, const char *upload,
				 size_t *length, void **state)
{
	struct MHD_Response *response;
	enum MHD_Result queued;

	(void)context, (void)url, (void)method, (void)version;
	if (!*state || *length) {
		for (size_t i = 0; i < *length / sizeof(float) && i < NUMBERS; i++) {
			float value;

			memcpy(&value, upload + i * sizeof(value), sizeof(value));
			sums[i] += value;
		}
		*length = 0;
		*state = sums;
		return MHD_YES;
	}
	response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	queued = MHD_queue_response(connection, MHD_HTTP_NO_CONTENT, response);
	MHD_destroy_response(response);
	return queued;
}

static char *read_text(const char *path)
{
	char *text = calloc(1, 65536);
	FILE *file = fopen(path, "r");

	if (!file || !text || !fread(text, 1, 65535, file))
		exit(2);
	fclose(file);
	return text;
}

int main(int argc, char **argv)
{
	struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct MHD_OptionItem tls[] = {
		{argc > 3 ? MHD_OPTION_HTTPS_MEM_KEY : MHD_OPTION_END, 0, NULL},
		{MHD_OPTION_HTTPS_MEM_CERT, 0, NULL},
		{MHD_OPTION_HTTPS_MEM_TRUST, 0, NULL},
		{MHD_OPTION_END, 0, NULL},
	};
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | (argc > 3 ? MHD_USE_TLS : 0);
	struct MHD_Daemon *daemon;

	for (int i = 0; argc > 3 && i < 3; i++)
		tls[i].ptr_value = read_text(argv[i + 1]);
	daemon = MHD_start_daemon(flags, 0, NULL, NULL, take_body, NULL, MHD_OPTION_SOCK_ADDR,
				  &local, MHD_OPTION_CONNECTION_MEMORY_LIMIT, MEMORY_BYTES,
				  MHD_OPTION_CONNECTION_MEMORY_INCREMENT, MEMORY_BYTES / 4,
				  MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
	if (!daemon)
		return 1;
	printf("%u\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
	fflush(stdout);
	while (getchar() != EOF)
		;
	MHD_stop_daemon(daemon);
	return 0;
}
