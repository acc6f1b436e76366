/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies memory that others may unmap. A call of the kernel takes a microsecond, and hardly more
 * for many addresses (process_vm_readv() would look up each of them as a page of another process).
 * So one call copies what the last sample needed, and one call what a stack leads to.
 */

#include <string.h>

#include "preload/sampler/sampler.h"

static void want_line(struct sampler_copies *lines, uint32_t i, uintptr_t at)
{
	lines->at[i] = at;
	lines->state[i] = SAMPLER_LINE_WANTED;
	lines->wanted[lines->wanted_count++] = (uint8_t)i;
}

/*
 * Gives each requested line a place. A line that was read separately meanwhile, or was replaced, is
 * no longer requested.
 */
static uint32_t place_wanted(struct sampler_copies *lines)
{
	uint32_t count = 0;

	for (uint32_t n = 0; n < lines->wanted_count; n++) {
		uint32_t i = lines->wanted[n];

		if (lines->state[i] != SAMPLER_LINE_WANTED)
			continue;
		lines->wanted[count] = (uint8_t)i;
		lines->from[count++] = (struct iovec){(void *)lines->at[i], SAMPLER_LINE};
	}
	return count;
}

static void fetch_wanted(struct sampler_copies *lines, enum sampler_line state)
{
	uint32_t count = place_wanted(lines), first = lines->place_count;
	size_t copied = 0;

	if (count)
		copied = sampler_copy(lines->bytes[first], lines->from, count,
				      (size_t)count * SAMPLER_LINE) /
			 SAMPLER_LINE;
	for (uint32_t n = 0; n < count; n++) {
		uint32_t i = lines->wanted[n];

		lines->place[i] = (uint8_t)(first + n);
		lines->state[i] = (uint8_t)(n < copied ? state : SAMPLER_LINE_STALE);
	}
	lines->place_count = first + (uint32_t)copied;
	lines->wanted_count = 0;
}

void sampler_copies_begin(struct sampler_copies *lines)
{
	lines->place_count = lines->wanted_count = 0;
	for (uint32_t i = 0; i < SAMPLER_LINES; i++) {
		if (lines->state[i] == SAMPLER_LINE_USED)
			want_line(lines, i, lines->at[i]);
		else
			lines->state[i] = SAMPLER_LINE_STALE;
	}
	fetch_wanted(lines, SAMPLER_LINE_AGAIN);
	sampler_thread.lines = lines;
}

void sampler_copies_end(void)
{
	sampler_thread.lines = NULL;
}

/*
 * Returns the line that has the address, else one that may be replaced: a stale one if there is
 * one.
 */
static uint32_t find_copy_line(const struct sampler_copies *lines, uintptr_t at)
{
	uint32_t set = (uint32_t)(at / SAMPLER_LINE) % (SAMPLER_LINES / SAMPLER_LINE_WAYS);
	uint32_t first = set * SAMPLER_LINE_WAYS, found = first;

	for (uint32_t i = first; i < first + SAMPLER_LINE_WAYS; i++) {
		if (lines->state[i] && lines->at[i] == at)
			return i;
		if (!lines->state[i])
			found = i;
	}
	return found;
}

void sampler_copies_want(uintptr_t address, size_t length)
{
	struct sampler_copies *lines = sampler_thread.lines;
	uintptr_t at = address & ~(uintptr_t)(SAMPLER_LINE - 1);

	if (!lines || !sampler_can_be(address, length))
		return;
	for (; at < address + length; at += SAMPLER_LINE) {
		uint32_t i = find_copy_line(lines, at);

		if (!lines->state[i] && lines->place_count + lines->wanted_count < SAMPLER_LINES)
			want_line(lines, i, at);
	}
}

void sampler_copies_fetch(void)
{
	if (sampler_thread.lines)
		fetch_wanted(sampler_thread.lines, SAMPLER_LINE_GATHERED);
}

/*
 * Returns the place for a line that is read separately: that of the line it replaces, or a new one
 * at the end.
 */
static uint32_t find_copy_place(const struct sampler_copies *lines, uint32_t i)
{
	if (lines->state[i] > SAMPLER_LINE_WANTED)
		return lines->place[i];
	return lines->place_count + lines->wanted_count < SAMPLER_LINES ? lines->place_count
									: SAMPLER_LINES;
}

static const char *find_present_line(struct sampler_copies *lines, uintptr_t at)
{
	uint32_t i = find_copy_line(lines, at);

	if (lines->state[i] <= SAMPLER_LINE_WANTED || lines->at[i] != at)
		return NULL;
	if (lines->state[i] == SAMPLER_LINE_AGAIN)
		lines->state[i] = SAMPLER_LINE_USED;
	return lines->bytes[lines->place[i]];
}

bool sampler_copies_have(uintptr_t address)
{
	struct sampler_copies *lines = sampler_thread.lines;

	return lines && find_present_line(lines, address & ~(uintptr_t)(SAMPLER_LINE - 1));
}

/* Reads the line with its neighbours, which a stack needs next. */
static void fetch_block(struct sampler_copies *lines, uintptr_t at)
{
	sampler_copies_want(at & ~(uintptr_t)(SAMPLER_BLOCK - 1), SAMPLER_BLOCK);
	fetch_wanted(lines, SAMPLER_LINE_AGAIN);
}

/* Reads one line. Without a free place, the line is dropped after its use. */
static const char *read_copy_line(struct sampler_copies *lines, uintptr_t at)
{
	uint32_t i = find_copy_line(lines, at), place = find_copy_place(lines, i);

	if (place < SAMPLER_LINES)
		lines->state[i] = SAMPLER_LINE_STALE;
	if (!sampler_read(at, lines->bytes[place], SAMPLER_LINE))
		return NULL;
	if (place < SAMPLER_LINES) {
		lines->place_count += place == lines->place_count;
		lines->place[i] = (uint8_t)place;
		lines->at[i] = at;
		lines->state[i] = SAMPLER_LINE_USED;
	}
	return lines->bytes[place];
}

/* Returns the copied line that has the address, or NULL. */
static const char *find_copied_line(struct sampler_copies *lines, uintptr_t address)
{
	uintptr_t at = address & ~(uintptr_t)(SAMPLER_LINE - 1);
	const char *found = find_present_line(lines, at);

	if (!found && !lines->wanted_count) {
		fetch_block(lines, at);
		found = find_present_line(lines, at);
	}
	return found ? found : read_copy_line(lines, at);
}

bool sampler_lines_read(struct sampler_copies *lines, uintptr_t address, void *out, size_t length)
{
	for (size_t done = 0, part; done < length; done += part) {
		size_t offset = (address + done) % SAMPLER_LINE;
		const char *line = find_copied_line(lines, address + done);

		part = SAMPLER_LINE - offset < length - done ? SAMPLER_LINE - offset
							     : length - done;
		if (!line)
			return false;
		memcpy((char *)out + done, line + offset, part);
	}
	return true;
}
