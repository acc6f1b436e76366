/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame instructions of a function in .eh_frame. The first byte is the size of the CIE,
 * the second one an offset into the function; what follows is the CIE and the FDE.
 */
#include "fuzz.h"
#include "preload/sampler/unwind.h"

#define AT UINT64_C(0x10000)

static void check_rule(const struct sampler_rule *rule)
{
	if (rule->how == SAMPLER_UNWIND_UNKNOWN || rule->how > SAMPLER_UNWIND_END)
		abort();
	if (rule->how != SAMPLER_UNWIND_END && (rule->cfa_offset % 8 || rule->bp_offset % 8))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sampler_cfi cie = {.address = AT}, fde = {.address = 2 * AT};
	struct sampler_rule rule;
	uint8_t *copies[2];

	if (size < 2 || size - 2 < data[0])
		return 0;
	cie.size = data[0];
	fde.size = size - 2 - cie.size;
	copies[0] = malloc(cie.size + 1);
	copies[1] = malloc(fde.size + 1);
	if (!copies[0] || !copies[1])
		abort();
	memcpy(copies[0], data + 2, cie.size);
	memcpy(copies[1], data + 2 + cie.size, fde.size);
	cie.bytes = copies[0];
	fde.bytes = copies[1];
	if (sampler_cfi_run(&cie, &fde, 2 * AT + data[1], &rule))
		check_rule(&rule);
	free(copies[0]);
	free(copies[1]);
	return 0;
}
