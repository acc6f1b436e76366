/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses conditions of `trim --when`, and evaluates them on a report in which everything is
 * unknown.
 */
#include <flmem/condition.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	const struct flmem_process_report nothing = {
		.memory.rss_bytes = FLMEM_KNOWN(size << 20),
		.heap = FLMEM_HEAP_UNKNOWN("not reported"),
	};
	struct flmem_condition *condition = NULL;
	struct flmem_error err = {0};
	const char *why;

	if (flmem_condition_parse(text, &condition, &err) == 0) {
		enum flmem_truth truth = flmem_condition_check(condition, &nothing, &why);

		if ((truth == FLMEM_UNDECIDED) != (why != NULL))
			abort();
		flmem_condition_needs_heap(condition);
	} else if (!err.message[0]) {
		abort();
	}
	flmem_condition_free(condition);
	free(text);
	return 0;
}
