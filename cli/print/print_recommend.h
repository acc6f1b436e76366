/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_RECOMMEND_H
#define FLMEM_CLI_PRINT_RECOMMEND_H

/* Findings and role tables as text. */

#include <stdio.h>

#include <flmem/recommend.h>
#include <flmem/settings.h>

/* Findings grouped by file, then their counts. Problems are not printed. */
void print_recommendations(const struct flmem_recommendations *found, FILE *out);

/* The recommended settings of a role, with reasons. */
void print_role(const struct flmem_settings *settings, FILE *out);

#endif
