/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file that contains an address, from /proc/self/maps. The functions of the dynamic
 * linker are not used: they take its lock, which another thread may hold while it waits for this
 * one.
 */

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "preload/sampler/sampler.h"

#define NOTES_MAX     4096U
#define IDENTITY_SIZE 1024U
/* What was no file is searched again after this time: a library may be loaded there. */
#define ABSENT_MS 10000U

/*
 * This is the state of a walk over maps: the current line, and the file that it belongs to so far.
 */
struct maps_walk {
	uintptr_t address;
	uintptr_t start, end, offset;
	bool executable, writable;
	bool is_code;	 /* the line that has the address is one of a file */
	bool is_cut;	 /* the rest of a line follows whose start was parsed */
	bool is_blind;	 /* not all of the list could be read */
	uintptr_t first; /* start of the lowest mapping of the file */
	char *path;	 /* path of the line; in `scratch` */
	char *last;	 /* path of the file that `first` belongs to */
};

static const char *skip_field(const char *text)
{
	while (*text && *text != ' ')
		text++;
	while (*text == ' ')
		text++;
	return text;
}

/* Parses a line: start-end perms offset dev inode path. Returns false for a line without a file. */
static bool parse_own_line(struct maps_walk *walk, const char *line)
{
	walk->start = sampler_read_hex(&line);
	if (*line++ != '-')
		return false;
	walk->end = sampler_read_hex(&line);
	line = skip_field(line);
	walk->writable = line[0] && line[1] == 'w';
	walk->executable = line[0] && line[1] && line[2] == 'x';
	line = skip_field(line);
	walk->offset = sampler_read_hex(&line);
	line = skip_field(skip_field(skip_field(line)));
	sampler_copy_text(walk->path, FLMEM_PROFILE_STRING_MAX, line);
	return *line == '/';
}

static bool has_walk_address(const struct maps_walk *walk)
{
	return walk->address >= walk->start && walk->address < walk->end;
}

/* Adds a line to the walk. Returns true when the line has the address. */
static bool take_maps_line(struct maps_walk *walk, const char *line)
{
	if (!parse_own_line(walk, line))
		return has_walk_address(walk);
	if (strcmp(walk->path, walk->last) != 0 || walk->offset == 0) {
		walk->first = walk->start;
		sampler_copy_text(walk->last, FLMEM_PROFILE_STRING_MAX, walk->path);
	}
	walk->is_code = walk->executable && has_walk_address(walk);
	return has_walk_address(walk);
}

/*
 * Parses the complete lines of a buffer; returns the length of the incomplete last one, or -1 when
 * found.
 */
static ssize_t take_maps_lines(struct maps_walk *walk, char *buffer, size_t length)
{
	char *line = buffer, *end;

	buffer[length] = '\0';
	while ((end = memchr(line, '\n', length - (size_t)(line - buffer)))) {
		*end = '\0';
		if (!walk->is_cut && take_maps_line(walk, line))
			return -1;
		walk->is_cut = false;
		line = end + 1;
	}
	length -= (size_t)(line - buffer);
	memmove(buffer, line, length);
	return (ssize_t)length;
}

/* Skips the rest of a line that is longer than the buffer: paths in maps have no limit. */
static ssize_t take_cut_line(struct maps_walk *walk, const char *buffer)
{
	if (!walk->is_cut && take_maps_line(walk, buffer))
		return -1;
	walk->is_cut = true;
	return 0;
}

static bool search_own_maps(struct maps_walk *walk, char *buffer, size_t size)
{
	int fd = sampler_open("/proc/self/maps", O_RDONLY);
	ssize_t kept = 0, got = 0;

	walk->is_blind = true;
	if (fd < 0)
		return false;
	while (kept >= 0 && (got = sampler_read_file(fd, buffer + kept, size - (size_t)kept)) > 0) {
		kept = take_maps_lines(walk, buffer, (size_t)(kept + got));
		if ((size_t)kept == size)
			kept = take_cut_line(walk, buffer);
	}
	sampler_close(fd);
	walk->is_blind = kept != -1 && got < 0;
	return kept == -1;
}

