/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/page_shell.h"

#include <flmem/version.h>

#include "report/html/markup.h"

/* Styles of all pages. Colours of text have a contrast of at least 4.5:1 to the background. */
static const char common_style[] =
	":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#57606a;--line:#d8dde3;"
	"--warning:#a4500a;--error:#b3202a}\n"
	"@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e8ec;--soft:#9aa4af;"
	"--line:#333a42;--warning:#f0a35a;--error:#ff7b7b}}\n"
	"@media print{:root{--bg:#fff;--fg:#000;--soft:#444;--line:#ccc;--warning:#a4500a;"
	"--error:#b3202a}*{print-color-adjust:exact}figure,tr{break-inside:avoid}}\n"
	"*{box-sizing:border-box}\n"
	"body{margin:0 auto;padding:1rem;max-width:64rem;background:var(--bg);color:var(--fg);"
	"font:1rem/1.45 system-ui,sans-serif}\n"
	"h1{font-size:1.5rem;margin:.5rem 0 0}h2{font-size:1.15rem;margin:0 0 .3rem;"
	"overflow-wrap:anywhere}h3{font-size:1rem;margin:.7rem 0 .2rem}\n"
	"header p,footer,figcaption,dt,small{color:var(--soft)}header p{margin:.2rem 0}\n"
	"section{margin:1.6rem 0;padding-top:1rem;border-top:1px solid var(--line)}\n"
	".error{color:var(--error)}.warning{color:var(--warning)}\n"
	"code{font:.85em/1.4 ui-monospace,monospace;overflow-wrap:anywhere}p{margin:.4rem 0}\n"
	"dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;margin:.8rem 0}"
	"dd{margin:0}\n"
	".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;"
	"width:100%}\n"
	"th,td{padding:.25rem .6rem;text-align:right;white-space:nowrap;"
	"border-bottom:1px solid var(--line);vertical-align:top}\n"
	"thead th{color:var(--soft);font-weight:600}"
	".text{text-align:left}td.text{white-space:normal}td.text code{display:block;"
	"min-width:9rem}\n"
	"figure{margin:1.2rem 0}figcaption{font-weight:600;margin-bottom:.5rem}\n"
	"summary{cursor:pointer;font-weight:600;color:var(--soft)}footer{font-size:.85rem}\n"
	"@media (max-width:40rem){body{padding:.6rem}.odd{display:none}"
	"dl{grid-template-columns:1fr}dd{margin:0 0 .4rem}}\n";

void flmem_page_shell_open(struct flmem_buf *out, const struct flmem_page_shell *shell)
{
	flmem_buf_puts(out,
		       "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		       "<meta http-equiv=\"Content-Security-Policy\" "
		       "content=\"default-src 'none'; style-src 'unsafe-inline'");
	if (shell->script_hash)
		flmem_buf_printf(out, "; script-src 'sha256-%s'", shell->script_hash);
	flmem_buf_puts(out, "\">\n<meta name=\"viewport\" "
			    "content=\"width=device-width, initial-scale=1\">\n");
	flmem_buf_printf(out, "<meta name=\"generator\" content=\"flmem %s\">\n<title>",
			 flmem_version());
	flmem_markup_text(out, shell->title);
	flmem_buf_printf(out, "</title>\n<style>\n%s%s%s</style>\n</head>\n<body>\n", common_style,
			 shell->style, shell->more_style ? shell->more_style : "");
}

void flmem_page_shell_close(struct flmem_buf *out)
{
	flmem_buf_puts(out, "</body>\n</html>\n");
}
