/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/parse.h>
#include <flmem/text.h>

#define TEXT_ROW(name, text) text,

const char *const profile_measures[] = {FLMEM_HEAP_MEASURES(TEXT_ROW) NULL};
const char *const profile_stacks[] = {FLMEM_HEAP_STACKS(TEXT_ROW) NULL};

#define PATH_SHOWN 256
#define ROUND_MAX  64
#define ROUND_MOST (UINT32_MAX - 1)

static enum flmem_heap_measure default_measure(const struct flmem_heap_profile *const *profiles,
					       size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (profiles[i]->ending == FLMEM_HEAP_DUMPED)
			return FLMEM_HEAP_LIVE;
	return profiles[0]->by_round ? FLMEM_HEAP_ALLOCATED : FLMEM_HEAP_PEAK;
}

int profile_measure_of_all(const struct profile_options *options,
			   const struct flmem_heap_profile *const *profiles, size_t count,
			   enum flmem_heap_measure *ret_measure, struct flmem_error *err)
{
	enum flmem_heap_measure measure =
		options->by ? opt_choice_index(profile_measures, options->by, 0)
			    : default_measure(profiles, count);
	char shown[PATH_SHOWN];

	for (size_t i = 0; i < count; i++)
		if (profiles[i]->unknown[measure])
			return flmem_error_set(
				err, FLMEM_EUSAGE, 0, "'%s': --by %s cannot be answered: %s",
				flmem_text_escape(profiles[i]->path, shown, sizeof(shown)),
				flmem_heap_measure_name(measure), profiles[i]->unknown[measure]);
	*ret_measure = measure;
	return 0;
}

int profile_measure(const struct profile_options *options, const struct flmem_heap_profile *profile,
		    enum flmem_heap_measure *ret_measure, struct flmem_error *err)
{
	return profile_measure_of_all(options, &profile, 1, ret_measure, err);
}

int profile_measure_shown(const struct profile_options *options,
			  const struct flmem_heap_profile *profile,
			  enum flmem_heap_measure *ret_measure, struct flmem_error *err)
{
	if (options->by || !flmem_heap_lacks_amounts(profile))
		return profile_measure(options, profile, ret_measure, err);
	*ret_measure = default_measure(&profile, 1);
	return 0;
}

/* Parses "3" or "3..7". */
static int parse_rounds(const char *text, struct flmem_heap_request *request,
			struct flmem_error *err)
{
	const char *dots = strstr(text, "..");
	char first[ROUND_MAX], shown[ROUND_MAX];
	size_t length = dots ? (size_t)(dots - text) : strlen(text);

	if (length < sizeof(first)) {
		memcpy(first, text, length);
		first[length] = '\0';
	}
	if (length >= sizeof(first) ||
	    flmem_parse_u64(first, 0, ROUND_MOST, &request->first_round, NULL) ||
	    flmem_parse_u64(dots ? dots + 2 : first, 0, ROUND_MOST, &request->last_round, NULL))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--round: invalid rounds '%s'; expected for example 3 or "
				       "3..7",
				       flmem_text_escape(text, shown, sizeof(shown)));
	if (request->last_round < request->first_round)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--round: '%s' ends before it begins; give A..B with A <= B",
				       flmem_text_escape(text, shown, sizeof(shown)));
	request->by_round = true;
	return 0;
}

int profile_request(const struct profile_options *options, bool mixed,
		    struct flmem_heap_request *ret_request, struct flmem_error *err)
{
	struct flmem_heap_request request = {.choose_stacks = !options->stack && !mixed,
					     .import_frames = options->import_frames};
	int rc = options->round ? parse_rounds(options->round, &request, err) : 0;

	if (rc)
		return rc;
	if (options->stack)
		request.stacks = opt_choice_index(profile_stacks, options->stack, 0);
	*ret_request = request;
	return 0;
}

int profile_load(const struct profile_options *options, const struct opt_rest *rest, int at,
		 bool mixed, struct flmem_heap_profile **ret_profile, struct flmem_error *err)
{
	struct flmem_heap_request request;
	int rc = profile_request(options, mixed, &request, err);

	if (rc)
		return rc;
	request.path = rest->values[at];
	return flmem_heap_profile_read(&request, ret_profile, err);
}

int profile_count_files(const struct opt_rest *rest, int count, struct flmem_error *err)
{
	if (rest->count == count)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "name %s after the options, not %d",
			       count == 1 ? "one profile" : "two profiles", rest->count);
}

int profile_show_one(const struct cmd *cmd, const struct profile_options *options,
		     const struct opt_rest *rest,
		     int (*show)(const struct profile_options *options,
				 const struct flmem_heap_profile *profile, struct flmem_error *err))
{
	struct flmem_heap_profile *profile = NULL;
	struct flmem_error err = {0};
	int rc = profile_count_files(rest, 1, &err);

	if (!rc)
		rc = profile_load(options, rest, 0, false, &profile, &err);
	if (!rc)
		rc = show(options, profile, &err);
	flmem_heap_profile_free(profile);
	if (rc == FLMEM_EUNDECIDED || rc == FLMEM_EFINDINGS) /* it is shown already */
		return flmem_code_exit_status(rc);
	return rc ? cmd_fail(cmd, options->json, &err) : 0;
}
