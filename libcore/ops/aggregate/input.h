/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_INPUT_H
#define FLMEM_OPS_AGGREGATE_INPUT_H

/*
 * The inputs of an aggregation: files of any format, folders of shards or generated models. Each is
 * opened once and compared with the first one. Pieces of the output's data are then read from each,
 * wherever it has them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <flmem/error.h>

#include "model/tensor_file.h"
#include "ops/aggregate/output_layout.h"

struct flmem_direct_file;
struct flmem_generated;
struct flmem_http;
struct flmem_http_access;
struct flmem_http_file;

/* Source of the data of a file that are still arriving, in the order of the file. */
struct flmem_input_stream {
	/* Waits until the bytes have arrived, and copies them. */
	int (*read)(void *context, uint64_t offset, uint64_t bytes, char *out,
		    struct flmem_error *err);
	/* Called when bytes before `offset` will not be read again. */
	void (*release)(void *context, uint64_t offset);
	void *context;
	uint64_t data_offset; /* offset of the data in the file, after its header */
};

struct flmem_input_file {
	char *path;
	int fd;		/* -1: the file is generated or remote */
	bool in_memory; /* the file is in a tmpfs, which is its own page cache */
	/* State when it was opened; of generated and remote files only the size. */
	struct stat status;
	struct flmem_generated *generated;
	struct flmem_http_file *remote; /* the file on a web server, or NULL */
	/* Source that has the data in place of the above, or NULL. */
	const struct flmem_input_stream *stream;
	struct flmem_direct_file *direct; /* set by flmem_direct_open(), or NULL */
};

struct flmem_input {
	const char *path; /* owned by the caller, or `shown` */
	/* The caller sets these before the input is opened. */
	const char *key; /* key for flmem_checkpoint_read() */
	/* Options for addresses; NULL: addresses are refused. */
	const struct flmem_http_access *access;
	struct flmem_http *http;
	char *shown;		       /* an address without its secrets; owned */
	struct flmem_tensor_file kind; /* format and entries, of an input that is one file */
	struct flmem_input_file *files;
	size_t file_count;
	uint64_t data_offset;
	/* Places of the layout's tensors in their files; NULL: in the same order. */
	uint64_t *offsets;
	uint32_t *file_of; /* with offsets: index of the file of each tensor */
	double weight, factor;
	const char *skipped; /* static: why the input is skipped, or NULL */
};

/*
 * Opens one input by itself and lists its tensors, sorted by name. Clear it also after a failure.
 */
int flmem_input_load(const char *path, struct flmem_input *input, struct flmem_tensor_list *list,
		     struct flmem_error *err);

/*
 * Opens all inputs; the first one makes the layout. Clear inputs and layout also after a failure.
 */
int flmem_inputs_open(const char *const *paths, size_t count, struct flmem_input *inputs,
		      struct flmem_layout *layout, struct flmem_error *err);

/*
 * Opens one more input and compares it with the first one (first_path NULL: messages name "the
 * model"). Clear it also after a failure.
 */
int flmem_input_open(const char *path, const char *first_path, const struct flmem_layout *layout,
		     struct flmem_input *input, struct flmem_error *err);

void flmem_inputs_clear(struct flmem_input *inputs, size_t count);

/* Bytes of an input that are contiguous in one of its files. */
struct flmem_input_piece {
	const struct flmem_input_file *file;
	uint64_t offset, bytes;
};

/*
 * Returns the first of the pieces that hold bytes [begin, end) of the output's data. *tensor is the
 * result of flmem_layout_find() for `begin`; the call advances it.
 */
struct flmem_input_piece flmem_input_piece(const struct flmem_input *input,
					   const struct flmem_layout *layout, uint64_t begin,
					   uint64_t end, size_t *tensor);

/* Reads bytes [begin, end) of the output's data from this input. */
int flmem_input_read(const struct flmem_input *input, const struct flmem_layout *layout,
		     uint64_t begin, uint64_t end, char *out, struct flmem_error *err);

/* Announces to the kernel that bytes of one file will be read sequentially. */
void flmem_input_file_expect(const struct flmem_input_file *file, uint64_t offset, uint64_t bytes);

/* Reads bytes of one file. */
int flmem_input_file_read(const struct flmem_input_file *file, uint64_t offset, uint64_t bytes,
			  char *out, struct flmem_error *err);

/*
 * Declares that the input's files are read only in the chunks that flmem_input_expect() announces.
 */
void flmem_input_read_exactly(const struct flmem_input *input);

/* Returns true if the file is on this host, so that the page cache may hold pages of it. */
bool flmem_input_file_has_pages(const struct flmem_input_file *file);
bool flmem_input_has_pages(const struct flmem_input *input);

/*
 * Returns true if the page cache has the bytes in the middle of this range of the output's data.
 * Also true for sources that have no pages, but false for streams.
 */
bool flmem_input_is_cached(const struct flmem_input *input, const struct flmem_layout *layout,
			   uint64_t begin, uint64_t end);

/*
 * Announces that this range will be read. Unless it is `cached`, the parts that flmem_direct_read()
 * reads past the page cache are left out.
 */
void flmem_input_expect(const struct flmem_input *input, const struct flmem_layout *layout,
			uint64_t begin, uint64_t end, bool cached);

/* Drops this range from the page cache, or from the memory of a stream. */
void flmem_input_drop(const struct flmem_input *input, const struct flmem_layout *layout,
		      uint64_t begin, uint64_t end);

/*
 * Returns true if two opened inputs are the same files; false for two addresses, for which this is
 * unknown.
 */
bool flmem_input_is_same(const struct flmem_input *one, const struct flmem_input *other);

/* FLMEM_EUSAGE if a file's size or time has changed since it was opened. */
int flmem_input_check(const struct flmem_input *input, struct flmem_error *err);

/* Continues a hash with what identifies the versions of the input's files. */
uint64_t flmem_input_mix(const struct flmem_input *input, uint64_t hash);

#endif
