/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include <flmem/version.h>

#include "report/json_build.h"

char *flmem_report_version_json(void)
{
	const struct flmem_build *build = flmem_build_describe();
	cJSON *root = flmem_json_report("version");
	cJSON *libc, *features;

	flmem_json_add_text(root, "version", flmem_version());
	flmem_json_add_text(root, "compiler", build->compiler);
	flmem_json_add_text(root, "architecture", build->architecture);
	libc = cJSON_AddObjectToObject(root, "libc");
	flmem_json_add_text(libc, "name", build->libc);
	flmem_json_add_text(libc, "version", build->libc_version);
	features = cJSON_AddObjectToObject(root, "features");
	cJSON_AddBoolToObject(features, "trim", build->trims);
	cJSON_AddBoolToObject(features, "http", build->reads_addresses);
	cJSON_AddBoolToObject(features, "bundled_libraries", build->bundles);
	cJSON_AddBoolToObject(features, "address_sanitizer", build->sanitized);
	return flmem_json_take(root);
}
