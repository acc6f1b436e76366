/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_check.h"

#include <errno.h>

#include "allocators/glibc/glibc_links.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define TIME_EVERY     64U
#define ARENAS_AT_ONCE 16U
/* Factor of the budget of later checks: a damaged list may have grown by then. */
#define LONGER_AGAIN 4U

/* Pauses between two checks. */
static const uint64_t pauses_us[FLMEM_GLIBC_CHECKS - 1] = {200, 2000, 10000, 60000};

/* State of one check. */
struct list_check {
	const struct flmem_glibc_space *space;
	const struct flmem_glibc *glibc;
	uint64_t budget_ns, cpu_deadline_ns, deadline_ns;
	size_t steps;
	size_t fetched; /* the lists of the arenas before this one were read */
	unsigned checks;
	bool late; /* not all lists were seen */
	/* The time limit was reached before the budget of processor time was used. */
	bool waited;
	bool unread;			/* an arena could not be read */
	const struct flmem_map *usable; /* the mapping that was used last */
	struct flmem_glibc_damage *damage;
};

static void start_budget(struct list_check *check, uint64_t budget_ns)
{
	check->late = check->waited = false;
	check->cpu_deadline_ns = flmem_clock_cpu_ns() + budget_ns;
	check->deadline_ns = flmem_clock_ns() + FLMEM_GLIBC_WAIT_FACTOR * budget_ns;
}

/*
 * The budget is in processor time, so that a check does not pass on a busy machine because it could
 * not run.
 */
static bool is_check_late(struct list_check *check)
{
	if (!check->late && flmem_clock_cpu_ns() >= check->cpu_deadline_ns)
		check->late = true;
	else if (!check->late && flmem_clock_ns() >= check->deadline_ns)
		check->late = check->waited = true;
	return check->late;
}

static bool is_step_late(struct list_check *check)
{
	return ++check->steps % TIME_EVERY == 0 && is_check_late(check);
}

static bool report_damage(const struct list_check *check, uint64_t chunk, uint64_t word,
			  const char *what)
{
	*check->damage = (struct flmem_glibc_damage){
		.list = "free blocks", .address = chunk, .word = word, .what = what};
	return true;
}

/*
 * malloc_trim writes to each chunk; one in memory that is not writable would end the program with a
 * signal.
 */
static bool is_unusable(struct list_check *check, uint64_t address)
{
	const struct flmem_map *map = check->usable;

	if (map && address >= map->start && address < map->end)
		return false;
	map = flmem_maps_find(check->space->maps, address);
	if (!map)
		return false;
	if (!(map->flags & FLMEM_MAP_READ) || !(map->flags & FLMEM_MAP_WRITE))
		return true;
	check->usable = map;
	return false;
}

static bool report_protected(struct list_check *check, uint64_t address)
{
	if (!is_unusable(check, address))
		return false;
	*check->damage = (struct flmem_glibc_damage){
		.address = address, .word = address, .is_protected = true};
	return true;
}

/*
 * A swapped page exists, but how its list continues is unknown, unless it was read. An anonymous
 * page that is neither in memory nor swapped out is one of zeroes, as after MADV_DONTNEED.
 */
static const char *explain_unread(const struct list_check *check, uint64_t chunk, int rc,
				  uint64_t address)
{
	const struct flmem_map *map = flmem_maps_find(check->space->maps, address);

	if (!map)
		return address == chunk ? "this address is not mapped"
					: "its size reaches past mapped memory";
	if (rc == -ENODATA)
		return flmem_peek_swaps_in(check->space->peek) && !map->inode
			       ? "its memory was discarded"
			       : NULL;
	return rc == -EFAULT || rc == -EIO ? "its memory cannot be read" : NULL;
}

static bool judge_link(struct list_check *check, uint64_t chunk, int rc,
		       const struct flmem_glibc_link *link)
{
	const char *wrong;

	if (report_protected(check, chunk) ||
	    (!rc && !link->wrong && report_protected(check, chunk + link->size)))
		return true;
	wrong = rc ? explain_unread(check, chunk, rc, link->word) : link->wrong;
	return wrong && report_damage(check, chunk, link->word, wrong);
}

static bool check_bin(struct list_check *check, uint64_t head)
{
	uint64_t ends[2], chunk, previous = head; /* fd, bk */

	if (flmem_peek_read(check->space->peek, head + 16, ends, sizeof(ends)))
		return false;
	for (chunk = ends[0]; chunk != head;) {
		struct flmem_glibc_link link;
		int rc = flmem_glibc_bin_link(check->space->peek, chunk, previous, &link);

		if (judge_link(check, chunk, rc, &link))
			return true;
		if (rc || is_step_late(check))
			return false;
		previous = chunk;
		chunk = link.next;
	}
	return ends[1] != previous &&
	       report_damage(check, head, ends[1], "its list has a wrong end pointer");
}

static bool check_fastbin(struct list_check *check, uint64_t first, uint64_t size)
{
	struct flmem_glibc_cycle cycle = {0};
	uint64_t chunk = first;

	while (chunk) {
		struct flmem_glibc_link link;
		int rc;

		if (flmem_glibc_cycle_ends(&cycle, chunk))
			return report_damage(check, chunk, first, "its list is circular");
		rc = flmem_glibc_fast_link(check->space->peek, check->glibc->layout, chunk, size,
					   &link);
		if (judge_link(check, chunk, rc, &link))
			return true;
		if (rc || is_step_late(check))
			return false;
		chunk = link.next;
	}
	return false;
}

