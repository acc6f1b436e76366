/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HTML_FLAME_PAGE_H
#define FLMEM_REPORT_HTML_FLAME_PAGE_H

/* The parts of the page of a heap profile. Each appends to `out`. */

#include <flmem/heap_profile.h>

#include "base/text/buf.h"

struct flmem_flame_page {
	const struct flmem_heap_profile *profiles[2];
	size_t count; /* number of profiles */
	enum flmem_heap_measure measure;
};

/* Appends resident memory and live heap over time, with rounds. */
void flmem_flame_put_timeline(struct flmem_buf *out, const struct flmem_heap_profile *profile,
			      unsigned number);

/* Appends the largest functions as a table. False: memory is out. */
bool flmem_flame_put_functions(struct flmem_buf *out, const struct flmem_flame_page *page);

/* Appends the data that the script draws, as JSON within the page. False: memory is out. */
bool flmem_flame_put_data(struct flmem_buf *out, const struct flmem_flame_page *page);

/* Appends the script, and (the second function) its hash in base64 for the policy of the page. */
void flmem_flame_put_script(struct flmem_buf *out);
void flmem_flame_put_script_hash(struct flmem_buf *out);

extern const char flmem_flame_style[]; /* after flmem_page_style */

#endif
