/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_PUBLISH_H
#define FLMEM_OPS_EXCHANGE_PUBLISH_H

/* The models of rounds: files with checksums, and the index that makes them public. */

#include "ops/exchange/server/server_state.h"

/*
 * Returns the model of a round; NULL if it is not kept, or not published yet. Called with x->lock
 * held.
 */
const struct flmem_published *flmem_published_find(const struct flmem_exchange *x, uint64_t round);

/* A file of a model, open or generated. */
struct flmem_published_source {
	struct flmem_published_file file;
	int fd; /* owned by the caller; -1: the file is generated */
	const struct flmem_generated *generated;
};

/*
 * Opens a file of a model. FLMEM_ENOPROC if there is no such round, FLMEM_EUSAGE if there is no
 * such file, FLMEM_EFAILED if it cannot be read or has changed.
 */
int flmem_published_open(struct flmem_exchange *x, uint64_t round, const char *name,
			 struct flmem_published_source *ret_source, struct flmem_error *err);

/* Reads the initial model that the options name: its tensors for comparison, and its size. */
int flmem_published_read(struct flmem_exchange *x, struct flmem_error *err);

/*
 * Publishes the initial model as round 0, unless that was done. FLMEM_EUSAGE if it differs from the
 * published one.
 */
int flmem_published_begin(struct flmem_exchange *x, struct flmem_error *err);

/* Publishes the model in rounds/R/model: writes its checksums, then the index. */
int flmem_published_add(struct flmem_exchange *x, uint64_t round, struct flmem_error *err);

/* Finds the newest round with an index on the disk; 0 if there is none. */
int flmem_published_newest(const struct flmem_exchange *x, uint64_t *ret_newest,
			   struct flmem_error *err);

/* Reads the indexes of the kept rounds. */
int flmem_published_load(struct flmem_exchange *x, uint64_t newest, struct flmem_error *err);

/* Fails if the initial model is the base of this round, and its files have changed. */
int flmem_published_check_base(const struct flmem_exchange *x, struct flmem_error *err);

/*
 * Returns the path of the model of a round, a file or a folder; the caller frees it. NULL if memory
 * is out.
 */
char *flmem_published_path(const struct flmem_exchange *x, uint64_t round);

void flmem_published_clear(struct flmem_exchange *x);

#endif
