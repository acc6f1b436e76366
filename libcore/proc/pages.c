/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "base/portable.h"
#include "proc/process.h"

/* Structure of PAGEMAP_SCAN as in linux/fs.h of 6.7; Debian 12 has older headers. */
struct scan_region {
	uint64_t start, end, categories;
};

struct scan_request {
	uint64_t size, flags;
	uint64_t start, end, walk_end;
	uint64_t regions, region_count, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_IOCTL	_IOWR('f', 16, struct scan_request)
#define PAGE_IS_FILE	(UINT64_C(1) << 2) /* page of a file or of shared memory, not anonymous */
#define PAGE_IS_PRESENT (UINT64_C(1) << 3)
#define PAGE_IS_SWAPPED (UINT64_C(1) << 4)
#define PAGE_IS_PFNZERO (UINT64_C(1) << 5)
#define PAGE_IS_HUGE	(UINT64_C(1) << 6)

/* Bits of a pagemap entry: Documentation/admin-guide/mm/pagemap.rst. */
#define ENTRY_FILE    (UINT64_C(1) << 61)
#define ENTRY_SWAP    (UINT64_C(1) << 62)
#define ENTRY_PRESENT (UINT64_C(1) << 63)

#define REGIONS 512
#define ENTRIES 2048

/*
 * Selects pages: all bits of `mask` must be set, but those of `inverted` clear, and one bit of
 * `any` set.
 */
struct page_filter {
	uint64_t mask, inverted;
	/* This is the same selection in bits of a pagemap entry, as far as there are such bits. */
	uint64_t entry;
	uint64_t any, entry_any;
};

static const struct page_filter resident = {PAGE_IS_PRESENT | PAGE_IS_PFNZERO, PAGE_IS_PFNZERO,
					    ENTRY_PRESENT, 0, 0};
static const struct page_filter pages_kept = {PAGE_IS_PFNZERO, PAGE_IS_PFNZERO, 0,
					      PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
					      ENTRY_PRESENT | ENTRY_SWAP};
static const struct page_filter of_file = {PAGE_IS_PRESENT | PAGE_IS_FILE, 0,
					   ENTRY_PRESENT | ENTRY_FILE, 0, 0};
static const struct page_filter huge = {PAGE_IS_HUGE, 0, 0, 0, 0};

uint64_t flmem_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

int flmem_pages_open(const struct flmem_process *process, struct flmem_pages *ret_pages,
		     struct flmem_error *err)
{
	int fd = openat(process->dirfd, "pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return flmem_process_error(process, -errno, "read the page table", err);
	*ret_pages = (struct flmem_pages){.pagemap = fd};
	return 0;
}

void flmem_pages_close(struct flmem_pages *pages)
{
	flmem_cleanup_close(&pages->pagemap);
	pages->pagemap = -1;
}

/*
 * Returns an upper bound of the regions in a range: the kernel allocates memory for the most it may
 * return, which for a few pages is most of the cost.
 */
static uint64_t count_regions(uint64_t start, uint64_t end)
{
	uint64_t most = (end - start) / flmem_page_bytes() / 2 + 1;

	return most < REGIONS ? most : REGIONS;
}

static int scan_ranges(int pagemap, const struct page_filter *filter, uint64_t start, uint64_t end,
		       flmem_pages_visit *visit, void *context)
{
	struct scan_region regions[REGIONS];

	while (start < end) {
		struct scan_request request = {
			.size = sizeof(request),
			.start = start,
			.end = end,
			.regions = (uint64_t)(uintptr_t)regions,
			.region_count = count_regions(start, end),
			.category_inverted = filter->inverted,
			.category_mask = filter->mask,
			.category_anyof_mask = filter->any,
			.return_mask = (filter->mask & ~filter->inverted) | filter->any,
		};
		int found = ioctl(pagemap, FLMEM_IOCTL_REQUEST(SCAN_IOCTL), &request);

		if (found < 0 && errno == EINTR)
			continue;
		if (found < 0)
			return -errno;
		for (int i = 0; i < found && i < REGIONS; i++)
			visit(context, regions[i].start, regions[i].end);
		if (request.walk_end <= start)
			break;
		start = request.walk_end;
	}
	return 0;
}

/* An empty read is the end of the address space: the process has exited. */
static ssize_t read_pagemap_entries(int pagemap, uint64_t start, uint64_t end, uint64_t page,
				    uint64_t entries[ENTRIES])
{
	uint64_t count = (end - start) / page;
	ssize_t got;

	if (count > ENTRIES)
		count = ENTRIES;
	do
		got = pread(pagemap, entries, count * sizeof(*entries),
			    (off_t)(start / page * sizeof(*entries)));
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	return got < (ssize_t)sizeof(*entries) ? -ESRCH : got / (ssize_t)sizeof(*entries);
}

static bool is_wanted_entry(const struct page_filter *filter, uint64_t entry)
{
	return (entry & filter->entry) == filter->entry &&
	       (!filter->entry_any || entry & filter->entry_any);
}

static int read_ranges(int pagemap, const struct page_filter *filter, uint64_t start, uint64_t end,
		       flmem_pages_visit *visit, void *context)
{
	const uint64_t page = flmem_page_bytes();
	uint64_t entries[ENTRIES], run = 0;
	bool in_run = false;

	while (start < end) {
		ssize_t count = read_pagemap_entries(pagemap, start, end, page, entries);

		if (count < 0)
			return (int)count;
		for (ssize_t i = 0; i < count; i++, start += page) {
			bool wanted = is_wanted_entry(filter, entries[i]);

			if (wanted && !in_run)
				run = start;
			else if (!wanted && in_run)
				visit(context, run, start);
			in_run = wanted;
		}
	}
	if (in_run)
		visit(context, run, start);
	return 0;
}

static int visit_ranges(struct flmem_pages *pages, const struct page_filter *filter, uint64_t start,
			uint64_t end, flmem_pages_visit *visit, void *context)
{
	int rc;

	if (start >= end)
		return 0;
	if (!pages->old_kernel) {
		rc = scan_ranges(pages->pagemap, filter, start, end, visit, context);
		if (rc != -ENOTTY && rc != -EINVAL)
			return rc;
		pages->old_kernel = true;
	}
	return read_ranges(pages->pagemap, filter, start, end, visit, context);
}

int flmem_pages_each(struct flmem_pages *pages, uint64_t start, uint64_t end,
		     flmem_pages_visit *visit, void *context)
{
	return visit_ranges(pages, &resident, start, end, visit, context);
}

int flmem_pages_each_kept(struct flmem_pages *pages, uint64_t start, uint64_t end,
			  flmem_pages_visit *visit, void *context)
{
	return visit_ranges(pages, &pages_kept, start, end, visit, context);
}

int flmem_pages_of_file(struct flmem_pages *pages, uint64_t start, uint64_t end,
			flmem_pages_visit *visit, void *context)
{
	return visit_ranges(pages, &of_file, start, end, visit, context);
}

bool flmem_pages_has_swap_entry(const struct flmem_pages *pages, uint64_t address)
{
	const uint64_t page = flmem_page_bytes();
	const uint64_t start = address & ~(page - 1);
	uint64_t entries[ENTRIES];

	return read_pagemap_entries(pages->pagemap, start, start + page, page, entries) == 1 &&
	       (entries[0] & (ENTRY_SWAP | ENTRY_PRESENT)) == ENTRY_SWAP;
}

static void add_range(void *context, uint64_t start, uint64_t end)
{
	*(uint64_t *)context += end - start;
}

int flmem_pages_huge(struct flmem_pages *pages, uint64_t start, uint64_t end, uint64_t *ret_bytes)
{
	uint64_t sum = 0;
	int rc = scan_ranges(pages->pagemap, &huge, start, end, add_range, &sum);

	if (!rc)
		*ret_bytes = sum;
	return rc;
}
