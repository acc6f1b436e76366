/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __x86_64__

#include "remote/checks/call_sites.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "proc/process.h"

#define BEFORE	      7U   /* bytes of the longest call without prefixes */
#define CALL	      0xe8 /* SDM volume 2, CALL rel32 */
#define DIRECT_LENGTH 5U
#define STUB_BYTES    11U

/* Reads a stub: `jmp *slot(%rip)`, with or without endbr64 and bnd in front (x86-64 psABI, PLT). */
static bool read_stub(const struct flmem_process *process, uint64_t address, uint64_t *ret_target)
{
	static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa}, jump[] = {0xff, 0x25};
	unsigned char code[STUB_BYTES];
	size_t at = 0;
	int32_t distance;

	if (flmem_process_read_memory(process, address, code, sizeof(code)))
		return false;
	if (memcmp(code, endbr64, sizeof(endbr64)) == 0)
		at += sizeof(endbr64);
	if (code[at] == 0xf2)
		at++;
	if (memcmp(code + at, jump, sizeof(jump)) != 0)
		return false;
	at += sizeof(jump);
	memcpy(&distance, code + at, sizeof(distance));
	address += at + sizeof(distance) + (uint64_t)(int64_t)distance;
	return flmem_process_read_memory(process, address, ret_target, sizeof(*ret_target)) == 0;
}

/*
 * Returns the length of the operand of `call *operand` (0xff /2; SDM volume 2, tables 2-2 and 2-3)
 * after the opcode, from its first byte and the one that may follow; 0: another instruction.
 */
static size_t operand_length(unsigned char modrm, unsigned char sib)
{
	static const size_t displacements[] = {0, 1, 4, 0};
	unsigned mode = modrm >> 6, base = modrm & 7U;
	size_t length = 1 + displacements[mode];

	if ((modrm & 0x38U) != 0x10)
		return 0;
	if (mode == 3)
		return length;
	if (mode == 0 && (base == 5 || (base == 4 && (sib & 7U) == 5)))
		length += 4;
	return base == 4 ? length + 1 : length;
}

enum flmem_call_kind flmem_call_before(const struct flmem_process *process, uint64_t address,
				       uint64_t *ret_target)
{
	unsigned char code[BEFORE];
	int32_t distance;

	if (address < BEFORE || flmem_process_read_memory(process, address - BEFORE, code, BEFORE))
		return FLMEM_CALL_NONE;
	memcpy(&distance, code + BEFORE - sizeof(distance), sizeof(distance));
	if (code[BEFORE - DIRECT_LENGTH] == CALL &&
	    read_stub(process, address + (uint64_t)(int64_t)distance, ret_target))
		return FLMEM_CALL_STUB;
	for (size_t at = 0; at + 1 < BEFORE; at++)
		if (code[at] == 0xff &&
		    operand_length(code[at + 1], at + 2 < BEFORE ? code[at + 2] : 0) ==
			    BEFORE - 1 - at)
			return FLMEM_CALL_INDIRECT;
	return code[BEFORE - DIRECT_LENGTH] == CALL ? FLMEM_CALL_DIRECT : FLMEM_CALL_NONE;
}

#else
typedef int flmem_call_sites_x86_64_unused;
#endif
