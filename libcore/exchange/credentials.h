/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CREDENTIALS_H
#define FLMEM_EXCHANGE_CREDENTIALS_H

/* Identifies clients: maps tokens and certificates to names of clients, from files with lines. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>

#include "exchange/wire.h"

#define FLMEM_CREDENTIAL_MAX 256U /* bytes of a token, with its NUL */

enum flmem_credential_kind {
	FLMEM_CREDENTIAL_TOKEN,
	FLMEM_CREDENTIAL_CN,
	FLMEM_CREDENTIAL_FINGERPRINT, /* SHA-256, lower case */
};

struct flmem_credential {
	enum flmem_credential_kind kind;
	char name[FLMEM_EXCHANGE_NAME_MAX + 1];
	char value[FLMEM_CREDENTIAL_MAX]; /* zeros after the NUL */
};

struct flmem_credentials {
	struct flmem_credential *entries;
	size_t count;
};

/*
 * Adds the lines of a text; empty ones and those that begin with '#' are ignored. With `tokens` a
 * line is "NAME TOKEN", the token with at least 16 characters, else "NAME CN=TEXT" or "NAME
 * sha256:HEX". `path` is for messages, which contain no values.
 */
int flmem_credentials_parse(const char *text, const char *path, bool tokens,
			    struct flmem_credentials *credentials, struct flmem_error *err);

/*
 * Like flmem_credentials_parse(), for a file. Other users must not be able to read a file with
 * tokens.
 */
int flmem_credentials_read(const char *path, bool tokens, struct flmem_credentials *credentials,
			   struct flmem_error *err);

void flmem_credentials_clear(struct flmem_credentials *credentials);

/*
 * Returns the name for a value, NULL if there is none. The time that the search takes depends on
 * neither the values nor where they differ.
 */
const char *flmem_credentials_find(const struct flmem_credentials *credentials,
				   enum flmem_credential_kind kind, const char *value);

#endif
