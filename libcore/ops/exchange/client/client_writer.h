/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_WRITER_H
#define FLMEM_EXCHANGE_CLIENT_WRITER_H

/*
 * Writes what is received and digests it, in a thread each: up to a block of what arrived while it
 * was busy at once. Without a file it digests only. Memory is a ring of 4 MiB.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "exchange/digest.h"

/* In place of an errno: the file is not as large as what was written to it. */
#define FLMEM_PULL_PART_CUT (-1)

struct flmem_pull_writer;

/* `fd` (-1: none) and `digest` are the threads' until flmem_pull_writer_close(). */
int flmem_pull_writer_open(int fd, uint64_t at, struct flmem_digest *digest,
			   struct flmem_pull_writer **ret_writer, struct flmem_error *err);

/* Takes bytes; an errno if earlier ones could not be written, or FLMEM_PULL_PART_CUT. */
int flmem_pull_writer_add(struct flmem_pull_writer *writer, const char *bytes, size_t length);

/* Writes the rest. An errno as above if anything could not be written. NULL is allowed. */
int flmem_pull_writer_close(struct flmem_pull_writer *writer);

#endif
