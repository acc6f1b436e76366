/* SPDX-License-Identifier: Apache-2.0 */
/* Writes findings in formats other than JSON: GitHub workflow commands and JUnit XML. */
#include <flmem/report.h>

#include <stdbool.h>
#include <string.h>

#include <flmem/text.h>

#include "base/text/buf.h"
#include "report/html/markup.h"

#define TEXT_MAX 1024

/* Writes special characters, which would end the text or belong to the command, as `%XX`. */
static void put_text_command(struct flmem_buf *out, const char *text, const char *special)
{
	char shown[TEXT_MAX];

	for (const char *p = flmem_text_escape(text, shown, sizeof(shown)); *p; p++) {
		if (strchr(special, *p))
			flmem_buf_printf(out, "%%%02X", (unsigned char)*p);
		else
			flmem_buf_putc(out, *p);
	}
}

static void put_annotation(struct flmem_buf *out, const char *level, const char *file,
			   unsigned line, const char *title)
{
	flmem_buf_printf(out, "::%s file=", level);
	put_text_command(out, file, "%:,");
	if (line)
		flmem_buf_printf(out, ",line=%u", line);
	flmem_buf_printf(out, ",title=%s::", title);
}

static void put_text_change(struct flmem_buf *out, const struct flmem_finding *finding)
{
	char shown[FLMEM_TEXT_BYTES_MAX];

	flmem_buf_puts(out, "; ");
	put_text_command(out, finding->path, "%");
	flmem_buf_puts(out, ": ");
	put_text_command(out, flmem_finding_current(finding, shown), "%");
	if (!finding->proposed)
		return;
	flmem_buf_puts(out, " -> ");
	put_text_command(out, finding->proposed, "%");
}

char *flmem_report_recommend_github(const struct flmem_recommendations *found)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	for (size_t i = 0; i < found->finding_count; i++) {
		const struct flmem_finding *finding = &found->findings[i];
		bool info = finding->severity == FLMEM_SEVERITY_INFO;

		put_annotation(&out, info ? "notice" : flmem_severity_name(finding->severity),
			       finding->file, finding->line, finding->rule->id);
		put_text_command(&out, finding->message, "%");
		put_text_change(&out, finding);
		flmem_buf_putc(&out, '\n');
	}
	for (size_t i = 0; i < found->problem_count; i++) {
		const struct flmem_input_problem *problem = &found->problems[i];

		put_annotation(&out, problem->warning ? "warning" : "error", problem->file,
			       problem->line, "not checked");
		put_text_command(&out, problem->message, "%");
		flmem_buf_putc(&out, '\n');
	}
	return flmem_buf_take(&out);
}

static void put_case(struct flmem_buf *out, const char *file, const char *name, const char *path)
{
	flmem_buf_puts(out, "    <testcase classname=\"");
	flmem_markup_text(out, file);
	flmem_buf_printf(out, "\" name=\"%s ", name);
	flmem_markup_text(out, path);
	flmem_buf_puts(out, "\">\n");
}

static void put_text_finding(struct flmem_buf *out, const struct flmem_finding *finding)
{
	bool info = finding->severity == FLMEM_SEVERITY_INFO;

	put_case(out, finding->file, finding->rule->id, finding->path);
	if (info) {
		flmem_buf_puts(out, "      <system-out>");
	} else {
		flmem_buf_printf(out, "      <failure type=\"%s\" message=\"",
				 flmem_severity_name(finding->severity));
		flmem_markup_text(out, finding->message);
		flmem_buf_puts(out, "\">");
	}
	flmem_markup_text(out, finding->file);
	if (finding->line)
		flmem_buf_printf(out, ":%u", finding->line);
	flmem_buf_puts(out, ": ");
	flmem_markup_text(out, finding->message);
	flmem_buf_printf(out, "</%s>\n    </testcase>\n", info ? "system-out" : "failure");
}

static void put_problem(struct flmem_buf *out, const struct flmem_input_problem *problem)
{
	put_case(out, problem->file, "not-checked", "");
	if (problem->warning)
		flmem_buf_puts(out, "      <skipped message=\"");
	else
		flmem_buf_printf(out, "      <error type=\"%s\" message=\"",
				 flmem_code_name(problem->code));
	flmem_markup_text(out, problem->message);
	flmem_buf_puts(out, "\"/>\n    </testcase>\n");
}

/* Writes one suite; without findings it has one passed case. */
char *flmem_report_recommend_junit(const struct flmem_recommendations *found)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
	size_t cases = found->finding_count + found->problem_count;
	char count[FLMEM_TEXT_COUNTED_MAX];

	flmem_buf_printf(&out,
			 "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
			 "  <testsuite name=\"flmem recommend\" tests=\"%zu\" failures=\"%zu\" "
			 "errors=\"%zu\">\n",
			 cases ? cases : 1,
			 flmem_recommendations_count(found, FLMEM_SEVERITY_WARNING),
			 flmem_recommendations_failures(found));
	for (size_t i = 0; i < found->finding_count; i++)
		put_text_finding(&out, &found->findings[i]);
	for (size_t i = 0; i < found->problem_count; i++)
		put_problem(&out, &found->problems[i]);
	if (!cases)
		flmem_buf_printf(
			&out, "    <testcase classname=\"flmem\" name=\"%s checked\"/>\n",
			flmem_text_counted(found->file_count, "file", count, sizeof(count)));
	flmem_buf_puts(&out, "  </testsuite>\n</testsuites>\n");
	return flmem_buf_take(&out);
}
