/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_TRIM_JSON_H
#define FLMEM_REPORT_TRIM_JSON_H

#include <flmem/trim.h>

#include "report/json_build.h"

/* Returns one result as an object; the caller owns it. */
cJSON *flmem_json_trim_result(const struct flmem_trim_result *result);

#endif
