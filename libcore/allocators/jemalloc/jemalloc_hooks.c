/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/jemalloc/jemalloc_hooks.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "allocators/call_plan.h"
#include "allocators/jemalloc/jemalloc_state.h"
#include "base/cleanup.h"

/*
 * From 5.0 on arena.<i>.extent_hooks is a pointer to a table; in 4.x arena.<i>.chunk_hooks is the
 * table itself, seven functions (jemalloc(3)). Earlier versions have none. Reading them takes only
 * the lock of mallctl's own tree, which no hook runs under (src/ctl.c).
 */
#define TABLE_WORDS 7U

struct hook_table {
	const char *name;
	size_t words;
	unsigned major;
	const char *symbols[2]; /* names of jemalloc's default table, by version */
};

static const struct hook_table jemalloc_hooks_tables[] = {
	{"extent_hooks", 1, 5, {"ehooks_default_extent_hooks", "extent_hooks_default"}},
	{"chunk_hooks", TABLE_WORDS, 4, {"chunk_hooks_default", NULL}},
};

/* Number of arenas whose hooks fit into one chain. */
#define EXTENT_ARENAS 15U
#define CHUNK_ARENAS  4U
/* The index of an arena is below this number (MALLCTL_ARENAS_ALL). */
#define ARENAS_MAX 4096U

struct jemalloc_arenas {
	uint64_t first, count;
};

/*
 * After the hooks, processes with memory registered with a device are queried for their decay time,
 * which shows whether freed memory is kept forever. Numbers from ARENAS_MAX on then stand for the
 * arenas a second time. The setting for future arenas is arenas.dirty_decay_ms, -1 for never (5.0
 * and later).
 */
#define DECAY_ARENAS  13U
#define DECAY_ANSWERS 2U /* the number of arenas, and the setting for future ones */

static const char keeps_memory[] = "has set jemalloc to keep freed memory (dirty_decay_ms), or it "
				   "cannot be read";
static const char no_number[] = "jemalloc did not report its number of arenas";

int flmem_jemalloc_major(const struct flmem_allocator *found)
{
	return isdigit((unsigned char)found->version[0]) ? found->version[0] - '0' : 0;
}

/*
 * Reports whether this version may have such a table. A build of unknown version is queried for
 * both tables; an unknown name leaves its place unwritten.
 */
static bool has_table(const struct flmem_allocator *found, const struct hook_table *table)
{
	unsigned major = (unsigned)flmem_jemalloc_major(found);

	return !major || major == table->major || (major > 5 && table->major == 5);
}

static size_t arenas_at_once(const struct flmem_allocator *found)
{
	return flmem_jemalloc_major(found) >= 5 ? EXTENT_ARENAS : CHUNK_ARENAS;
}

static size_t count_words(const struct flmem_allocator *found)
{
	size_t words = 0;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(jemalloc_hooks_tables); i++)
		words += has_table(found, &jemalloc_hooks_tables[i])
				 ? jemalloc_hooks_tables[i].words
				 : 0;
	return words * arenas_at_once(found);
}

/*
 * Puts a length into the chain's data and returns its offset; mallctl() writes it back unchanged.
 */
static uint64_t put_length(struct flmem_chain *chain, uint64_t length)
{
	return flmem_chain_put(chain, &length, sizeof(length));
}

static void add_hook_arenas(const struct flmem_allocator *found, const struct hook_table *table,
			    uint64_t first, uint64_t out, struct flmem_chain *chain)
{
	const uint64_t length = table->words * sizeof(uint64_t);
	const uint64_t length_at = put_length(chain, length);
	uint64_t function;

	if (flmem_call_plan_function(found, "mallctl", &function, NULL))
		return;
	for (size_t i = 0; i < arenas_at_once(found); i++) {
		char name[48];

		snprintf(name, sizeof(name), "arena.%" PRIu64 ".%s", first + i, table->name);
		flmem_jemalloc_add_read(chain, function, name, out + i * length, length_at);
	}
}

/*
 * Appends the queries of the decay times. The answers are DECAY_ANSWERS numbers, then one number
 * per arena; 0 for an arena that does not exist.
 */
static uint64_t plan_decay(const struct flmem_allocator *found, uint64_t first,
			   struct flmem_chain *chain)
{
	uint64_t function, answers, out, length_at;

