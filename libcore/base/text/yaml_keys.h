/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_YAML_KEYS_H
#define FLMEM_BASE_YAML_KEYS_H

/*
 * Reads the outermost keys of a YAML document: enough to identify the kind of file. No tree is
 * built and aliases are not followed, so the cost is linear in the document's length.
 */

#include <stdbool.h>
#include <stddef.h>

/*
 * Called for one outermost key; `value` is NULL where it is not a scalar. Both are valid during the
 * call only.
 */
typedef void flmem_yaml_visit(void *context, const char *key, const char *value);

/*
 * Visits the keys of the first document. False when the document is not a mapping or has an error;
 * the keys before the error were visited.
 */
bool flmem_yaml_top_keys(const char *text, size_t length, flmem_yaml_visit *visit, void *context);

#endif
