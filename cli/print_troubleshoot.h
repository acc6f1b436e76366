/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_TROUBLESHOOT_H
#define FLMEM_CLI_PRINT_TROUBLESHOOT_H

/* The lists of `recommend --troubleshoot` as people read them. */

#include <stdio.h>

#include <flmem/troubleshoot.h>

/* Each walk as numbered steps with a mark, what is known, and what to do. */
void print_troubles(const struct flmem_troubles *troubles, FILE *out);

#endif
