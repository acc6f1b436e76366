/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_LAUNCH_LIMIT_RANGES_H
#define FLMEM_FRAMEWORKS_LAUNCH_LAUNCH_LIMIT_RANGES_H

/*
 * LimitRange of Kubernetes: the memory that a container without a limit gets, and the bounds within
 * which a limit is admitted (plugin/pkg/admission/limitranger and pkg/apis/core/v1/defaults.go of
 * Kubernetes 1.34).
 */

#include <stdbool.h>
#include <stdint.h>

#include "rules/rules.h"

/* What the LimitRanges of one namespace set. The nodes belong to the documents; NULL: not set. */
struct flmem_limit_range {
	const struct flmem_node *fallback;	/* limit of a container without one */
	const struct flmem_node *most, *least;	/* tightest bounds of a limit */
	const char *fallback_file, *bound_file; /* files that set `fallback` and the bounds */
	const char *doubt; /* static: why it is unknown which values apply; NULL: known */
};

/* Whether a text may hold a LimitRange. */
bool flmem_limit_ranges_are_likely(const struct flmem_buf *text);

/* Takes ownership of the text; a document that cannot be read becomes plain text. */
void flmem_limit_ranges_read(enum flmem_syntax syntax, struct flmem_buf *text,
			     struct flmem_document *ret_document);

/* Whether a document is a LimitRange, or a list that holds one. */
bool flmem_limit_ranges_are_in(const struct flmem_document *document);

/* Whether a node is an entry of `containers` whose pod sets no limit for it or for the pod. */
bool flmem_limit_ranges_is_container(const struct flmem_node *node);

/* What the LimitRanges in the files of a bundle set for a container. */
struct flmem_limit_range flmem_limit_ranges_find(const struct flmem_bundle *bundle,
						 const struct flmem_node *container);

#endif
