/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_JSON_BUILD_H
#define FLMEM_REPORT_JSON_BUILD_H

/*
 * Building blocks of the JSON reports; only this directory includes cJSON. A parent owns the
 * objects added to it. Adding to NULL, or without memory, does nothing, and flmem_json_take() then
 * returns NULL.
 */

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include <flmem/value.h>

/* Returns a new object {"schema": "flmem.<command>/1"}. */
cJSON *flmem_json_report(const char *command);

/* Adds a number written in full: numbers of cJSON are doubles and lose bits above 2^53. */
void flmem_json_add_u64(cJSON *object, const char *name, uint64_t number);

/* Adds a number with the digits that a double has; NaN and infinities are null. */
void flmem_json_add_real(cJSON *object, const char *name, double number);

/* Adds the number, or null with its reason added to `unknown` under the same name. */
void flmem_json_add_value(cJSON *object, cJSON *unknown, const char *name, struct flmem_u64 value);

/* Adds the text made valid UTF-8 (bytes that are not become \xNN), or null. */
void flmem_json_add_text(cJSON *object, const char *name, const char *text);

/*
 * Adds a text so that different texts stay different: a backslash before xNN that is not an escape
 * becomes \x5c.
 */
void flmem_json_add_name(cJSON *object, const char *name, const char *text);

/* Adds a text as the next element of an array. */
void flmem_json_append_text(cJSON *array, const char *text);

/* Hands `item` to the object under a name that is untrusted text, made valid UTF-8. */
void flmem_json_add_keyed(cJSON *object, const char *name, cJSON *item);

/* Renders the tree with a final newline and frees it. */
char *flmem_json_take(cJSON *root);

/* Like flmem_json_take(), on one line, for streams of objects. */
char *flmem_json_take_line(cJSON *root);

#endif
