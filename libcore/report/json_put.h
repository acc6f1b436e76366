/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_JSON_PUT_H
#define FLMEM_REPORT_JSON_PUT_H

/*
 * Writes JSON as text, for documents of which a tree of cJSON would need too much memory. The text
 * is safe within <script> of a page: '<' and '>' are escaped.
 */

#include "base/text/buf.h"

/* Appends a quoted string of untrusted text, at most 4 KiB, made valid UTF-8; null for NULL. */
void flmem_json_put_text(struct flmem_buf *out, const char *text);

#endif
