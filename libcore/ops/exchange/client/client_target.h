/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_TARGET_H
#define FLMEM_EXCHANGE_CLIENT_TARGET_H

/*
 * A file that is fetched: NAME.part, and NAME.part.sha256 with the digest of the complete file, so
 * that a later run knows whether it can continue. The part is renamed to NAME when it is complete.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <flmem/error.h>

#include "exchange/digest.h"
#include "ops/exchange/client/client_json.h"
#include "ops/exchange/client/client_writer.h"

#define FLMEM_TARGET_SUFFIX ".part"

struct flmem_pull_target {
	int directory;				/* directory of the output, owned by the caller */
	const char *name;			/* name in this directory */
	const struct flmem_exchange_file *file; /* size and digest of the complete file */
	int fd;					/* descriptor of the part */
	struct stat part;			/* status of the part, once it is complete */
	uint64_t at;				/* bytes that the part or its writer has */
	struct flmem_pull_writer *writer;	/* NULL before the first bytes */
	struct flmem_digest sha;		/* digest of these bytes */
	bool complete, resumed;
	bool unwritten; /* there is no part: only the digest is compared */
};

#define FLMEM_PULL_TARGET_INIT \
	{                      \
		.fd = -1       \
	}

/*
 * Opens the part and reads what an earlier run left of the same file. FLMEM_EUNSAFE if another
 * process fetches the file now; FLMEM_EFAILED if the rest does not fit on the disk. Clear the
 * target also after a failure.
 */
int flmem_pull_target_open(struct flmem_pull_target *target, struct flmem_error *err);

void flmem_pull_target_clear(struct flmem_pull_target *target);

#define FLMEM_AUTO_PULL_TARGET FLMEM_AUTO(flmem_pull_target_clear)

int flmem_pull_target_append(struct flmem_pull_target *target, const char *bytes, size_t length,
			     struct flmem_error *err);

/* Empties the part and restarts at offset 0. */
int flmem_pull_target_restart(struct flmem_pull_target *target, struct flmem_error *err);

/*
 * Compares the digest and flushes the part to the disk. FLMEM_EFAILED if the digest differs: the
 * part is then removed.
 */
int flmem_pull_target_finish(struct flmem_pull_target *target, struct flmem_error *err);

/* Gives the finished part its final name, replacing an older file. */
int flmem_pull_target_rename(struct flmem_pull_target *target, struct flmem_error *err);

#endif
