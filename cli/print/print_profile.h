/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_PROFILE_H
#define FLMEM_CLI_PRINT_PROFILE_H

/* Parts of heap profiles as text. */

#include <flmem/heap_profile.h>

/* What limits the figures: a running or killed program, losses, damage. On stderr. */
void print_profile_notes(const struct flmem_heap_profile *profile);

/* What --limit has left out: lines after those that are shown. Nothing for 0. */
void print_profile_more(size_t count);

/* The head of the columns of measures, and one line of them: "-" for what is not known. */
void print_profile_columns(void);
void print_profile_amounts(const struct flmem_heap_profile *profile,
			   const struct flmem_heap_amounts *amounts);

/* A frame on the rest of the line; FLMEM_HEAP_NO_FRAME: stacks without frames of the kind. */
void print_profile_frame(const struct flmem_heap_profile *profile, uint32_t frame);

/* The own line below it, where the program's own code is not what allocated; nothing if unknown. */
void print_profile_own_frame(const struct flmem_heap_profile *profile, uint32_t frame, uint32_t own,
			     const char *indent);

/* The stack of a node, innermost frame first, one frame per line. */
void print_profile_stack(const struct flmem_heap_profile *profile, uint32_t node,
			 const char *indent);

/* The change from the first profile to the second, and both. */
void print_profile_compared(const struct flmem_heap_profile *const profiles[2],
			    enum flmem_heap_measure measure, const struct flmem_heap_amounts *first,
			    const struct flmem_heap_amounts *second);

/* One row of a comparison, with the own line where that is another function. */
void print_profile_difference(const struct flmem_heap_profile *const profiles[2],
			      enum flmem_heap_measure measure,
			      const struct flmem_heap_difference *row);

#endif
