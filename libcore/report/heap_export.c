/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_report.h>

#include <inttypes.h>
#include <string.h>

#include <flmem/version.h>

#include "base/cleanup.h"
#include "report/heap_json.h"
#include "report/json_put.h"
#include "report/pprof.h"

/* Writes a frame without ';' and line breaks, which the format does not allow; it allows blanks. */
static void put_collapsed_frame(struct flmem_buf *out, const struct flmem_heap_frame *frame)
{
	char text[FLMEM_HEAP_FRAME_TEXT_MAX];

	for (char *p = flmem_heap_frame_text(frame, text, sizeof(text)); *p; p++)
		flmem_buf_putc(out, *p == ';' ? ':' : *p);
}

/* Lists the frames of a node, outermost first; returns their number, at most `size`. */
static size_t list_frames(const struct flmem_heap_profile *p, uint32_t node, uint32_t *frames,
			  size_t size)
{
	size_t count = 0;

	for (uint32_t at = node; at && count < size; at = p->nodes[at].parent)
		count++;
	for (size_t i = count; i-- > 0; node = p->nodes[node].parent)
		frames[i] = p->nodes[node].frame;
	return count;
}

#define DEPTH_MAX 1024U

/* Writes the format of brendangregg/FlameGraph: frames separated by ';', a blank, the weight. */
static bool put_collapsed(struct flmem_buf *out, const struct flmem_heap_profile *p,
			  enum flmem_heap_measure measure)
{
	uint32_t frames[DEPTH_MAX];

	for (size_t i = 0; i < p->site_count; i++) {
		uint64_t bytes = p->sites[i].amounts.bytes[measure];
		size_t count = list_frames(p, p->sites[i].node, frames, DEPTH_MAX);

		if (!bytes)
			continue;
		for (size_t f = 0; f < count; f++) {
			if (f)
				flmem_buf_putc(out, ';');
			put_collapsed_frame(out, &p->frames[frames[f]]);
		}
		if (!count)
			put_collapsed_frame(out, NULL);
		flmem_buf_printf(out, " %" PRIu64 "\n", bytes);
	}
	return true;
}

static void put_speedscope_frames(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	char text[FLMEM_HEAP_FRAME_TEXT_MAX];

	flmem_buf_puts(out, "\"shared\":{\"frames\":[");
	for (size_t i = 0; i < p->frame_count; i++) {
		const struct flmem_heap_frame *frame = &p->frames[i];
		const char *file = frame->file ? frame->file : frame->module;

		flmem_buf_puts(out, i ? ",\n{\"name\":" : "\n{\"name\":");
		flmem_json_put_text(
			out, frame->function ? frame->function
					     : flmem_heap_frame_text(frame, text, sizeof(text)));
		if (file) {
			flmem_buf_puts(out, ",\"file\":");
			flmem_json_put_text(out, file);
		}
		if (frame->line)
			flmem_buf_printf(out, ",\"line\":%" PRIu32, frame->line);
		flmem_buf_putc(out, '}');
	}
	flmem_buf_puts(out, "]},\n");
}

static void put_speedscope_samples(struct flmem_buf *out, const struct flmem_heap_profile *p)
{
	uint32_t frames[DEPTH_MAX];

	flmem_buf_puts(out, "\"samples\":[");
	for (size_t i = 0; i < p->site_count; i++) {
		size_t count = list_frames(p, p->sites[i].node, frames, DEPTH_MAX);

		flmem_buf_puts(out, i ? ",\n[" : "\n[");
		for (size_t f = 0; f < count; f++)
			flmem_buf_printf(out, f ? ",%" PRIu32 : "%" PRIu32, frames[f]);
		flmem_buf_putc(out, ']');
	}
	flmem_buf_putc(out, ']');
}

static void put_speedscope_profile(struct flmem_buf *out, const struct flmem_heap_profile *p,
				   enum flmem_heap_measure measure)
{
	flmem_buf_printf(
		out,
		"{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"bytes\",\"startValue\":0,"
		"\"endValue\":%" PRIu64 ",",
		flmem_heap_measure_name(measure), p->totals.bytes[measure]);
	put_speedscope_samples(out, p);
	flmem_buf_puts(out, ",\"weights\":[");
	for (size_t i = 0; i < p->site_count; i++)
		flmem_buf_printf(out, i ? ",%" PRIu64 : "%" PRIu64,
				 p->sites[i].amounts.bytes[measure]);
	flmem_buf_puts(out, "]}");
}

/* Writes the format of speedscope.app/file-format-schema.json: one profile per measure. */
static bool put_speedscope(struct flmem_buf *out, const struct flmem_heap_profile *p,
			   enum flmem_heap_measure measure)
{
	unsigned count = 0, active = 0;

	flmem_buf_puts(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
			    "\"name\":");
	flmem_json_put_text(out, p->path);
	flmem_buf_printf(out, ",\"exporter\":\"flmem %s\",", flmem_version());
	put_speedscope_frames(out, p);
	flmem_buf_puts(out, "\"profiles\":[");
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++) {
		if (p->unknown[m])
			continue;
		flmem_buf_puts(out, count ? ",\n" : "\n");
		put_speedscope_profile(out, p, m);
		if (m == measure)
			active = count;
		count++;
	}
	flmem_buf_printf(out, "],\"activeProfileIndex\":%u}\n", active);
	return true;
}

static const struct {
	bool (*put)(struct flmem_buf *out, const struct flmem_heap_profile *profile,
		    enum flmem_heap_measure measure);
} heap_export_formats[] = {
	[FLMEM_HEAP_FORMAT_PPROF] = {flmem_pprof_put},
	[FLMEM_HEAP_FORMAT_COLLAPSED] = {put_collapsed},
	[FLMEM_HEAP_FORMAT_SPEEDSCOPE] = {put_speedscope},
	[FLMEM_HEAP_FORMAT_JSON] = {flmem_heap_json_put},
};

int flmem_heap_export(const struct flmem_heap_profile *profile, enum flmem_heap_format format,
		      enum flmem_heap_measure measure, char **ret_bytes, size_t *ret_length,
		      struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
	size_t length;
	char *bytes;

	if (!heap_export_formats[format].put(&out, profile, measure) || out.failed)
		return flmem_error_nomem(err, "cannot export '%s'", profile->path);
	length = out.length;
	bytes = flmem_buf_take(&out);
	if (!bytes)
		return flmem_error_nomem(err, "cannot export '%s'", profile->path);
	*ret_bytes = bytes;
	*ret_length = length;
	return 0;
}
