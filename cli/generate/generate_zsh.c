/* SPDX-License-Identifier: Apache-2.0 */
#include "generate/generate.h"
#include "help.h"

static const char *const actions[] = {
	[OPT_COMPLETE_NONE] = " ",
	[OPT_COMPLETE_FILE] = "_files",
	[OPT_COMPLETE_DIRECTORY] = "_files -/",
	[OPT_COMPLETE_PID] = "_flmem_pids",
	[OPT_COMPLETE_COMMAND] = "_command_names -e",
	[OPT_COMPLETE_TOPIC] = "_flmem_topics",
};

/* Prints text inside '...' and inside [...] of an _arguments row. */
static void print_zsh_text(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

static void print_zsh_value(const struct opt *o, FILE *out)
{
	fputc(':', out);
	print_zsh_text(o->metavar ? o->metavar : o->name, out);
	fputc(':', out);
	if (o->kind != OPT_CHOICE) {
		fputs(actions[generate_completes(o)], out);
		return;
	}
	fputc('(', out);
	for (const char *const *c = o->choices; *c; c++)
		fprintf(out, "%s%s", c == o->choices ? "" : " ", *c);
	fputc(')', out);
}

/*
 * Prints an option: '(-p --pid)'{-p+,--pid=}'[help]:PID:_pids', with '*' instead of the exclusion
 * where it may repeat.
 */
static void print_zsh_option(const struct cmd *cmd, const struct opt *o, FILE *out)
{
	const char *equals = o->kind == OPT_FLAG ? "" : "=", *plus = o->kind == OPT_FLAG ? "" : "+";

	(void)cmd;
	fputs(" \\\n		", out);
	if (o->letter && generate_repeats(o))
		fprintf(out, "'*'{-%c%s,--%s%s}'", o->letter, plus, o->name, equals);
	else if (o->letter)
		fprintf(out, "'(-%c --%s)'{-%c%s,--%s%s}'", o->letter, o->name, o->letter, plus,
			o->name, equals);
	else
		fprintf(out, "'%s--%s%s", generate_repeats(o) ? "*" : "", o->name, equals);
	fputc('[', out);
	print_zsh_text(o->help, out);
	fputc(']', out);
	if (o->kind != OPT_FLAG)
		print_zsh_value(o, out);
	fputc('\'', out);
}

static void print_zsh_rows(const struct cmd *const *table, FILE *out)
{
	for (; *table; table++) {
		fprintf(out, "		'%s:", cmd_word(*table));
		print_zsh_text((*table)->summary, out);
		fputs("'\n", out);
	}
}

/* Prints a function of the command's verbs, and the call of the verb that is given. */
static void print_zsh_verbs(const struct cmd *cmd, const char *name, FILE *out)
{
	fprintf(out, "_flmem_verbs_%s() {\n	local -a verbs=(\n", name);
	print_zsh_rows(cmd->verbs, out);
	fputs("	)\n	_describe -t verbs subcommand verbs\n}\n\n", out);
	fprintf(out,
		"_flmem_%s() {\n"
		"	if (( CURRENT > 2 && $+functions[_flmem_%s_$words[2]] )); then\n"
		"		shift words\n"
		"		(( CURRENT-- ))\n"
		"		_flmem_%s_$words[1]\n"
		"		return\n"
		"	fi\n",
		name, name, name);
}

static void print_first_argument(const struct cmd *cmd, const char *name, FILE *out)
{
	fprintf(out, " \\\n		'1:argument:{ _flmem_verbs_%s", name);
	if (cmd->complete != OPT_COMPLETE_NONE)
		fprintf(out, "; %s", actions[cmd->complete]);
	fputs(" }'", out);
}

static void print_zsh_command(const struct cmd *cmd, FILE *out)
{
	char name[CMD_NAME_MAX];

	cmd_join_name(cmd, '_', name, sizeof(name));
	if (cmd->verbs)
		print_zsh_verbs(cmd, name, out);
	else
		fprintf(out, "_flmem_%s() {\n", name);
	fputs("	_arguments -s -S :", out);
	generate_each_option(cmd, print_zsh_option, out);
	if (cmd->verbs)
		print_first_argument(cmd, name, out);
	if (cmd->takes_command)
		fputs(" \\\n		'(-)1:command:_command_names -e' '*::arguments:_normal'",
		      out);
	else if (cmd->complete != OPT_COMPLETE_NONE)
		fprintf(out, " \\\n		'*:argument:%s'", actions[cmd->complete]);
	fputs("\n}\n\n", out);
}

/* This replaces _pids of zsh, which completes only processes of the same terminal. */
static const char pids[] = "_flmem_pids() {\n"
			   "	local pid name\n"
			   "	local -a processes\n"
			   "	for pid in /proc/<->(N:t); do\n"
			   "		read -r name 2>/dev/null </proc/$pid/comm && "
			   "processes+=(\"$pid:$name\")\n"
			   "	done\n"
			   "	_describe -t processes process processes\n"
			   "}\n\n";

/* Where `flmem help` already has a command before, its verbs are completed. */
static const char verb_topics[] =
	"	if (( CURRENT > 2 )); then\n"
	"		(( $+functions[_flmem_verbs_$words[2]] )) && _flmem_verbs_$words[2]\n"
	"		return\n"
	"	fi\n";

static void print_zsh_commands(FILE *out)
{
	fputs(pids, out);
	fputs("_flmem_commands() {\n	local -a commands=(\n", out);
	print_zsh_rows(cmd_table, out);
	fputs("	)\n	_describe -t commands command commands\n}\n\n", out);
	fputs("_flmem_topics() {\n", out);
	fputs(verb_topics, out);
	fputs("	local -a topics=(\n", out);
	for (const struct help_topic *t = help_topics; t->name; t++) {
		fprintf(out, "		'%s:", t->name);
		print_zsh_text(t->summary, out);
		fputs("'\n", out);
	}
	fputs("	)\n	_flmem_commands\n	_describe -t topics topic topics\n}\n\n", out);
}

void generate_zsh(FILE *out)
{
	fputs("#compdef flmem\n# SPDX-License-Identifier: Apache-2.0\n# " GENERATE_ORIGIN "\n\n",
	      out);
	print_zsh_commands(out);
	generate_each_command(print_zsh_command, out);
	fputs("_flmem() {\n	local curcontext=$curcontext state line\n	_arguments -C :",
	      out);
	for (const struct opt *o = opt_globals; o->name; o++)
		print_zsh_option(NULL, o, out);
	fputs(" \\\n		'1: :_flmem_commands' '*:: :->rest' && return\n"
	      "	[[ $state == rest ]] || return\n"
	      "	(( $+functions[_flmem_$line[1]] )) || return\n"
	      "	curcontext=${curcontext%:*:*}:flmem-$line[1]:\n"
	      "	_flmem_$line[1]\n"
	      "}\n\n"
	      "_flmem \"$@\"\n",
	      out);
}
