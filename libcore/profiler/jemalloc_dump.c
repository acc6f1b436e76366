/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/jemalloc_dump.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/io.h"
#include "base/text/text.h"

#define ALL_THREADS   "  t*: "
#define INTERVAL_MOST (UINT64_C(1) << 63) /* of opt.lg_prof_sample */
#define AMOUNT_MOST   ((double)(UINT64_C(1) << 62))

void flmem_jemalloc_dump_clear(struct flmem_jemalloc_dump *dump)
{
	free(dump->stacks);
	free(dump->addresses);
	flmem_maps_clear(&dump->maps);
	*dump = (struct flmem_jemalloc_dump){0};
}

bool flmem_jemalloc_dump_is_one(int fd)
{
	char magic[sizeof(FLMEM_JEMALLOC_DUMP_MAGIC) - 1];

	return pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       memcmp(magic, FLMEM_JEMALLOC_DUMP_MAGIC, sizeof(magic)) == 0;
}

static bool take_dump_prefix(const char **text, const char *prefix)
{
	if (!flmem_text_starts(*text, prefix))
		return false;
	*text += strlen(prefix);
	return true;
}

/* "count: bytes" */
static bool take_dump_count(const char **text, struct flmem_jemalloc_count *ret_count)
{
	return flmem_text_read_digits(text, &ret_count->objects) && take_dump_prefix(text, ": ") &&
	       flmem_text_read_digits(text, &ret_count->bytes) &&
	       !ret_count->objects == !ret_count->bytes;
}

/* "  t*: count: bytes [count: bytes]" */
static bool parse_counts(const char *line, struct flmem_jemalloc_count *ret_live,
			 struct flmem_jemalloc_count *ret_allocated)
{
	return take_dump_prefix(&line, ALL_THREADS) && take_dump_count(&line, ret_live) &&
	       take_dump_prefix(&line, " [") && take_dump_count(&line, ret_allocated) &&
	       !strcmp(line, "]");
}

static uint64_t scaled_amount(uint64_t amount, double factor)
{
	double scaled = (double)amount * factor;

	return scaled < AMOUNT_MOST ? (uint64_t)llrint(scaled) : (uint64_t)AMOUNT_MOST;
}

/*
 * As jeprof does for this version of the text: an allocation of n bytes is sampled with probability
 * 1 - exp(-n / interval), and n is taken to be the mean of the stack. jemalloc writes numbers for
 * which that is exact (opt.prof_unbias).
 */
static void remove_bias(struct flmem_jemalloc_count *count, uint64_t interval_bytes)
{
	double mean, factor;

	if (!count->objects)
		return;
	mean = (double)count->bytes / (double)count->objects;
	factor = -1 / expm1(-mean / (double)interval_bytes);
	count->objects = scaled_amount(count->objects, factor);
	count->bytes = scaled_amount(count->bytes, factor);
}

static int parse_first_line(const char *line, struct flmem_jemalloc_dump *dump,
			    struct flmem_error *err)
{
	if (take_dump_prefix(&line, FLMEM_JEMALLOC_DUMP_MAGIC) &&
	    flmem_text_read_digits(&line, &dump->interval_bytes) && !*line &&
	    dump->interval_bytes && dump->interval_bytes <= INTERVAL_MOST)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "its first line is damaged (distance of jemalloc's samples)");
}

static bool grow_dump_list(void **list, size_t count, size_t size)
{
	void *grown;

	/* The room is the next power of 2. */
	if (count && (count & (count - 1)))
		return true;
	grown = reallocarray(*list, count ? count * 2 : 1, size);
	if (!grown)
		return false;
	*list = grown;
	return true;
}

static int push_address(struct flmem_jemalloc_dump *dump, uint64_t address, struct flmem_error *err)
{
	void *list = dump->addresses;

	if (dump->address_count == FLMEM_JEMALLOC_ADDRESSES_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "its stacks have more than %zu addresses",
				       FLMEM_JEMALLOC_ADDRESSES_MAX);
	if (!grow_dump_list(&list, dump->address_count, sizeof(*dump->addresses)))
		return flmem_error_nomem(err, "cannot hold its stacks");
	dump->addresses = list;
	dump->addresses[dump->address_count++] = address;
	return 0;
}

