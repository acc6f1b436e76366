/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_verdict.h"

#include <langinfo.h>
#include <locale.h>
#include <string.h>

#include "print/layout.h"
#include "print/print_format.h"

#define BAR_CELLS  24
#define SMALL_PART 200 /* a class below RSS / 200 is small */

/* Returns true if the locale's character set has block characters. */
static bool is_utf8(void)
{
	return setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Prints a bar of length `part` (0 to 1), padded with blanks to its full width. */
static void put_bar(double part, FILE *out)
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	bool utf8 = is_utf8();
	int steps = utf8 ? 8 : 1;
	int length = (int)(part * BAR_CELLS * steps + 0.5);
	int cells = length / steps, rest = length % steps;

	for (int i = 0; i < cells; i++)
		fputs(utf8 ? "█" : "#", out);
	if (rest)
		fputs(eighths[rest], out);
	fprintf(out, "%*s", BAR_CELLS - cells - (rest > 0), "");
}

static void print_class(const char *name, uint64_t bytes, uint64_t rss, const char *meaning,
			FILE *out)
{
	double part = rss ? (double)bytes / (double)rss : 0;
	char number[FORMAT_MAX];

	layout_label(name, out);
	put_bar(part < 1 ? part : 1, out);
	fprintf(out, " %10s %3.0f %%  %s\n", format_bytes(bytes, number), part * 100, meaning);
}

/* Prints the classes. Small ones share a line; empty ones are omitted. */
static void print_classes(const struct flmem_memory_classes *classes, uint64_t rss, FILE *out)
{
	uint64_t small = 0;

	for (size_t i = 0; i < FLMEM_MEMORY_CLASS_COUNT; i++) {
		enum flmem_memory_class which = (enum flmem_memory_class)i;
		uint64_t bytes = classes->bytes[i];

		if (bytes < rss / SMALL_PART)
			small += bytes;
		else if (bytes)
			print_class(flmem_memory_class_name(which), bytes, rss,
				    flmem_memory_class_meaning(which), out);
	}
	if (small)
		print_class("others", small, rss, "each less than 0.5 %", out);
}

void print_verdict(const struct flmem_process_report *report, FILE *out)
{
	const struct flmem_verdict *verdict = &report->verdict;
	char line[LAYOUT_TEXT_MAX];

	if (!verdict->classes.unknown)
		print_classes(&verdict->classes, report->memory.rss_bytes.value, out);
	if (verdict->kind)
		snprintf(line, sizeof(line), "%s, confidence %s (%u %%)",
			 flmem_verdict_name(verdict->kind),
			 flmem_confidence_word(verdict->confidence_percent),
			 verdict->confidence_percent);
	else
		snprintf(line, sizeof(line), "none: %s", verdict->unknown);
	layout_wrap("verdict", line, out);
	for (size_t i = 0; i < verdict->reason_count; i++) {
		snprintf(line, sizeof(line), "- %s", verdict->reasons[i]);
		layout_wrap(i ? "" : "because", line, out);
	}
	for (size_t i = 0; i < verdict->next_count; i++) {
		snprintf(line, sizeof(line), "%s  # %s", verdict->next[i].command,
			 verdict->next[i].purpose);
		layout_wrap(i ? "" : "next", line, out);
	}
}
