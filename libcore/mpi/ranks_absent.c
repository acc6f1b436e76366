/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces ranks.c where flmem is built without the headers of Open MPI. */
#include "mpi/ranks.h"

int flmem_ranks_start(struct flmem_ranks *ret_ranks, struct flmem_error *err)
{
	(void)ret_ranks;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "--mpi is not possible: this flmem was built without Open MPI "
			       "(Debian: libopenmpi-dev)");
}

int flmem_ranks_gather(const struct flmem_ranks *ranks, const void *mine, size_t bytes,
		       void *ret_all, struct flmem_error *err)
{
	(void)ranks;
	(void)mine;
	(void)bytes;
	(void)ret_all;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "there are no other processes");
}
