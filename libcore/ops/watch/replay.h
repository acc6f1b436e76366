/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_REPLAY_H
#define FLMEM_OPS_WATCH_REPLAY_H

#include <flmem/watch.h>

#include "ops/watch/watch_state.h"

/* flmem_watch_replay() of a recording in memory. */
int flmem_watch_replay_bytes(const void *bytes, size_t length,
			     const struct flmem_watch_options *options,
			     const struct flmem_watch_callbacks *callbacks,
			     struct flmem_watch_summary *ret_summary, struct flmem_error *err);

#endif
