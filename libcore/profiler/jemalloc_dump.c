/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/jemalloc_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/buf.h"
#include "base/text/text.h"
#include "preload/profile_format.h"
#include "profiler/index_set.h"

#define ALL_THREADS   "  t*: "
#define INTERVAL_MOST (UINT64_C(1) << 63) /* limit of opt.lg_prof_sample */
#define AMOUNT_MOST   ((double)(UINT64_C(1) << 62))

void flmem_jemalloc_dump_clear(struct flmem_jemalloc_dump *dump)
{
	free(dump->stacks);
	free(dump->nodes);
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

/* Reads "count: bytes". */
static bool take_dump_count(const char **text, struct flmem_jemalloc_count *ret_count)
{
	return flmem_text_read_digits(text, &ret_count->objects) && take_dump_prefix(text, ": ") &&
	       flmem_text_read_digits(text, &ret_count->bytes) &&
	       !ret_count->objects == !ret_count->bytes;
}

/* Parses " t*: count: bytes [count: bytes]". */
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
 * Removes the bias as jeprof does for this version of the text: an allocation of n bytes is sampled
 * with probability 1 - exp(-n / interval), and n is taken to be the mean of the stack. jemalloc
 * writes numbers for which that is exact (opt.prof_unbias).
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

	/* The capacity is the next power of 2. */
	if (count && (count & (count - 1)))
		return true;
	grown = reallocarray(*list, count ? count * 2 : 1, size);
	if (!grown)
		return false;
	*list = grown;
	return true;
}

/* The file while it is read: the contents that it had when it was opened, one line at a time. */
struct dump_text {
	struct flmem_jemalloc_dump *dump;
	FILE *file;
	size_t left;
	bool at_end; /* the last line was complete */
	char *line;
	size_t room;
	struct flmem_index_set nodes;
};

struct dump_stack {
	uint64_t addresses[FLMEM_PROFILE_DEPTH];
	size_t depth;
	bool cut; /* outer calls of the stack are missing */
};

struct node_search {
	const struct flmem_jemalloc_dump *dump;
	const struct flmem_jemalloc_node *wanted;
};

static bool is_dump_node(const void *context, uint32_t index)
{
	const struct node_search *search = context;
	const struct flmem_jemalloc_node *node = &search->dump->nodes[index];

	return node->address == search->wanted->address && node->parent == search->wanted->parent;
}

static int push_dump_node(struct flmem_jemalloc_dump *dump, const struct flmem_jemalloc_node *node,
			  struct flmem_error *err)
{
	void *list = dump->nodes;

	if (dump->node_count == FLMEM_JEMALLOC_NODES_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "its stacks have more than %zu calls",
				       FLMEM_JEMALLOC_NODES_MAX);
	if (!grow_dump_list(&list, dump->node_count, sizeof(*dump->nodes)))
		return flmem_error_nomem(err, "cannot store its stacks");
	dump->nodes = list;
	dump->nodes[dump->node_count++] = *node;
	return 0;
}

static int take_dump_node(struct dump_text *text, uint64_t address, uint32_t *node,
			  struct flmem_error *err)
{
	struct flmem_jemalloc_dump *dump = text->dump;
	const struct flmem_jemalloc_node wanted = {address, *node};
	const struct node_search search = {dump, &wanted};
	uint64_t hash = flmem_fnv_mix(text->nodes.seed, &address, sizeof(address));
	const struct flmem_index_key key = {flmem_fnv_mix(hash, node, sizeof(*node)), is_dump_node,
					    &search};
	uint32_t index = flmem_index_set_take(&text->nodes, &key, (uint32_t)dump->node_count);

	if (index == FLMEM_INDEX_NONE)
		return flmem_error_nomem(err, "cannot store its stacks");
	*node = index;
	return index == dump->node_count ? push_dump_node(dump, &wanted, err) : 0;
}

static int take_stack(struct dump_text *text, const uint64_t *addresses, size_t count,
		      uint32_t *ret_node, struct flmem_error *err)
{
	int rc = 0;

	*ret_node = 0;
	while (!rc && count)
		rc = take_dump_node(text, addresses[--count], ret_node, err);
	return rc;
}

/*
 * Parses " 0x1234 0x5678", the innermost call first. Returns false if the line has anything else.
 */
static bool parse_addresses(const char *line, struct dump_stack *stack)
{
	while (take_dump_prefix(&line, " 0x")) {
		uint64_t address = 0;
		size_t digits = strspn(line, "0123456789abcdef");

		if (!digits || digits > 16)
			return false;
		for (; digits; digits--, line++)
			address = address << 4 |
				  (uint64_t)(*line <= '9' ? *line - '0' : *line - 'a' + 10);
		if (stack->depth < FLMEM_PROFILE_DEPTH)
			stack->addresses[stack->depth++] = address;
		else
			stack->cut = true;
	}
	return !*line;
}

static int push_dump_stack(struct flmem_jemalloc_dump *dump,
			   const struct flmem_jemalloc_stack *stack, struct flmem_error *err)
{
	void *list = dump->stacks;

	if (dump->stack_count == FLMEM_JEMALLOC_STACKS_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "it has more than %zu stacks",
				       FLMEM_JEMALLOC_STACKS_MAX);
	if (!grow_dump_list(&list, dump->stack_count, sizeof(*dump->stacks)))
		return flmem_error_nomem(err, "cannot store its stacks");
	dump->stacks = list;
	dump->stacks[dump->stack_count++] = *stack;
	return 0;
}

