/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HEAP_JSON_H
#define FLMEM_REPORT_HEAP_JSON_H

/* Parts of heap profiles as JSON that several reports share. */

#include <flmem/heap_report.h>

#include "base/text/buf.h"
#include "report/json_build.h"

/* Adds "profile": the facts that the file records about itself. */
void flmem_json_add_heap_profile(cJSON *object, const char *name,
				 const struct flmem_heap_profile *profile);

/* Adds an object with the bytes and the count of each measure. */
void flmem_json_add_heap_amounts(cJSON *object, const char *name,
				 const struct flmem_heap_profile *profile,
				 const struct flmem_heap_amounts *amounts);

/* Adds a frame; null without one. */
void flmem_json_add_heap_frame(cJSON *object, const char *name,
			       const struct flmem_heap_frame *frame);

/* Returns the frame with a number; NULL for FLMEM_HEAP_NO_FRAME. */
const struct flmem_heap_frame *flmem_json_heap_frame(const struct flmem_heap_profile *profile,
						     uint32_t frame);

/* Adds "own_frame": the program's own line, or null with a reason where `frame` is NULL. */
void flmem_json_add_heap_own_frame(cJSON *object, cJSON *unknown,
				   const struct flmem_heap_frame *frame);

/* Returns an object with a difference of these two profiles, by this measure. */
cJSON *flmem_json_heap_difference(const struct flmem_heap_profile *const profiles[2],
				  enum flmem_heap_measure measure,
				  const struct flmem_heap_difference *difference);

/* Adds "stack": the frames of a node, innermost first. */
void flmem_json_add_heap_stack(cJSON *object, const struct flmem_heap_profile *profile,
			       uint32_t node);

/* Returns an object with one frame of a stack. */
cJSON *flmem_json_heap_frame_object(const struct flmem_heap_profile *profile, uint32_t frame);

/* Adds all members of a site except its stack. */
void flmem_json_fill_heap_site(cJSON *row, const struct flmem_heap_profile *profile,
			       const struct flmem_heap_site *site);

/* Returns the document of `profile table` without its sites, which are its last member. */
cJSON *flmem_json_heap_table(const struct flmem_heap_profile *profile,
			     enum flmem_heap_measure measure, const struct flmem_heap_table *table);

/* Writes that document with all sites as text. False: memory is out. */
bool flmem_heap_json_put(struct flmem_buf *out, const struct flmem_heap_profile *profile,
			 enum flmem_heap_measure measure);

#endif
