/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <string.h>

#include <flmem/error.h>

#include "cmd.h"

#define WIDTH	    79
#define HELP_COLUMN 26

/* Prints words wrapped at WIDTH, continuing at `column`; `indent` is where the cursor stands. */
static void wrap(const char *text, int column, int indent, FILE *out)
{
	int at = indent;

	while (*text) {
		size_t length = strcspn(text, " \n");

		if (at > column && at + 1 + (int)length > WIDTH) {
			fprintf(out, "\n%*s", column, "");
			at = column;
		} else if (at > column) {
			fputc(' ', out);
			at++;
		}
		fprintf(out, "%.*s", (int)length, text);
		at += (int)length;
		text += length;
		if (*text == '\n') {
			fprintf(out, "\n%*s", column, "");
			at = column;
			text++;
		} else if (*text) {
			text++;
		}
	}
	fputc('\n', out);
}

static void option_left(const struct opt *o, char *out, size_t size)
{
	int used = o->letter ? snprintf(out, size, "  -%c, --%s", o->letter, o->name)
			     : snprintf(out, size, "      --%s", o->name);

	if (o->kind == OPT_CHOICE) {
		for (const char *const *c = o->choices; *c; c++)
			used += snprintf(out + used, size - (size_t)used, "%c%s",
					 c == o->choices ? '=' : '|', *c);
	} else if (o->metavar) {
		snprintf(out + used, size - (size_t)used, "=%s", o->metavar);
	}
}

static void print_option(const struct opt *o, FILE *out)
{
	char left[256];

	option_left(o, left, sizeof(left));
	if (strlen(left) + 2 > HELP_COLUMN)
		fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
	else
		fprintf(out, "%-*s", HELP_COLUMN, left);
	wrap(o->help, HELP_COLUMN, HELP_COLUMN, out);
}

int help_command(const struct cmd *cmd, FILE *out)
{
	static const struct opt help_option = {
		.name = "help", .letter = 'h', .help = "show this text"};

	fprintf(out, "usage: flmem %s [options]%s%s\n\n", cmd->name, cmd->arguments ? " " : "",
		cmd->arguments ? cmd->arguments : "");
	wrap(cmd->description ? cmd->description : cmd->summary, 0, 0, out);
	fputs("\noptions:\n", out);
	for (const struct opt *o = cmd->options; o->name; o++)
		print_option(o, out);
	print_option(&help_option, out);
	if (cmd->examples)
		fputs("\nexamples:\n", out);
	for (const char *const *e = cmd->examples; e && e[0]; e += 2)
		fprintf(out, "  %s\n      %s\n", e[0], e[1]);
	return 0;
}

int help_overview(FILE *out)
{
	fputs("usage: flmem <command> [options]\n\n"
	      "Keeps the memory of long-running federated-learning jobs in hand, from outside the\n"
	      "process.\n\ncommands:\n",
	      out);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		fprintf(out, "  %-12s%s\n", (*c)->name, (*c)->summary);
	fputs("\n'flmem <command> --help' tells more; 'flmem --version' prints the version.\n",
	      out);
	return 0;
}

int help_exit_codes(FILE *out)
{
	fputs("exit status:\n", out);
	for (int status = 0; flmem_exit_status_meaning(status); status++)
		fprintf(out, "  %d  %s\n", status, flmem_exit_status_meaning(status));
	return 0;
}
