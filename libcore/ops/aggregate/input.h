/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_INPUT_H
#define FLMEM_OPS_AGGREGATE_INPUT_H

/*
 * The inputs of an aggregation, files of any format, folders of shards or generated models: opened
 * once, compared with the first one, read in pieces of the output's data, wherever each has them.
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

/* Bytes of a file that are still to come, in its order. */
struct flmem_input_stream {
	/* Waits until the bytes have arrived. */
	int (*read)(void *context, uint64_t offset, uint64_t bytes, char *out,
		    struct flmem_error *err);
	/* Bytes before `offset` are not read again. */
	void (*release)(void *context, uint64_t offset);
	void *context;
	uint64_t data_offset; /* in the file, after its header */
};

struct flmem_input_file {
	char *path;
	int fd;		    /* -1: generated or remote */
	bool in_memory;	    /* of a tmpfs, which is its own page cache */
	struct stat status; /* when it was opened; of the others only the size */
	struct flmem_generated *generated;
	struct flmem_http_file *remote;		 /* on a web server */
	const struct flmem_input_stream *stream; /* has the data in place of the above; or NULL */
	struct flmem_direct_file *direct;	 /* of flmem_direct_open(), or NULL */
};

struct flmem_input {
	const char *path; /* the caller's, or `shown` */
	/* Set both before the input is opened. */
	const char *key;			/* of flmem_checkpoint_read() */
	const struct flmem_http_access *access; /* NULL: addresses are refused */
	struct flmem_http *http;
	char *shown;		       /* an address without its secrets */
	struct flmem_tensor_file kind; /* of an input that is one file */
	struct flmem_input_file *files;
	size_t file_count;
	uint64_t data_offset;
	uint64_t *offsets; /* of the layout's tensors in their files; NULL: in the same order */
	uint32_t *file_of; /* with offsets: the file of each */
	double weight, factor;
	const char *skipped; /* static: why it is skipped, or NULL */
};

/* Opens one by itself: its tensors, sorted by name. Clear it also after a failure. */
int flmem_input_load(const char *path, struct flmem_input *input, struct flmem_tensor_list *list,
		     struct flmem_error *err);

/* Opens all; the first one makes the layout. Clear inputs and layout also after a failure. */
int flmem_inputs_open(const char *const *paths, size_t count, struct flmem_input *inputs,
		      struct flmem_layout *layout, struct flmem_error *err);

/*
 * Opens one more, which is compared with the first one (NULL: messages name "the model"). Clear it
 * also after a failure.
 */
int flmem_input_open(const char *path, const char *first_path, const struct flmem_layout *layout,
		     struct flmem_input *input, struct flmem_error *err);

void flmem_inputs_clear(struct flmem_input *inputs, size_t count);

/* Bytes that are together in a file. */
struct flmem_input_piece {
	const struct flmem_input_file *file;
	uint64_t offset, bytes;
};

/*
 * The first of the pieces that have bytes [begin, end) of the output's data. *tensor is that of
 * flmem_layout_find() for `begin`, and moves along.
 */
struct flmem_input_piece flmem_input_piece(const struct flmem_input *input,
					   const struct flmem_layout *layout, uint64_t begin,
					   uint64_t end, size_t *tensor);

/* Reads bytes [begin, end) of the output's data, from this input. */
int flmem_input_read(const struct flmem_input *input, const struct flmem_layout *layout,
		     uint64_t begin, uint64_t end, char *out, struct flmem_error *err);

/* Announces that bytes of one file will be read one after the other. */
void flmem_input_file_expect(const struct flmem_input_file *file, uint64_t offset, uint64_t bytes);

/* Reads bytes of one file. */
int flmem_input_file_read(const struct flmem_input_file *file, uint64_t offset, uint64_t bytes,
			  char *out, struct flmem_error *err);

/* Declares that its files are read only in the chunks that flmem_input_expect() announces. */
void flmem_input_read_exactly(const struct flmem_input *input);

/* Whether it is on this host, so that the page cache may hold pages of it. */
bool flmem_input_file_has_pages(const struct flmem_input_file *file);
bool flmem_input_has_pages(const struct flmem_input *input);

/*
 * Whether the page cache has the bytes in the middle of these of the output's data. Also true of
 * sources that have no pages, but false of streams.
 */
bool flmem_input_is_cached(const struct flmem_input *input, const struct flmem_layout *layout,
			   uint64_t begin, uint64_t end);

/*
 * Announces that these bytes will be read. Unless they are `cached`, those that flmem_direct_read()
 * reads past the page cache are left out.
 */
void flmem_input_expect(const struct flmem_input *input, const struct flmem_layout *layout,
			uint64_t begin, uint64_t end, bool cached);

/* Drops these bytes from the page cache, or from what a stream keeps. */
void flmem_input_drop(const struct flmem_input *input, const struct flmem_layout *layout,
		      uint64_t begin, uint64_t end);

/* Whether two opened inputs are the same files. For two addresses this is unknown. */
bool flmem_input_is_same(const struct flmem_input *one, const struct flmem_input *other);

/* FLMEM_EUSAGE if a file's size or time has changed since it was opened. */
int flmem_input_check(const struct flmem_input *input, struct flmem_error *err);

/* Continues a hash with what identifies the versions of its files. */
uint64_t flmem_input_mix(const struct flmem_input *input, uint64_t hash);

#endif
