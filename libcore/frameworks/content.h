/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_CONTENT_H
#define FLMEM_FRAMEWORKS_CONTENT_H

/* Telling what a file is by its content, where its name does not. */

#include "rules/rules.h"

/*
 * The kind of a document, FLMEM_INPUT_UNKNOWN when there are no rules for it. `kind` is what its
 * name makes it; FLMEM_INPUT_UNKNOWN for YAML that may be anything.
 */
enum flmem_input_kind flmem_content_recognise(enum flmem_input_kind kind,
					      const struct flmem_document *document);

/* Whether the text may be of a kind that there are rules for; reading it as a document tells. */
bool flmem_content_is_likely(enum flmem_input_kind kind, const struct flmem_buf *text);

enum flmem_input_kind flmem_appfl_recognise(const struct flmem_node *root);

#endif
