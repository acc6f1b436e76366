/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SETTINGS_OBSERVED_H
#define FLMEM_SETTINGS_OBSERVED_H

/* Lists the memory and framework settings that a process was started with. */

#include <stddef.h>

#include <flmem/process_report.h>

struct flmem_argv_env;

/*
 * Selects the settings from an environment: each name once, in the order of the environment, with
 * secrets redacted. Release the rows with flmem_settings_free().
 */
int flmem_settings_observe(const struct flmem_argv_env *environment,
			   struct flmem_setting_report **ret_rows, size_t *ret_count,
			   struct flmem_error *err);

void flmem_settings_free(struct flmem_setting_report *rows, size_t count);

#endif
