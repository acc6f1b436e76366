/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_FILES_H
#define FLMEM_EXCHANGE_CLIENT_FILES_H

/* The files of an update to be sent; an update may also be generated while it is read. */

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <flmem/error.h>

#include "exchange/digest.h"
#include "exchange/wire.h"
#include "ops/aggregate/generated.h"
#include "ops/exchange/client/client.h"

struct flmem_push_file {
	int fd;					/* open while the file is read; -1: closed */
	char *path;				/* path for messages */
	char name[FLMEM_EXCHANGE_NAME_MAX + 1]; /* name that the server gets */
	uint64_t bytes;
	struct timespec modified;
	struct flmem_generated *generated; /* model to read in place of fd; or NULL */
	char sha256[FLMEM_SHA256_HEX];
};

struct flmem_push_files {
	struct flmem_push_file *files;
	size_t count;
	uint64_t bytes;
	int directory; /* folder of shards; -1: none */
};

#define FLMEM_PUSH_FILES_INIT   \
	{                       \
		.directory = -1 \
	}

/*
 * Lists a file, the files that the index of a folder names and the index itself, or a generated
 * model. Clear the list also after a failure.
 */
int flmem_push_files_list(const char *path, struct flmem_push_files *ret_files,
			  struct flmem_error *err);

void flmem_push_files_clear(struct flmem_push_files *files);

#define FLMEM_AUTO_PUSH_FILES FLMEM_AUTO(flmem_push_files_clear)

/* Reads all files to compute their digests; the client shows this as progress. */
int flmem_push_files_digest(struct flmem_push_files *files, struct flmem_exchange_client *client,
			    struct flmem_error *err);

/* Opens a file for reading. FLMEM_EUSAGE if it is not the file that was listed. */
int flmem_push_file_open(const struct flmem_push_files *files, struct flmem_push_file *file,
			 struct flmem_error *err);

void flmem_push_file_close(struct flmem_push_file *file);

/* Reads a part of a file. FLMEM_EUSAGE if the file has changed. */
int flmem_push_file_read(const struct flmem_push_file *file, uint64_t offset, char *out,
			 size_t bytes, struct flmem_error *err);

#endif
