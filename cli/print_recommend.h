/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_RECOMMEND_H
#define FLMEM_CLI_PRINT_RECOMMEND_H

/* Findings and role tables as people read them. */

#include <stdio.h>

#include <flmem/recommend.h>
#include <flmem/settings.h>

/* Findings below the file that they are in, then how many there are. Problems are not printed. */
void print_recommendations(const struct flmem_recommendations *found, FILE *out);

/* What a role should be set to, with reasons. */
void print_role(const struct flmem_settings *settings, FILE *out);

#endif
