/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_recommend.h"

#include <string.h>

#include <flmem/text.h>

#include "print/layout.h"

#define TEXT_MAX 1024
#define INDENT	 8

/* Prints untrusted text, escaped. */
static void put_untrusted(const char *text, FILE *out)
{
	char shown[TEXT_MAX];

	fputs(flmem_text_escape(text, shown, sizeof(shown)), out);
}

static void print_finding(const struct flmem_finding *finding, FILE *out)
{
	char message[TEXT_MAX], shown[FLMEM_TEXT_BYTES_MAX];

	if (finding->line)
		fprintf(out, "%6u", finding->line);
	else
		fprintf(out, "%6s", "");
	fprintf(out, "  %s: %s\n", flmem_severity_name(finding->severity), finding->rule->id);
	fprintf(out, "%*s", INDENT, "");
	flmem_text_escape(finding->message, message, sizeof(message));
	layout_fold(message, INDENT, INDENT, out);
	fprintf(out, "%*s", INDENT, "");
	put_untrusted(finding->path, out);
	fputs(": ", out);
	put_untrusted(flmem_finding_current(finding, shown), out);
	if (finding->proposed) {
		fputs(" -> ", out);
		put_untrusted(finding->proposed, out);
	}
	fputc('\n', out);
}

static void print_counts(const struct flmem_recommendations *found, FILE *out)
{
	bool live = found->process_count && found->process_count == found->file_count;
	const char *what = live ? "process" : found->process_count ? "input" : "file";
	char count[FLMEM_TEXT_COUNTED_MAX];
	size_t before = 0;

	fprintf(out, "%s checked",
		flmem_text_counted(found->file_count, what, count, sizeof(count)));
#define PRINT_COUNT(symbol, text)                                                         \
	{                                                                                 \
		size_t all = flmem_recommendations_count(found, FLMEM_SEVERITY_##symbol); \
		fprintf(out, ", %s: %zu", text, all - before);                            \
		before = all;                                                             \
	}
	FLMEM_SEVERITIES(PRINT_COUNT)
#undef PRINT_COUNT
	if (found->suppressed_count)
		fprintf(out, ", suppressed: %zu", found->suppressed_count);
	fputc('\n', out);
}

static void print_held_plan(const struct flmem_held_plan *plan, FILE *out)
{
	char server[FLMEM_TEXT_BYTES_MAX], client[FLMEM_TEXT_BYTES_MAX];
	char count[FLMEM_TEXT_COUNTED_MAX];

	fprintf(out, "%s compared with the plan: server %s, each client %s",
		flmem_text_counted(plan->limits, "memory limit", count, sizeof(count)),
		flmem_text_bytes(plan->server_peak_bytes, server, sizeof(server)),
		flmem_text_bytes(plan->client_peak_bytes, client, sizeof(client)));
	if (plan->simulator_bytes)
		fprintf(out, ", simulator at most %s",
			flmem_text_bytes(plan->simulator_bytes, server, sizeof(server)));
	fprintf(out, " (strategy '%s')\n", plan->strategy);
}

void print_recommendations(const struct flmem_recommendations *found, FILE *out)
{
	const char *file = NULL;

	for (size_t i = 0; i < found->finding_count; i++) {
		const struct flmem_finding *finding = &found->findings[i];

		if (!file || strcmp(file, finding->file) != 0) {
			put_untrusted(finding->file, out);
			fputc('\n', out);
		}
		file = finding->file;
		print_finding(finding, out);
	}
	print_counts(found, out);
	if (found->held_plan.strategy)
		print_held_plan(&found->held_plan, out);
}

void print_role(const struct flmem_settings *settings, FILE *out)
{
	for (size_t i = 0; i < settings->count; i++) {
		const struct flmem_setting *setting = &settings->rows[i];

		if (setting->origin == FLMEM_SETTING_OMITTED)
			continue;
		fprintf(out, "%s = %s\n", setting->name, setting->value);
		fprintf(out, "%*s", INDENT, "");
		layout_fold(setting->reason, INDENT, INDENT, out);
		fprintf(out, "%*s", INDENT, "");
		layout_fold(setting->where ? setting->where : "environment variable", INDENT,
			    INDENT, out);
	}
}
