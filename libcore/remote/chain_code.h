/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHAIN_CODE_H
#define FLMEM_REMOTE_CHAIN_CODE_H

/*
 * Remembers the first bytes of each function that a chain calls, to check that the function is
 * still mapped: a library may be unloaded between the analysis and the call, although programs
 * rarely do that.
 */

#include <stdbool.h>

#include "remote/chain.h"

#define FLMEM_CHAIN_CODE_BYTES 16

struct flmem_error;
struct flmem_process;
struct flmem_view;

struct flmem_chain_code {
	unsigned char begin[FLMEM_CHAIN_CALLS][FLMEM_CHAIN_CODE_BYTES];
};

/*
 * FLMEM_EUNSUPPORTED if the code of one of them differs from the file of its module: a killed
 * debugger may have left a breakpoint there, for example, at which the program would end.
 */
int flmem_chain_code_check(const struct flmem_view *view, const struct flmem_chain *chain,
			   struct flmem_error *err);

/* Reads the code of the functions. Returns 0 or -errno. */
int flmem_chain_code_read(const struct flmem_process *process, const struct flmem_chain *chain,
			  struct flmem_chain_code *ret_code);

/* True if the code is unchanged; false also if it can no longer be read. */
bool flmem_chain_code_is_there(const struct flmem_process *process, const struct flmem_chain *chain,
			       const struct flmem_chain_code *code);

#endif
