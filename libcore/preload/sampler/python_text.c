/* SPDX-License-Identifier: Apache-2.0 */

/* Reads texts and line tables of CPython. They are read once for each position in code. */

#include <string.h>

#include "preload/sampler/python_frames.h"

#define STATE_OFFSET  32U
#define INTERNED_BITS 2U  /* then kind (3 bits), compact and ascii (1 each): 3.8 to 3.15 */
#define LENGTH_OFFSET 16U /* offset of the length in str and in bytes */
#define BYTES_OFFSET  32U
#define TABLE_MAX     (1U << 20)
#define PART	      256U /* number of bytes that are read at once */
#define LANES	      4U

struct output {
	char *bytes;
	size_t length;
};

static void put_code_point(struct output *out, uint32_t c)
{
	/* Such a code point stands for a byte of a file name that is not UTF-8 (PEP 383). */
	const bool is_byte = c >= 0xdc80 && c < 0xdd00;

	if (c >= 0xd800 && c < 0xe000 && !is_byte)
		c = '?';
	if (c < 0x80 || is_byte) {
		out->bytes[out->length++] = (char)c;
	} else if (c < 0x800) {
		out->bytes[out->length++] = (char)(0xc0 | c >> 6);
		out->bytes[out->length++] = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		out->bytes[out->length++] = (char)(0xe0 | c >> 12);
		out->bytes[out->length++] = (char)(0x80 | (c >> 6 & 0x3f));
		out->bytes[out->length++] = (char)(0x80 | (c & 0x3f));
	} else {
		out->bytes[out->length++] = (char)(0xf0 | (c >> 18 & 7));
		out->bytes[out->length++] = (char)(0x80 | (c >> 12 & 0x3f));
		out->bytes[out->length++] = (char)(0x80 | (c >> 6 & 0x3f));
		out->bytes[out->length++] = (char)(0x80 | (c & 0x3f));
	}
}

/* Reads a text in small parts: the thread's stack may be small. */
static bool read_code_points(uintptr_t data, size_t count, uint32_t kind, struct output *out)
{
	unsigned char part[PART];

	for (size_t at = 0, size; at < count * kind; at += size) {
		size = count * kind - at < PART ? count * kind - at : PART;
		if (!sampler_read_often(data + at, part, size))
			return false;
		for (size_t i = 0; i < size && out->length + 4 <= FLMEM_PROFILE_STRING_MAX;
		     i += kind) {
			uint32_t c = 0;

			memcpy(&c, part + i, kind);
			put_code_point(out, c);
		}
	}
	return true;
}

long sampler_python_text(const struct sampler_python *python, uintptr_t text, char *out)
{
	struct output output = {.bytes = out};
	uint32_t state, kind;
	uint64_t length;
	uintptr_t data;

	if (!sampler_read_often(text + STATE_OFFSET, &state, sizeof(state)) ||
	    !sampler_read_often(text + LENGTH_OFFSET, &length, sizeof(length)))
		return -1;
	state >>= INTERNED_BITS;
	kind = state & 7;
	if ((kind != 1 && kind != 2 && kind != 4) || !(state & 8)) /* compact */
		return -1;
	data = text + (state & 16 ? python->ascii_size : python->compact_size);
	if (length > FLMEM_PROFILE_STRING_MAX)
		length = FLMEM_PROFILE_STRING_MAX;
	return read_code_points(data, length, kind, &output) ? (long)output.length : -1;
}

