/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_URL_H
#define FLMEM_BASE_URL_H

/* Addresses of files on web servers, as text. */

#include <stdbool.h>
#include <stddef.h>

/* Whether a name is an address: it begins with http:// or https://, in any case of letters. */
bool flmem_url_is(const char *name);

/*
 * An address without its secrets: signatures of presigned addresses are in the query, and passwords
 * before the host. The fragment is left out. Other names stay as they are. NULL if memory is out.
 */
char *flmem_url_show(const char *name);

/* Length of what is before the query and the fragment; of other names all. */
size_t flmem_url_path_length(const char *name);

#endif
