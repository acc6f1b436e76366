/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/chain_code.h"

#include <string.h>

#include "proc/process.h"

static bool is_repeated(const struct flmem_chain *chain, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (chain->calls[i].function == chain->calls[index].function)
			return true;
	return false;
}

int flmem_chain_code_read(const struct flmem_process *process, const struct flmem_chain *chain,
			  struct flmem_chain_code *ret_code)
{
	struct flmem_chain_code code = {0};

	for (size_t i = 0; i < chain->count; i++) {
		int rc;

		if (is_repeated(chain, i))
			continue;
		rc = flmem_process_read_pinned(process, chain->calls[i].function, code.begin[i],
					       FLMEM_CHAIN_CODE_BYTES);
		if (rc)
			return rc;
	}
	*ret_code = code;
	return 0;
}

bool flmem_chain_code_is_there(const struct flmem_process *process, const struct flmem_chain *chain,
			       const struct flmem_chain_code *code)
{
	struct flmem_chain_code now;

	return flmem_chain_code_read(process, chain, &now) == 0 &&
	       memcmp(&now, code, sizeof(now)) == 0;
}
