/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_CONTENT_H
#define FLMEM_FRAMEWORKS_CONTENT_H

/* Identifies files by their content if their names do not suffice. */

#include "rules/rules.h"

/*
 * The kind of a document, FLMEM_INPUT_UNKNOWN when there are no rules for it. `kind` is the kind by
 * its name; FLMEM_INPUT_UNKNOWN for YAML of any purpose.
 */
enum flmem_input_kind flmem_content_recognise(enum flmem_input_kind kind,
					      const struct flmem_document *document);

/* Whether the text could be of a kind with rules; parsing it as a document decides. */
bool flmem_content_is_likely(enum flmem_input_kind kind, const struct flmem_buf *text);

enum flmem_input_kind flmem_appfl_recognise(const struct flmem_node *root);

#endif
