/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/inspection.h"

#include <stdlib.h>

struct flmem_target_inspection *flmem_target_inspection_new(struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *in = calloc(1, sizeof(*in));

	if (in) {
		in->process = (struct flmem_process)FLMEM_PROCESS_INIT;
		in->cache = flmem_image_cache_new();
	}
	if (!in || !in->cache) {
		flmem_error_nomem(err, "cannot allocate the state for reading a process");
		return NULL;
	}
	return FLMEM_TAKE(in);
}

void flmem_target_inspection_free(struct flmem_target_inspection *inspection)
{
	if (!inspection)
		return;
	flmem_modules_clear(&inspection->modules);
	flmem_maps_clear(&inspection->maps);
	flmem_image_cache_free(inspection->cache);
	flmem_process_close(&inspection->process);
	free(inspection);
}

int flmem_target_inspection_read(struct flmem_target_inspection *in, struct flmem_error *err)
{
	int rc = flmem_maps_read(&in->process, &in->maps, err);

	if (!rc)
		rc = flmem_modules_load(&in->process, &in->maps, in->cache, &in->modules, err);
	if (rc)
		return rc;
	in->view = (struct flmem_view){&in->process, &in->maps, &in->modules};
	flmem_allocators_find(&in->view, &in->allocators);
	return 0;
}

int flmem_target_inspection_renew(struct flmem_target_inspection *in, struct flmem_error *err)
{
	flmem_modules_clear(&in->modules);
	flmem_maps_clear(&in->maps);
	return flmem_target_inspection_read(in, err);
}
