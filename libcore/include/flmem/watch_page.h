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

/* Creates a page. Release with flmem_watch_page_free(). FLMEM_EFAILED if memory is out. */
FLMEM_API FLMEM_MUST_CHECK int flmem_watch_page_new(struct flmem_watch_page **ret_page,
						    struct flmem_error *err);

/* Frees a page; NULL is allowed. */
FLMEM_API void flmem_watch_page_free(struct flmem_watch_page *page);

/*
 * Add an event to the page; call each in the callback of the same name. If memory is out,
 * flmem_watch_page_write() reports it.
 */
FLMEM_API void flmem_watch_page_sample(struct flmem_watch_page *page,
				       const struct flmem_watch_sample *sample);
FLMEM_API void flmem_watch_page_round(struct flmem_watch_page *page,
				      const struct flmem_watch_round *round);
FLMEM_API void flmem_watch_page_action(struct flmem_watch_page *page,
				       const struct flmem_watch_action *action);

/* A heap profile of one of the processes, for flmem_watch_page_profiles(). */
struct flmem_watch_page_profile {
	const char *path;
	/* Profile of all rounds; NULL: it could not be read. */
	const struct flmem_heap_profile *profile;
	const char *reason; /* why it could not be read */
};

/*
 * The page shows the largest sites of these profiles, each under its process if the watch has one
 * of the same PID and start time. The list is kept: it and its profiles must outlive the page's
 * last use.
 */
FLMEM_API void flmem_watch_page_profiles(struct flmem_watch_page *page,
					 const struct flmem_watch_page_profile *profiles,
					 size_t count);

/* Returns the page as text. The caller frees it with free(). NULL if memory is out. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_watch_page_html(const struct flmem_watch_page *page,
						       const struct flmem_watch_summary *summary,
						       const struct flmem_watch_advice *advice);

/*
 * Checks that a page can be written to `path`; call it before a long watch. FLMEM_EUSAGE for an
 * unwritable folder and for an existing file, unless that is empty or a page of a watch.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_watch_page_place(const char *path, struct flmem_error *err);

/*
 * Writes the page to a file; an existing page is replaced atomically. Errors of
 * flmem_watch_page_place(), and FLMEM_EFAILED if memory is out or the file cannot be written.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_watch_page_write(const struct flmem_watch_page *page,
						      const struct flmem_watch_summary *summary,
						      const struct flmem_watch_advice *advice,
						      const char *path, struct flmem_error *err);

#endif
