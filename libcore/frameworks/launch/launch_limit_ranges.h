/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_LAUNCH_LIMIT_RANGES_H
#define FLMEM_FRAMEWORKS_LAUNCH_LAUNCH_LIMIT_RANGES_H

/*
 * LimitRange of Kubernetes: memory that a container without a limit gets, and the bounds within
 * which a limit is admitted (plugin/pkg/admission/limitranger and
 * pkg/apis/core/v1/defaults.go of Kubernetes 1.34).
 */

#include <stdbool.h>
#include <stdint.h>

#include "rules/rules.h"

/* What those of one namespace set; NULL: nothing. */
struct flmem_limit_range {
	const struct flmem_node *fallback;	/* the limit of a container without one */
	const struct flmem_node *most, *least;	/* bounds of a limit, the tightest ones */
	const char *fallback_file, *bound_file; /* where they are */
	const char *doubt; /* static: why it is unknown which values apply; NULL: known */
};

/* Whether a text may hold one. */
bool flmem_limit_ranges_are_likely(const struct flmem_buf *text);

/* Takes ownership of the text; a document that cannot be read becomes plain text. */
void flmem_limit_ranges_read(enum flmem_syntax syntax, struct flmem_buf *text,
			     struct flmem_document *ret_document);

/* Whether a document is one, or a list that holds one. */
bool flmem_limit_ranges_are_in(const struct flmem_document *document);

/* An entry of `containers` of a pod that sets no limit for itself or for the pod. */
bool flmem_limit_ranges_is_container(const struct flmem_node *node);

/* What the files of a bundle set for such a container. */
struct flmem_limit_range flmem_limit_ranges_find(const struct flmem_bundle *bundle,
						 const struct flmem_node *container);

#endif
