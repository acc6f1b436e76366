/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_PROFILE_H
#define FLMEM_CLI_PRINT_PROFILE_H

/* Prints parts of heap profiles as text. */

#include <flmem/heap_profile.h>

/* Prints on stderr what limits the figures: a running or killed program, losses, damage. */
void print_profile_notes(const struct flmem_heap_profile *profile);

/*
 * Prints how many lines --limit has left out, after those that are shown. It prints nothing for 0.
 */
void print_profile_more(size_t count);

/*
 * These print the head of the columns of measures, and one line of them, with "-" for what is not
 * known.
 */
void print_profile_columns(void);
void print_profile_amounts(const struct flmem_heap_profile *profile,
			   const struct flmem_heap_amounts *amounts);

/*
 * Prints a frame on the rest of the line; FLMEM_HEAP_NO_FRAME stands for stacks without frames of
 * the kind.
 */
void print_profile_frame(const struct flmem_heap_profile *profile, uint32_t frame);

/*
 * Prints the program's own line below a frame, where its own code is not what allocated. It prints
 * nothing if that is unknown.
 */
void print_profile_own_frame(const struct flmem_heap_profile *profile, uint32_t frame, uint32_t own,
			     const char *indent);

/* Prints the stack of a node, innermost frame first, one frame per line. */
void print_profile_stack(const struct flmem_heap_profile *profile, uint32_t node,
			 const char *indent);

/* Prints the change from the first profile to the second, and both. */
void print_profile_compared(const struct flmem_heap_profile *const profiles[2],
			    enum flmem_heap_measure measure, const struct flmem_heap_amounts *first,
			    const struct flmem_heap_amounts *second);

/* Prints one row of a comparison, with the program's own line where that is another function. */
void print_profile_difference(const struct flmem_heap_profile *const profiles[2],
			      enum flmem_heap_measure measure,
			      const struct flmem_heap_difference *row);

#endif
