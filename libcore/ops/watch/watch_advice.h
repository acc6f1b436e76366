/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_WATCH_ADVICE_H
#define FLMEM_OPS_WATCH_WATCH_ADVICE_H

/* Applies the rules of `flmem recommend` to the processes that were watched. */

#include <flmem/watch.h>

/*
 * Fills the advice of a summary that is whole but for it, as the options ask. `live`: it is of a
 * watch, not of a recording. FLMEM_EFAILED when memory is out.
 */
int flmem_watch_advise(const struct flmem_watch_options *options, bool live,
		       struct flmem_watch_summary *summary, struct flmem_error *err);

#endif
