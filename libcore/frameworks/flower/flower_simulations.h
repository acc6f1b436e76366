/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_FLOWER_FLOWER_SIMULATIONS_H
#define FLMEM_FRAMEWORKS_FLOWER_FLOWER_SIMULATIONS_H

/*
 * Checks how much of a simulated federation runs at once, as set in pyproject.toml, in Flower's
 * config.toml and in calls of Python.
 */

#include "rules/rules.h"

/* Detail of a finding about such a value. */
#define FLMEM_FLOWER_UNTIL_RUN "cannot tell: the value is known only when the app runs"

/* Whether a config.toml has the tables of a federation. */
bool flmem_flower_is_config(const struct flmem_document *document);

/* Each checks the file or script of the check for one rule. */
void flmem_flower_check_resources(struct flmem_check *check);
void flmem_flower_check_numbers(struct flmem_check *check);
void flmem_flower_check_keys(struct flmem_check *check);

/* Checks one call of start_simulation(). */
void flmem_flower_check_legacy(struct flmem_check *check);

#endif
