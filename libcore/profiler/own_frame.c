/* SPDX-License-Identifier: Apache-2.0 */
/* Which frame of a stack is the program's own code, and not that of a library that it calls. */
#include <ctype.h>
#include <string.h>

#include <flmem/heap_profile.h>

#include "base/text/text.h"

/* One directory or file name of a path. */
static bool is_name(const char *at, size_t length, const char *name)
{
	return strlen(name) == length && memcmp(at, name, length) == 0;
}

/* "python3.12", "python3.13t", "python312.zip" (site.py and Modules/getpath.py of CPython) */
static bool is_library_directory(const char *at, size_t length)
{
	static const char name[] = "python3", zip[] = ".zip";
	const char *end = at + length;

	if (length < sizeof(name) || memcmp(at, name, sizeof(name) - 1) != 0)
		return false;
	at += sizeof(name) - 1;
	at += *at == '.';
	if (!isdigit((unsigned char)*at))
		return false;
	while (at < end && isdigit((unsigned char)*at))
		at++;
	if ((size_t)(end - at) == sizeof(zip) - 1 && memcmp(at, zip, sizeof(zip) - 1) == 0)
		return true;
	return at + (at < end && *at == 't') == end;
}

/* Files that are installed for an interpreter: the standard library, or a package. */
static bool is_installed_file(const char *file)
{
	bool below_lib = false;

	for (const char *slash; (slash = strchr(file, '/')); file = slash + 1) {
		size_t length = (size_t)(slash - file);

		if (is_name(file, length, "site-packages") ||
		    is_name(file, length, "dist-packages"))
			return true;
		if (below_lib && is_library_directory(file, length))
			return true;
		below_lib = is_name(file, length, "lib") || is_name(file, length, "lib64");
	}
	return false;
}

uint32_t flmem_heap_own_frame(const struct flmem_heap_profile *profile, uint32_t node)
{
	for (; node; node = profile->nodes[node].parent) {
		uint32_t frame = profile->nodes[node].frame;
		const struct flmem_heap_frame *f = &profile->frames[frame];

		if (!f->python)
			continue;
		if (!f->file)
			break;
		if (f->file[0] != '<' && !is_installed_file(f->file))
			return frame;
	}
	return FLMEM_HEAP_NO_FRAME;
}
