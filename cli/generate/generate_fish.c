/* SPDX-License-Identifier: Apache-2.0 */
#include "generate/generate.h"
#include "help.h"

static const char generate_fish_head[] =
	"# SPDX-License-Identifier: Apache-2.0\n"
	"# " GENERATE_ORIGIN "\n"
	"\n"
	"# True when the given command (none: no command yet) is being completed. $__flmem_verbs "
	"lists\n"
	"# the commands of two words.\n"
	"function __flmem_is\n"
	"	set -l words (commandline -opc)\n"
	"	set -e words[1]\n"
	"	if test (count $argv) -eq 0\n"
	"		test (count $words) -eq 0\n"
	"	else if contains -- \"$words[1..2]\" $__flmem_verbs\n"
	"		test \"$words[1..2]\" = \"$argv\"\n"
	"	else\n"
	"		test \"$words[1]\" = \"$argv\"\n"
	"	end\n"
	"end\n"
	"\n"
	"# True directly after the given words.\n"
	"function __flmem_after\n"
	"	set -l words (commandline -opc)\n"
	"	set -e words[1]\n"
	"	test \"$words\" = \"$argv\"\n"
	"end\n"
	"\n"
	"# Prints the index of the first word of the command line, one past the last word if it "
	"has\n"
	"# not begun. $__flmem_valued_COMMAND lists the options whose value is the next word.\n"
	"function __flmem_line_begin\n"
	"	set -l words (commandline -opc)\n"
	"	set -l valued __flmem_valued_(string join _ $argv)\n"
	"	set -l at (math 2 + (count $argv))\n"
	"	while test $at -le (count $words)\n"
	"		if test $words[$at] = --\n"
	"			set at (math $at + 1)\n"
	"			break\n"
	"		else if contains -- $words[$at] $$valued\n"
	"			set at (math $at + 2)\n"
	"		else if string match -q -- '-*' $words[$at]\n"
	"			set at (math $at + 1)\n"
	"		else\n"
	"			break\n"
	"		end\n"
	"	end\n"
	"	echo $at\n"
	"end\n"
	"\n"
	"# True while options of flmem may follow.\n"
	"function __flmem_before_line\n"
	"	__flmem_is $argv; or return\n"
	"	set -l words (commandline -opc)\n"
	"	test (__flmem_line_begin $argv) -gt (count $words); and not contains -- -- "
	"$words\n"
	"end\n"
	"\n"
	"function __flmem_line\n"
	"	set -l words (commandline -opc)\n"
	"	set -l begin (__flmem_line_begin $argv)\n"
	"	set -l word (commandline -ct)\n"
	"	if test $begin -gt (math (count $words) + 1)\n"
	"		return\n"
	"	else if test $begin -gt (count $words)\n"
	"		string match -q -- '-*' $word; and return\n"
	"		complete \"-C$word\"\n"
	"	else\n"
	"		complete \"-C\"(string join -- ' ' (string escape -- $words[$begin..-1]) "
	"$word)\n"
	"	end\n"
	"end\n"
	"\n"
	"complete -c flmem -f\n";

/* These are the arguments of `complete` for an option's value. */
static const char *const generate_fish_offers[] = {
	[OPT_COMPLETE_NONE] = " -x",
	[OPT_COMPLETE_FILE] = " -r -F",
	[OPT_COMPLETE_DIRECTORY] = " -x -a '(__fish_complete_directories)'",
	[OPT_COMPLETE_PID] = " -x -a '(__fish_complete_pids)'",
	[OPT_COMPLETE_COMMAND] = " -x -a '(__fish_complete_command)'",
	[OPT_COMPLETE_TOPIC] = " -x",
};

/* Prints text inside '...', where fish has two escapes. */
static void print_fish_text(const char *text, FILE *out)
{
	fputc('\'', out);
	generate_escaped(text, "'\\", out);
	fputc('\'', out);
}