static bool check_glibc_arena(struct list_check *check, const struct flmem_glibc_arena *arena)
{
	if (report_protected(check, arena->address) || report_protected(check, arena->top))
		return true;
	for (unsigned i = 0; i < FLMEM_GLIBC_FASTBINS; i++)
		if (check_fastbin(check, arena->fastbins[i], flmem_glibc_fast_size(i)))
			return true;
	for (unsigned i = 0; i < FLMEM_GLIBC_BINS && !is_step_late(check); i++)
		if (check_bin(check, flmem_glibc_bin_head(check->glibc->layout, arena->address, i)))
			return true;
	return false;
}

static bool is_fetch_late(void *context)
{
	return is_check_late(context);
}

/* Reads the lists of some arenas together, before they are checked. */
static void fetch_arenas(struct list_check *check, size_t index, size_t count)
{
	const struct flmem_glibc_fetch wanted = {
		.peek = check->space->peek,
		.layout = check->glibc->layout,
		.arenas = check->glibc->arenas + index,
		.count = count,
		.is_late = is_fetch_late,
		.context = check,
	};

	flmem_glibc_lists_fetch(&wanted);
	check->fetched = index + count;
}

/* Checks from the arena `*index` on; sets `*index` to the one with damage. */
static bool check_glibc_arenas(struct list_check *check, size_t *index)
{
	for (; *index < check->glibc->arena_count; ++*index) {
		struct flmem_glibc_arena arena;

		if (is_check_late(check))
			return false;
		if (*index >= check->fetched)
			fetch_arenas(check, *index,
				     check->glibc->arena_count - *index < ARENAS_AT_ONCE
					     ? check->glibc->arena_count - *index
					     : ARENAS_AT_ONCE);
		if (!flmem_glibc_arena_read(check->space, check->glibc, *index, &arena))
			check->unread = flmem_peek_swaps_in(check->space->peek);
		else if (!arena.locked && check_glibc_arena(check, &arena))
			return true;
	}
	return false;
}

static bool is_same_damage(const struct flmem_glibc_damage *a, const struct flmem_glibc_damage *b)
{
	return a->address == b->address && a->word == b->word && a->what == b->what;
}

/* Whether all further checks that see the whole arena find the same damage. */
static bool is_damage_stable(const struct list_check *check, size_t index)
{
	const struct flmem_glibc_damage before = *check->damage;

	for (unsigned i = 0; i + 1 < check->checks; i++) {
		struct flmem_glibc_damage again = {0};
		struct list_check next = *check;
		struct flmem_glibc_arena arena;

		flmem_clock_sleep_us(pauses_us[i]);
		flmem_peek_forget(check->space->peek);
		start_budget(&next, LONGER_AGAIN * check->budget_ns);
		next.damage = &again;
		fetch_arenas(&next, index, 1);
		if (!flmem_glibc_arena_read(check->space, check->glibc, index, &arena) ||
		    arena.locked)
			return false;
		if (check_glibc_arena(&next, &arena) ? !is_same_damage(&before, &again)
						     : !next.late)
			return false;
	}
	return true;
}

/* malloc_trim follows the ring of arenas until it is back at the first. */
static bool is_ring_broken(const struct list_check *check)
{
	uint64_t address, again;

	if (!flmem_glibc_stray(check->space, &address))
		return false;
	for (unsigned i = 0; i + 1 < check->checks; i++) {
		flmem_clock_sleep_us(pauses_us[i]);
		flmem_peek_forget(check->space->peek);
		if (!flmem_glibc_stray(check->space, &again) || again != address)
			return false;
	}
	*check->damage = (struct flmem_glibc_damage){.list = "arenas",
						     .address = address,
						     .word = address,
						     .what = "no arena is at this address"};
	return true;
}

bool flmem_glibc_is_damaged(const struct flmem_glibc_space *space, uint64_t budget_us,
			    unsigned checks, struct flmem_glibc_damage *ret_damage)
{
	FLMEM_AUTO_GLIBC struct flmem_glibc glibc = {0};
	struct flmem_glibc_damage damage = {0};
	struct list_check check = {
		.space = space,
		.glibc = &glibc,
		.budget_ns = 1000 * budget_us,
		.checks = checks < FLMEM_GLIBC_CHECKS ? checks : FLMEM_GLIBC_CHECKS,
		.damage = &damage,
	};
	const char *why;
	bool damaged = false;

	/*
	 * The lists of a release newer than the known ones are not checked: their form is unknown.
	 */
	if (space->minor > flmem_glibc_layouts->minor)
		return false;
	if (!flmem_glibc_find(space, &glibc, &why))
		damaged = is_ring_broken(&check);
	/* The budget is for the lists alone; the arenas are found before. */
	start_budget(&check, check.budget_ns);
	for (size_t i = 0; !damaged && check_glibc_arenas(&check, &i); i++) {
		damaged = is_damage_stable(&check, i);
		check.fetched = 0; /* all that was read is forgotten */
	}
	if (!damaged && (check.waited || check.unread)) {
		damage = (struct flmem_glibc_damage){.is_unseen = true};
		damaged = true;
	}
	if (damaged)
		*ret_damage = damage;
	return damaged;
}
