/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SETTINGS_OBSERVED_H
#define FLMEM_SETTINGS_OBSERVED_H

/* The settings of memory and of the frameworks that a process was started with. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/process_report.h>

struct flmem_argv_env;

/* True for a variable that allocators, runtimes or frameworks read for their memory. */
bool flmem_setting_is_observed(const char *name, size_t length);

/*
 * Picks them out of an environment, each name once, in the order of the environment, secrets
 * redacted. Release the rows with flmem_settings_free().
 */
int flmem_settings_observe(const struct flmem_argv_env *environment,
			   struct flmem_setting_report **ret_rows, size_t *ret_count,
			   struct flmem_error *err);

void flmem_settings_free(struct flmem_setting_report *rows, size_t count);

#endif
