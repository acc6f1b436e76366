/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/module_search.h"

#include <string.h>

#define HEADER_SIZE 32U

/* The text is split, as all markers are, so that flmem's binary does not look like a Go program. */
static const char magic_tail[] = " Go buildinf:";

/*
 * Copies a string that follows its length as a varint (Go's encoding/binary); one byte is enough.
 */
static void copy_inline(struct flmem_image *image, uint64_t address, char *version)
{
	unsigned char length;

	if (flmem_image_read_address(image, address, &length, 1) &&
	    length < FLMEM_ALLOCATOR_VERSION_MAX &&
	    flmem_image_read_address(image, address + 1, version, length))
		version[length] = '\0';
	else
		version[0] = '\0';
}

/*
 * Copies a string through a pointer to {pointer, length}, as Go up to 1.17 writes it. The pointer
 * is 0 where the dynamic linker fills it in.
 */
static void copy_by_pointer(struct flmem_image *image, uint64_t pointer, char *version)
{
	uint64_t text[2];

	if (pointer && flmem_image_read_address(image, pointer, text, sizeof(text)) &&
	    text[1] < FLMEM_ALLOCATOR_VERSION_MAX &&
	    flmem_image_read_address(image, text[0], version, (size_t)text[1]))
		version[text[1]] = '\0';
	else
		version[0] = '\0';
}

/* Reads the header of the build information: magic, pointer size, flags (Go, debug/buildinfo). */
static bool read_go_version(struct flmem_image *image, char version[FLMEM_ALLOCATOR_VERSION_MAX])
{
	unsigned char header[HEADER_SIZE];
	uint64_t address, size, pointer;

	if (!flmem_image_find_section(image, ".go.buildinfo", &address, &size) ||
	    size < sizeof(header) ||
	    !flmem_image_read_address(image, address, header, sizeof(header)) ||
	    header[0] != 0xff || memcmp(header + 1, magic_tail, sizeof(magic_tail) - 1) != 0)
		return false;
	memcpy(&pointer, header + 16, sizeof(pointer));
	if (header[15] & 2)
		copy_inline(image, address + HEADER_SIZE, version);
	else if (header[14] == sizeof(pointer) && !(header[15] & 1))
		copy_by_pointer(image, pointer, version);
	else
		version[0] = '\0';
	if (strncmp(version, "go", 2) == 0)
		memmove(version, version + 2, strlen(version + 2) + 1);
	return true;
}

/* A library written in Go has this function for its calls back into C. */
static bool may_be_go(const struct flmem_module *module)
{
	return module->main || flmem_module_exports(module, "_cgo_topofstack");
}

static bool recognise_go(const struct flmem_view *view, const struct flmem_module *module,
			 struct flmem_allocator *ret_found)
{
	struct flmem_allocator found = {
		.evidence = "it holds Go's build information",
	};
	struct flmem_image *image = flmem_module_image(module, NULL);

	(void)view;
	if (!image || !may_be_go(module) || !read_go_version(image, found.version))
		return false;
	*ret_found = found;
	return true;
}

const struct flmem_allocator_ops flmem_allocator_go = {
	.kind = FLMEM_ALLOCATOR_GO,
	.recognise = recognise_go,
	.unreadable_reason = "the Go runtime reports the state of its heap only to Go code",
	.is_runtime = true,
	.trim_advice =
		"Go's runtime cannot be called from outside; start the program with GOMEMLIMIT "
		"(and GOGC) set, or have it call runtime/debug.FreeOSMemory",
};
