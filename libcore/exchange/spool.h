/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_SPOOL_H
#define FLMEM_EXCHANGE_SPOOL_H

/*
 * The state directory of a server: of this user alone, with a lock. Files are opened through its
 * descriptors, by names that were checked, and no link is followed.
 *
 *	exchange		the options that determine the result; made before the others, with
 *				FLMEM_SPOOL_MARK alone, so that nothing else takes their names
 *	trial			a small model, while the algorithm is tried
 *	uploads/ID.info		record of an upload (exchange/upload_record.h)
 *	uploads/ID.journal	what was committed
 *	uploads/ID.data		its bytes, until they are complete
 *	rounds/R/opened		when the round began
 *	rounds/R/updates/CLIENT/FILE	complete uploads
 *	rounds/R/inputs		the updates that are combined
 *	rounds/R/index		files of a published model; written last
 *	rounds/R/model/FILE	the model itself, from round 1
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/text/buf.h"

struct flmem_spool {
	int root, uploads, rounds; /* directories */
	char *path;		   /* absolute */
	bool made;		   /* flmem_spool_open() has made the directory */
};

/* The first line of "exchange". */
#define FLMEM_SPOOL_MARK "flmem-exchange 1\n"

/* The folder in which the algorithm is tried. */
#define FLMEM_SPOOL_TRIAL "trial"

#define FLMEM_SPOOL_INIT                                 \
	{                                                \
		.root = -1, .uploads = -1, .rounds = -1, \
	}

/*
 * Opens a state directory, and makes what does not exist. FLMEM_EUSAGE if another server has it,
 * other users may read it, or its names are taken by something else.
 */
int flmem_spool_open(const char *path, struct flmem_spool *ret_spool, struct flmem_error *err);

/* Removes a directory that flmem_spool_open() has made, with all its contents. */
void flmem_spool_undo(struct flmem_spool *spool);
void flmem_spool_close(struct flmem_spool *spool);

/*
 * Fails if the directory's path now leads elsewhere: updates are read and models are written
 * through the path.
 */
int flmem_spool_check_place(const struct flmem_spool *spool, struct flmem_error *err);

/* Opens rounds/R, or a directory below it, and makes it if it does not exist. Negative errno. */
int flmem_spool_open_round(const struct flmem_spool *spool, uint64_t round);
int flmem_spool_open_directory(int directory, const char *name);

/* Opens a regular file; other kinds are refused. Negative errno. */
int flmem_spool_open_file(int directory, const char *name, int flags);

/* Reads the whole content, at most 64 MiB; negative errno. */
int flmem_spool_read(int directory, const char *name, struct flmem_buf *text);

/* Replaces a file durably: after a crash it has the old or the new content. Negative errno. */
int flmem_spool_write(int directory, const char *name, const void *bytes, size_t length);

/* Removes a file, or a directory with all its contents. A name that does not exist is ignored. */
void flmem_spool_remove(int directory, const char *name);

/* Returns the number of bytes that this process may still write. */
uint64_t flmem_spool_free_bytes(const struct flmem_spool *spool);

#endif
