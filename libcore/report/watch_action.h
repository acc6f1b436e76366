/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_WATCH_ACTION_H
#define FLMEM_REPORT_WATCH_ACTION_H

#include <flmem/watch.h>

#include "report/json.h"

/* As an object under this name; null for NULL. */
void flmem_json_add_pressure(cJSON *object, const char *name,
			     const struct flmem_pressure *pressure);

/* As "actions"; null where none was told. */
void flmem_json_add_actions(cJSON *object, const struct flmem_watch_actions *actions);

#endif
