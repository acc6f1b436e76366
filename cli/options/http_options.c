/* SPDX-License-Identifier: Apache-2.0 */
#include "options/http_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US_PER_SECOND 1000000U

static bool add_header_line(struct http_request *request, const char *line)
{
	if (request->count == request->room) {
		size_t room = request->room ? request->room * 2 : 8;
		char **larger = reallocarray(request->lines, room, sizeof(*larger));

		if (!larger)
			return false;
		request->lines = larger;
		request->room = room;
	}
	request->lines[request->count] = strdup(line);
	return request->lines[request->count] && ++request->count;
}

static int read_lines(struct http_request *request, FILE *file, struct flmem_error *err)
{
	char *line = NULL;
	size_t room = 0;
	int rc = 0;

	while (!rc && getline(&line, &room, file) >= 0) {
		line[strcspn(line, "\r\n")] = '\0';
		if (*line && !add_header_line(request, line))
			rc = flmem_error_nomem(err, "cannot read the headers");
	}
	free(line);
	return rc;
}

static int read_header_file(struct http_request *request, const char *path, struct flmem_error *err)
{
	FILE *file = fopen(path, "re");
	int rc;

	if (!file)
		return flmem_error_set(err, flmem_code_of_open(errno), errno,
				       "cannot read the headers in '%s'", path);
	rc = read_lines(request, file, err);
	if (!rc && ferror(file))
		rc = flmem_error_set(err, errno == EISDIR ? FLMEM_EUSAGE : FLMEM_EFAILED, errno,
				     "cannot read the headers in '%s'", path);
	fclose(file);
	return rc;
}

int http_request_init(struct http_request *request, const struct http_options *options,
		      struct flmem_error *err)
{
	uint64_t seconds = (options->timeout_us + US_PER_SECOND - 1) / US_PER_SECOND;
	uint64_t retries = options->retries;
	int rc = 0;

	*request = (struct http_request){0};
	for (size_t i = 0; i < options->headers.count && !rc; i++) {
		const char *line = options->headers.values[i];

		if (*line == '@')
			rc = read_header_file(request, line + 1, err);
		else if (!add_header_line(request, line))
			rc = flmem_error_nomem(err, "cannot read the headers");
	}
	request->options = (struct flmem_http_options){
		.headers = (const char *const *)request->lines,
		.header_count = request->count,
		.cacert = options->cacert,
		.retries = retries < UINT16_MAX ? (unsigned)retries : UINT16_MAX,
		.never_retry = options->retries_given && !retries,
		.timeout_seconds = seconds < UINT16_MAX ? (unsigned)seconds : UINT16_MAX,
	};
	return rc;
}

void http_request_clear(struct http_request *request)
{
	for (size_t i = 0; i < request->count; i++)
		free(request->lines[i]);
	free(request->lines);
	*request = (struct http_request){0};
}
