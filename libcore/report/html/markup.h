/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HTML_MARKUP_H
#define FLMEM_REPORT_HTML_MARKUP_H

/* Writes text in XML and HTML. */

#include <stdint.h>

#include "base/text/buf.h"

/*
 * Appends untrusted text as content or within quotes: at most 1 KiB, controls and invalid UTF-8 as
 * \xNN.
 */
void flmem_markup_text(struct flmem_buf *out, const char *text);

/* Appends a time in microseconds since 1970: "2026-11-21 09:37:58 UTC". */
void flmem_markup_time(struct flmem_buf *out, uint64_t at_us);

#endif