/* Returns whether the path is one of anonymous shared memory or huge pages. */
static bool is_path_of_memory(const char *path)
{
	return path[0] != '/' || strcmp(path, "/dev/zero (deleted)") == 0 ||
	       strcmp(path, "/anon_hugepage (deleted)") == 0;
}

bool sampler_is_memory(struct sampler_scratch *scratch, uintptr_t address)
{
	struct maps_walk walk = {
		.address = address,
		.path = scratch->text[0],
		.last = scratch->text[1],
	};

	scratch->searches++;
	memset(scratch->text, 0, sizeof(scratch->text));
	return search_own_maps(&walk, scratch->maps, SAMPLER_PAGE) && walk.writable &&
	       is_path_of_memory(walk.path);
}

static void read_build_id(uintptr_t notes, size_t size, struct flmem_profile_module *module)
{
	const size_t limit = size < NOTES_MAX ? size : NOTES_MAX;
	Elf64_Nhdr note;

	for (size_t at = 0; at + sizeof(note) <= limit;) {
		size_t name, content;

		if (!sampler_read(notes + at, &note, sizeof(note)))
			return;
		name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
		content = ((size_t)note.n_descsz + 3) & ~(size_t)3;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    note.n_descsz <= sizeof(module->build_id)) {
			if (sampler_read(notes + at + sizeof(note) + name, module->build_id,
					 note.n_descsz))
				module->build_id_size = note.n_descsz;
			return;
		}
		at += sizeof(note) + name + content;
	}
}

/* Reads the program headers, in memory as the loader put them there. */
static void read_program_headers(struct flmem_profile_module *module)
{
	Elf64_Ehdr header;
	uintptr_t notes = 0;
	size_t notes_size = 0;
	uint64_t lowest = UINT64_MAX;

	module->bias = module->start;
	if (!sampler_read(module->start, &header, sizeof(header)) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > 64)
		return;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr part;

		if (!sampler_read(module->start + header.e_phoff + i * sizeof(part), &part,
				  sizeof(part)))
			return;
		if (part.p_type == PT_LOAD && part.p_vaddr < lowest)
			lowest = part.p_vaddr;
		if (part.p_type == PT_NOTE && (!notes || part.p_align == 4)) {
			notes = part.p_vaddr;
			notes_size = part.p_memsz;
		}
	}
	if (lowest != UINT64_MAX)
		module->bias = module->start - sampler_page_of(lowest);
	if (notes)
		read_build_id(module->bias + notes, notes_size, module);
}

static bool is_same_module(const struct flmem_profile_module *a,
			   const struct flmem_profile_module *b)
{
	return a->path == b->path && a->start == b->start && a->build_id_size == b->build_id_size &&
	       memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0;
}

static uint32_t find_module_record(struct flmem_profile_module *module)
{
	uint32_t used = sampler_section_used(FLMEM_PROFILE_SECTION_MODULES);
	uint32_t record;

	for (uint32_t i = used; i-- > 0;)
		if (sampler_tables.modules[i].state == FLMEM_PROFILE_READY &&
		    is_same_module(&sampler_tables.modules[i], module))
			return i;
	record = sampler_section_add(FLMEM_PROFILE_SECTION_MODULES);
	if (record == FLMEM_PROFILE_NONE) {
		sampler_drop(FLMEM_PROFILE_DROP_MODULES_FULL);
		return record;
	}
	module->first_ms = sampler_now_ms();
	sampler_tables.modules[record] = *module;
	__atomic_store_n(&sampler_tables.modules[record].state, FLMEM_PROFILE_READY,
			 __ATOMIC_RELEASE);
	return record;
}

/*
 * Returns a hash of the headers of the library at `module`, after which linkers put its build-id;
 * 0: there is none. Files that are not libraries may change at any time, and have none.
 */
