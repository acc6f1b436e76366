/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/recommend.h>
#include <flmem/troubleshoot.h>

#include "generate/generate.h"

static void print_versions(const struct flmem_rule *rule, FILE *out)
{
	fputs(flmem_framework_name(rule->framework) ? flmem_framework_name(rule->framework) : "any",
	      out);
	if (rule->since)
		fprintf(out, ", %s and later", rule->since);
	if (rule->before)
		fprintf(out, ", before %s", rule->before);
	if (rule->certain)
		fputs(" (with `--framework-version`)", out);
}

static void print_rule(const struct flmem_rule *rule, FILE *out)
{
	fprintf(out, "\n## %s\n\n", rule->id);
	fprintf(out, "| | |\n|---|---|\n| severity | %s |\n| framework | ",
		flmem_severity_name(rule->severity));
	print_versions(rule, out);
	fputs(" |\n| condition | ", out);
	generate_escaped(rule->condition, "|<>*_`", out);
	fputs(" |\n| message | ", out);
	generate_escaped(rule->message, "|<>*_`", out);
	fprintf(out, " |\n| proposes a value | %s |\n| source | ", rule->fixable ? "yes" : "no");
	generate_escaped(rule->source, "|<>*_`", out);
	fputs(" |\n", out);
}

/* Prints the lists of --troubleshoot: a heading for each list, and numbered steps. */
static void print_lists(FILE *out)
{
	const struct flmem_troubleshoot_step *step, *before = NULL;
	size_t number = 1;

	fputs("\n# Lists of flmem recommend --troubleshoot\n\nFrom NVFlare's guide \"Memory "
	      "Management\", section \"Troubleshooting\".\n",
	      out);
	for (size_t i = 0; (step = flmem_troubleshoot_step(i)); i++, before = step) {
		if (!before || before->list != step->list) {
			fprintf(out, "\n## %s\n\n", flmem_troubleshoot_list_title(step->list));
			number = 1;
		}
		fprintf(out, "%zu. %s: ", number++, step->id);
		generate_escaped(step->text, "|<>*_`", out);
		fputc('\n', out);
	}
}

void generate_rules(FILE *out)
{
	const struct flmem_rule *rule;

	fputs("<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
	      "<!-- Generated from the rule tables by 'make generate'. -->\n\n"
	      "# Rules of flmem recommend\n\n"
	      "[flmem recommend](guides/recommend.md) checks job files, scripts, recordings, heap\n"
	      "profiles, kernel logs and live processes with these rules. An `error` is a setting\n"
	      "that is refused or has no effect, a `warning` one that costs memory; `info` (in\n"
	      "conditions \"information\") is the rest, also values that are known only at run "
	      "time.\n"
	      "`--fix` writes a proposed value into the file, except into Python. [A reason\n"
	      "suppresses a finding](guides/ci.md#suppress-a-finding).\n\n"
	      "| rule | severity | condition |\n|---|---|---|\n",
	      out);
	for (size_t i = 0; (rule = flmem_recommend_rule(i)); i++) {
		fprintf(out, "| [%s](#", rule->id);
		for (const char *p = rule->id; *p; p++)
			fputc(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p, out);
		fprintf(out, ") | %s | ", flmem_severity_name(rule->severity));
		generate_escaped(rule->condition, "|<>*_`", out);
		fputs(" |\n", out);
	}
	for (size_t i = 0; (rule = flmem_recommend_rule(i)); i++)
		print_rule(rule, out);
	print_lists(out);
}