	if (flmem_call_plan_function(found, "mallctl", &function, NULL))
		return 0;
	answers = flmem_call_plan_answers(chain, DECAY_ANSWERS);
	out = flmem_chain_put(chain, NULL, DECAY_ARENAS * sizeof(uint64_t));
	length_at = put_length(chain, sizeof(uint64_t));
	flmem_jemalloc_add_read(chain, function, "arenas.narenas", answers,
				put_length(chain, sizeof(uint32_t)));
	flmem_jemalloc_add_read(chain, function, "arenas.dirty_decay_ms",
				answers + sizeof(uint64_t), length_at);
	for (size_t i = 0; i < DECAY_ARENAS; i++) {
		char name[48];

		snprintf(name, sizeof(name), "arena.%" PRIu64 ".dirty_decay_ms", first + i);
		flmem_jemalloc_add_read(chain, function, name, out + i * sizeof(uint64_t),
					length_at);
	}
	return answers;
}

/*
 * Appends the queries of the hooks. The answers are the number of arenas, then for each kind of
 * table those of the arenas.
 */
uint64_t flmem_jemalloc_plan_hooks(const struct flmem_allocator *found, uint64_t first,
				   struct flmem_chain *chain)
{
	size_t words = count_words(found);
	uint64_t function, answers, out;

	if (first >= ARENAS_MAX)
		return plan_decay(found, first - ARENAS_MAX, chain);
	if (!words || flmem_call_plan_function(found, "mallctl", &function, NULL))
		return 0;
	answers = flmem_call_plan_answers(chain, 1 + words);
	out = answers + sizeof(uint64_t);
	flmem_jemalloc_add_read(chain, function, "arenas.narenas", answers,
				put_length(chain, sizeof(uint32_t)));
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(jemalloc_hooks_tables); i++) {
		if (!has_table(found, &jemalloc_hooks_tables[i]))
			continue;
		add_hook_arenas(found, &jemalloc_hooks_tables[i], first, out, chain);
		out += arenas_at_once(found) * jemalloc_hooks_tables[i].words * sizeof(uint64_t);
	}
	return answers;
}

/*
 * Finds the run-time address of jemalloc's default table in a build with symbols; private names
 * have the prefix je_.
 */
static bool find_own_table(const struct flmem_allocator *found, const struct hook_table *table,
			   uint64_t *ret_address)
{
	const char *const prefixes[] = {"", found->prefix ? found->prefix : ""};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(table->symbols); i++) {
		for (size_t p = 0; p < FLMEM_ARRAY_SIZE(prefixes) && table->symbols[i]; p++) {
			char name[96];

			snprintf(name, sizeof(name), "%sje_%s", prefixes[p], table->symbols[i]);
			if (flmem_module_symbol_any(found->module, name, ret_address))
				return true;
		}
	}
	return false;
}

/* A jemalloc in a separate library contains no table and no function of the program. */
static bool is_in_library(const struct flmem_allocator *found, const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (words[i] < found->module->start || words[i] >= found->module->end)
			return false;
	return true;
}

enum jemalloc_owner {
	JEMALLOC_OWNER_ITSELF,
	JEMALLOC_OWNER_PROGRAM,
	JEMALLOC_OWNER_UNKNOWN,
};

static enum jemalloc_owner owner_of(const struct flmem_view *view,
				    const struct flmem_allocator *found,
				    const struct hook_table *table, const uint64_t *words)
{
	uint64_t own[TABLE_WORDS];

	if (words[0] == FLMEM_NO_ANSWER)
		return JEMALLOC_OWNER_ITSELF; /* the arena or the name does not exist */
	if (found->linkage == FLMEM_LINKAGE_SHARED)
		return is_in_library(found, words, table->words) ? JEMALLOC_OWNER_ITSELF
								 : JEMALLOC_OWNER_PROGRAM;
	if (!find_own_table(found, table, &own[0]) ||
	    (table->words > 1 &&
	     flmem_process_read_memory(view->process, own[0], own, sizeof(own))))
		return JEMALLOC_OWNER_UNKNOWN;
	return memcmp(own, words, table->words * sizeof(*words)) == 0 ? JEMALLOC_OWNER_ITSELF
								      : JEMALLOC_OWNER_PROGRAM;
}

