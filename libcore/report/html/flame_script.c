/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "report/html/flame_page.h"

/* Generated from flame.js by libcore/CMakeLists.txt. */
static const unsigned char script[] = {
#include "report/html/flame_script.inc"
};

static const unsigned char script_hash[] = {
#include "report/html/flame_hash.inc"
};

const char flmem_flame_style[] =
	":root{--lightness:75%;--chosen:#000}\n"
	"@media (prefers-color-scheme:dark){:root{--lightness:25%;--chosen:#fff}}\n"
	"body{max-width:110rem}\n"
	"#controls{display:flex;flex-wrap:wrap;gap:.4rem 1rem;align-items:center;margin:.6rem 0}\n"
	"#controls[hidden]{display:none}#found{color:var(--soft)}\n"
	"input,select,button{font:inherit;color:inherit;background:var(--bg);"
	"border:1px solid var(--line);border-radius:4px;padding:.15rem .4rem}\n"
	"#graph{position:relative;min-height:3rem;overflow:hidden;cursor:pointer}\n"
	"#graph:focus-visible{outline:2px solid var(--rss);outline-offset:2px}\n"
	".box{position:absolute;height:19px;overflow:hidden;white-space:nowrap;"
	"text-overflow:ellipsis;font:12px/19px ui-monospace,monospace;padding:0 2px;"
	"border-right:1px solid var(--bg);color:var(--fg)}\n"
	".box.above{opacity:.6}.box.match{outline:2px solid var(--rss);outline-offset:-2px;"
	"font-weight:700}.box.selected{outline:2px solid var(--chosen);outline-offset:-2px}\n"
	"#detail{min-height:5.5rem;overflow-wrap:anywhere;border:1px solid var(--line);"
	"border-radius:6px;padding:.4rem .8rem;margin:.6rem 0}\n"
	".live{stroke:var(--peak);stroke-width:1.5}.line{stroke:var(--rss);stroke-width:1.5}\n"
	"kbd{font:.85em ui-monospace,monospace;border:1px solid var(--line);border-radius:3px;"
	"padding:0 .3em}\n";

void flmem_flame_put_script(struct flmem_buf *out)
{
	flmem_buf_puts(out, "<script>");
	flmem_buf_append(out, script, sizeof(script));
	flmem_buf_puts(out, "</script>\n");
}

/* The encoding is base64 (RFC 4648, 4). */
void flmem_flame_put_script_hash(struct flmem_buf *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < sizeof(script_hash); i += 3) {
		size_t left = sizeof(script_hash) - i;
		uint32_t bits = (uint32_t)script_hash[i] << 16;

		if (left > 1)
			bits |= (uint32_t)script_hash[i + 1] << 8;
		if (left > 2)
			bits |= script_hash[i + 2];
		flmem_buf_putc(out, digits[bits >> 18]);
		flmem_buf_putc(out, digits[bits >> 12 & 63]);
		flmem_buf_putc(out, left > 1 ? digits[bits >> 6 & 63] : '=');
		flmem_buf_putc(out, left > 2 ? digits[bits & 63] : '=');
	}
}
