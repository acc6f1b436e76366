/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_RECOMMEND_H
#define FLMEM_REPORT_RECOMMEND_H

#include <flmem/recommend.h>

#include "report/json.h"

/* Adds `findings` and `problems`. */
void flmem_json_add_findings(cJSON *object, const struct flmem_recommendations *found);

#endif
