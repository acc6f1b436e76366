/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_FLOWER_FLOWER_SIMULATIONS_H
#define FLMEM_FRAMEWORKS_FLOWER_FLOWER_SIMULATIONS_H

/*
 * How much of a simulated federation runs at once, in pyproject.toml, in Flower's config.toml and
 * in the calls of Python.
 */

#include "rules/rules.h"

/* The detail of a finding. */
#define FLMEM_FLOWER_UNTIL_RUN "cannot tell: the value is known only when the app runs"

/* Whether such a file has the tables of a federation. */
bool flmem_flower_is_config(const struct flmem_document *document);

void flmem_flower_check_resources(struct flmem_check *check);
void flmem_flower_check_numbers(struct flmem_check *check);
void flmem_flower_check_keys(struct flmem_check *check);

/* Of one call. */
void flmem_flower_check_legacy(struct flmem_check *check);

#endif
