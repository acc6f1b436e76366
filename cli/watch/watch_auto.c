/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/watch_auto.h"

#define EVERY_MAX	      1000U
#define MAX_INEFFECTIVE_LIMIT 1000U

static int check_auto_options(const struct auto_options *o, struct flmem_error *err)
{
	bool any = o->collect || o->cuda || o->full || o->when || o->every_rounds ||
		   o->cool_down_us || o->min_release_bytes || o->max_ineffective || o->timeout_us ||
		   o->assume_seccomp;

	if (any && !o->on)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--gc, --cuda, --full, --every-rounds, --when, --cool-down, "
				       "--min-release, --max-ineffective, --assume-seccomp and "
				       "--timeout configure --auto; add --auto");
	if (o->every_rounds > EVERY_MAX || o->max_ineffective > MAX_INEFFECTIVE_LIMIT)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--every-rounds and --max-ineffective accept at most %u",
				       EVERY_MAX);
	return 0;
}

int auto_parse(const struct auto_options *options, struct flmem_condition **ret_when,
	       struct flmem_watch_auto *ret_auto, struct flmem_error *err)
{
	struct flmem_condition *when = NULL;
	int rc = check_auto_options(options, err);

	if (!rc && options->when)
		rc = flmem_condition_parse(options->when, &when, err);
	if (rc)
		return rc;
	*ret_when = when;
	*ret_auto = (struct flmem_watch_auto){
		.on = options->on,
		.trim = {.timeout_us = options->timeout_us,
			 .assume_seccomp = options->assume_seccomp,
			 .collect = options->collect || options->full,
			 .cuda = options->cuda || options->full,
			 .lenient = true},
		.when = when,
		.every_rounds = (unsigned)options->every_rounds,
		.cool_down_us = options->cool_down_us,
		.min_release_bytes = options->min_release_bytes,
		.max_ineffective = (unsigned)options->max_ineffective,
	};
	return 0;
}
