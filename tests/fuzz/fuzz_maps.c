/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/maps: file names in it are the target's to choose. */
#include "fuzz.h"
#include "proc/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	uint64_t last = 0;

	if (flmem_maps_parse(fuzz_text(data, size), &maps, NULL))
		return 0;
	for (size_t i = 0; i < maps.count; i++) {
		const struct flmem_map *map = &maps.rows[i];

		if (map->start < last || map->end <= map->start ||
		    flmem_maps_find(&maps, map->start) != map ||
		    flmem_maps_find(&maps, map->end - 1) != map)
			abort();
		last = map->end;
		flmem_map_is_deleted(map);
	}
	return 0;
}
