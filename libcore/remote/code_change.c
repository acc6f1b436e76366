/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/code_change.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "remote/arch.h"

#define PROBES_MAX ((size_t)1 << 20)

/* tracefs is mounted at these places; root may read it. */
static const char *const probe_lists[] = {
	"/sys/kernel/tracing/uprobe_events",
	"/sys/kernel/debug/tracing/uprobe_events",
};

static const char *last_of_path(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Reads a line "p:group/name /path:0x0000000000001130 ..." (Documentation/trace/uprobetracer.rst).
 * The path is the one that the tracer was given, perhaps through a link, so its last part counts.
 */
static bool is_probe_at(const char *line, const char *file, uint64_t offset)
{
	const char *path = strchr(line, ' '), *colon;
	char wanted[24];
	size_t length;

	snprintf(wanted, sizeof(wanted), ":0x%016llx", (unsigned long long)offset);
	colon = path ? strstr(path, wanted) : NULL;
	if (!colon)
		return false;
	file = last_of_path(file);
	length = strlen(file);
	return (size_t)(colon - path) > length && memcmp(colon - length, file, length) == 0 &&
	       (colon[-1 - (long)length] == '/' || colon[-1 - (long)length] == ' ');
}

static bool is_probe_listed(const char *file, uint64_t offset)
{
	FLMEM_AUTO_BUF struct flmem_buf list = FLMEM_BUF_INIT;
	char *rest = NULL;
	int rc = -1;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(probe_lists) && rc; i++)
		rc = flmem_io_read_file_at(AT_FDCWD, probe_lists[i], PROBES_MAX, &list);
	if (rc || !list.data)
		return false;
	for (char *at = list.data, *line; (line = strtok_r(at, "\n", &rest)); at = NULL)
		if (is_probe_at(line, file, offset))
			return true;
	return false;
}

bool flmem_code_differs(const unsigned char *built, const unsigned char *now, size_t length,
			uint64_t *address)
{
	size_t same = 0;

	while (same < length && built[same] == now[same])
		same++;
	*address += same;
	return same < length;
}

const char *flmem_code_change_cause(const struct flmem_view *view, uint64_t address)
{
	const struct flmem_map *map;
	uint64_t start;

	if (!flmem_arch_is_breakpoint(view->process, address, &start))
		return "it was changed since it was loaded, or cannot be read";
	map = flmem_maps_find(view->maps, start);
	if (map && is_probe_listed(map->name, map->offset + (start - map->start)))
		return "a kernel probe is set there (uprobe_events); remove it first";
	return "there is a breakpoint, as of a debugger that was killed, or a kernel probe, as of "
	       "perf or bpftrace";
}
