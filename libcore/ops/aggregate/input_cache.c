/* SPDX-License-Identifier: Apache-2.0 */
/* Reads inputs ahead, and decides which of their pages stay in the page cache. */
#include <fcntl.h>
#include <sys/uio.h>

#include "base/portable.h"
#include "net/http.h"
#include "ops/aggregate/input.h"
#include "ops/aggregate/input_direct.h"

/*
 * Returns true if the page cache has the page. A kernel or file system that does not support
 * RWF_NOWAIT counts as one without the page.
 */
static bool is_cached(const struct flmem_input_file *file, uint64_t offset)
{
	char byte;
	struct iovec place = {.iov_base = &byte, .iov_len = 1};

	return file->in_memory ||
	       flmem_file_read_flags(file->fd, &place, 1, (off_t)offset, RWF_NOWAIT) == 1;
}

/*
 * Returns true if checked places of a piece are cached: reading ahead cached pages takes as long as
 * looking up each of them. Missing pages between the checked places are read when they are needed.
 */
static bool is_present(const struct flmem_input_piece *piece)
{
	return is_cached(piece->file, piece->offset) &&
	       is_cached(piece->file, piece->offset + piece->bytes / 2) &&
	       is_cached(piece->file, piece->offset + piece->bytes - 1);
}

bool flmem_input_file_has_pages(const struct flmem_input_file *file)
{
	return !file->generated && !file->stream && !file->remote;
}

/* An input is one file of a kind, or several files of a folder. */
bool flmem_input_has_pages(const struct flmem_input *input)
{
	return flmem_input_file_has_pages(input->files);
}

/*
 * By default the kernel reads ahead up to read_ahead_kb of the device, also after a test with
 * RWF_NOWAIT. Later chunks would then look as if another program had read them.
 */
void flmem_input_read_exactly(const struct flmem_input *input)
{
	for (size_t i = 0; i < input->file_count; i++)
		if (flmem_input_file_has_pages(&input->files[i]))
			posix_fadvise(input->files[i].fd, 0, 0, POSIX_FADV_RANDOM);
}

bool flmem_input_is_cached(const struct flmem_input *input, const struct flmem_layout *layout,
			   uint64_t begin, uint64_t end)
{
	/* Test the middle: pages at the ends also belong to other chunks. */
	uint64_t middle = begin + (end - begin) / 2;
	size_t tensor = input->offsets ? flmem_layout_find(layout, middle) : 0;
	struct flmem_input_piece piece = flmem_input_piece(input, layout, middle, end, &tensor);

	if (flmem_input_file_has_pages(piece.file))
		return is_cached(piece.file, piece.offset);
	return !piece.file->stream;
}

static void expect_piece(const struct flmem_input_piece *piece, bool cached)
{
	if (piece->file->remote)
		flmem_http_file_expect(piece->file->remote, piece->offset, piece->bytes);
	else if ((cached || !flmem_direct_takes(piece)) && !is_present(piece))
		posix_fadvise(piece->file->fd, (off_t)piece->offset, (off_t)piece->bytes,
			      POSIX_FADV_WILLNEED);
}

void flmem_input_expect(const struct flmem_input *input, const struct flmem_layout *layout,
			uint64_t begin, uint64_t end, bool cached)
{
	size_t tensor = input->offsets ? flmem_layout_find(layout, begin) : 0;

	while (begin < end) {
		struct flmem_input_piece piece =
			flmem_input_piece(input, layout, begin, end, &tensor);

		if (piece.file->generated || piece.file->stream)
			return;
		expect_piece(&piece, cached);
		begin += piece.bytes;
	}
}

static void drop_piece(const struct flmem_input_piece *piece)
{
	const struct flmem_input_stream *stream = piece->file->stream;

	if (stream)
		stream->release(stream->context, piece->offset + piece->bytes);
	else if (flmem_input_file_has_pages(piece->file))
		posix_fadvise(piece->file->fd, (off_t)piece->offset, (off_t)piece->bytes,
			      POSIX_FADV_DONTNEED);
}

void flmem_input_drop(const struct flmem_input *input, const struct flmem_layout *layout,
		      uint64_t begin, uint64_t end)
{
	size_t tensor = input->offsets ? flmem_layout_find(layout, begin) : 0;

	while (begin < end) {
		struct flmem_input_piece piece =
			flmem_input_piece(input, layout, begin, end, &tensor);

		drop_piece(&piece);
		begin += piece.bytes;
	}
}
