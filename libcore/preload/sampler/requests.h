/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_REQUESTS_H
#define FLMEM_PRELOAD_SAMPLER_REQUESTS_H

/* Begins and ends a profile while the process runs. */

#include "preload/sampler/sampler.h"

/*
 * lifetime.c: begins a profile, while nothing is sampled. Returns NULL, or why it does not begin.
 */
HIDDEN const char *sampler_profile_open(const char *path);
/*
 * Ends the profile. Returns false where a call that uses it does not end: the file stays mapped,
 * but sampling ends.
 */
HIDDEN bool sampler_profile_close(void);
/* Stores in the closed file how many calls bypassed the sampler. */
HIDDEN void sampler_profile_note_unseen(uint64_t unseen);

/* attach.c: publishes what flmem reads from outside. */
HIDDEN void sampler_show_identity(void);
HIDDEN void sampler_show_sampling(void);

/*
 * trampolines.c: called before dlopen() and dlsym(), which are then entered as from the caller
 * itself.
 */
HIDDEN void *sampler_before_dlopen(const char *path, int mode);
HIDDEN void *sampler_before_dlsym(void *handle, const char *name);

#endif
