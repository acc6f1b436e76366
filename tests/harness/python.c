/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python WORDS...: does the same as `/usr/bin/python3 WORDS`. The server whose socket
 * FLMEM_PYTHON_SERVER names runs it (see python_server.py); without a server, a new interpreter.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PYTHON	    "/usr/bin/python3"
#define DESCRIPTORS 4
#define NO_STATUS   70

extern char **environ;

struct request {
	uint32_t bytes, arguments;
};

static int connect_server(void)
{
	const char *path = getenv("FLMEM_PYTHON_SERVER");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!path || !*path || strlen(path) >= sizeof(address.sun_path) || server < 0)
		return -1;
	memcpy(address.sun_path, path, strlen(path));
	return connect(server, (struct sockaddr *)&address, sizeof(address)) ? -1 : server;
}

/* Joins the words, each with its NUL; aborts without memory. */
static char *join_words(char **const lists[2], uint32_t *ret_bytes)
{
	size_t bytes = 0;
	char *text, *end;

	for (int list = 0; list < 2; list++)
		for (char **word = lists[list]; *word; word++)
			bytes += strlen(*word) + 1;
	text = end = malloc(bytes);
	if (!text)
		abort();
	for (int list = 0; list < 2; list++)
		for (char **word = lists[list]; *word; word++) {
			memcpy(end, *word, strlen(*word) + 1);
			end += strlen(*word) + 1;
		}
	*ret_bytes = (uint32_t)bytes;
	return text;
}

static int send_request(int server, const struct request *request)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
	} control = {.bytes = {0}};
	struct iovec part = {(void *)(uintptr_t)request, sizeof(*request)};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	const int descriptors[DESCRIPTORS] = {0, 1, 2,
					      open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};

	if (descriptors[3] < 0)
		return -1;
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(DESCRIPTORS * sizeof(int));
	memcpy(CMSG_DATA(rights), descriptors, sizeof(descriptors));
	return sendmsg(server, &message, MSG_NOSIGNAL) == sizeof(*request) ? 0 : -1;
}

static int ask(int server, char **words)
{
	char **const lists[2] = {words, environ};
	struct request request = {.arguments = 0};
	char *text = join_words(lists, &request.bytes);
	int32_t status = NO_STATUS;

	while (words[request.arguments])
		request.arguments++;
	if (send_request(server, &request))
		return -1;
	for (size_t sent = 0; sent < request.bytes;) {
		ssize_t now = send(server, text + sent, request.bytes - sent, MSG_NOSIGNAL);

		if (now < 0)
			return NO_STATUS;
		sent += (size_t)now;
	}
	if (recv(server, &status, sizeof(status), MSG_WAITALL) != sizeof(status))
		fputs("python: the program ended without a status\n", stderr);
	return status;
}

int main(int argc, char **argv)
{
	int server = argc > 1 ? connect_server() : -1;
	int status = server < 0 ? -1 : ask(server, argv + 1);

	if (status >= 0)
		return status;
	argv[0] = (char *)(uintptr_t)PYTHON;
	execv(PYTHON, argv);
	perror(PYTHON);
	return NO_STATUS;
}
