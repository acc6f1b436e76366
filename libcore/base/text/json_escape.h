/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_JSON_ESCAPE_H
#define FLMEM_BASE_JSON_ESCAPE_H

/*
 * Escapes in strings of JSON (RFC 8259, 7). Callers decide about invalid escapes: parsers of
 * documents replace them, those of models refuse them.
 */

#include <stdint.h>

/* Returns the character that a backslash and `name` stand for; 0 if there is no such escape. */
char flmem_json_escape(char name);

/* Returns the character of a surrogate pair. */
uint32_t flmem_json_escape_pair(int high, int low);

/* Writes a character in UTF-8, at most 4 bytes. Returns the end. */
char *flmem_json_escape_put(char *out, uint32_t character);

#endif
