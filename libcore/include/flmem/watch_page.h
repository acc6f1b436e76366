/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_WATCH_PAGE_H
#define FLMEM_WATCH_PAGE_H

/*
 * A watch as one HTML page that needs nothing else: no script, no file, no network. It collects
 * what the callbacks of a watch (flmem/watch.h) are told, in memory that is bounded however long
 * the watch is, and is written at its end. Neither memory nor page grow beyond what a screen can
 * show: samples are kept as the lowest and highest of equal spans of time.
 *
 * One page is used by one thread. All texts are untrusted and are escaped.
 */

#include <stdbool.h>

#include <flmem/error.h>
#include <flmem/watch.h>

struct flmem_watch_page;

/* Release with flmem_watch_page_free(). FLMEM_EFAILED when memory is out. */
FLMEM_API int flmem_watch_page_new(struct flmem_watch_page **ret_page, struct flmem_error *err);

FLMEM_API void flmem_watch_page_free(struct flmem_watch_page *page);

/* What the callbacks of the same names are given. Want of memory is told when it is written. */
FLMEM_API void flmem_watch_page_sample(struct flmem_watch_page *page,
				       const struct flmem_watch_sample *sample);
FLMEM_API void flmem_watch_page_round(struct flmem_watch_page *page,
				      const struct flmem_watch_round *round);
FLMEM_API void flmem_watch_page_action(struct flmem_watch_page *page,
				       const struct flmem_watch_action *action);

/* The page as text, NUL-terminated, freed by the caller with free(); NULL when memory is out. */
FLMEM_API char *flmem_watch_page_html(const struct flmem_watch_page *page,
				      const struct flmem_watch_summary *summary);

/*
 * Whether a page may be written there: FLMEM_EUSAGE where the folder may not be written to, and for
 * what is there already, unless it is empty or such a page. To be asked before a watch of days.
 */
FLMEM_API int flmem_watch_page_place(const char *path, struct flmem_error *err);

/*
 * Writes the page; a page that is there is replaced as a whole or, on failure, not at all. Errors
 * of flmem_watch_page_place(), and FLMEM_EFAILED when memory is out or the file cannot be written.
 */
FLMEM_API int flmem_watch_page_write(const struct flmem_watch_page *page,
				     const struct flmem_watch_summary *summary, const char *path,
				     struct flmem_error *err);

#endif
