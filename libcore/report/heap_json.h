/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HEAP_JSON_H
#define FLMEM_REPORT_HEAP_JSON_H

/* Parts of heap profiles as JSON that several reports share. */

#include <flmem/heap_profile.h>

#include "report/json.h"

/* "profile": what the file says about itself. */
void flmem_json_add_heap_profile(cJSON *object, const char *name,
				 const struct flmem_heap_profile *profile);

/* The members of one amount of each measure. */
void flmem_json_add_heap_amounts(cJSON *object, const char *name,
				 const struct flmem_heap_profile *profile,
				 const struct flmem_heap_amounts *amounts);

/* A frame; null without one. */
void flmem_json_add_heap_frame(cJSON *object, const char *name,
			       const struct flmem_heap_frame *frame);

/* "own_frame": the program's own line in the stack of a node, or null with a reason. */
void flmem_json_add_heap_own_frame(cJSON *object, cJSON *unknown,
				   const struct flmem_heap_profile *profile, uint32_t frame);

/* "stack": the frames of a node, innermost first. */
void flmem_json_add_heap_stack(cJSON *object, const struct flmem_heap_profile *profile,
			       uint32_t node);

#endif
