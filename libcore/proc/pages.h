/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_PAGES_H
#define FLMEM_PROC_PAGES_H

/*
 * Finds which pages of a process are in RAM, without touching them. Uses PAGEMAP_SCAN (Linux 6.7),
 * else reads /proc/PID/pagemap. A page counts as resident when it is present and not the kernel's
 * zero page, as in RssAnon; swapped-out pages are not resident. On older kernels the zero page
 * cannot be distinguished without CAP_SYS_ADMIN and counts as resident.
 *
 * Needs the right to trace the process (PTRACE_MODE_READ). One thread at a time per handle.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"

struct flmem_process;

struct flmem_pages {
	int pagemap;
	bool old_kernel; /* no PAGEMAP_SCAN */
};

#define FLMEM_PAGES_INIT       \
	{                      \
		.pagemap = -1, \
	}

int flmem_pages_open(const struct flmem_process *process, struct flmem_pages *ret_pages,
		     struct flmem_error *err);
void flmem_pages_close(struct flmem_pages *pages);

#define FLMEM_AUTO_PAGES FLMEM_AUTO(flmem_pages_close)

/* Returns the size of a page on this host. */
uint64_t flmem_page_bytes(void);

/*
 * Visits a range of pages. flmem_pages_each() visits the resident pages between two page
 * boundaries, in ascending order and without overlaps. It returns 0 or -errno: -ESRCH if the
 * process has exited.
 */
typedef void flmem_pages_visit(void *context, uint64_t start, uint64_t end);
int flmem_pages_each(struct flmem_pages *pages, uint64_t start, uint64_t end,
		     flmem_pages_visit *visit, void *context);

/* Does the same as flmem_pages_each(), for resident and for swapped-out pages. */
int flmem_pages_each_kept(struct flmem_pages *pages, uint64_t start, uint64_t end,
			  flmem_pages_visit *visit, void *context);

/*
 * Does the same as flmem_pages_each(), for pages of files and shared memory: those that a private
 * mapping has not copied.
 */
int flmem_pages_of_file(struct flmem_pages *pages, uint64_t start, uint64_t end,
			flmem_pages_visit *visit, void *context);

/*
 * Returns true if the page table entry of an address is a swap entry, as it also is while the
 * kernel migrates the page. False if the entry cannot be read.
 */
bool flmem_pages_has_swap_entry(const struct flmem_pages *pages, uint64_t address);

/* Sums up the bytes of a range in huge pages; -ENOTTY on kernels without PAGEMAP_SCAN. */
int flmem_pages_huge(struct flmem_pages *pages, uint64_t start, uint64_t end, uint64_t *ret_bytes);

#endif
