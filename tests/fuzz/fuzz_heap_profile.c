/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of heap profiles, and what is made of them. The first byte decides: inputs are either the
 * file itself, or fill the records of a file with a valid header, which mutation alone would hardly
 * find.
 */
#include <stdio.h>

#include <flmem/heap_report.h>

#include "file.h"
#include "fuzz.h"
#include "preload/profile_format.h"

#define CAPACITY 16U

static size_t fill_header(struct flmem_profile_header *h)
{
#define SIZE_ROW(identifier, index, name, type) [index] = sizeof(struct type),
	static const uint32_t sizes[] = {FLMEM_PROFILE_SECTIONS(SIZE_ROW)};
#undef SIZE_ROW
	size_t at = FLMEM_PROFILE_HEADER_SIZE;

	*h = (struct flmem_profile_header){
		.magic = FLMEM_PROFILE_MAGIC,
		.version = FLMEM_PROFILE_VERSION,
		.header_size = FLMEM_PROFILE_HEADER_SIZE,
		.order = FLMEM_PROFILE_ORDER,
		.phase = FLMEM_PROFILE_ENDED,
		.interval_bytes = 1,
		.python_state = FLMEM_PROFILE_PYTHON_READ,
		.python_version = 0x030c00f0, /* so that mappings of 1 MiB are arenas */
	};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++, h->sections++) {
		h->section[i] = (struct flmem_profile_section){.offset = at,
							       .record_size = sizes[i],
							       .capacity = CAPACITY,
							       .used = CAPACITY};
		at += (size_t)sizes[i] * CAPACITY;
	}
	h->file_size = at;
	return at;
}

/* Gives each record its state, and as many bytes of the input as it has. */
static void fill_records(const struct flmem_profile_header *h, char *file, const uint8_t *data,
			 size_t size)
{
	for (uint32_t s = 0; s < h->sections; s++)
		for (uint32_t i = 0; i < CAPACITY; i++) {
			const struct flmem_profile_section *section = &h->section[s];
			char *record = file + section->offset + (size_t)i * section->record_size;
			size_t room = section->record_size - sizeof(uint32_t);
			size_t some = size < room ? size : room;

			memcpy(record, &(uint32_t){FLMEM_PROFILE_READY}, sizeof(uint32_t));
			memcpy(record + sizeof(uint32_t), data, some);
			data += some;
			size -= some;
		}
}

static void export_all(const struct flmem_heap_profile *p)
{
	for (enum flmem_heap_format f = 0; f <= FLMEM_HEAP_FORMAT_JSON; f++) {
		size_t length = 0;
		char *bytes = NULL;

		if (flmem_heap_export(p, f, FLMEM_HEAP_LIVE, &bytes, &length, NULL))
			abort();
		free(bytes);
	}
}

/* Draws a page. Names neither end the script nor begin another one: the page has its two. */
static void draw(const struct flmem_heap_profile *p)
{
	char *page = flmem_heap_page_html(p, p, FLMEM_HEAP_LIVE), *at;
	unsigned scripts = 0;

	if (!page)
		abort();
	for (at = page; (at = strstr(at, "<script")); at++)
		scripts++;
	for (at = page; (at = strstr(at, "</script")); at++)
		scripts++;
	if (scripts != 4)
		abort();
	free(page);
}

static void compare(const struct flmem_heap_profile *p)
{
	struct flmem_heap_comparison comparison;
	struct flmem_heap_row *rows;
	size_t count;

	if (flmem_heap_rows(p, FLMEM_HEAP_BY_LINE, FLMEM_HEAP_LIVE, &rows, &count, NULL) ||
	    flmem_heap_compare(p, p, FLMEM_HEAP_LIVE, &comparison, NULL))
		abort();
	for (size_t i = 0; i < count; i++)
		if ((rows[i].own_frame >= p->frame_count &&
		     rows[i].own_frame != FLMEM_HEAP_NO_FRAME) ||
		    rows[i].arena_bytes > rows[i].own.bytes[FLMEM_HEAP_LIVE])
			abort();
	free(rows);
	flmem_heap_comparison_clear(&comparison);
}

static void use_all(const struct flmem_heap_profile *p)
{
	struct flmem_heap_leaks leaks;

	for (size_t i = 1; i < p->node_count; i++)
		if (p->nodes[i].parent >= i || p->nodes[i].frame >= p->frame_count)
			abort();
	export_all(p);
	draw(p);
	compare(p);
	if (flmem_heap_leaks_find(p, &leaks, NULL))
		abort();
	for (size_t i = 0; i < leaks.count; i++)
		if (!(leaks.rows[i].confidence >= 0 && leaks.rows[i].confidence <= 1))
			abort();
	flmem_heap_leaks_clear(&leaks);
}

static void read_as(const char *path, enum flmem_heap_stacks stacks, bool by_round)
{
	const struct flmem_heap_request request = {.path = path,
						   .stacks = stacks,
						   .by_round = by_round,
						   .last_round = 100,
						   .no_symbols = true};
	struct flmem_heap_profile *profile = NULL;

	if (flmem_heap_profile_read(&request, &profile, NULL))
		return;
	use_all(profile);
	flmem_heap_profile_free(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_profile_header header;
	size_t length;
	char path[32], *file;
	int fd;

	if (size < 2)
		return 0;
	if (data[0] & 1) {
		length = fill_header(&header);
		file = calloc(1, length);
		if (!file)
			abort();
		memcpy(file, &header, sizeof(header));
		fill_records(&header, file, data + 1, size - 1);
		fd = fuzz_file(file, length);
		free(file);
	} else {
		fd = fuzz_file(data + 1, size - 1);
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (enum flmem_heap_stacks s = 0; s <= FLMEM_HEAP_STACKS_NATIVE; s++)
		read_as(path, s, false);
	read_as(path, FLMEM_HEAP_STACKS_MIXED, true);
	close(fd);
	return 0;
}
