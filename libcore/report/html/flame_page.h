/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HTML_FLAME_PAGE_H
#define FLMEM_REPORT_HTML_FLAME_PAGE_H

/* The parts of the page of a heap profile. Each appends to `out`. */

#include <flmem/heap_profile.h>

#include "base/text/buf.h"

struct flmem_flame_page {
	const struct flmem_heap_profile *profiles[2];
	size_t count; /* of profiles */
	enum flmem_heap_measure measure;
};

/* Resident memory and live heap over time, with rounds. */
void flmem_flame_put_timeline(struct flmem_buf *out, const struct flmem_heap_profile *profile,
			      unsigned number);

/* The largest functions as a table. False: memory is out. */
bool flmem_flame_put_functions(struct flmem_buf *out, const struct flmem_flame_page *page);

/* What the script draws, as JSON within the page. False: memory is out. */
bool flmem_flame_put_data(struct flmem_buf *out, const struct flmem_flame_page *page);

/* The script, and its hash for the policy of the page, in base64. */
void flmem_flame_put_script(struct flmem_buf *out);
void flmem_flame_put_script_hash(struct flmem_buf *out);

extern const char flmem_flame_style[]; /* after flmem_page_style */

#endif
