/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_HOLD_H
#define FLMEM_PRELOAD_SAMPLER_HOLD_H

/*
 * Lets callers hold the profile, since a profile that ends before its process is unmapped. Every
 * use holds it first: the count is raised before `active` is read, and `active` is cleared before
 * the count is read.
 */

#include "preload/sampler/sampler.h"
#include "preload/sampler_state.h"

/* The shown state has separate pages, which the kernel clears in a child of fork(). */
struct sampler_shown {
	struct flmem_sampler_state state;
} SAMPLER_PAGES_OF_ITS_OWN;

extern struct sampler_shown flmem_sampler_state __attribute__((visibility("default")));

/* This names the same object, even if another library defines that symbol. */
extern struct sampler_shown sampler_shown HIDDEN;

static inline void sampler_release(void)
{
	sampler_thread.holds--;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/* The count of a child of fork() begins at zero, perhaps in the middle of this function. */
	if (!__atomic_fetch_sub(&sampler_shown.state.inside, 1, __ATOMIC_SEQ_CST))
		__atomic_fetch_add(&sampler_shown.state.inside, 1, __ATOMIC_SEQ_CST);
}

/*
 * Holds the profile. Returns false where there is none; after true, sampler_release() has to
 * follow.
 */
static inline bool sampler_hold(void)
{
	__atomic_fetch_add(&sampler_shown.state.inside, 1, __ATOMIC_SEQ_CST);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sampler_thread.holds++;
	if (__atomic_load_n(&sampler_control.active, __ATOMIC_SEQ_CST) && !sampler_is_quiet())
		return true;
	sampler_release();
	return false;
}

#endif
