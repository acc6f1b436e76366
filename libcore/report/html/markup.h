/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HTML_MARKUP_H
#define FLMEM_REPORT_HTML_MARKUP_H

/* Text in XML and HTML. */

#include "base/text/buf.h"

/* Untrusted text as content or within quotes: at most 1 KiB, controls and invalid UTF-8 as \xNN. */
void flmem_markup_text(struct flmem_buf *out, const char *text);

#endif
