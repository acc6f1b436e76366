/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the frame of a stack that is the program's own code, and not that of a library that it
 * calls.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/heap_profile.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "profiler/frames.h"

/* Compares one directory or file name of a path. */
static bool is_name(const char *at, size_t length, const char *name)
{
	return strlen(name) == length && memcmp(at, name, length) == 0;
}

/*
 * True for "python3.12", "python3.13t", "python312.zip" (site.py and Modules/getpath.py of
 * CPython).
 */
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

/* True for files that are installed for an interpreter: the standard library, or a package. */
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

enum frame_owner {
	OTHER,	 /* native, of a library, or without a file: the caller of the frame decides */
	OWN,	 /* a frame of the program */
	UNKNOWN, /* the name of the frame's file is unknown */
};

static enum frame_owner owner_of_frame(const struct flmem_heap_frame *frame)
{
	if (!frame->python)
		return OTHER;
	if (!frame->file)
		return UNKNOWN;
	return frame->file[0] == '<' || is_installed_file(frame->file) ? OTHER : OWN;
}

uint32_t flmem_heap_own_frame(const struct flmem_heap_profile *profile, uint32_t node)
{
	for (; node; node = profile->nodes[node].parent) {
		uint32_t frame = profile->nodes[node].frame;
		enum frame_owner owner = owner_of_frame(&profile->frames[frame]);

		if (owner != OTHER)
			return owner == OWN ? frame : FLMEM_HEAP_NO_FRAME;
	}
	return FLMEM_HEAP_NO_FRAME;
}

uint32_t *flmem_heap_own_frames(const struct flmem_heap_profile *profile)
{
	FLMEM_AUTO_FREE unsigned char *owners = calloc(profile->frame_count + 1, 1);
	FLMEM_AUTO_FREE uint32_t *own = calloc(profile->node_count + 1, sizeof(*own));

	if (!owners || !own)
		return NULL;
	for (size_t i = 0; i < profile->frame_count; i++)
		owners[i] = (unsigned char)owner_of_frame(&profile->frames[i]);
	own[0] = FLMEM_HEAP_NO_FRAME;
	for (size_t i = 1; i < profile->node_count; i++) { /* parents come before their children */
		const struct flmem_heap_node *node = &profile->nodes[i];

		own[i] = owners[node->frame] == OTHER ? own[node->parent]
			 : owners[node->frame] == OWN ? node->frame
						      : FLMEM_HEAP_NO_FRAME;
	}
	return FLMEM_TAKE(own);
}
