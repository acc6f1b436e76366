/* SPDX-License-Identifier: Apache-2.0 */
#include "generate/generate.h"

#include <ctype.h>
#include <string.h>

#include <flmem/version.h>

#include "help.h"

/*
 * These characters roff prints as others (a quote as a curly one, which a shell does not accept),
 * or they end an argument of a macro. NULL: the character prints itself.
 */
static const char *man_escape(char c)
{
	switch (c) {
	case '\\':
		return "\\e";
	case '-':
		return "\\-";
	case '\'':
		return "\\(aq";
	case '"':
		return "\\(dq";
	case '~':
		return "\\(ti";
	case '^':
		return "\\(ha";
	default:
		return NULL;
	}
}

/*
 * Prints text for a man(7) page: escapes characters, protects a dot at the start of a line, and
 * turns empty lines into paragraphs.
 */
static void print_man_text(const char *text, const char *paragraph, FILE *out)
{
	const char *escape;
	bool line_start = true;

	for (; *text; text++) {
		if (text[0] == '\n' && text[1] == '\n') {
			fprintf(out, "\n%s\n", paragraph);
			text++;
			line_start = true;
			continue;
		}
		if (*text == '\n') {
			fputs("\n.br\n", out);
			line_start = true;
			continue;
		}
		escape = man_escape(*text);
		if (line_start && *text == '.')
			fputs("\\&", out);
		if (escape)
			fputs(escape, out);
		else
			fputc(*text, out);
		line_start = false;
	}
	fputc('\n', out);
}

static void print_head(const char *name, const char *summary, FILE *out)
{
	fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n.\\\" " GENERATE_ORIGIN "\n.TH ", out);
	for (const char *p = name; *p; p++)
		fputc(toupper((unsigned char)*p), out);
	fprintf(out, " 1 \"\" \"flmem %s\" \"User Commands\"\n.SH NAME\n", flmem_version());
	generate_escaped(name, "-", out);
	fputs(" \\- ", out);
	print_man_text(summary, ".PP", out);
	fputs(".SH SYNOPSIS\n", out);
}

static void print_exit_status(FILE *out)
{
	fputs(".SH EXIT STATUS\nThe statuses are the same for all commands of flmem.\n", out);
	for (int status = 0; status <= HELP_EXIT_STATUS_MAX; status++)
		if (flmem_exit_status_meaning(status))
			fprintf(out, ".TP\n.B %d\n%s\n", status, flmem_exit_status_meaning(status));
}

static void print_man_entries(const char *head, const struct help_entry *entries, FILE *out)
{
	fprintf(out, ".SH %s\n", head);
	for (; entries->name; entries++) {
		fputs(".TP\n.B ", out);
		print_man_text(entries->name, ".IP", out);
		print_man_text(entries->text, ".IP", out);
	}
}

static void print_man_option(const struct cmd *cmd, const struct opt *o, FILE *out)
{
	char value[192], text[HELP_TEXT_MAX];

	(void)cmd;
	help_option_value(o, value, sizeof(value));
	fputs(".TP\n", out);
	if (o->letter)
		fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
	fputs("\\fB\\-\\-", out);
	generate_escaped(o->name, "-", out);
	fputs("\\fR", out);
	if (value[0]) {
		fputs(o->kind == OPT_CHOICE ? "=" : "=\\fI", out);
		generate_escaped(value, "-\\", out);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	help_option_text(o, text, sizeof(text));
	print_man_text(text, ".IP", out);
}

static void print_reference(const struct cmd *cmd, FILE *out)
{
	char name[CMD_NAME_MAX];

	cmd_join_name(cmd, '-', name, sizeof(name));
	fputs(".BR flmem\\-", out);
	generate_escaped(name, "-", out);
	fputs(" (1)", out);
}

/* Prints the command above a verb and its other verbs, or the other commands. */
static void print_see_also(const struct cmd *cmd, FILE *out)
{
	const struct cmd *parent = cmd ? cmd_parent(cmd) : NULL;
	const char *between = cmd ? ",\n" : "";

	fputs(".SH SEE ALSO\n", out);
	if (cmd)
		fputs(".BR flmem (1)", out);
	if (parent) {
		fputs(between, out);
		print_reference(parent, out);
	}
	for (const struct cmd *const *c = parent ? parent->verbs : cmd_table; *c; c++) {
		if (*c == cmd)
			continue;
		fputs(between, out);
		print_reference(*c, out);
		between = ",\n";
	}
	fputc('\n', out);
}

static void print_man_commands(const struct cmd *const *table, FILE *out)
{
	fputs(".SH COMMANDS\n", out);
	for (; *table; table++) {
		fputs(".TP\n", out);
		print_reference(*table, out);
		fputc('\n', out);
		print_man_text((*table)->summary, ".IP", out);
	}
}

static void print_man_usage(const struct cmd *cmd, FILE *out)
{
	fprintf(out, ".B flmem %s\n[\\fIoptions\\fR]\n", cmd->name);
	if (cmd->arguments)
		print_man_text(cmd->arguments, ".PP", out);
}

static void print_man_usages(const struct cmd *cmd, FILE *out)
{
	if (cmd->run)
		print_man_usage(cmd, out);
	for (const struct cmd *const *v = cmd->verbs; v && *v; v++) {
		if (cmd->run || v != cmd->verbs)
			fputs(".br\n", out);
		print_man_usage(*v, out);
	}
}

void generate_man_command(const struct cmd *cmd, FILE *out)
{
	char name[CMD_NAME_MAX], title[CMD_NAME_MAX + 8];

	cmd_join_name(cmd, '-', name, sizeof(name));
	snprintf(title, sizeof(title), "flmem-%s", name);
	print_head(title, cmd->summary, out);
	print_man_usages(cmd, out);
	fputs(".SH DESCRIPTION\n", out);
	print_man_text(cmd->description ? cmd->description : cmd->summary, ".PP", out);
	if (cmd->verbs)
		print_man_commands(cmd->verbs, out);
	fputs(".SH OPTIONS\n", out);
	generate_each_option(cmd, print_man_option, out);
	print_exit_status(out);
	if (cmd->examples)
		fputs(".SH EXAMPLES\n", out);
	for (const char *const *e = cmd->examples; e && e[0]; e += 2) {
		fputs(".TP\n.B ", out);
		print_man_text(e[0], ".IP", out);
		print_man_text(e[1], ".IP", out);
	}
	print_see_also(cmd, out);
}

void generate_man_overview(FILE *out)
{
	print_head("flmem", "manages the memory of federated-learning jobs", out);
	fputs(".B flmem\n.I command\n[\\fIoptions\\fR]\n.SH DESCRIPTION\n", out);
	print_man_text(help_about, ".PP", out);
	fputs(".PP\nResults go to standard output, everything else to standard error. With\n"
	      ".B \\-\\-json\na command prints one JSON object.\n",
	      out);
	print_man_commands(cmd_table, out);
	fputs(".SH OPTIONS\n", out);
	for (const struct opt *o = opt_globals; o->name; o++)
		print_man_option(NULL, o, out);
	print_man_entries("VALUES", help_values, out);
	print_man_entries("ENVIRONMENT", help_environment, out);
	print_exit_status(out);
	print_see_also(NULL, out);
}
