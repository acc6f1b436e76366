/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_EXCHANGE_OPTIONS_H
#define FLMEM_CLI_EXCHANGE_OPTIONS_H

/* Declares options that the client's verbs of `exchange` share: how the server is reached. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/exchange_client.h>

#include "options/opt.h"

struct exchange_options {
	const char *token_file;
	const char *cert;
	const char *key;
	const char *ca;
	uint64_t retries;
	bool retries_given;
	uint64_t timeout_us;
	bool insecure;
};

/*
 * These are rows of an option table, for an options struct that begins with a struct
 * exchange_options.
 */
#define EXCHANGE_OPTIONS                                                                \
	{.name = "token-file",                                                          \
	 .kind = OPT_TEXT,                                                              \
	 .offset = offsetof(struct exchange_options, token_file),                       \
	 .metavar = "FILE",                                                             \
	 .complete = OPT_COMPLETE_FILE,                                                 \
	 .help = "file whose first line is the token of this client"},                  \
		{.name = "cert",                                                        \
		 .kind = OPT_TEXT,                                                      \
		 .offset = offsetof(struct exchange_options, cert),                     \
		 .metavar = "FILE",                                                     \
		 .complete = OPT_COMPLETE_FILE,                                         \
		 .help = "certificate of this client, as PEM"},                         \
		{.name = "key",                                                         \
		 .kind = OPT_TEXT,                                                      \
		 .offset = offsetof(struct exchange_options, key),                      \
		 .metavar = "FILE",                                                     \
		 .complete = OPT_COMPLETE_FILE,                                         \
		 .help = "its key, as PEM (default: in the file of --cert)"},           \
		{.name = "ca",                                                          \
		 .kind = OPT_TEXT,                                                      \
		 .offset = offsetof(struct exchange_options, ca),                       \
		 .metavar = "FILE",                                                     \
		 .complete = OPT_COMPLETE_FILE,                                         \
		 .help = "certificates of authorities to trust, as PEM (default: "      \
			 "$SSL_CERT_FILE, else those of the system)"},                  \
	{                                                                               \
		.name = "insecure", .kind = OPT_FLAG,                                   \
		.offset = offsetof(struct exchange_options, insecure),                  \
		.help = "send the token over http:// to hosts other than this one, too" \
	}

/* This is the row of --retries; `default_text` is the default as a string literal. */
#define EXCHANGE_RETRIES_OPTION(default_text)                                              \
	{                                                                                  \
		.name = "retries", .kind = OPT_NUMBER,                                     \
		.offset = offsetof(struct exchange_options, retries), .zero = true,        \
		.given = offsetof(struct exchange_options, retries_given), .metavar = "N", \
		.help = "number of retries after temporary failures without progress "     \
			"between them (" default_text ")"                                  \
	}

#define EXCHANGE_TIMEOUT_OPTION                                                             \
	{                                                                                   \
		.name = "timeout", .kind = OPT_DURATION,                                    \
		.offset = offsetof(struct exchange_options, timeout_us), .metavar = "TIME", \
		.help = "time limit for the server to accept a connection, and for a "      \
			"transfer below 1 KiB per second (default 30s)"                     \
	}

/* Returns the options in the form of the library, without a progress callback. */
struct flmem_exchange_server exchange_server_of(const struct exchange_options *options,
						const char *url);

/*
 * Reads the number of a round. *ret_given is false for NULL and "latest". Returns FLMEM_EUSAGE for
 * another text.
 */
int exchange_round_read(const char *text, bool *ret_given, uint64_t *ret_round,
			struct flmem_error *err);

#endif
