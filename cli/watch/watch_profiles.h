/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_WATCH_PROFILES_H
#define FLMEM_CLI_WATCH_PROFILES_H

/*
 * Reads heap profiles for the page of a watch: --profile. Only the command line joins the two: a
 * watch does not read profiles, and a profile does not know of watches.
 */

#include <flmem/watch_page.h>

#include "options/opt.h"

struct watch_profiles {
	struct flmem_watch_page_profile *rows;
	struct flmem_heap_profile **profiles; /* an entry of NULL could not be read */
	struct flmem_error *errors;
	size_t count;
};

/*
 * Returns FLMEM_EUSAGE for a file that is not a heap profile: a watch of days must not end with
 * that.
 */
int watch_profiles_check(const struct opt_texts *paths, struct flmem_error *err);

/*
 * Reads the profiles as they are now. One that cannot be read becomes a row with the reason, and a
 * line on stderr. Release them with watch_profiles_clear(). Returns FLMEM_EFAILED when memory is
 * out.
 */
int watch_profiles_read(const struct opt_texts *paths, struct watch_profiles *ret_profiles,
			struct flmem_error *err);
void watch_profiles_clear(struct watch_profiles *profiles);

#endif
