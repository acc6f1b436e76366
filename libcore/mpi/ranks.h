/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MPI_RANKS_H
#define FLMEM_MPI_RANKS_H

/*
 * The processes that mpirun or srun started together. Open MPI is loaded on use; only one thread
 * may call these functions. Open MPI ends all processes when one of them dies.
 */

#include <stddef.h>

#include <flmem/error.h>

struct flmem_ranks {
	unsigned rank, count;
};

/*
 * Sets the rank of this process and the number of ranks. FLMEM_EUNSUPPORTED without Open MPI, which
 * is ended with the process.
 */
int flmem_ranks_start(struct flmem_ranks *ret_ranks, struct flmem_error *err);

/* Gives each process the bytes of all, by rank; waits for all of them. */
int flmem_ranks_gather(const struct flmem_ranks *ranks, const void *mine, size_t bytes,
		       void *ret_all, struct flmem_error *err);

#endif
