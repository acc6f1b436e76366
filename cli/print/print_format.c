/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_format.h"

#include <stdio.h>

#include <flmem/text.h>

const char *format_bytes(uint64_t bytes, char out[FORMAT_MAX])
{
	return flmem_text_bytes(bytes, out, FORMAT_MAX);
}

const char *format_bytes_or(struct flmem_u64 bytes, const char *otherwise, char out[FORMAT_MAX])
{
	if (!bytes.unknown)
		return format_bytes(bytes.value, out);
	snprintf(out, FORMAT_MAX, "%s", otherwise);
	return out;
}

const char *format_us(uint64_t us, char out[FORMAT_MAX])
{
	if (us < 1000)
		snprintf(out, FORMAT_MAX, "%u us", (unsigned)us);
	else if (us < 1000000)
		snprintf(out, FORMAT_MAX, "%.3g ms", (double)us / 1000);
	else
		snprintf(out, FORMAT_MAX, "%.3g s", (double)us / 1000000);
	return out;
}

const char *format_span(uint64_t seconds, char out[FORMAT_MAX])
{
	return flmem_text_span(seconds, out, FORMAT_MAX);
}
