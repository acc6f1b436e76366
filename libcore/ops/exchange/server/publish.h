/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_PUBLISH_H
#define FLMEM_OPS_EXCHANGE_PUBLISH_H

/* The models of rounds: files with checksums, and the index that makes them public. */

#include "ops/exchange/server/server_state.h"

/* With the lock; NULL if it is not kept, or not there yet. */
const struct flmem_published *flmem_published_find(const struct flmem_exchange *x, uint64_t round);

/* A file of a model, or one that is generated. */
struct flmem_published_source {
	struct flmem_published_file file;
	int fd; /* the caller's; -1: generated */
	const struct flmem_generated *generated;
};

/*
 * Opens a file of a model. FLMEM_ENOPROC without that round, FLMEM_EUSAGE without that file, and
 * FLMEM_EFAILED if it cannot be read or has changed.
 */
int flmem_published_open(struct flmem_exchange *x, uint64_t round, const char *name,
			 struct flmem_published_source *ret_source, struct flmem_error *err);

/* Reads the options' model: its tensors for comparison, its size. */
int flmem_published_read(struct flmem_exchange *x, struct flmem_error *err);

/* Publishes it as round 0, unless that was done. FLMEM_EUSAGE if it is another one than then. */
int flmem_published_begin(struct flmem_exchange *x, struct flmem_error *err);

/* Publishes what is in rounds/R/model: checksums, then the index. */
int flmem_published_add(struct flmem_exchange *x, uint64_t round, struct flmem_error *err);

/* The newest round with an index on the disk, 0 if there is none. */
int flmem_published_newest(const struct flmem_exchange *x, uint64_t *ret_newest,
			   struct flmem_error *err);

/* Reads the indexes of the rounds that are kept. */
int flmem_published_load(struct flmem_exchange *x, uint64_t newest, struct flmem_error *err);

/* Fails if the initial model is the base of this round, and its files have changed. */
int flmem_published_check_base(const struct flmem_exchange *x, struct flmem_error *err);

/* Path of the model of a round, a file or a folder; NULL if memory is out. */
char *flmem_published_path(const struct flmem_exchange *x, uint64_t round);

void flmem_published_clear(struct flmem_exchange *x);

#endif
