/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_URL_H
#define FLMEM_BASE_URL_H

/* Functions on addresses (URLs) of files on web servers. */

#include <stdbool.h>
#include <stddef.h>

/*
 * Reports whether a name is an address: it begins with http:// or https://, in any case of letters.
 */
bool flmem_url_is(const char *name);

/*
 * Returns an address without its secrets: signatures of presigned addresses are in the query, and
 * passwords before the host. The fragment is left out. Other names are copied as they are. NULL if
 * memory is out.
 */
char *flmem_url_show(const char *name);

/* Returns the length before the query and the fragment; for other names the whole length. */
size_t flmem_url_path_length(const char *name);

#endif
