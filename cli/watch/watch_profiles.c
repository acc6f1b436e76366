/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/watch_profiles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <flmem/text.h>

#define PATH_SHOWN 256

int watch_profiles_check(const struct opt_texts *paths, struct flmem_error *err)
{
	char shown[PATH_SHOWN];

	for (size_t i = 0; i < paths->count; i++) {
		flmem_text_escape(paths->values[i], shown, sizeof(shown));
		if (access(paths->values[i], R_OK) < 0)
			return flmem_error_set(err, flmem_code_of_open(errno), errno,
					       "--profile: cannot read '%s'", shown);
		if (!flmem_heap_profile_is_one(paths->values[i]))
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "--profile: '%s' is not a heap profile that can be "
					       "read; flmem profile attach or run makes one",
					       shown);
	}
	return 0;
}

static void read_one_profile(struct watch_profiles *all, size_t i, const char *path)
{
	const struct flmem_heap_request request = {.path = path, .choose_stacks = true};

	if (flmem_heap_profile_read(&request, &all->profiles[i], &all->errors[i]))
		fprintf(stderr, "flmem watch: --profile: %s\n", all->errors[i].message);
	all->rows[i] = (struct flmem_watch_page_profile){
		.path = path,
		.profile = all->profiles[i],
		.reason = all->errors[i].message,
	};
}

int watch_profiles_read(const struct opt_texts *paths, struct watch_profiles *ret_profiles,
			struct flmem_error *err)
{
	size_t room = paths->count ? paths->count : 1;
	struct watch_profiles all = {
		.rows = calloc(room, sizeof(*all.rows)),
		.profiles = calloc(room, sizeof(*all.profiles)),
		.errors = calloc(room, sizeof(*all.errors)),
		.count = paths->count,
	};

	if (!all.rows || !all.profiles || !all.errors) {
		all.count = 0;
		watch_profiles_clear(&all);
		return flmem_error_nomem(err, "cannot read the profiles");
	}
	for (size_t i = 0; i < all.count; i++)
		read_one_profile(&all, i, paths->values[i]);
	*ret_profiles = all;
	return 0;
}

void watch_profiles_clear(struct watch_profiles *profiles)
{
	for (size_t i = 0; i < profiles->count; i++)
		flmem_heap_profile_free(profiles->profiles[i]);
	free(profiles->rows);
	free(profiles->profiles);
	free(profiles->errors);
	*profiles = (struct watch_profiles){0};
}
