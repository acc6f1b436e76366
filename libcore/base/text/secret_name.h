/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_SECRET_NAME_H
#define FLMEM_BASE_SECRET_NAME_H

/*
 * Recognises names of variables, options and keys that hold secrets; base/text/redact.h hides their
 * values.
 */

#include <stdbool.h>
#include <stddef.h>

enum flmem_secrecy {
	FLMEM_SECRECY_NONE,
	FLMEM_SECRECY_VALUE, /* an assigned value: `key=x`, `--key x`, but not `the key x` */
	FLMEM_SECRECY_ALL,   /* the word that follows, too: `password x` */
};

/*
 * Classifies a name. Case is ignored; `-`, `_` and `.` are equal. A harmless word excludes only
 * itself, not other words.
 */
enum flmem_secrecy flmem_secrecy_of_name(const char *name, size_t length);

/* True for a plural: all words after such an option, up to the next option, are secrets. */
bool flmem_secret_name_is_plural(const char *name, size_t length);

/* Reports whether a name may contain this character: letters, digits, `-`, `_` and `.`. */
bool flmem_name_has(char c);

/* Returns the length of the name at the start of a text. */
size_t flmem_name_length(const char *text);

#endif
