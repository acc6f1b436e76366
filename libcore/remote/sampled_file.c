/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/sampled_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/profile_format.h"
#include "proc/maps.h"
#include "proc/process.h"

/*
 * True if the mapping is a profile that is being written. Reads the memory of the process; the file
 * that it names is not opened.
 */
static bool is_written_profile(const struct flmem_process *process, const struct flmem_map *map)
{
	struct flmem_profile_header header;
	const unsigned written = FLMEM_MAP_SHARED | FLMEM_MAP_WRITE;

	if ((map->flags & written) != written || !map->inode || map->offset ||
	    map->end - map->start < sizeof(header) ||
	    flmem_process_read_memory(process, map->start, &header, sizeof(header)))
		return false;
	return memcmp(header.magic, FLMEM_PROFILE_MAGIC, sizeof(header.magic)) == 0 &&
	       header.phase == FLMEM_PROFILE_RUNNING;
}

/*
 * True if the name is harmless: others are hidden, which a shell, a terminal or a message could
 * misinterpret.
 */
static bool has_plain_path(const char *name)
{
	return name[0] == '/' &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
			    "/._-+,:@%=") == strlen(name);
}

char *flmem_sampled_file_of(const struct flmem_process *process, const struct flmem_maps *maps)
{
	char *name = NULL;

	/* Reading a page of a shared mapping that no process has touched would allocate it. */
	if (!flmem_maps_have_sampler(maps))
		return NULL;
	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];

		if (!is_written_profile(process, map))
			continue;
		if (!has_plain_path(map->name))
			return strdup("FILE");
		if (flmem_process_shares_mounts(process))
			return strdup(map->name);
		if (asprintf(&name, "/proc/%d/root%s", (int)process->pid, map->name) < 0)
			return NULL;
		return name;
	}
	return NULL;
}
