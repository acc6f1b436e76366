/* SPDX-License-Identifier: Apache-2.0 */
#include "report/pprof.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <flmem/text.h>

#include "base/bytes/varint.h"
#include "base/cleanup.h"

/* Numbers of fields in profile.proto. */
enum profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_DEFAULT_TYPE = 14,
};

enum {
	VALUE_TYPE = 1,
	VALUE_UNIT = 2,
	SAMPLE_LOCATIONS = 1,
	SAMPLE_VALUES = 2,
	MAPPING_ID = 1,
	MAPPING_FILE = 5,
	MAPPING_HAS_FUNCTIONS = 7,
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_NUMBER = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_FILE = 4,
};

#define WIRE_VARINT 0U
#define WIRE_BYTES  2U
#define GZIP_WINDOW (15 + 16) /* zlib.h: 16 selects gzip */

/* Names that heap profiles of Go and tcmalloc use; tools know them. */
static const struct {
	enum flmem_heap_measure measure;
	bool count;
	const char *name;
} sample_types[] = {
	{FLMEM_HEAP_ALLOCATED, true, "alloc_objects"}, {FLMEM_HEAP_ALLOCATED, false, "alloc_space"},
	{FLMEM_HEAP_LIVE, true, "inuse_objects"},      {FLMEM_HEAP_LIVE, false, "inuse_space"},
	{FLMEM_HEAP_PEAK, false, "peak_space"},	       {FLMEM_HEAP_FREED, false, "free_space"},
};

struct pprof_encoder {
	const struct flmem_heap_profile *profile;
	struct flmem_buf *out;
	struct flmem_buf part; /* the message that is being written */
	struct flmem_buf list; /* packed numbers within `part` */
	uint64_t strings;      /* number of strings written so far; string 0 is "" */
};

static void put_tag(struct flmem_buf *out, unsigned field, unsigned wire)
{
	flmem_varint_put(out, (uint64_t)field << 3 | wire);
}

static void put_pprof_number(struct flmem_buf *out, unsigned field, uint64_t number)
{
	if (!number)
		return; /* proto3 omits zeros */
	put_tag(out, field, WIRE_VARINT);
	flmem_varint_put(out, number);
}

static void put_pprof_bytes(struct flmem_buf *out, unsigned field, const void *bytes, size_t length)
{
	put_tag(out, field, WIRE_BYTES);
	flmem_varint_put(out, length);
	flmem_buf_append(out, bytes, length);
}

/* Ends the message in `part` and writes it as a field. */
static void put_part(struct pprof_encoder *e, unsigned field)
{
	put_pprof_bytes(e->out, field, e->part.data, e->part.length);
	flmem_buf_reset(&e->part);
}

static void put_packed_list(struct pprof_encoder *e, unsigned field)
{
	put_pprof_bytes(&e->part, field, e->list.data, e->list.length);
	flmem_buf_reset(&e->list);
}

/* Adds a text to the table of strings; proto3 requires valid UTF-8. NULL is "". */
static uint64_t put_string(struct pprof_encoder *e, const char *text)
{
	char clean[4096];

	if (!text || !*text)
		return 0;
	flmem_text_escape(text, clean, sizeof(clean));
	put_pprof_bytes(e->out, PROFILE_STRING, clean, strlen(clean));
	return ++e->strings;
}

static void put_value_type(struct pprof_encoder *e, unsigned field, const char *type,
			   const char *unit)
{
	uint64_t name = put_string(e, type);

	put_pprof_number(&e->part, VALUE_TYPE, name);
	put_pprof_number(&e->part, VALUE_UNIT, put_string(e, unit));
	put_part(e, field);
}

static bool is_pprof_written(const struct pprof_encoder *e, size_t type)
{
	return !e->profile->unknown[sample_types[type].measure];
}

static void put_sample_types(struct pprof_encoder *e, enum flmem_heap_measure measure)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(sample_types); i++)
		if (is_pprof_written(e, i))
			put_value_type(e, PROFILE_SAMPLE_TYPE, sample_types[i].name,
				       sample_types[i].count ? "count" : "bytes");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(sample_types); i++)
		if (sample_types[i].measure == measure && !sample_types[i].count)
			put_pprof_number(e->out, PROFILE_DEFAULT_TYPE,
					 put_string(e, sample_types[i].name));
}

/* Limits a number to the signed range of the format. */
static uint64_t signed_range(uint64_t number)
{
	return number < INT64_MAX ? number : INT64_MAX;
}

static void put_pprof_sample(struct pprof_encoder *e, const struct flmem_heap_site *site)
{
	const struct flmem_heap_profile *p = e->profile;

	for (uint32_t node = site->node; node; node = p->nodes[node].parent)
		flmem_varint_put(&e->list, (uint64_t)p->nodes[node].frame + 1);
	put_packed_list(e, SAMPLE_LOCATIONS);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(sample_types); i++) {
		const struct flmem_heap_amounts *a = &site->amounts;
		enum flmem_heap_measure m = sample_types[i].measure;

		if (is_pprof_written(e, i))
			flmem_varint_put(
				&e->list,
				signed_range(sample_types[i].count ? a->count[m] : a->bytes[m]));
	}
	put_packed_list(e, SAMPLE_VALUES);
	put_part(e, PROFILE_SAMPLE);
}

/* Compares pointers: texts of a profile are kept once, so equal modules have the same pointer. */
static int compare_modules(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (const char *const *)a;
	uintptr_t y = (uintptr_t) * (const char *const *)b;

	return x < y ? -1 : x > y;
}

