/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include <flmem/report.h>

#include "report/json_build.h"

char *flmem_report_convert_json(const struct flmem_convert_request *request,
				const struct flmem_conversion *conversion)
{
	cJSON *root = flmem_json_report("aggregate-convert");
	char digits[16];

	flmem_json_add_name(root, "output", request->output);
	flmem_json_add_u64(root, "tensors", conversion->tensors);
	flmem_json_add_u64(root, "converted", conversion->converted);
	flmem_json_add_u64(root, "output_bytes", conversion->output_bytes);
	flmem_json_add_u64(root, "resumed_bytes", conversion->resumed_bytes);
	cJSON_AddBoolToObject(root, "restarted", conversion->restarted);
	flmem_json_add_u64(root, "took_us", conversion->took_us);
	snprintf(digits, sizeof(digits), "%08" PRIx32, conversion->crc32c);
	cJSON_AddStringToObject(root, "crc32c", digits);
	return flmem_json_take(root);
}
