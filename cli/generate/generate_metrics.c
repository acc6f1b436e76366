/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/metrics.h>

#include "generate/generate.h"

static void print_metric_rows(bool per_process, FILE *out)
{
	const struct flmem_metric *m;

	fputs("\n| metric | type | labels | meaning |\n|---|---|---|---|\n", out);
	for (size_t i = 0; (m = flmem_metric(i)); i++) {
		if (m->per_process != per_process)
			continue;
		fprintf(out, "| `%s%s` | %s | %s | ", m->name, flmem_metric_suffix(m), m->type,
			m->labels ? m->labels : "");
		generate_escaped(m->help, "|<>*", out);
		fputs(" |\n", out);
	}
}

void generate_metrics(FILE *out)
{
	fputs("<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
	      "<!-- Generated from the table of metrics by 'make generate'. -->\n\n"
	      "# Metrics of flmem watch --listen\n\n"
	      "Served at `/metrics` as OpenMetrics 1.0 to clients that accept it, as Prometheus "
	      "does, else\nin Prometheus's text format 0.0.4, which has no infos and statesets: "
	      "they become gauges.\nUnknown values are omitted.\n\n"
	      "## Per watched process\n\n"
	      "Common labels: `pid`, and `role`, `site` and `framework` if known. An exited "
	      "process is\nmissing from the next scrape on.\n",
	      out);
	print_metric_rows(true, out);
	fputs("\n## Watch and flmem itself\n", out);
	print_metric_rows(false, out);
}
