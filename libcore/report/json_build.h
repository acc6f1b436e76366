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

/* {"schema": "flmem.<command>/1"} */
cJSON *flmem_json_report(const char *command);

/* A number written in full: numbers of cJSON are doubles and lose bits above 2^53. */
void flmem_json_add_u64(cJSON *object, const char *name, uint64_t number);

/* With the digits that a double has; NaN and infinities are null. */
void flmem_json_add_real(cJSON *object, const char *name, double number);

/* The number, or null with its reason added to `unknown` under the same name. */
void flmem_json_add_value(cJSON *object, cJSON *unknown, const char *name, struct flmem_u64 value);

/* The text made valid UTF-8 (bytes that are not become \xNN), or null. */
void flmem_json_add_text(cJSON *object, const char *name, const char *text);

/* Different texts stay different: a backslash before xNN, which is not an escape, is \x5c. */
void flmem_json_add_name(cJSON *object, const char *name, const char *text);

/* A text as the next element of an array. */
void flmem_json_append_text(cJSON *array, const char *text);

/* Hands `item` to the object under a name that is untrusted text, made valid UTF-8. */
void flmem_json_add_keyed(cJSON *object, const char *name, cJSON *item);

/* Renders with a final newline, frees the tree. */
char *flmem_json_take(cJSON *root);

/* The same on one line, for streams of objects. */
char *flmem_json_take_line(cJSON *root);

#endif
