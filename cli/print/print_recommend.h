/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_RECOMMEND_H
#define FLMEM_CLI_PRINT_RECOMMEND_H

/* Prints findings and role tables as text. */

#include <stdio.h>

#include <flmem/recommend.h>
#include <flmem/settings.h>

/* Prints findings grouped by file, then their counts. Problems are not printed. */
void print_recommendations(const struct flmem_recommendations *found, FILE *out);

/* Prints the recommended settings of a role, with reasons. */
void print_role(const struct flmem_settings *settings, FILE *out);

#endif
