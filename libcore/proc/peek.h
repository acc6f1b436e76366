/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_PEEK_H
#define FLMEM_PROC_PEEK_H

/*
 * Reads the memory of a process without changing it: only pages that are resident are read, since
 * reading others maps the zero page or swaps pages in. Small reads go through a cache of pages,
 * large ones do not. The cache and the list of resident pages are kept until flmem_peek_forget(),
 * so a walk sees one state of each page.
 *
 * The source may be anything that implements the two callbacks, such as a memory image. One thread
 * at a time; about 4 MiB of memory, whatever the target holds.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "proc/pages.h"

struct flmem_process;
struct flmem_peek;

#define FLMEM_PEEK_PAGES_MAX   64U   /* most pages of one call */
#define FLMEM_PEEK_FETCHES_MAX 8192U /* addresses of which the fetched words are kept */

struct flmem_peek_source {
	uint64_t page_bytes; /* a power of two from 4096 to 65536 */
	/* Visits resident pages as flmem_pages_each() does. */
	int (*each)(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
		    void *visit_context);
	/* Visits resident and swapped-out pages; NULL: no page is swapped out. */
	int (*each_kept)(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
			 void *visit_context);
	/* Reads all parts, each of which is within resident pages. Returns 0 or -errno. */
	int (*read)(void *context, const struct iovec *local, const struct iovec *remote,
		    size_t count);
	/* Returns true if the kernel has swapped a page out; NULL: no page is swapped out. */
	bool (*swapped)(void *context, uint64_t address);
	void *context; /* context of the callbacks; must outlive the peek */
};

/* Creates a reader of a source; NULL if memory is out. */
struct flmem_peek *flmem_peek_new(const struct flmem_peek_source *source);

/*
 * Creates a reader of a live process, which must outlive it. FLMEM_EPERM without the right to trace
 * it.
 */
int flmem_peek_open(const struct flmem_process *process, struct flmem_peek **ret_peek,
		    struct flmem_error *err);

void flmem_peek_free(struct flmem_peek *peek);

static inline void flmem_cleanup_peek(struct flmem_peek **peek)
{
	flmem_peek_free(*peek);
}

#define FLMEM_AUTO_PEEK FLMEM_AUTO(flmem_cleanup_peek)

uint64_t flmem_peek_page_bytes(const struct flmem_peek *peek);

/*
 * Makes swapped-out pages count as resident from now on: reading one swaps it in. Only for pages
 * that the calls of a trim read in any case.
 */
void flmem_peek_swap_in(struct flmem_peek *peek);
bool flmem_peek_swaps_in(const struct flmem_peek *peek);

/* Drops the cache, so that the next reads query the target again. */
void flmem_peek_forget(struct flmem_peek *peek);

/* Drops the cached contents of a range, but not which of its pages are resident. */
void flmem_peek_forget_range(struct flmem_peek *peek, uint64_t address, size_t length);

/*
 * Queries the memory from an address up to `end` again, because pages may have become resident
 * since the last query. Returns true if the page of the address is resident now.
 */
bool flmem_peek_renew(struct flmem_peek *peek, uint64_t address, uint64_t end);

/*
 * Returns true if the page of an address is not resident because the kernel has swapped it out. A
 * page that was never touched or has been released is neither resident nor swapped out.
 */
bool flmem_peek_is_swapped(struct flmem_peek *peek, uint64_t address);

/*
 * Queries which pages of a range are resident, its first 16384 pages at most. Other reads query the
 * 4 MiB around their address; this is for single addresses far from each other.
 */
void flmem_peek_prepare(struct flmem_peek *peek, uint64_t start, uint64_t end);

/*
 * Reads a few bytes: all of them, or none on failure. -ENODATA: one of their pages is not resident.
 * Other errors: the page was unmapped meanwhile (-EFAULT), the process has exited (-ESRCH).
 */
int flmem_peek_read(struct flmem_peek *peek, uint64_t address, void *out, size_t length);

/*
 * Reads the first 32 bytes at each address, up to the end of its page, with one call, at most
 * FLMEM_PEEK_PAGES_MAX. A later flmem_peek_read() of them makes no call. Of a page that several of
 * them are in, all is read. What fails is left to flmem_peek_read(), which reads it or returns the
 * error.
 */
void flmem_peek_fetch(struct flmem_peek *peek, const uint64_t *addresses, size_t count);

/* Drops what single addresses were fetched, which makes room for FLMEM_PEEK_FETCHES_MAX. */
void flmem_peek_forget_words(struct flmem_peek *peek);

/*
 * Reads `count` whole pages from a page boundary, at most 64. Pages that are not resident read as
 * zeroes, with their bit in `ret_resident` (may be NULL) clear.
 */
int flmem_peek_read_pages(struct flmem_peek *peek, uint64_t start, size_t count, void *out,
			  uint64_t *ret_resident);

/* Describes the heads of records at equal distances. */
struct flmem_peek_pieces {
	uint64_t start;	 /* address of the first head */
	uint64_t stride; /* distance from one head to the next */
	size_t count;	 /* at most FLMEM_PEEK_PAGES_MAX */
	size_t length;	 /* bytes of each head; none may cross pages */
};

/*
 * Reads the heads with one call. Heads that are not resident read as zeroes, with their bit in
 * `ret_resident` clear.
 */
int flmem_peek_read_pieces(struct flmem_peek *peek, const struct flmem_peek_pieces *pieces,
			   void *out, uint64_t *ret_resident);

bool flmem_peek_is_resident(struct flmem_peek *peek, uint64_t address);

/* Counts the resident bytes of a range, which is not rounded to pages. */
uint64_t flmem_peek_resident(struct flmem_peek *peek, uint64_t start, uint64_t end);

#endif
