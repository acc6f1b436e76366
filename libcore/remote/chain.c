/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/chain.h"

#include <string.h>

uint64_t flmem_call_argument(const struct flmem_call *call, size_t index, uint64_t data,
			     uint64_t area)
{
	if (call->data_args >> index & 1U)
		return data + call->args[index];
	return call->args[index] + (call->area_args >> index & 1U ? area : 0);
}

struct flmem_call *flmem_chain_add(struct flmem_chain *chain, const char *name, uint64_t function)
{
	struct flmem_call *call;

	if (chain->count == FLMEM_CHAIN_CALLS) {
		chain->overflow = true;
		return &chain->calls[FLMEM_CHAIN_CALLS - 1];
	}
	call = &chain->calls[chain->count++];
	*call = (struct flmem_call){.name = name, .function = function};
	return call;
}

uint64_t flmem_chain_put(struct flmem_chain *chain, const void *bytes, size_t length)
{
	size_t offset = (chain->data_length + 15) & ~(size_t)15;

	if (length > FLMEM_CHAIN_DATA || offset > FLMEM_CHAIN_DATA - length) {
		chain->overflow = true;
		return 0;
	}
	if (bytes)
		memcpy(chain->data + offset, bytes, length);
	else
		memset(chain->data + offset, 0, length);
	chain->data_length = offset + length;
	return offset;
}

uint64_t flmem_chain_put_string(struct flmem_chain *chain, const char *text)
{
	return flmem_chain_put(chain, text, strlen(text) + 1);
}
