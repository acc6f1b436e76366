/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/exec_follow.h"

#include <string.h>

static bool is_ascii_digit(char c)
{
	return c >= '0' && c <= '9';
}

/*
 * Compares commands without their numbers: ports, rounds and the PIDs of parents change from start
 * to start.
 */
static bool is_same_command(const char *a, const char *b)
{
	for (;;) {
		while (is_ascii_digit(*a))
			a++;
		while (is_ascii_digit(*b))
			b++;
		if (*a != *b || !*a)
			return *a == *b;
		a++;
		b++;
	}
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same_part(const struct flmem_watch_process *a, const struct flmem_watch_process *b)
{
	return a->role != FLMEM_ROLE_NONE && a->role == b->role && a->framework == b->framework &&
	       is_same_text(a->site, b->site) && is_same_command(a->command, b->command);
}

/*
 * Moves what belongs to the live process from the new entry to the old one, whose measurements
 * stay.
 */
static void move_live_parts(struct flmem_watched_process *old,
			    struct flmem_watched_process *successor)
{
	struct flmem_watch_process id = old->id;
	int statm = old->statm;

	old->id = successor->id;
	successor->id = id;
	old->statm = successor->statm;
	successor->statm = statm;
	old->process = successor->process;
	successor->process = (struct flmem_process)FLMEM_PROCESS_INIT;
	old->group_peak = successor->group_peak;
	successor->group_peak = (struct flmem_group_peak)FLMEM_GROUP_PEAK_INIT;
	old->number = successor->number;
	old->group = successor->group;
	old->shared_pages = 0;
	old->ended = false;
	old->own_rounds = false;
	old->changed = true;
	old->restarts++;
	free(old->trim_state);
	old->trim_state = NULL;
}

struct flmem_watched_process *flmem_exec_follow_join(struct flmem_watch_state *watch_state,
						     struct flmem_watched_process *watched)
{
	for (size_t i = watch_state->count; i-- > 0;) {
		struct flmem_watched_process *old = watch_state->watched[i];

		if (!old->ended || !is_same_part(&old->id, &watched->id))
			continue;
		move_live_parts(old, watched);
		flmem_watched_process_free(watched);
		return old;
	}
	return NULL;
}

/* Returns the value of an ended process; the one with the lowest is dropped first. */
static uint64_t keep_value(const struct flmem_watched_process *watched)
{
	uint64_t samples = watched->history.samples < (UINT64_C(1) << 32) ? watched->history.samples
									  : UINT64_C(1) << 32;

	return samples | (uint64_t)(watched->id.role != FLMEM_ROLE_NONE) << 40 |
	       (uint64_t)watched->exceeded_limit << 41;
}

static size_t find_least(const struct flmem_watch_state *state)
{
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < state->count; i++)
		if (state->watched[i]->ended &&
		    (least == SIZE_MAX ||
		     keep_value(state->watched[i]) < keep_value(state->watched[least])))
			least = i;
	return least;
}

void flmem_exec_follow_forget(struct flmem_watch_state *watch_state)
{
	while (watch_state->count - watch_state->alive > FLMEM_EXEC_FOLLOW_ENDED_MAX) {
		size_t least = find_least(watch_state);

		if (least == SIZE_MAX)
			return;
		watch_state->forgotten++;
		watch_state->forgotten_exceeded |= watch_state->watched[least]->exceeded_limit;
		flmem_watched_process_free(watch_state->watched[least]);
		memmove(&watch_state->watched[least], &watch_state->watched[least + 1],
			(watch_state->count - least - 1) * sizeof(struct flmem_watched_process *));
		watch_state->count--;
	}
}