static void print_fish_value(const struct opt *o, FILE *out)
{
	if (o->kind == OPT_CHOICE) {
		fputs(" -x -a '", out);
		for (const char *const *c = o->choices; *c; c++)
			fprintf(out, "%s%s", c == o->choices ? "" : " ", *c);
		fputc('\'', out);
		return;
	}
	fputs(generate_fish_offers[generate_completes(o)], out);
}

static void print_fish_option(const struct cmd *cmd, const struct opt *o, FILE *out)
{
	fprintf(out, "complete -c flmem -n '__flmem_%s%s%s' -l %s",
		cmd && cmd->takes_command ? "before_line" : "is", cmd ? " " : "",
		cmd ? cmd->name : "", o->name);
	if (o->letter)
		fprintf(out, " -s %c", o->letter);
	if (o->kind != OPT_FLAG)
		print_fish_value(o, out);
	fputs(" -d ", out);
	print_fish_text(o->help, out);
	fputc('\n', out);
}

static void print_fish_valued(const struct cmd *cmd, const struct opt *o, FILE *out)
{
	(void)cmd;
	if (o->kind == OPT_FLAG)
		return;
	fprintf(out, " --%s", o->name);
	if (o->letter)
		fprintf(out, " -%c", o->letter);
}

static void print_word(const char *condition, const char *word, const char *summary, FILE *out)
{
	fprintf(out, "complete -c flmem -n '__flmem_%s' -a %s -d ", condition, word);
	print_fish_text(summary, out);
	fputc('\n', out);
}

/* Prints the verbs. `before` has the words in front of the name of the command. */
static void print_fish_verbs(const struct cmd *cmd, const char *before, FILE *out)
{
	char condition[128];

	snprintf(condition, sizeof(condition), "after %s%s", before, cmd->name);
	for (const struct cmd *const *v = cmd->verbs; v && *v; v++)
		print_word(condition, cmd_word(*v), (*v)->summary, out);
}

static void print_fish_topics(const struct cmd *cmd, FILE *out)
{
	char condition[128];

	snprintf(condition, sizeof(condition), "after %s", cmd->name);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		print_word(condition, (*c)->name, (*c)->summary, out);
	for (const struct help_topic *t = help_topics; t->name; t++)
		print_word(condition, t->name, t->summary, out);
	snprintf(condition, sizeof(condition), "%s ", cmd->name);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		print_fish_verbs(*c, condition, out);
}

static void print_fish_command(const struct cmd *cmd, FILE *out)
{
	char name[CMD_NAME_MAX];

	fputc('\n', out);
	if (cmd->takes_command) {
		cmd_join_name(cmd, '_', name, sizeof(name));
		fprintf(out, "set -g __flmem_valued_%s", name);
		generate_each_option(cmd, print_fish_valued, out);
		fputc('\n', out);
	}
	generate_each_option(cmd, print_fish_option, out);
	print_fish_verbs(cmd, "", out);
	if (cmd->takes_command) {
		fprintf(out, "complete -c flmem -n '__flmem_is %s' -x -a '(__flmem_line %s)'\n",
			cmd->name, cmd->name);
	} else if (cmd->complete == OPT_COMPLETE_TOPIC) {
		print_fish_topics(cmd, out);
	} else if (cmd->complete != OPT_COMPLETE_NONE) {
		fprintf(out, "complete -c flmem -n '__flmem_is %s' -F\n", cmd->name);
	}
}

static void print_verb_names(FILE *out)
{
	fputs("set -g __flmem_verbs", out);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		for (const struct cmd *const *v = (*c)->verbs; v && *v; v++)
			fprintf(out, " '%s'", (*v)->name);
	fputc('\n', out);
}

void generate_fish(FILE *out)
{
	fputs(generate_fish_head, out);
	print_verb_names(out);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		print_word("is", (*c)->name, (*c)->summary, out);
	for (const struct opt *o = opt_globals; o->name; o++)
		print_fish_option(NULL, o, out);
	generate_each_command(print_fish_command, out);
}
