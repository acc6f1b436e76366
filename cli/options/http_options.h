/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_HTTP_OPTIONS_H
#define FLMEM_CLI_HTTP_OPTIONS_H

/* Declares options that the verbs of `aggregate` share: how inputs with addresses are read. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/http.h>

#include "options/opt.h"

struct http_options {
	struct opt_texts headers;
	const char *cacert;
	uint64_t retries;
	bool retries_given;
	uint64_t timeout_us;
};

/*
 * These are rows of an option table, for an options struct that begins with a struct http_options.
 */
#define HTTP_OPTIONS                                                                               \
	{.name = "header",                                                                         \
	 .kind = OPT_TEXTS,                                                                        \
	 .offset = offsetof(struct http_options, headers),                                         \
	 .metavar = "LINE",                                                                        \
	 .help = "for addresses: 'Name: value' to send to their hosts, or @FILE with one on each " \
		 "line, which keeps secrets off the command line; may be repeated"},               \
		{.name = "cacert",                                                                 \
		 .kind = OPT_TEXT,                                                                 \
		 .offset = offsetof(struct http_options, cacert),                                  \
		 .metavar = "FILE",                                                                \
		 .complete = OPT_COMPLETE_FILE,                                                    \
		 .help = "for https:// addresses: certificates of authorities to trust, as PEM "   \
			 "(default: $SSL_CERT_FILE, else those of the system)"},                   \
		{.name = "retries",                                                                \
		 .kind = OPT_NUMBER,                                                               \
		 .offset = offsetof(struct http_options, retries),                                 \
		 .zero = true,                                                                     \
		 .given = offsetof(struct http_options, retries_given),                            \
		 .metavar = "N",                                                                   \
		 .help = "for addresses: number of retries after a temporary failure "             \
			 "(default 5; 0: never)"},                                                 \
	{                                                                                          \
		.name = "timeout", .kind = OPT_DURATION,                                           \
		.offset = offsetof(struct http_options, timeout_us), .metavar = "TIME",            \
		.help = "for addresses: time limit for a server to accept a connection, "          \
			"and for a transfer below 1 KiB per second (default 30s)"                  \
	}

/*
 * This has the options in the form of the library, with the header lines that were read from files.
 */
struct http_request {
	struct flmem_http_options options;
	char **lines;
	size_t count, room;
};

int http_request_init(struct http_request *request, const struct http_options *options,
		      struct flmem_error *err);

void http_request_clear(struct http_request *request);

#endif
