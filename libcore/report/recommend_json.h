/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_RECOMMEND_JSON_H
#define FLMEM_REPORT_RECOMMEND_JSON_H

#include <flmem/recommend.h>

#include "report/json_build.h"

/* Adds `findings` and `problems`. */
void flmem_json_add_findings(cJSON *object, const struct flmem_recommendations *found);

#endif
