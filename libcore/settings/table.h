/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SETTINGS_TABLE_H
#define FLMEM_SETTINGS_TABLE_H

/* The settings of every role as rows of one table; make.c selects from it. */

#include <stddef.h>

#include "frameworks/setting_rows.h"

/* Returns a row: those of any framework, then those of each; NULL after the last. */
const struct flmem_setting_row *flmem_setting_row_at(size_t index);

/*
 * Returns why this value of a variable is ineffective, a static text; NULL when no reason is known.
 */
const char *flmem_setting_problem(const char *name, const char *value);

#endif