/*
 * Reads the next line; NULL at the end. A last line without a newline is not returned, because a
 * number in it may be cut. A line with zeros is not returned, either: they are in a file that was
 * not written out when its machine stopped.
 */
static char *take_dump_line(struct dump_text *text)
{
	ssize_t length = text->left ? getline(&text->line, &text->room, text->file) : -1;

	text->at_end = length < 0 && !text->left;
	if (length < 0 || text->line[length - 1] != '\n' || strlen(text->line) != (size_t)length ||
	    (size_t)length > text->left)
		return NULL;
	text->left -= (size_t)length;
	text->line[length - 1] = '\0';
	return text->line;
}

static bool is_stack_next(const struct dump_text *text)
{
	int next = getc(text->file);

	ungetc(next, text->file);
	return next == '@';
}

/* Parses a line "@ ..." and the one after it. */
static int parse_stack(struct dump_text *text, struct flmem_error *err)
{
	struct flmem_jemalloc_dump *dump = text->dump;
	struct flmem_jemalloc_stack stack = {0};
	struct dump_stack calls = {.depth = 0};
	bool whole = parse_addresses(text->line + 1, &calls);
	const char *counts = is_stack_next(text) ? NULL : take_dump_line(text);
	int rc;

	if (!whole || !counts || !parse_counts(counts, &stack.live, &stack.allocated)) {
		dump->skipped++;
		return 0;
	}
	rc = take_stack(text, calls.addresses, calls.depth, &stack.node, err);
	if (rc)
		return rc;
	dump->cut_stacks += calls.cut;
	dump->accumulated |= stack.allocated.objects != 0;
	remove_bias(&stack.live, dump->interval_bytes);
	remove_bias(&stack.allocated, dump->interval_bytes);
	return push_dump_stack(dump, &stack, err);
}

/* Parses what follows the first line, up to the heading of the mappings. */
static int parse_stacks(struct dump_text *text, struct flmem_error *err)
{
	struct flmem_jemalloc_dump *dump = text->dump;
	char *line;
	int rc = 0;

	dump->cut = true;
	while (!rc && dump->cut && (line = take_dump_line(text))) {
		if (line[0] == '@')
			rc = parse_stack(text, err);
		else if (!strcmp(line, FLMEM_JEMALLOC_DUMP_MAPS))
			dump->cut = false;
	}
	return rc;
}

/* Parses the mappings, up to an incomplete line. */
static int parse_dump_maps(struct dump_text *text, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf lines = FLMEM_BUF_INIT;
	const char *line;
	char *maps;

	while ((line = take_dump_line(text))) {
		flmem_buf_puts(&lines, line);
		flmem_buf_putc(&lines, '\n');
	}
	text->dump->cut = !text->at_end;
	maps = flmem_buf_take(&lines);
	if (!maps)
		return flmem_error_nomem(err, "cannot store its mappings");
	return flmem_maps_parse(maps, &text->dump->maps, err);
}

static int parse_dump(struct dump_text *text, struct flmem_error *err)
{
	const char *line = take_dump_line(text);
	int rc = parse_first_line(line ? line : "", text->dump, err);

	if (!rc)
		rc = parse_stacks(text, err);
	text->dump->lacks_stacks = text->dump->cut;
	if (!rc && !text->dump->cut)
		rc = parse_dump_maps(text, err);
	if (!rc && ferror(text->file))
		rc = flmem_error_set(err, FLMEM_EFAILED, EIO, "reading failed");
	return rc;
}

static void clear_dump_text(struct dump_text *text)
{
	if (text->file)
		fclose(text->file);
	free(text->line);
	flmem_index_set_clear(&text->nodes);
}

static int open_dump_text(int fd, struct dump_text *text, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct stat status;

	if (own < 0 || fstat(fd, &status) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "reading failed");
	if (status.st_size > (off_t)FLMEM_JEMALLOC_DUMP_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "it is larger than %zu MiB",
				       FLMEM_JEMALLOC_DUMP_MAX >> 20);
	text->left = (size_t)status.st_size;
	text->file = fdopen(own, "re");
	if (!text->file)
		return flmem_error_nomem(err, "cannot read it");
	own = -1;
	flmem_index_set_init(&text->nodes);
	return 0;
}

int flmem_jemalloc_dump_read(int fd, struct flmem_jemalloc_dump *ret_dump, struct flmem_error *err)
{
	FLMEM_AUTO_JEMALLOC_DUMP struct flmem_jemalloc_dump dump = {0};
	FLMEM_AUTO(clear_dump_text) struct dump_text text = {.dump = &dump};
	const struct flmem_jemalloc_node root = {0};
	int rc = open_dump_text(fd, &text, err);

	if (!rc)
		rc = push_dump_node(&dump, &root, err);
	if (!rc)
		rc = parse_dump(&text, err);
	if (rc)
		return rc;
	*ret_dump = dump;
	dump = (struct flmem_jemalloc_dump){0};
	return 0;
}
