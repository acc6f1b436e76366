/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the unwind rule of an instruction. The table of .eh_frame_hdr is searched in the memory of
 * the module, as the kernel copies it. That takes some 20 copies, so rules are cached.
 */

#include "preload/sampler/unwind.h"

#include <elf.h>
#include <string.h>

#include "preload/sampler/sampler.h"
#include "preload/sampler/stack.h"

#define HEADERS_MAX  64U
#define HEADER_TABLE 0x3bU /* the rows are pairs of 32-bit numbers, relative to the header */

struct eh_header {
	uint8_t version, pointer_encoding, count_encoding, table_encoding;
	int32_t frames;
	uint32_t count;
};

struct eh_row {
	int32_t start, entry;
};

static uintptr_t find_eh_header(const struct flmem_profile_module *module)
{
	Elf64_Ehdr header;
	Elf64_Phdr part;

	if (!sampler_read(module->start, &header, sizeof(header)) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > HEADERS_MAX)
		return 0;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		if (!sampler_read(module->start + header.e_phoff + i * sizeof(part), &part,
				  sizeof(part)))
			return 0;
		if (part.p_type == PT_GNU_EH_FRAME)
			return module->bias + part.p_vaddr;
	}
	return 0;
}

/* Returns the entry whose function begins last before `pc`. */
static uintptr_t search_eh_table(uintptr_t at, uintptr_t pc)
{
	uintptr_t table = at + sizeof(struct eh_header);
	uint32_t low = 0, high;
	struct eh_header header;
	struct eh_row row = {0};

	if (!sampler_read(at, &header, sizeof(header)) || header.version != 1 ||
	    (header.pointer_encoding & 0x0f) != 0x0b || header.count_encoding != 0x03 ||
	    header.table_encoding != HEADER_TABLE)
		return 0;
	for (high = header.count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (!sampler_read(table + middle * sizeof(row), &row, sizeof(row)))
			return 0;
		if (at + (uintptr_t)(intptr_t)row.start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || !sampler_read(table + (low - 1) * sizeof(row), &row, sizeof(row)))
		return 0;
	return at + (uintptr_t)(intptr_t)row.entry;
}

struct cfi_room {
	char *bytes;
	size_t size;
};

/* Reads an entry without its length; `ret_id` gets its second number. */
static bool read_cfi_entry(uintptr_t at, struct cfi_room room, struct sampler_cfi *ret_cfi,
			   uint32_t *ret_id)
{
	uint32_t head[2];

	if (!sampler_read(at, head, sizeof(head)) || head[0] < sizeof(*head) ||
	    head[0] - sizeof(*head) > room.size)
		return false;
	*ret_id = head[1];
	*ret_cfi = (struct sampler_cfi){
		.bytes = (const uint8_t *)room.bytes,
		.size = head[0] - sizeof(*head),
		.address = at + sizeof(head),
	};
	return sampler_read(ret_cfi->address, room.bytes, ret_cfi->size);
}

struct cfi_entries {
	struct sampler_cfi cie, fde;
};

/* Finds the entries of `pc`, in buffers of `scratch`. */
static bool find_cfi_entries(struct sampler_scratch *scratch, uintptr_t pc,
			     struct cfi_entries *ret_entries)
{
	/* Entries of long functions that were optimised in parts have more than 1000 bytes. */
	const struct cfi_room fde_room = {scratch->maps, sizeof(scratch->maps)};
	const struct cfi_room cie_room = {scratch->text[0], sizeof(scratch->text[0])};
	uint32_t record = sampler_module_find(scratch, pc), id;
	uintptr_t header, entry;

	if (record == FLMEM_PROFILE_NONE)
		return false;
	header = find_eh_header(&sampler_tables.modules[record]);
	entry = header ? search_eh_table(header, pc) : 0;
	if (!entry || !read_cfi_entry(entry, fde_room, &ret_entries->fde, &id) || !id)
		return false;
	/* The pointer is relative to itself. */
	return read_cfi_entry(entry + sizeof(id) - id, cie_room, &ret_entries->cie, &id) && !id;
}

static bool make_known_rule(struct sampler_scratch *scratch, uintptr_t pc,
			    struct sampler_rule *ret_rule)
{
	struct cfi_entries entries;

	return find_cfi_entries(scratch, pc, &entries) &&
	       sampler_cfi_run(&entries.cie, &entries.fde, pc, ret_rule);
}

bool sampler_code_range_find(struct sampler_scratch *scratch, uintptr_t pc,
			     struct sampler_code_range *ret_range)
{
	struct cfi_entries entries;

	return find_cfi_entries(scratch, pc, &entries) &&
	       sampler_cfi_range(&entries.cie, &entries.fde, pc, ret_range);
}

static uint64_t check_rule(const struct sampler_known_rule *known)
{
	return sampler_hash(known->pc, ((uint64_t)known->rule.how << 32) | known->stale) ^
	       sampler_hash((uint32_t)known->rule.cfa_offset, (uint32_t)known->rule.bp_offset);
}

/* Returns the slot that holds the address, else one to be filled: a stale one, else any. */
static struct sampler_known_rule *find_rule_slot(uintptr_t pc, uint32_t stale)
{
	uint64_t first = sampler_hash(pc, 2) % SAMPLER_RULES & ~(uint64_t)(SAMPLER_WAYS - 1);
	struct sampler_known_rule *set = &sampler_control.rule[first];
	struct sampler_known_rule *slot = &set[sampler_thread.random % SAMPLER_WAYS];

	for (uint32_t i = 0; i < SAMPLER_WAYS; i++) {
		if (set[i].pc == pc && set[i].stale == stale)
			return &set[i];
		if (!set[i].pc || set[i].stale != stale)
			slot = &set[i];
	}
	return slot;
}

struct sampler_rule sampler_rule_find(struct sampler_scratch *scratch, uintptr_t pc)
{
	uint32_t stale = __atomic_load_n(&sampler_control.stale_modules, __ATOMIC_RELAXED);
	struct sampler_known_rule *slot = find_rule_slot(pc, stale);
	struct sampler_known_rule known = *slot;

	if (known.pc == pc && known.stale == stale && known.check == check_rule(&known))
		return known.rule;
	scratch->searches++;
	known = (struct sampler_known_rule){.pc = pc, .stale = stale};
	if (!make_known_rule(scratch, pc, &known.rule))
		known.rule = (struct sampler_rule){0};
	known.check = check_rule(&known);
	if (!scratch->is_blind)
		*slot = known;
	return known.rule;
}
