/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches to the process that this library was loaded into, and detaches. To attach, all entries
 * are redirected first, then sampling begins, so that hardly a free of a sampled block is missed.
 * Detaching works in reverse order. The library stays loaded: threads may be running in it, and
 * pointers to its functions may have been stored.
 */

#include "preload/sampler/requests.h"

#include <string.h>

#include "preload/sampler/got.h"
#include "preload/sampler/hold.h"
#include "preload/sampler/hooks.h"

extern const char flmem_sampler_mark[sizeof(FLMEM_SAMPLER_MARK)]
	__attribute__((visibility("default")));
const char flmem_sampler_mark[sizeof(FLMEM_SAMPLER_MARK)] = FLMEM_SAMPLER_MARK;

static const char attach_order[] = FLMEM_SAMPLER_ORDER_ATTACH;

static void append_answer(char *answer, size_t size, const char *text)
{
	size_t used = strlen(answer);

	sampler_copy_text(answer + used, size - used, text);
}

void sampler_show_identity(void)
{
	struct flmem_sampler_state *state = &sampler_shown.state;

	state->version = FLMEM_SAMPLER_STATE_VERSION;
	state->preloaded = sampler_is_interposed();
	__atomic_store_n(&state->magic, FLMEM_SAMPLER_STATE_MAGIC, __ATOMIC_RELEASE);
}

void sampler_show_sampling(void)
{
	struct flmem_sampler_state *state = &sampler_shown.state;

	state->version = FLMEM_SAMPLER_STATE_VERSION;
	__atomic_store_n(&state->magic, FLMEM_SAMPLER_STATE_MAGIC, __ATOMIC_RELEASE);
	__atomic_store_n(&state->phase, FLMEM_SAMPLER_SAMPLING, __ATOMIC_RELEASE);
}

static bool begin_change(enum flmem_sampler_phase from, enum flmem_sampler_phase to)
{
	uint32_t phase = from;

	return __atomic_compare_exchange_n(&sampler_shown.state.phase, &phase, to, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static const char *attach_profile(const char *path)
{
	struct flmem_sampler_state *state = &sampler_shown.state;
	const char *why = NULL;
	uintptr_t python = 0;

	if (!state->preloaded) {
		sampler_hooks_resolve_loaded();
		python = sampler_symbol_find("PyEval_RestoreThread", NULL);
		why = sampler_got_redirect(python, &state->entries);
	}
	sampler_copy_text(state->path, sizeof(state->path), path);
	if (!why)
		why = sampler_profile_open(path);
	if (state->preloaded)
		return why;
	if (why) {
		sampler_got_restore(NULL);
		return why;
	}
	/*
	 * A library that was loaded in between found no profile, so its entries are redirected now.
	 */
	sampler_thread.opened = 1;
	sampler_got_catch_up();
	sampler_got_redirect_again(python, &state->entries);
	return NULL;
}

static const char *run_attach(const char *path)
{
	const char *why;

	sampler_show_identity();
	if (!begin_change(FLMEM_SAMPLER_IDLE, FLMEM_SAMPLER_ATTACHING))
		return "it is already sampled, or another flmem is about to";
	if (__atomic_load_n(&sampler_shown.state.inside, __ATOMIC_SEQ_CST))
		why = "a call from an earlier profile has not ended";
	else
		why = attach_profile(path);
	if (why)
		__atomic_store_n(&sampler_shown.state.phase, FLMEM_SAMPLER_IDLE, __ATOMIC_SEQ_CST);
	return why;
}

static const char *run_detach(void)
{
	bool closed;
	uint64_t left = 0, unseen = 0;

	if (!begin_change(FLMEM_SAMPLER_SAMPLING, FLMEM_SAMPLER_DETACHING))
		return "it is not sampled, or another flmem is about to change that";
	closed = sampler_profile_close();
	if (!sampler_shown.state.preloaded)
		left = sampler_got_restore(&unseen);
	if (closed)
		sampler_profile_note_unseen(unseen);
	__atomic_store_n(&sampler_shown.state.phase, FLMEM_SAMPLER_IDLE, __ATOMIC_SEQ_CST);
	if (left)
		return "some entries could not be restored; they only forward calls";
	return closed ? NULL : "a call of a thread still uses the profile, which stays mapped";
}

void flmem_sampler_order(const char *order, char *answer) __attribute__((visibility("default")));

/* Runs in a thread of flmem, with no lock held, not even that of an interpreter. */
void flmem_sampler_order(const char *order, char *answer)
{
	const char *why = "the request is not known";

	sampler_thread.ordered = 1;
	sampler_walk_prepare_late();
	if (strncmp(order, attach_order, sizeof(attach_order) - 1) == 0)
		why = run_attach(order + sizeof(attach_order) - 1);
	else if (strcmp(order, FLMEM_SAMPLER_ORDER_DETACH) == 0)
		why = run_detach();
	answer[0] = '\0';
	append_answer(answer, FLMEM_SAMPLER_ANSWER_MAX,
		      why ? FLMEM_SAMPLER_REFUSED : FLMEM_SAMPLER_DONE);
	append_answer(answer, FLMEM_SAMPLER_ANSWER_MAX, why ? why : "");
	sampler_thread.ordered = 0;
}
