/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "report/html/flame_page.h"
#include "report/html/markup.h"
#include "report/html/page.h"

#define FUNCTIONS_SHOWN 20U

static void put_frame_cell(struct flmem_buf *out, const struct flmem_heap_frame *frame)
{
	char text[FLMEM_HEAP_FRAME_TEXT_MAX];

	flmem_buf_puts(out, "<td class=\"text\"><code>");
	flmem_markup_text(out, flmem_heap_frame_text(frame, text, sizeof(text)));
	flmem_buf_puts(out, "</code></td>");
}

static void put_bytes_cell(struct flmem_buf *out, struct flmem_u64 bytes)
{
	flmem_buf_puts(out, "<td>");
	if (bytes.unknown)
		flmem_buf_puts(out, "&ndash;");
	else
		flmem_page_put_bytes(out, bytes);
	flmem_buf_puts(out, "</td>");
}

static void open_functions(struct flmem_buf *out, const char *title)
{
	flmem_buf_printf(out, "<section><h2>%s</h2><div class=\"wide\"><table><thead><tr>", title);
}

static bool put_largest(struct flmem_buf *out, const struct flmem_flame_page *page)
{
	const struct flmem_heap_profile *p = page->profiles[0];
	FLMEM_AUTO_FREE struct flmem_heap_row *rows = NULL;
	size_t count;

	if (flmem_heap_rows(p, FLMEM_HEAP_BY_PYTHON_FUNCTION, page->measure, &rows, &count, NULL))
		return false;
	open_functions(out, "Largest functions, by what they allocated themselves");
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++)
		flmem_buf_printf(out, "<th scope=\"col\">%s</th>", flmem_heap_measure_name(m));
	flmem_buf_puts(out, "<th scope=\"col\" class=\"text\">function</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < count && i < FUNCTIONS_SHOWN; i++) {
		if (!rows[i].own.bytes[page->measure])
			break;
		flmem_buf_puts(out, "<tr>");
		for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++)
			put_bytes_cell(out, flmem_heap_bytes(p, &rows[i].own, m));
		put_frame_cell(out, rows[i].frame == FLMEM_HEAP_NO_FRAME
					    ? NULL
					    : &p->frames[rows[i].frame]);
		flmem_buf_puts(out, "</tr>\n");
	}
	return true;
}

static void put_change_cell(struct flmem_buf *out, struct flmem_u64 before, struct flmem_u64 after)
{
	struct flmem_i64 change = {.unknown = before.unknown ? before.unknown : after.unknown};

	flmem_buf_puts(out, "<td>");
	change.value = (int64_t)(after.value - before.value);
	if (change.unknown)
		flmem_buf_puts(out, "&ndash;");
	else
		flmem_page_put_growth(out, change);
	flmem_buf_puts(out, "</td>");
}

static bool put_changes(struct flmem_buf *out, const struct flmem_flame_page *page)
{
	FLMEM_AUTO(flmem_heap_comparison_clear) struct flmem_heap_comparison found = {0};

	if (flmem_heap_compare(page->profiles[0], page->profiles[1], page->measure, &found, NULL))
		return false;
	open_functions(out, "Largest changes");
	flmem_buf_puts(out, "<th scope=\"col\">change</th><th scope=\"col\">first</th><th "
			    "scope=\"col\">second</th><th scope=\"col\" class=\"text\">function"
			    "</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < found.count && i < FUNCTIONS_SHOWN; i++) {
		const struct flmem_heap_difference *row = &found.rows[i];
		struct flmem_u64 before =
			flmem_heap_bytes(page->profiles[0], &row->own[0], page->measure);
		struct flmem_u64 after =
			flmem_heap_bytes(page->profiles[1], &row->own[1], page->measure);

		if (before.value == after.value)
			break;
		flmem_buf_puts(out, "<tr>");
		put_change_cell(out, before, after);
		put_bytes_cell(out, before);
		put_bytes_cell(out, after);
		put_frame_cell(out, row->no_frame ? NULL : &row->frame);
		flmem_buf_puts(out, "</tr>\n");
	}
	return true;
}

bool flmem_flame_put_functions(struct flmem_buf *out, const struct flmem_flame_page *page)
{
	bool done = page->count > 1 ? put_changes(out, page) : put_largest(out, page);

	flmem_buf_puts(out, "</tbody></table></div></section>\n");
	return done;
}
