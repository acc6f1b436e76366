/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_PROFILE_LAYOUT_H
#define FLMEM_PRELOAD_PROFILE_LAYOUT_H

/*
 * Divides the length of a profile among its sections. flmem uses it for the process that it starts,
 * and the sampler for children. It calls no function, because the sampler includes it.
 */

#include "preload/profile_format.h"

#define FLMEM_PROFILE_ALIGN 4096U

/* Returns the share of a section, in 64ths of the length; the rest stays unused. */
static inline unsigned flmem_profile_share(unsigned section)
{
	switch (section) {
	case FLMEM_PROFILE_SECTION_STRINGS:
	case FLMEM_PROFILE_SECTION_NODES:
	case FLMEM_PROFILE_SECTION_SITES:
		return 8;
	case FLMEM_PROFILE_SECTION_FRAMES:
		return 6;
	case FLMEM_PROFILE_SECTION_CELLS:
		return 18;
	case FLMEM_PROFILE_SECTION_LIVE:
		return 8;
	default: /* rounds, timeline, threads, modules */
		return 1;
	}
}

static inline uint32_t flmem_profile_record_size(unsigned section)
{
	switch (section) {
#define FLMEM_PROFILE_ROW(identifier, index, name, type) \
	case index:                                      \
		return (uint32_t)sizeof(struct type);
		FLMEM_PROFILE_SECTIONS(FLMEM_PROFILE_ROW)
#undef FLMEM_PROFILE_ROW
	default:
		return 0;
	}
}

/* Fills `section` and `file_size` of a header from the length of the file in bytes. */
static inline void flmem_profile_divide(struct flmem_profile_header *header, uint64_t file_size)
{
	uint64_t offset = FLMEM_PROFILE_HEADER_SIZE, unit = (file_size - offset) / 64;

	header->sections = 0;
	header->file_size = file_size;
	for (unsigned i = 0; flmem_profile_record_size(i); i++) {
		struct flmem_profile_section *section = &header->section[i];
		uint64_t room =
			unit * flmem_profile_share(i) / FLMEM_PROFILE_ALIGN * FLMEM_PROFILE_ALIGN;

		section->offset = offset;
		section->record_size = flmem_profile_record_size(i);
		section->capacity = (uint32_t)(room / section->record_size);
		section->used = 0;
		offset += room;
		header->sections = i + 1;
	}
}

#endif