/* Lists the modules of all frames; the mapping of the i-th has the id i + 1. */
static size_t list_modules(const struct flmem_heap_profile *p, const char **modules)
{
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < p->frame_count; i++)
		if (p->frames[i].module)
			modules[count++] = p->frames[i].module;
	if (count)
		qsort(modules, count, sizeof(*modules), compare_modules);
	for (size_t i = 0; i < count; i++)
		if (!kept || modules[kept - 1] != modules[i])
			modules[kept++] = modules[i];
	return kept;
}

static void put_mappings(struct pprof_encoder *e, const char *const *modules, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		put_pprof_number(&e->part, MAPPING_ID, i + 1);
		put_pprof_number(&e->part, MAPPING_FILE, put_string(e, modules[i]));
		put_pprof_number(&e->part, MAPPING_HAS_FUNCTIONS, 1);
		put_part(e, PROFILE_MAPPING);
	}
}

/*
 * Writes a function without a system name: pprof would take "<module>" for the argument of a
 * template.
 */
static void put_function(struct pprof_encoder *e, const struct flmem_heap_frame *frame, uint64_t id)
{
	char text[FLMEM_HEAP_FRAME_TEXT_MAX];
	const char *name = frame->function ? frame->function
					   : flmem_heap_frame_text(frame, text, sizeof(text));

	put_pprof_number(&e->part, FUNCTION_ID, id);
	put_pprof_number(&e->part, FUNCTION_NAME, put_string(e, name));
	put_pprof_number(&e->part, FUNCTION_FILE,
			 put_string(e, frame->file ? frame->file : frame->module));
	put_part(e, PROFILE_FUNCTION);
}

static void put_location(struct pprof_encoder *e, const struct flmem_heap_frame *frame, uint64_t id,
			 const char *const *modules, size_t module_count)
{
	const char *const *module = frame->module ? bsearch(&frame->module, modules, module_count,
							    sizeof(*modules), compare_modules)
						  : NULL;

	put_pprof_number(&e->part, LOCATION_ID, id);
	if (module)
		put_pprof_number(&e->part, LOCATION_MAPPING, (uint64_t)(module - modules) + 1);
	put_pprof_number(&e->part, LOCATION_ADDRESS, frame->python ? 0 : frame->offset);
	put_pprof_number(&e->list, LINE_FUNCTION, id);
	put_pprof_number(&e->list, LINE_NUMBER, frame->line);
	put_packed_list(e, LOCATION_LINE);
	put_part(e, PROFILE_LOCATION);
}

static bool put_pprof_frames(struct pprof_encoder *e)
{
	const struct flmem_heap_profile *p = e->profile;
	FLMEM_AUTO_FREE const char **modules = calloc(p->frame_count + 1, sizeof(*modules));
	size_t count;

	if (!modules)
		return false;
	count = list_modules(p, modules);
	put_mappings(e, modules, count);
	for (size_t i = 0; i < p->frame_count; i++) {
		put_function(e, &p->frames[i], i + 1);
		put_location(e, &p->frames[i], i + 1, modules, count);
	}
	return true;
}

static void put_pprof_head(struct pprof_encoder *e, enum flmem_heap_measure measure)
{
	const struct flmem_heap_profile *p = e->profile;

	put_pprof_bytes(e->out, PROFILE_STRING, "", 0);
	put_sample_types(e, measure);
	put_value_type(e, PROFILE_PERIOD_TYPE, "space", "bytes");
	put_pprof_number(e->out, PROFILE_PERIOD, signed_range(p->interval_bytes));
	put_pprof_number(e->out, PROFILE_TIME_NANOS,
			 p->started_us < INT64_MAX / 1000 ? p->started_us * 1000
							  : (uint64_t)INT64_MAX);
	put_pprof_number(e->out, PROFILE_DURATION_NANOS,
			 p->duration_us < INT64_MAX / 1000 ? p->duration_us * 1000
							   : (uint64_t)INT64_MAX);
}

static bool compress_gzip(const struct flmem_buf *from, struct flmem_buf *to)
{
	z_stream stream = {.next_in = (unsigned char *)from->data};
	size_t left = from->length, bound;
	bool done;

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		return false;
	bound = deflateBound(&stream, left);
	if (left > UINT32_MAX || bound > UINT32_MAX || !flmem_buf_reserve(to, bound)) {
		deflateEnd(&stream);
		return false;
	}
	stream.avail_in = (uInt)left;
	stream.next_out = (unsigned char *)to->data + to->length;
	stream.avail_out = (uInt)bound;
	done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
	to->length += stream.total_out;
	to->data[to->length] = '\0';
	deflateEnd(&stream);
	return done;
}

bool flmem_pprof_put(struct flmem_buf *out, const struct flmem_heap_profile *profile,
		     enum flmem_heap_measure measure)
{
	FLMEM_AUTO_BUF struct flmem_buf message = FLMEM_BUF_INIT;
	struct pprof_encoder e = {
		.profile = profile,
		.out = &message,
		.part = FLMEM_BUF_INIT,
		.list = FLMEM_BUF_INIT,
	};
	bool done;

	put_pprof_head(&e, measure);
	for (size_t i = 0; i < profile->site_count; i++)
		put_pprof_sample(&e, &profile->sites[i]);
	done = put_pprof_frames(&e) && !message.failed && !e.part.failed && !e.list.failed &&
	       compress_gzip(&message, out);
	flmem_buf_clear(&e.part);
	flmem_buf_clear(&e.list);
	return done;
}
