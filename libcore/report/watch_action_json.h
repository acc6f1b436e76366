/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_WATCH_ACTION_JSON_H
#define FLMEM_REPORT_WATCH_ACTION_JSON_H

#include <flmem/watch.h>

#include "report/json_build.h"

/* Adds an object of this name; null for NULL. */
void flmem_json_add_pressure(cJSON *object, const char *name,
			     const struct flmem_pressure *pressure);

/* Adds "actions"; null if there was none. */
void flmem_json_add_actions(cJSON *object, const struct flmem_watch_actions *actions);

#endif
