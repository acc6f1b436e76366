/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __x86_64__

#include "remote/errno_code.h"

#include <string.h>

#include "proc/process.h"

/* Steps of the function in x86-64 code; it has no other form without further instructions. */
static const unsigned char landing[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
static const unsigned char load_slot[] = {0x48, 0x8b, 0x05};	 /* mov slot(%rip), %rax */
static const unsigned char load_number[] = {0x48, 0xc7, 0xc0};	 /* mov $number, %rax */
static const unsigned char add_pointer[] = {0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0, 0xc3};
/* Steps of musl: mov %fs:0, %rax; add $number, %rax. */
static const unsigned char load_pointer[] = {0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0};
static const unsigned char add_number[] = {0x48, 0x83, 0xc0};
#define RETURN 0xc3

static bool takes_step(const unsigned char **code, const unsigned char *step, size_t length)
{
	if (memcmp(*code, step, length) != 0)
		return false;
	*code += length;
	return true;
}

static int32_t take_code_number(const unsigned char **code)
{
	int32_t number;

	memcpy(&number, *code, sizeof(number));
	*code += sizeof(number);
	return number;
}

bool flmem_errno_decode(const struct flmem_process *process, uint64_t function,
			const unsigned char *bytes, int64_t *ret_distance)
{
	const unsigned char *code = bytes;
	uint64_t slot;

	(void)takes_step(&code, landing, sizeof(landing));
	if (takes_step(&code, load_slot, sizeof(load_slot))) {
		slot = (uint64_t)(int64_t)take_code_number(&code);
		slot += function + (uint64_t)(code - bytes);
		return takes_step(&code, add_pointer, sizeof(add_pointer)) &&
		       !flmem_process_read_memory(process, slot, ret_distance,
						  sizeof(*ret_distance));
	}
	if (takes_step(&code, load_number, sizeof(load_number))) {
		*ret_distance = take_code_number(&code);
		return takes_step(&code, add_pointer, sizeof(add_pointer));
	}
	if (!takes_step(&code, load_pointer, sizeof(load_pointer)) ||
	    !takes_step(&code, add_number, sizeof(add_number)))
		return false;
	/* The number is one byte and not negative: errno is above the pointer. */
	*ret_distance = code[0];
	return code[0] <= INT8_MAX && code[1] == RETURN;
}

#else
typedef int flmem_errno_code_x86_64_unused;
#endif
