/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/succession.h"

#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* But for numbers: ports, rounds and the pids of parents change from start to start. */
static bool is_same_command(const char *a, const char *b)
{
	for (;;) {
		while (is_digit(*a))
			a++;
		while (is_digit(*b))
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

/* What belongs to the living process; what was learnt stays where it is. */
static void hand_over(struct flmem_followed *old, struct flmem_followed *heir)
{
	struct flmem_watch_process id = old->id;
	int statm = old->statm;

	old->id = heir->id;
	heir->id = id;
	old->statm = heir->statm;
	heir->statm = statm;
	old->process = heir->process;
	heir->process = (struct flmem_process)FLMEM_PROCESS_INIT;
	old->number = heir->number;
	old->group = heir->group;
	old->shared_pages = 0;
	old->ended = false;
	old->own_rounds = false;
	old->changed = true;
	old->restarts++;
	free(old->ward);
	old->ward = NULL;
}

struct flmem_followed *flmem_succession_join(struct flmem_watching *watching,
					     struct flmem_followed *followed)
{
	for (size_t i = watching->count; i-- > 0;) {
		struct flmem_followed *old = watching->followed[i];

		if (!old->ended || !is_same_part(&old->id, &followed->id))
			continue;
		hand_over(old, followed);
		flmem_followed_free(followed);
		return old;
	}
	return NULL;
}

/* The higher, the more is it worth to be kept. */
static uint64_t worth(const struct flmem_followed *f)
{
	uint64_t samples =
		f->history.samples < (UINT64_C(1) << 32) ? f->history.samples : UINT64_C(1) << 32;

	return samples | (uint64_t)(f->id.role != FLMEM_ROLE_NONE) << 40 |
	       (uint64_t)f->passed_above << 41;
}

static size_t find_least(const struct flmem_watching *w)
{
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < w->count; i++)
		if (w->followed[i]->ended &&
		    (least == SIZE_MAX || worth(w->followed[i]) < worth(w->followed[least])))
			least = i;
	return least;
}

void flmem_succession_forget(struct flmem_watching *watching)
{
	while (watching->count - watching->alive > FLMEM_SUCCESSION_ENDED_MAX) {
		size_t least = find_least(watching);

		if (least == SIZE_MAX)
			return;
		watching->forgotten++;
		watching->forgotten_passed |= watching->followed[least]->passed_above;
		flmem_followed_free(watching->followed[least]);
		memmove(&watching->followed[least], &watching->followed[least + 1],
			(watching->count - least - 1) * sizeof(struct flmem_followed *));
		watching->count--;
	}
}
