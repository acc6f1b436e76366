/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <string.h>

#include "cmd.h"
#include "print/layout.h"

#define HELP_COLUMN 26
#define NAME_COLUMN 14
/* This is the longest list of choices in an option's own line, in bytes. */
#define CHOICES_INLINE 56

const char help_about[] = "Manages the memory of long-running federated-learning jobs from outside "
			  "the process: no debugger, no restart, no code change.";

static void join_choices(const struct opt *o, const char *separator, char *out, size_t size)
{
	size_t used = 0;

	for (const char *const *c = o->choices; *c && used < size; c++)
		used += (size_t)snprintf(out + used, size - used, "%s%s", used ? separator : "",
					 *c);
}

/*
 * Returns whether the option has too many choices for its line: these follow the help text instead.
 */
static bool has_many_choices(const struct opt *o)
{
	char list[CHOICES_INLINE + 2];

	join_choices(o, "|", list, sizeof(list));
	return strlen(list) > CHOICES_INLINE;
}

void help_option_value(const struct opt *o, char *out, size_t size)
{
	out[0] = '\0';
	if (o->kind == OPT_CHOICE && !has_many_choices(o))
		join_choices(o, "|", out, size);
	else if (o->kind != OPT_FLAG)
		snprintf(out, size, "%s", o->metavar ? o->metavar : "VALUE");
}

void help_option_text(const struct opt *o, char *out, size_t size)
{
	char list[256];

	if (o->kind != OPT_CHOICE || !has_many_choices(o)) {
		snprintf(out, size, "%s", o->help);
		return;
	}
	join_choices(o, ", ", list, sizeof(list));
	snprintf(out, size, "%s; choose from %s", o->help, list);
}

static void print_option(const struct opt *o, FILE *out)
{
	char left[256], value[192], text[HELP_TEXT_MAX];

	help_option_value(o, value, sizeof(value));
	help_option_text(o, text, sizeof(text));
	snprintf(left, sizeof(left), "  %c%c%c --%s%s%s", o->letter ? '-' : ' ',
		 o->letter ? o->letter : ' ', o->letter ? ',' : ' ', o->name, value[0] ? "=" : "",
		 value);
	if (strlen(left) + 2 > HELP_COLUMN)
		fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
	else
		fprintf(out, "%-*s", HELP_COLUMN, left);
	layout_fold(text, HELP_COLUMN, HELP_COLUMN, out);
}

static void print_example(const char *line, const char *what, FILE *out)
{
	fprintf(out, "  %s\n      ", line);
	layout_fold(what, 6, 6, out);
}

static void print_usage(const struct cmd *cmd, const char *lead, FILE *out)
{
	fprintf(out, "%s flmem %s [options]%s%s\n", lead, cmd->name, cmd->arguments ? " " : "",
		cmd->arguments ? cmd->arguments : "");
}

static void print_usages(const struct cmd *cmd, FILE *out)
{
	if (cmd->run)
		print_usage(cmd, "usage:", out);
	for (const struct cmd *const *v = cmd->verbs; v && *v; v++)
		print_usage(*v, cmd->run || v != cmd->verbs ? "      " : "usage:", out);
}

static void print_table(const struct cmd *const *table, FILE *out)
{
	for (; *table; table++) {
		fprintf(out, "  %-*s", NAME_COLUMN - 2, cmd_word(*table));
		layout_fold((*table)->summary, NAME_COLUMN, NAME_COLUMN, out);
	}
}

int help_command(const struct cmd *cmd, FILE *out)
{
	print_usages(cmd, out);
	fputc('\n', out);
	layout_fold(cmd->description ? cmd->description : cmd->summary, 0, 0, out);
	if (cmd->verbs) {
		fputs("\nsubcommands:\n", out);
		print_table(cmd->verbs, out);
	}
	fputs("\noptions:\n", out);
	for (const struct opt *o = cmd->options; o->name; o++)
		print_option(o, out);
	print_option(&opt_help, out);
	if (cmd->examples)
		fputs("\nexamples:\n", out);
	for (const char *const *e = cmd->examples; e && e[0]; e += 2)
		print_example(e[0], e[1], out);
	if (cmd->verbs)
		fprintf(out, "\n'flmem %s <subcommand> --help' describes a subcommand.", cmd->name);
	fputs("\n'flmem help exit-codes' explains the exit status.\n", out);
	return 0;
}

int help_overview(FILE *out)
{
	fputs("usage: flmem <command> [options]\n\n", out);
	layout_fold(help_about, 0, 0, out);
	fputs("\ncommands:\n", out);
	print_table(cmd_table, out);
	fputs("\ntopics:\n", out);
	for (const struct help_topic *t = help_topics; t->name; t++)
		fprintf(out, "  %-*s%s\n", NAME_COLUMN - 2, t->name, t->summary);
	fputs("\n'flmem <command> --help' describes a command; 'flmem --version' prints the\n"
	      "version.\n",
	      out);
	return 0;
}
