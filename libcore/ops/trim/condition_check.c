/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/trim/condition_check.h"

#include <flmem/detect.h>

#include "base/cleanup.h"

/* Attempts are ordered by cost: a later one reads more. */
enum flmem_truth flmem_condition_holds(const struct flmem_condition *when, pid_t pid,
				       bool assume_seccomp, const char **ret_why)
{
	static const struct flmem_detect_options attempts[] = {
		{.skip_heap = true},
		{.skip_heap = false},
		{.ask = true},
	};
	enum flmem_truth truth = FLMEM_UNDECIDED;

	*ret_why = "the process could not be read";
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(attempts) && truth == FLMEM_UNDECIDED; i++) {
		struct flmem_detect_options options = attempts[i];
		struct flmem_process_report report;

		options.assume_seccomp = assume_seccomp;
		if (i && !flmem_condition_needs_heap(when))
			break;
		if (flmem_detect_process(pid, &options, &report, NULL))
			break;
		truth = flmem_condition_check(when, &report, ret_why);
		flmem_process_report_clear(&report);
	}
	return truth;
}