static void mix_word(uint64_t *hash, uint64_t word)
{
	*hash = (*hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	*hash ^= *hash >> 29;
}

/*
 * Mixes bytes into a hash. There are several lanes because each step of a lane waits for the step
 * before; the last words may overlap.
 */
static void mix_part(uint64_t *hash, const char *part, size_t size)
{
	uint64_t lanes[LANES] = {1, 2, 3, 4}, words[LANES], word = 0;
	size_t i = 0;

	for (; i + sizeof(words) <= size; i += sizeof(words)) {
		memcpy(words, part + i, sizeof(words));
		for (size_t j = 0; j < LANES; j++)
			mix_word(&lanes[j], words[j]);
	}
	for (size_t j = 0; i && j < LANES; j++)
		mix_word(hash, lanes[j]);
	for (; i + sizeof(word) <= size; i += sizeof(word)) {
		memcpy(&word, part + i, sizeof(word));
		mix_word(hash, word);
	}
	if (size >= sizeof(word))
		memcpy(&word, part + size - sizeof(word), sizeof(word));
	else
		for (; i < size; i++)
			word = word << 8 | (unsigned char)part[i];
	mix_word(hash, word);
}

static bool mix_bytes(uint64_t *hash, uintptr_t data, size_t length)
{
	char room[PART];

	for (size_t at = 0, size; at < length; at += size) {
		const char *part;

		size = length - at < PART ? length - at : PART;
		part = sampler_see(data + at, room, size);
		if (!part)
			return false;
		mix_part(hash, part, size);
	}
	return true;
}

/* These are the fields of str and bytes objects after their type; `state` exists in a str only. */
struct sized_object {
	uint64_t length;
	int64_t hash; /* hash of the contents; -1: not computed yet */
	uint64_t state;
};

static bool mix_head(uint64_t *hash, uintptr_t object, struct sized_object *ret_head)
{
	char room[sizeof(*ret_head)];
	const char *head = sampler_see(object + LENGTH_OFFSET, room, sizeof(*ret_head));

	if (!head)
		return false;
	memcpy(ret_head, head, sizeof(*ret_head));
	mix_word(hash, ret_head->length);
	mix_word(hash, (uint64_t)ret_head->hash);
	return true;
}

/* Mixes the hash of a str. Names are mostly interned, so their hash is already computed. */
static bool mix_str_content(uint64_t *hash, const struct sampler_python *python, uintptr_t text)
{
	struct sized_object head;
	uint32_t state;

	if (!mix_head(hash, text, &head))
		return false;
	if (head.hash != -1)
		return true;
	state = (uint32_t)head.state >> INTERNED_BITS;
	if (head.length > FLMEM_PROFILE_STRING_MAX)
		head.length = FLMEM_PROFILE_STRING_MAX;
	return mix_bytes(hash, text + (state & 16 ? python->ascii_size : python->compact_size),
			 head.length * (state & 7));
}

/* Mixes the hash of the file, which is mostly that of the previous frame. */
static bool mix_code_file(uint64_t *hash, const struct sampler_python *python, uintptr_t file,
			  struct sampler_file *known)
{
	if (known->file != file || !known->hash) {
		*known = (struct sampler_file){.file = file};
		if (!mix_str_content(&known->hash, python, file))
			return false;
	}
	mix_word(hash, known->hash);
	return true;
}

uint64_t sampler_python_content(const struct sampler_python *python,
				const struct sampler_code *code, struct sampler_file *known)
{
	struct sized_object head;
	uint64_t hash = 1;

	if (!mix_str_content(&hash, python, code->name) ||
	    !mix_code_file(&hash, python, code->file, known) ||
	    !mix_head(&hash, code->lines, &head) || head.length > TABLE_MAX ||
	    (head.hash == -1 && !mix_bytes(&hash, code->lines + BYTES_OFFSET, head.length)))
		return 0;
	return hash ? hash : 1;
}

void sampler_python_want_content(uintptr_t name, uintptr_t file, uintptr_t lines)
{
	sampler_copies_want(name + LENGTH_OFFSET, sizeof(struct sized_object));
	sampler_copies_want(file + LENGTH_OFFSET, sizeof(struct sized_object));
	sampler_copies_want(lines + LENGTH_OFFSET, sizeof(struct sized_object));
}

struct line_table {
	uintptr_t bytes;
	size_t length, at;
	size_t part_start, part_length;
	uint8_t part[PART];
	bool failed;
};

/* Returns the byte at `i`. Where it cannot be read, this returns 0, and the table fails. */
static uint8_t get_table_byte(struct line_table *table, size_t i)
{
	size_t rest = table->length - i;

	if (i < table->part_start || i >= table->part_start + table->part_length) {
		table->part_start = i;
		table->part_length = rest < PART ? rest : PART;
		if (!sampler_read_often(table->bytes + i, table->part, table->part_length)) {
			table->part_length = 0;
			table->failed = true;
			return 0;
		}
	}
	return table->part[i - table->part_start];
}

/*
 * Finds a line in pairs of a number of bytes and a change of the line, both before the instruction.
 */
static int64_t find_in_lnotab(struct line_table *table, uint64_t offset, int64_t line)
{
	uint64_t address = 0;

	for (size_t i = 0; i + 1 < table->length && !table->failed; i += 2) {
		address += get_table_byte(table, i);
		if (address > offset)
			break;
		line += (int8_t)get_table_byte(table, i + 1);
	}
	return line;
}

/*
 * Finds a line in pairs of the length of a range and its change of the line; -128 is a range
 * without a line.
 */
static int64_t find_in_pairs(struct line_table *table, uint64_t offset, int64_t line)
{
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < table->length && !table->failed; i += 2) {
		int8_t change = (int8_t)get_table_byte(table, i + 1);

		end += get_table_byte(table, i);
		if (change != -128)
			line += change;
		if (offset < end)
			return change == -128 ? 0 : line;
	}
	return line;
}

