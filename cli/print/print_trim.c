/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_trim.h"

#include <stdbool.h>
#include <stdio.h>

#include "print/print_format.h"

#define NOTICED_BYTES ((uint64_t)1 << 20)
#define NOTICED_PER   20U /* a smaller part (1/20) of what was returned is not worth a remark */

/* Returns whether the fall of RSS over the whole trim hides much of what the calls returned. */
static bool hides_release(const struct flmem_trim_result *r)
{
	uint64_t hidden;

	if (r->returned_bytes.unknown || r->taken_bytes.unknown ||
	    r->returned_bytes.value <= r->released_bytes.value)
		return false;
	hidden = r->returned_bytes.value - r->released_bytes.value;
	return hidden >= NOTICED_BYTES && hidden >= r->returned_bytes.value / NOTICED_PER;
}

const char *format_release(const struct flmem_trim_result *result, char out[RELEASE_MAX])
{
	char released[FORMAT_MAX], before[FORMAT_MAX], after[FORMAT_MAX], taken[FORMAT_MAX];

	format_bytes_or(result->rss_before_bytes, "unknown", before);
	format_bytes_or(result->rss_after_bytes, "unknown", after);
	if (result->released_bytes.unknown)
		snprintf(out, RELEASE_MAX, "trimmed, but %s", result->released_bytes.unknown);
	else if (result->outcome == FLMEM_TRIM_UNMEASURED)
		snprintf(out, RELEASE_MAX, "released an unknown amount, RSS %s -> %s: %s", before,
			 after, result->returned_bytes.unknown);
	else if (hides_release(result))
		snprintf(out, RELEASE_MAX,
			 "at least %s released, RSS %s -> %s: the program has taken %s meanwhile",
			 format_bytes(result->returned_bytes.value, released), before, after,
			 format_bytes(result->taken_bytes.value, taken));
	else
		snprintf(out, RELEASE_MAX, "%s released, RSS %s -> %s",
			 format_bytes(result->released_bytes.value, released), before, after);
	return out;
}
