/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HTML_PAGE_SERIES_H
#define FLMEM_REPORT_HTML_PAGE_SERIES_H

/*
 * Keeps the data of one process for the page, in bounded memory however long the watch runs: full
 * lists are thinned to half their resolution.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/watch.h>

#include "base/text/spans.h"

/* Kinds of memory, in the order in which they are stacked. */
enum flmem_page_kind {
	FLMEM_PAGE_ANON,
	FLMEM_PAGE_SHMEM,
	FLMEM_PAGE_FILE,
	FLMEM_PAGE_SWAP,
	FLMEM_PAGE_KINDS,
};

#define FLMEM_PAGE_SPANS  1024U /* maximum; fewer per process if there are many processes */
#define FLMEM_PAGE_SPLITS 256U
#define FLMEM_PAGE_ROUNDS 256U

struct flmem_page_split {
	uint64_t at_us;
	uint64_t bytes[FLMEM_PAGE_KINDS]; /* 0 if unknown */
};

/* A round, or several merged neighbours. */
struct flmem_page_round {
	uint64_t first, last; /* numbers of the first and the last round */
	uint64_t started_us, ended_us;
	struct flmem_u64 peak_bytes, trough_bytes;
	struct flmem_i64 growth_bytes;
};

struct flmem_page_series {
	pid_t pid;
	uint64_t start_time;
	uint64_t width_us;	  /* length of a span */
	struct flmem_span *spans; /* spans of resident memory */
	size_t span_count, span_room;
	struct flmem_page_split *splits;
	size_t split_count, split_room;
	uint64_t split_every, split_seen;
	struct flmem_page_round *rounds;
	size_t round_count, round_room;
	uint64_t per_round, in_last; /* rounds per entry of the list, and in its last entry */
};

/* Each function returns false if memory is out. At most `most` spans are kept. */
bool flmem_page_series_sample(struct flmem_page_series *series, uint64_t at_us, uint64_t bytes,
			      size_t most);
bool flmem_page_series_split(struct flmem_page_series *series, uint64_t at_us,
			     const struct flmem_watch_split *split);
bool flmem_page_series_round(struct flmem_page_series *series,
			     const struct flmem_watch_round *round);

void flmem_page_series_clear(struct flmem_page_series *series);

#endif
