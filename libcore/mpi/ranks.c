/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/ranks.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

#include <flmem/plugin.h>

#include "base/cleanup.h"

/*
 * Functions and objects of Open MPI: its MPI_COMM_WORLD and MPI_BYTE are addresses of objects
 * (mpi.h).
 */
static struct {
	__typeof__(MPI_Initialized) *initialized;
	__typeof__(MPI_Finalized) *finalized;
	__typeof__(MPI_Init_thread) *init_thread;
	__typeof__(MPI_Finalize) *finalize;
	__typeof__(MPI_Comm_rank) *comm_rank;
	__typeof__(MPI_Comm_size) *comm_size;
	__typeof__(MPI_Allgather) *allgather;
	void *world, *byte;
} mpi;

static const struct flmem_plugin open_mpi = {
	.sonames = {"libmpi.so.40"},
	.missing = "--mpi needs Open MPI (Debian: openmpi-bin)",
	.stays = true,
};

static int load_mpi(struct flmem_error *err)
{
	const struct flmem_plugin_symbol symbols[] = {
		{.names = {"MPI_Initialized"}, .slot = &mpi.initialized},
		{.names = {"MPI_Finalized"}, .slot = &mpi.finalized},
		{.names = {"MPI_Init_thread"}, .slot = &mpi.init_thread},
		{.names = {"MPI_Finalize"}, .slot = &mpi.finalize},
		{.names = {"MPI_Comm_rank"}, .slot = &mpi.comm_rank},
		{.names = {"MPI_Comm_size"}, .slot = &mpi.comm_size},
		{.names = {"MPI_Allgather"}, .slot = &mpi.allgather},
		{.names = {"ompi_mpi_comm_world"}, .slot = &mpi.world},
		{.names = {"ompi_mpi_byte"}, .slot = &mpi.byte},
	};

	return flmem_plugin_load(&open_mpi, symbols, FLMEM_ARRAY_SIZE(symbols), NULL, err);
}

static void end_mpi(void)
{
	int ended = 1;

	if (mpi.finalized(&ended) == MPI_SUCCESS && !ended)
		mpi.finalize();
}

/* Starts MPI, unless the host program has started it, which then also ends it. */
static int begin_mpi(void)
{
	int started = 0, level;

	if (mpi.initialized(&started) != MPI_SUCCESS)
		return -1;
	if (started)
		return 0;
	if (mpi.init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
		return -1;
	return atexit(end_mpi);
}

int flmem_ranks_start(struct flmem_ranks *ret_ranks, struct flmem_error *err)
{
	int rc = load_mpi(err), rank, count;

	if (rc)
		return rc;
	if (begin_mpi() || mpi.comm_rank(mpi.world, &rank) != MPI_SUCCESS ||
	    mpi.comm_size(mpi.world, &count) != MPI_SUCCESS || rank < 0 || count <= rank)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "Open MPI did not start");
	*ret_ranks = (struct flmem_ranks){.rank = (unsigned)rank, .count = (unsigned)count};
	return 0;
}

int flmem_ranks_gather(const struct flmem_ranks *ranks, const void *mine, size_t bytes,
		       void *ret_all, struct flmem_error *err)
{
	if (bytes <= INT_MAX && mpi.allgather(mine, (int)bytes, mpi.byte, ret_all, (int)bytes,
					      mpi.byte, mpi.world) == MPI_SUCCESS)
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, 0, "process %u cannot reach the others",
			       ranks->rank);
}
