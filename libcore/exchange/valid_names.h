/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_VALID_NAMES_H
#define FLMEM_EXCHANGE_VALID_NAMES_H

/* Checks names that the other side sends, before they become part of a path. */

#include <stdbool.h>

/* True for [A-Za-z0-9._-]{1,64}, but not "." and "..". */
bool flmem_exchange_client_name_is_valid(const char *name);

/* True for the same names, except those that begin with a dot. */
bool flmem_exchange_file_name_is_valid(const char *name);

#endif