static uint64_t read_location_number(struct line_table *table)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		if (table->at >= table->length || shift > 56)
			return 0;
		byte = get_table_byte(table, table->at++);
		value |= (uint64_t)(byte & 0x3f) << shift;
		shift += 6;
	} while (byte & 0x40);
	return value;
}

/* Returns the change of the line in an entry of kind `code`, and moves past the entry. */
static int64_t read_code_location(struct line_table *table, unsigned code)
{
	uint64_t number;

	if (code == 15)
		return 0;
	if (code < 10) {
		table->at++;
		return 0;
	}
	if (code < 13) {
		table->at += 2;
		return code - 10;
	}
	number = read_location_number(table);
	if (code == 14)
		for (int i = 0; i < 3; i++)
			read_location_number(table);
	return number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
}

/*
 * Finds a line as in Objects/locations.md of CPython. Instructions without a line that come before
 * all others (of cells) are at the line of the function.
 */
static int64_t find_in_locations(struct line_table *table, uint64_t offset, int64_t line)
{
	uint64_t end = 0;
	bool has_begun = false;

	while (table->at < table->length && !table->failed) {
		uint8_t first = get_table_byte(table, table->at++);
		unsigned code = first >> 3 & 15;

		end += ((first & 7U) + 1) * 2;
		line += read_code_location(table, code);
		has_begun |= code != 15;
		if (offset < end)
			return has_begun && code == 15 ? 0 : line;
	}
	return 0;
}

uint32_t sampler_python_line(const struct sampler_python *python, uintptr_t object, uint64_t offset,
			     uint32_t first_line)
{
	struct line_table table = {.bytes = object + BYTES_OFFSET};
	int64_t line = first_line;
	uint64_t length;

	if ((int64_t)offset < 0) /* PyCode_Addr2Line() does the same */
		return first_line;
	if (!sampler_read_often(object + LENGTH_OFFSET, &length, sizeof(length)) ||
	    length > TABLE_MAX)
		return 0;
	table.length = length;
	if (python->lines_kind == SAMPLER_LINES_LNOTAB)
		line = find_in_lnotab(&table, offset, line);
	else if (python->lines_kind == SAMPLER_LINES_310)
		line = find_in_pairs(&table, offset, line);
	else
		line = find_in_locations(&table, offset, line);
	return !table.failed && line > 0 && line < INT32_MAX ? (uint32_t)line : 0;
}
