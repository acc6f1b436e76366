/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "report/html/flame_page.h"
#include "report/json_put.h"

/* Limit of branches: a browser merges and draws so many in well under a second. */
#define BRANCHES_MAX 20000U

/* Numbers the frames that the branches use, in the order of their use. */
static uint32_t *number_frames(const struct flmem_heap_profile *p,
			       const struct flmem_heap_tree *tree, size_t *ret_count)
{
	uint32_t *numbers = malloc((p->frame_count + 1) * sizeof(*numbers));
	uint32_t count = 0;

	if (!numbers)
		return NULL;
	memset(numbers, 0xff, (p->frame_count + 1) * sizeof(*numbers));
	for (size_t i = 1; i < tree->count; i++) {
		uint32_t frame = p->nodes[tree->branches[i].node].frame;

		if (numbers[frame] == UINT32_MAX)
			numbers[frame] = count++;
	}
	*ret_count = count;
	return numbers;
}

static void put_frame_data(struct flmem_buf *out, const struct flmem_heap_frame *frame)
{
	char text[FLMEM_HEAP_FRAME_TEXT_MAX];

	flmem_buf_putc(out, '[');
	flmem_json_put_text(out, frame->function
					 ? frame->function
					 : flmem_heap_frame_text(frame, text, sizeof(text)));
	flmem_buf_putc(out, ',');
	flmem_json_put_text(out, frame->file);
	flmem_buf_printf(out, ",%" PRIu32 ",", frame->line);
	flmem_json_put_text(out, frame->module);
	flmem_buf_puts(out, frame->python ? ",1]" : ",0]");
}

static bool put_frames_data(struct flmem_buf *out, const struct flmem_heap_profile *p,
			    const uint32_t *numbers, size_t count)
{
	FLMEM_AUTO_FREE uint32_t *sorted = calloc(count + 1, sizeof(*sorted));

	if (!sorted)
		return false;
	for (size_t i = 0; i < p->frame_count; i++)
		if (numbers[i] != UINT32_MAX)
			sorted[numbers[i]] = (uint32_t)i;
	flmem_buf_puts(out, "{\"frames\":[");
	for (size_t i = 0; i < count; i++) {
		flmem_buf_puts(out, i ? ",\n" : "");
		put_frame_data(out, &p->frames[sorted[i]]);
	}
	flmem_buf_puts(out, "],\n\"program\":");
	flmem_json_put_text(out, flmem_heap_program_file(p));
	flmem_buf_puts(out, ",\n");
	return true;
}

static void put_branches(struct flmem_buf *out, const struct flmem_heap_profile *p,
			 const struct flmem_heap_tree *tree, const uint32_t *numbers)
{
	flmem_buf_puts(out, "\"depth\":[0");
	for (size_t i = 1; i < tree->count; i++)
		flmem_buf_printf(out, ",%" PRIu32, tree->branches[i].depth);
	flmem_buf_puts(out, "],\n\"frame\":[-1");
	for (size_t i = 1; i < tree->count; i++)
		flmem_buf_printf(out, ",%" PRIu32, numbers[p->nodes[tree->branches[i].node].frame]);
	flmem_buf_puts(out, "],\n\"total\":[");
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++) {
		flmem_buf_puts(out, m ? ",\n[" : "[");
		for (size_t i = 0; i < tree->count; i++)
			flmem_buf_printf(out, i ? ",%" PRIu64 : "%" PRIu64,
					 tree->branches[i].total.bytes[m]);
		flmem_buf_putc(out, ']');
	}
	flmem_buf_puts(out, "]}");
}

static bool put_profile(struct flmem_buf *out, const struct flmem_heap_profile *p,
			enum flmem_heap_measure measure)
{
	const struct flmem_heap_tree_request request = {.measure = measure,
							.branches_max = BRANCHES_MAX};
	FLMEM_AUTO(flmem_heap_tree_clear) struct flmem_heap_tree tree = {0};
	FLMEM_AUTO_FREE uint32_t *numbers = NULL;
	size_t count;

	if (flmem_heap_tree_make(p, &request, &tree, NULL))
		return false;
	numbers = number_frames(p, &tree, &count);
	if (!numbers || !put_frames_data(out, p, numbers, count))
		return false;
	put_branches(out, p, &tree, numbers);
	return true;
}

/* Writes the measures that can be chosen: those that all profiles have. */
static void put_measures_data(struct flmem_buf *out, const struct flmem_flame_page *page)
{
	flmem_buf_puts(out, "\"measures\":[");
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++) {
		const char *unknown = page->profiles[0]->unknown[m];

		if (!unknown && page->count > 1)
			unknown = page->profiles[1]->unknown[m];
		flmem_buf_printf(out, "%s{\"name\":\"%s\",\"unknown\":", m ? "," : "",
				 flmem_heap_measure_name(m));
		flmem_json_put_text(out, unknown);
		flmem_buf_putc(out, '}');
	}
	flmem_buf_printf(out, "],\"chosen\":%d,\n", (int)page->measure);
}

bool flmem_flame_put_data(struct flmem_buf *out, const struct flmem_flame_page *page)
{
	flmem_buf_puts(out, "<script type=\"application/json\" id=\"data\">\n{");
	put_measures_data(out, page);
	flmem_buf_puts(out, "\"profiles\":[");
	for (size_t i = 0; i < page->count; i++) {
		flmem_buf_puts(out, i ? ",\n" : "");
		if (!put_profile(out, page->profiles[i], page->measure))
			return false;
	}
	flmem_buf_puts(out, "]}\n</script>\n");
	return true;
}
