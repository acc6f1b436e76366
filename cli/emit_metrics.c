/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <flmem/metrics.h>

#include "emit.h"

static const char *suffix_of(const struct flmem_metric *metric)
{
	if (strcmp(metric->type, "counter") == 0)
		return "_total";
	return strcmp(metric->type, "info") == 0 ? "_info" : "";
}

static void print_rows(bool per_process, FILE *out)
{
	const struct flmem_metric *m;

	fputs("\n| metric | type | labels | meaning |\n|---|---|---|---|\n", out);
	for (size_t i = 0; (m = flmem_metric(i)); i++) {
		if (m->per_process != per_process)
			continue;
		fprintf(out, "| `%s%s` | %s | %s | ", m->name, suffix_of(m), m->type,
			m->labels ? m->labels : "");
		emit_marked(m->help, "|<>*", "\\", out);
		fputs(" |\n", out);
	}
}

void emit_metrics(FILE *out)
{
	fputs("<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
	      "<!-- Generated from the table of metrics; 'make generate' renews it. -->\n\n"
	      "# Metrics of flmem watch --listen\n\n"
	      "Served at `/metrics` as OpenMetrics 1.0 to who asks for it, as Prometheus does, "
	      "else "
	      "in\nPrometheus's text format 0.0.4, which knows no infos and statesets: there they "
	      "are gauges.\nWhat is not known is left out.\n\n"
	      "## Of each process that is watched\n\n"
	      "Labels of all: `pid`, and `role`, `site` and `framework` where they are known. A "
	      "process that\nhas ended is gone from the next scrape on.\n",
	      out);
	print_rows(true, out);
	fputs("\n## Of the watch and of flmem itself\n", out);
	print_rows(false, out);
}