static int check_hook_arena(const struct flmem_view *view, const struct flmem_allocator *found,
			    const struct hook_table *table, const uint64_t *words, uint64_t arena,
			    struct flmem_error *err)
{
	char hook[64];

	snprintf(hook, sizeof(hook), "arena.%" PRIu64 ".%s", arena, table->name);
	switch (owner_of(view, found, table, words)) {
	case JEMALLOC_OWNER_ITSELF:
		return 0;
	case JEMALLOC_OWNER_PROGRAM:
		return flmem_call_plan_refuse_hook(view, found, hook, err);
	case JEMALLOC_OWNER_UNKNOWN:
		break;
	}
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "whether %s of jemalloc in '%s' is a function of the program is "
			       "unknown, since the build has no symbol for jemalloc's own: keep "
			       "its symbol table, or use a shared library",
			       hook, found->module->path);
}

/* Checks the existing arenas from `first` on; `answers` are those of one kind of table. */
static int check_hook_arenas(const struct flmem_view *view, const struct flmem_allocator *found,
			     const struct hook_table *table, const unsigned char *answers,
			     struct jemalloc_arenas arenas, struct flmem_error *err)
{
	uint64_t words[TABLE_WORDS];
	const size_t size = table->words * sizeof(*words);
	int rc = 0;

	for (size_t i = 0; i < arenas_at_once(found) && !rc; i++) {
		if (arenas.first + i >= arenas.count)
			break;
		memcpy(words, answers + i * size, size);
		rc = check_hook_arena(view, found, table, words, arenas.first + i, err);
	}
	return rc;
}

static int take_decay(const struct flmem_view *view, const unsigned char *answers, uint64_t *first,
		      struct flmem_error *err)
{
	const uint64_t number = flmem_call_plan_answer(answers, 0, no_number).value & UINT32_MAX;
	const uint64_t arena = *first - ARENAS_MAX;
	struct flmem_u64 decay = flmem_call_plan_answer(answers, 1, no_number);

	if (number > ARENAS_MAX || decay.unknown || decay.value > INT64_MAX)
		return flmem_call_plan_refuse_registered(view, keeps_memory, err);
	for (size_t i = 0; i < DECAY_ARENAS; i++) {
		decay = flmem_call_plan_answer(answers, DECAY_ANSWERS + i, no_number);
		if (decay.unknown || decay.value > INT64_MAX)
			return flmem_call_plan_refuse_registered(view, keeps_memory, err);
	}
	*first = arena + DECAY_ARENAS < number ? *first + DECAY_ARENAS : 0;
	return 0;
}

int flmem_jemalloc_check_registered(const struct flmem_view *view,
				    const struct flmem_allocator *found, struct flmem_error *err)
{
	int major = flmem_jemalloc_major(found);

	if (!major || major >= 5 || !flmem_call_plan_has_registered(view))
		return 0;
	return flmem_call_plan_refuse_registered(view, keeps_memory, err);
}

int flmem_jemalloc_take_hooks(const struct flmem_view *view, const struct flmem_allocator *found,
			      const unsigned char *answers, uint64_t *first,
			      struct flmem_error *err)
{
	struct flmem_u64 number = flmem_call_plan_answer(answers, 0, no_number);
	/* mallctl() has not written the upper half of the number. */
	const struct jemalloc_arenas arenas = {*first, number.value & UINT32_MAX};
	const size_t at_once = arenas_at_once(found);
	int rc = 0;

	if (*first >= ARENAS_MAX)
		return take_decay(view, answers, first, err);
	if (number.unknown || !arenas.count || arenas.count > ARENAS_MAX)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "%s", no_number);
	answers += sizeof(uint64_t);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(jemalloc_hooks_tables) && !rc; i++) {
		if (!has_table(found, &jemalloc_hooks_tables[i]))
			continue;
		rc = check_hook_arenas(view, found, &jemalloc_hooks_tables[i], answers, arenas,
				       err);
		answers += at_once * jemalloc_hooks_tables[i].words * sizeof(uint64_t);
	}
	if (arenas.first + at_once < arenas.count)
		*first = arenas.first + at_once;
	else
		*first = flmem_call_plan_has_registered(view) ? ARENAS_MAX : 0;
	return rc;
}
