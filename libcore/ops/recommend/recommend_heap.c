/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_heap.h"

#include "frameworks/framework.h"
#include "rules/heap_rules.h"
#include "rules/rules.h"

/*
 * Refuses a dump of jemalloc: the rules are about rounds, the peak and Python code, which it lacks.
 */
static int refuse_heap_dump(const struct flmem_heap_profile *profile, struct flmem_error *why)
{
	if (profile->ending != FLMEM_HEAP_DUMPED)
		return 0;
	return flmem_error_set(why, FLMEM_EUSAGE, 0,
			       "a dump of jemalloc has no rounds, no peak and no Python code, "
			       "which the rules about heap profiles need; see flmem profile "
			       "table and diff, or sample with flmem profile attach");
}

static int refuse_lacking(const struct flmem_heap_profile *profile, struct flmem_error *why)
{
	const char *lacks = flmem_heap_lacks_amounts(profile);

	return lacks ? flmem_error_set(why, FLMEM_EUSAGE, 0, "%s", lacks) : 0;
}

/*
 * Adds a problem for a truncated file: the rules could not see its missing part, so it counts as an
 * input that cannot be read.
 */
static int note_cut(const struct flmem_heap_profile *profile, const char *path,
		    struct flmem_recommendations *found, struct flmem_error *err)
{
	struct flmem_error why = {0};
	char text[FLMEM_HEAP_CUT_TEXT_MAX];

	flmem_error_set(&why, FLMEM_EUSAGE, 0,
			"the file %s, and growth was not checked: %s; copy it again, "
			"with all its bytes",
			flmem_heap_cut_name(profile),
			flmem_heap_cut_text(profile, text, sizeof(text)));
	return flmem_recommendations_store_problem(found, path, 0, &why, err);
}

/* Adds a warning that growth was not checked. */
static int warn_of_too_few(const struct flmem_heap_profile *profile, const char *path,
			   struct flmem_recommendations *found, struct flmem_error *err)
{
	const char *few = flmem_heap_leaks_too_few(profile);
	struct flmem_error why = {0};
	int rc;

	if (!few)
		return 0;
	flmem_error_set(&why, FLMEM_EUNDECIDED, 0, "growth was not checked: %s", few);
	rc = flmem_recommendations_store_problem(found, path, 0, &why, err);
	if (rc)
		return rc;
	found->problems[found->problem_count - 1].warning = true;
	return 0;
}

int flmem_recommend_heap(const char *path, const struct flmem_version_number *release,
			 struct flmem_recommendations *found, struct flmem_error *err)
{
	const struct flmem_heap_request request = {.path = path, .choose_stacks = true};
	struct flmem_heap_profile *profile = NULL;
	struct flmem_error why = {0};
	int rc;

	if (flmem_heap_profile_read(&request, &profile, &why) || refuse_heap_dump(profile, &why) ||
	    refuse_lacking(profile, &why)) {
		flmem_heap_profile_free(profile);
		return flmem_recommendations_store_problem(found, path, 0, &why, err);
	}
	found->file_count++;
	rc = flmem_heap_rules_run(profile, path, found, err);
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f && !rc; f++)
		if ((*f)->heap_rules)
			rc = flmem_heap_site_rules_run((*f)->heap_rules, profile, path, release,
						       found, err);
	if (!rc)
		rc = profile->cut ? note_cut(profile, path, found, err)
				  : warn_of_too_few(profile, path, found, err);
	flmem_heap_profile_free(profile);
	return rc;
}
