/* SPDX-License-Identifier: Apache-2.0 */
#include "generate/generate.h"
#include "help.h"

/* Prints text inside a cell of a table, outside of code spans. */
static void print_cell(const char *text, FILE *out)
{
	generate_escaped(text, "|<>*_`", out);
}

static void print_markdown_option(const struct cmd *cmd, const struct opt *o, FILE *out)
{
	char value[192], text[HELP_TEXT_MAX];

	(void)cmd;
	help_option_value(o, value, sizeof(value));
	fputs("| ", out);
	if (o->letter)
		fprintf(out, "`-%c`, ", o->letter);
	fprintf(out, "`--%s`", o->name);
	fputs(value[0] ? " | `" : " | ", out);
	generate_escaped(value, "|", out);
	fputs(value[0] ? "` | " : " | ", out);
	help_option_text(o, text, sizeof(text));
	print_cell(text, out);
	fputs(" |\n", out);
}

static void print_markdown_command(const struct cmd *cmd, FILE *out)
{
	fprintf(out, "\n## flmem %s\n\n", cmd->name);
	fprintf(out, "`flmem %s %s%s%s`: %s.\n\n", cmd->name,
		cmd->run ? "[options]" : "<subcommand>", cmd->arguments ? " " : "",
		cmd->arguments ? cmd->arguments : "", cmd->summary);
	fputs("| option | value | meaning |\n|---|---|---|\n", out);
	generate_each_option(cmd, print_markdown_option, out);
}

void generate_markdown(FILE *out)
{
	fputs("<!-- SPDX-License-Identifier: Apache-2.0 -->\n<!-- " GENERATE_ORIGIN " -->\n\n"
	      "# Commands and options\n\n"
	      "Sizes are written `512`, `64K`, `1.5GiB` or `4GB` (K = KiB = 1024, KB = 1000), "
	      "durations "
	      "`250ms`,\n`5s`, `2m` or `1h`. Options are accepted anywhere before `--`.\n\n"
	      "## Exit status\n\n| status | meaning |\n|---|---|\n",
	      out);
	for (int status = 0; status <= HELP_EXIT_STATUS_MAX; status++)
		if (flmem_exit_status_meaning(status))
			fprintf(out, "| %d | %s |\n", status, flmem_exit_status_meaning(status));
	generate_each_command(print_markdown_command, out);
}
