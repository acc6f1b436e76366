/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_SECRET_NAME_H
#define FLMEM_BASE_SECRET_NAME_H

/* Which names of variables, options and keys are those of secrets; base/redact.h hides these. */

#include <stdbool.h>
#include <stddef.h>

enum flmem_secrecy {
	FLMEM_SECRECY_NONE,
	FLMEM_SECRECY_VALUE, /* what is assigned to it: `key=x`, `--key x`, but not `the key x` */
	FLMEM_SECRECY_ALL,   /* and what merely follows it: `password x` */
};

/* In any case, with `-`, `_` and `.` alike. A harmless word hides itself only, never another. */
enum flmem_secrecy flmem_secrecy_of_name(const char *name, size_t length);

/* True when it names several: what follows such an option are secrets up to the next option. */
bool flmem_secret_name_is_plural(const char *name, size_t length);

/* Letters, digits, `-`, `_` and `.`. */
bool flmem_name_has(char c);

/* Bytes of the name at the start of a text. */
size_t flmem_name_length(const char *text);

#endif
