/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_HTML_PAGE_SHELL_H
#define FLMEM_REPORT_HTML_PAGE_SHELL_H

/*
 * The frame that all HTML pages of flmem share: one file without references, its head with a policy
 * that forbids loading anything and any script but one, colours for light, dark and paper, and the
 * style of text, tables and sections. Untrusted text goes through report/html/markup.h.
 */

#include "base/text/buf.h"

struct flmem_page_shell {
	const char *title;
	const char *style;	/* CSS of the page itself, after the common one */
	const char *more_style; /* CSS after `style`; NULL: nothing */
	/* SHA-256, in base64, of the only script that may run; NULL: none may. */
	const char *script_hash;
};

/* Appends everything up to <body>. */
void flmem_page_shell_open(struct flmem_buf *out, const struct flmem_page_shell *shell);

/* Ends the body and the document. */
void flmem_page_shell_close(struct flmem_buf *out);

#endif