/* " 0x1234 0x5678"; `ret_whole`: nothing else is in the line. */
static int parse_addresses(const char *line, struct flmem_jemalloc_dump *dump, bool *ret_whole,
			   struct flmem_error *err)
{
	int rc = 0;

	while (!rc && take_dump_prefix(&line, " 0x")) {
		uint64_t address = 0;
		size_t digits = strspn(line, "0123456789abcdef");

		if (!digits || digits > 16)
			break;
		for (; digits; digits--, line++)
			address = address << 4 |
				  (uint64_t)(*line <= '9' ? *line - '0' : *line - 'a' + 10);
		rc = push_address(dump, address, err);
	}
	*ret_whole = !*line;
	return rc;
}

static int push_dump_stack(struct flmem_jemalloc_dump *dump,
			   const struct flmem_jemalloc_stack *stack, struct flmem_error *err)
{
	void *list = dump->stacks;

	if (dump->stack_count == FLMEM_JEMALLOC_STACKS_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "it has more than %zu stacks",
				       FLMEM_JEMALLOC_STACKS_MAX);
	if (!grow_dump_list(&list, dump->stack_count, sizeof(*dump->stacks)))
		return flmem_error_nomem(err, "cannot hold its stacks");
	dump->stacks = list;
	dump->stacks[dump->stack_count++] = *stack;
	return 0;
}

/* A line "@ ..." and the one behind it. */
static int parse_stack(const char *line, const char *counts, struct flmem_jemalloc_dump *dump,
		       struct flmem_error *err)
{
	struct flmem_jemalloc_stack stack = {.first = dump->address_count};
	bool whole;
	int rc = parse_addresses(line + 1, dump, &whole, err);

	if (rc)
		return rc;
	stack.depth = dump->address_count - stack.first;
	if (!whole || !counts || !parse_counts(counts, &stack.live, &stack.allocated)) {
		dump->skipped++;
		dump->address_count = stack.first;
		return 0;
	}
	dump->accumulated |= stack.allocated.objects != 0;
	remove_bias(&stack.live, dump->interval_bytes);
	remove_bias(&stack.allocated, dump->interval_bytes);
	return push_dump_stack(dump, &stack, err);
}

/*
 * Takes a line out of the text; NULL at its end. A last line without its end is not taken: a number
 * in it may be cut.
 */
static char *take_dump_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*text = end + 1;
	return line;
}

/* What follows the first line, up to the mappings; `*text` is then behind their heading. */
static int parse_stacks(char **text, struct flmem_jemalloc_dump *dump, struct flmem_error *err)
{
	char *line;
	int rc = 0;

	dump->cut = true;
	while (!rc && dump->cut && (line = take_dump_line(text))) {
		if (line[0] == '@')
			rc = parse_stack(line, **text == '@' ? NULL : take_dump_line(text), dump,
					 err);
		else if (!strcmp(line, FLMEM_JEMALLOC_DUMP_MAPS))
			dump->cut = false;
	}
	return rc;
}

static int parse_dump(char *text, struct flmem_jemalloc_dump *dump, struct flmem_error *err)
{
	const char *line = take_dump_line(&text);
	char *maps;
	int rc;

	rc = parse_first_line(line ? line : "", dump, err);
	if (!rc)
		rc = parse_stacks(&text, dump, err);
	if (rc || dump->cut)
		return rc;
	maps = strdup(text);
	if (!maps)
		return flmem_error_nomem(err, "cannot hold its mappings");
	return flmem_maps_parse(maps, &dump->maps, err);
}

int flmem_jemalloc_dump_read(int fd, struct flmem_jemalloc_dump *ret_dump, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_JEMALLOC_DUMP struct flmem_jemalloc_dump dump = {0};
	int rc = flmem_io_read_all(fd, FLMEM_JEMALLOC_DUMP_MAX, &text);
	bool has_end;

	if (rc == -EFBIG)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "it is larger than %zu MiB",
				       FLMEM_JEMALLOC_DUMP_MAX >> 20);
	if (rc || !text.length)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "reading failed");
	/* Zeros are in a file that was not written out when its machine stopped. */
	has_end = strlen(text.data) == text.length && text.data[text.length - 1] == '\n';
	rc = parse_dump(text.data, &dump, err);
	if (rc)
		return rc;
	dump.lacks_stacks = dump.cut;
	dump.cut |= !has_end;
	*ret_dump = dump;
	dump = (struct flmem_jemalloc_dump){0};
	return 0;
}
