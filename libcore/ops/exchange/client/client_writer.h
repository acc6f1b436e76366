/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_WRITER_H
#define FLMEM_EXCHANGE_CLIENT_WRITER_H

/*
 * Writes received bytes to a file and digests them, in one thread each. A thread takes all that
 * arrived while it was busy, up to a block. Without a file it only digests. Memory is a ring of 4
 * MiB.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "exchange/digest.h"

/* Returned in place of an errno: the file is smaller than what was written to it. */
#define FLMEM_PULL_PART_CUT (-1)

struct flmem_pull_writer;

/* Starts the threads, which own `fd` (-1: none) and `digest` until flmem_pull_writer_close(). */
int flmem_pull_writer_open(int fd, uint64_t at, struct flmem_digest *digest,
			   struct flmem_pull_writer **ret_writer, struct flmem_error *err);

/* Adds bytes. Returns an errno if earlier bytes could not be written, or FLMEM_PULL_PART_CUT. */
int flmem_pull_writer_add(struct flmem_pull_writer *writer, const char *bytes, size_t length);

/*
 * Writes the rest and ends the threads. Returns an errno as above if anything could not be written.
 * NULL is allowed.
 */
int flmem_pull_writer_close(struct flmem_pull_writer *writer);

#endif
