/* SPDX-License-Identifier: Apache-2.0 */
/* Reads heap dumps of jemalloc, and prints all reports about them. */
#include <stdio.h>

#include <flmem/heap_report.h>

#include "file.h"
#include "fuzz.h"

static void use_dump(const struct flmem_heap_profile *p)
{
	size_t length = 0;
	char *bytes = NULL, *page;

	for (size_t i = 1; i < p->node_count; i++)
		if (p->nodes[i].parent >= i || p->nodes[i].frame >= p->frame_count)
			abort();
	for (size_t i = 0; i < p->site_count; i++)
		if (p->sites[i].node >= p->node_count)
			abort();
	if (!p->unknown[FLMEM_HEAP_PEAK] || p->totals.bytes[FLMEM_HEAP_PEAK])
		abort();
	for (enum flmem_heap_format f = 0; f <= FLMEM_HEAP_FORMAT_JSON; f++) {
		if (flmem_heap_export(p, f, FLMEM_HEAP_LIVE, &bytes, &length, NULL))
			abort();
		free(bytes);
	}
	page = flmem_heap_page_html(p, p, FLMEM_HEAP_LIVE);
	if (!page)
		abort();
	free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_heap_profile *profile = NULL;
	char path[32];
	const struct flmem_heap_request request = {
		.path = path, .choose_stacks = true, .no_symbols = true};
	int fd = fuzz_file(data, size);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!flmem_heap_profile_read(&request, &profile, NULL) &&
	    profile->ending == FLMEM_HEAP_DUMPED)
		use_dump(profile);
	flmem_heap_profile_free(profile);
	close(fd);
	return 0;
}
