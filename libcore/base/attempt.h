/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_ATTEMPT_H
#define FLMEM_BASE_ATTEMPT_H

/*
 * Work on a process that may never answer: a page of its memory can lie in a file whose server is
 * silent, or be missing with nobody to supply it (userfaultfd), and a read of it then waits for as
 * long as that process likes, deaf to signals. So such work runs on a thread of its own, which is
 * left behind when it is blocked in one read for too long. It owns all that it works on.
 *
 * Which call a thread is blocked in is read in /proc/self/task, so nothing has to be announced, and
 * work that only takes long is not disturbed.
 */

#include <stdbool.h>

#include <flmem/error.h>

/* A single read that is not answered for this long is given up. */
#define FLMEM_ATTEMPT_PATIENCE_MS 2000U

/* And so is work that was blocked so many times longer in many reads that were answered late. */
#define FLMEM_ATTEMPT_TOTAL_FACTOR 5U

struct flmem_attempt {
	int (*run)(void *context, struct flmem_error *err);
	void (*release)(void *context); /* called for a context that was lost, once run returns */
	unsigned patience_ms;		/* 0: FLMEM_ATTEMPT_PATIENCE_MS */
};

/*
 * Returns what run returns; the context is the caller's as before. With *ret_lost it was given up:
 * the context is no more the caller's, err says for how long was waited, and the code is
 * FLMEM_EUNSAFE. Meanwhile the other thread takes the stop signals of terminals, since it knows
 * when a stopped tracer would hold up a target. Within another attempt run is called at once.
 */
int flmem_attempt_run(const struct flmem_attempt *attempt, void *context, bool *ret_lost,
		      struct flmem_error *err);

/*
 * Whether the caller runs within an attempt that was given up. Then it may do nothing more to the
 * process, and read nothing more of it.
 */
bool flmem_attempt_is_lost(void);

#endif