static uint64_t find_module_identity(struct sampler_scratch *scratch, uintptr_t module)
{
	const char *head = scratch->maps;
	uint64_t hash = 0, word;

	if (!module || !sampler_read(module, scratch->maps, IDENTITY_SIZE) ||
	    memcmp(head, ELFMAG, SELFMAG) != 0)
		return 0;
	for (size_t at = 0; at < IDENTITY_SIZE; at += sizeof(word)) {
		memcpy(&word, head + at, sizeof(word));
		hash = sampler_hash(hash, word);
	}
	return hash | 1;
}

static uint64_t check_known_range(const struct sampler_range *range)
{
	return sampler_hash(range->start, range->end) ^
	       sampler_hash(range->module, range->identity) ^ range->record;
}

static void remember_range(const struct sampler_range *found, uint32_t stale)
{
	uint32_t i = __atomic_fetch_add(&sampler_control.range_next, 1, __ATOMIC_RELAXED);
	struct sampler_range *range = &sampler_control.range[i % SAMPLER_RANGES];

	range->stale = stale - 1;
	range->start = found->start;
	range->end = found->end;
	range->module = found->module;
	range->identity = found->identity;
	range->record = found->record;
	range->time_ms = sampler_now_ms();
	range->check = check_known_range(range);
	__atomic_store_n(&range->stale, stale, __ATOMIC_RELEASE);
}

/*
 * Returns whether a known range still counts. Generated code is in no file; there all mappings are
 * read again after a time.
 */
static bool is_range_valid(const struct sampler_range *range)
{
	return range->record != FLMEM_PROFILE_NONE || sampler_now_ms() - range->time_ms < ABSENT_MS;
}

static bool recall_range(uintptr_t address, uint32_t stale, struct sampler_range *ret_range)
{
	for (uint32_t i = 0; i < SAMPLER_RANGES; i++) {
		struct sampler_range range = sampler_control.range[i];

		if (range.stale == stale && address >= range.start && address < range.end &&
		    range.check == check_known_range(&range) && is_range_valid(&range)) {
			*ret_range = range;
			return true;
		}
	}
	return false;
}

/*
 * Finds the module among those that are known. The C library unloads its own modules
 * (iconv_close()) without dlclose(), and another library may be there by now. Then all that is
 * known of code is stale.
 */
static bool recall_module(struct sampler_scratch *scratch, uintptr_t address, uint32_t *ret_record)
{
	uint32_t stale = __atomic_load_n(&sampler_control.stale_modules, __ATOMIC_RELAXED) + 1;
	struct sampler_range range;

	if (!recall_range(address, stale, &range))
		return false;
	*ret_record = range.record;
	if (!range.identity || find_module_identity(scratch, range.module) == range.identity)
		return true;
	__atomic_fetch_add(&sampler_control.stale_modules, 1, __ATOMIC_RELAXED);
	return false;
}

uint32_t sampler_module_find(struct sampler_scratch *scratch, uintptr_t address)
{
	struct maps_walk walk = {
		.address = address,
		.path = scratch->text[0],
		.last = scratch->text[1],
	};
	struct sampler_range found = {.record = FLMEM_PROFILE_NONE};
	struct flmem_profile_module module = {0};
	uint32_t record, stale;

	if (recall_module(scratch, address, &record))
		return record;
	stale = __atomic_load_n(&sampler_control.stale_modules, __ATOMIC_RELAXED) + 1;
	memset(scratch->text, 0, sizeof(scratch->text));
	if (!search_own_maps(&walk, scratch->maps, SAMPLER_PAGE)) {
		scratch->is_blind |= walk.is_blind;
		return FLMEM_PROFILE_NONE;
	}
	found.start = walk.start;
	found.end = walk.end;
	if (walk.is_code) {
		module.start = found.module = walk.first;
		module.end = walk.end;
		module.path = sampler_string_find(walk.path, strlen(walk.path));
		read_program_headers(&module);
		found.record = find_module_record(&module);
		found.identity = find_module_identity(scratch, walk.first);
	}
	remember_range(&found, stale);
	return found.record;
}
