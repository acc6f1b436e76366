/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/finite_stream.h"

#include <string.h>

#include "ops/aggregate/find_special.h"

void flmem_finite_stream_begin(struct flmem_finite_stream *stream,
			       const struct flmem_layout *layout, uint64_t offset, uint64_t bytes)
{
	uint64_t data = flmem_layout_bytes(layout), begin = bytes - data;

	*stream = (struct flmem_finite_stream){
		.layout = layout,
		.at = offset > begin ? offset - begin : 0,
		.skip = offset < begin ? begin - offset : 0,
	};
	/* Elements must not cross words: those of the layout are aligned, if the data are. */
	stream->finite = bytes >= data && stream->at % sizeof(stream->part) == 0;
}

/* Searches bytes of whole elements. */
static void search_stream(struct flmem_finite_stream *stream, const char *bytes, size_t length)
{
	const struct flmem_layout *layout = stream->layout;

	while (length && stream->finite) {
		uint64_t left;
		size_t some;

		while (stream->tensor < layout->list.count &&
		       layout->begins[stream->tensor + 1] <= stream->at)
			stream->tensor++;
		stream->finite = stream->tensor < layout->list.count;
		if (!stream->finite)
			return;
		left = layout->begins[stream->tensor + 1] - stream->at;
		some = left < length ? (size_t)left : length;
		if (flmem_element_is_real(layout->elements[stream->tensor]))
			stream->finite = !flmem_elements_have_special(
				layout->elements[stream->tensor], bytes, some);
		stream->at += some;
		bytes += some;
		length -= some;
	}
}

/* Completes a word, or begins one. Returns the number of bytes taken. */
static size_t fill_part(struct flmem_finite_stream *stream, const char *bytes, size_t length)
{
	size_t room = sizeof(stream->part) - stream->part_bytes;
	size_t some = length < room ? length : room;

	memcpy(stream->part + stream->part_bytes, bytes, some);
	stream->part_bytes += some;
	if (stream->part_bytes == sizeof(stream->part)) {
		stream->part_bytes = 0;
		search_stream(stream, stream->part, sizeof(stream->part));
	}
	return some;
}

void flmem_finite_stream_add(struct flmem_finite_stream *stream, const char *bytes, size_t length)
{
	size_t skipped = stream->skip < length ? (size_t)stream->skip : length, words;

	stream->skip -= skipped;
	bytes += skipped;
	length -= skipped;
	if (!stream->finite || !length)
		return;
	if (stream->part_bytes) {
		size_t some = fill_part(stream, bytes, length);

		bytes += some;
		length -= some;
	}
	words = length / sizeof(stream->part) * sizeof(stream->part);
	search_stream(stream, bytes, words);
	if (length > words)
		fill_part(stream, bytes + words, length - words);
}

bool flmem_finite_stream_end(struct flmem_finite_stream *stream)
{
	/* A word can be cut by the end of the data, or by requests of odd sizes. */
	if (stream->part_bytes &&
	    stream->at + stream->part_bytes == flmem_layout_bytes(stream->layout))
		search_stream(stream, stream->part, stream->part_bytes);
	else if (stream->part_bytes)
		stream->finite = false;
	return stream->finite;
}
