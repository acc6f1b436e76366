/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_WATCH_PAGE_H
#define FLMEM_WATCH_PAGE_H

/*
 * A watch as one self-contained HTML page: no script, no other file, no network. The page collects
 * the arguments of the callbacks of a watch (flmem/watch.h) in bounded memory, however long the
 * watch runs, and is written at its end. Samples are kept as minimum and maximum of equal time
 * spans, at the resolution of a screen.
 *
 * One page is used by one thread. All texts are untrusted and are escaped.
 */

#include <stdbool.h>

#include <flmem/error.h>
#include <flmem/heap_profile.h>
#include <flmem/recommend.h>
#include <flmem/watch.h>

struct flmem_watch_page;

/* Release with flmem_watch_page_free(). FLMEM_EFAILED when memory is out. */
FLMEM_API FLMEM_MUST_CHECK int flmem_watch_page_new(struct flmem_watch_page **ret_page,
						    struct flmem_error *err);

/* NULL is allowed. */
FLMEM_API void flmem_watch_page_free(struct flmem_watch_page *page);

/* For the callbacks of the same names. Out of memory is reported when the page is written. */
FLMEM_API void flmem_watch_page_sample(struct flmem_watch_page *page,
				       const struct flmem_watch_sample *sample);
FLMEM_API void flmem_watch_page_round(struct flmem_watch_page *page,
				      const struct flmem_watch_round *round);
FLMEM_API void flmem_watch_page_action(struct flmem_watch_page *page,
				       const struct flmem_watch_action *action);

/* A heap profile of one of the processes, which `flmem_watch_page_profiles()` shows. */
struct flmem_watch_page_profile {
	const char *path;
	const struct flmem_heap_profile *profile; /* of all rounds; NULL: could not be read */
	const char *reason;			  /* why it could not be read */
};

/*
 * The page shows the largest sites of these profiles, each under its process if the watch has one
 * of the same PID and start time. The list is kept: it and its profiles must outlive the page's
 * last use.
 */
FLMEM_API void flmem_watch_page_profiles(struct flmem_watch_page *page,
					 const struct flmem_watch_page_profile *profiles,
					 size_t count);

/* The page as text, NUL-terminated, freed by the caller with free(); NULL when memory is out. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_watch_page_html(const struct flmem_watch_page *page,
						       const struct flmem_watch_summary *summary,
						       const struct flmem_watch_advice *advice);

/*
 * Checks that a page can be written there: FLMEM_EUSAGE for an unwritable folder and for an
 * existing file, unless it is empty or a page of a watch. Call it before a long watch.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_watch_page_place(const char *path, struct flmem_error *err);

/*
 * Writes the page; an existing page is replaced atomically. Errors of flmem_watch_page_place(), and
 * FLMEM_EFAILED when memory is out or the file cannot be written.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_watch_page_write(const struct flmem_watch_page *page,
						      const struct flmem_watch_summary *summary,
						      const struct flmem_watch_advice *advice,
						      const char *path, struct flmem_error *err);

#endif
