/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_TARGET_H
#define FLMEM_EXCHANGE_CLIENT_TARGET_H

/*
 * A file that is fetched: NAME.part, and NAME.part.sha256 with the digest of what it will be, so
 * that a later run knows whether it can continue. Renamed to NAME when it is complete.
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
	int directory;				/* the caller's */
	const char *name;			/* in it */
	const struct flmem_exchange_file *file; /* what it will be */
	int fd;					/* of the part */
	struct stat part;			/* of it, once it is complete */
	uint64_t at;				/* bytes that it has, or the writer for it */
	struct flmem_pull_writer *writer;	/* NULL before the first bytes */
	struct flmem_digest sha;		/* of them */
	bool complete, resumed;
	bool unwritten; /* only the digest is compared: there is no part */
};

#define FLMEM_PULL_TARGET_INIT \
	{                      \
		.fd = -1       \
	}

/*
 * Opens the part and reads what an earlier run left of the same file. FLMEM_EUNSAFE if another
 * process fetches it now; FLMEM_EFAILED if the rest does not fit on the disk. Clear it in any case.
 */
int flmem_pull_target_open(struct flmem_pull_target *target, struct flmem_error *err);

void flmem_pull_target_clear(struct flmem_pull_target *target);

#define FLMEM_AUTO_PULL_TARGET FLMEM_AUTO(flmem_pull_target_clear)

int flmem_pull_target_append(struct flmem_pull_target *target, const char *bytes, size_t length,
			     struct flmem_error *err);

/* Restarts at offset 0. */
int flmem_pull_target_restart(struct flmem_pull_target *target, struct flmem_error *err);

/*
 * Compares the digest and flushes to the disk. FLMEM_EFAILED for another digest: the part is
 * removed then.
 */
int flmem_pull_target_finish(struct flmem_pull_target *target, struct flmem_error *err);

/* Gives the finished part its final name, replacing an older file. */
int flmem_pull_target_rename(struct flmem_pull_target *target, struct flmem_error *err);

#endif
