/* SPDX-License-Identifier: Apache-2.0 */
#include "emit.h"
#include "help.h"

/* Works without the bash-completion package; uses its _command_offset if it is loaded. */
static const char head[] =
	"# shellcheck shell=bash\n"
	"# SPDX-License-Identifier: Apache-2.0\n"
	"# " EMIT_ORIGIN "\n"
	"\n"
	"# _flmem_offer WORD COMPGEN-ARGUMENTS: completions of compgen that start with the word\n"
	"_flmem_offer()\n"
	"{\n"
	"	local word=$1\n"
	"	shift\n"
	"	mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$word\")\n"
	"}\n"
	"\n"
	"_flmem_pids()\n"
	"{\n"
	"	local directories=(/proc/[0-9]*)\n"
	"	_flmem_offer \"$1\" -W \"${directories[*]#/proc/}\"\n"
	"}\n"
	"\n"
	"_flmem_files()\n"
	"{\n"
	"	compopt -o filenames 2>/dev/null\n"
	"	_flmem_offer \"$1\" \"$2\"\n"
	"}\n"
	"\n"
	"# _flmem_line VALUED: completes the command line after the options of flmem\n"
	"_flmem_line()\n"
	"{\n"
	"	local begin=2\n"
	"	while ((begin < COMP_CWORD)); do\n"
	"		case ${COMP_WORDS[begin]} in\n"
	"		--) ((begin += 1)) && break ;;\n"
	"		-*)\n"
	"			if [[ ${COMP_WORDS[begin + 1]} == = ]]; then\n"
	"				((begin += 3))\n"
	"			elif [[ \" $1 \" == *\" ${COMP_WORDS[begin]} \"* ]]; then\n"
	"				((begin += 2))\n"
	"			else\n"
	"				((begin += 1))\n"
	"			fi\n"
	"			;;\n"
	"		*) break ;;\n"
	"		esac\n"
	"	done\n"
	"	[[ $begin -lt $COMP_CWORD || ${COMP_WORDS[begin]} != -* ]] || return 1\n"
	"	if declare -F _command_offset >/dev/null; then\n"
	"		_command_offset \"$begin\"\n"
	"	elif ((begin == COMP_CWORD)); then\n"
	"		_flmem_offer \"${COMP_WORDS[COMP_CWORD]}\" -c\n"
	"	else\n"
	"		_flmem_files \"${COMP_WORDS[COMP_CWORD]}\" -f\n"
	"	fi\n"
	"}\n"
	"\n"
	"_flmem()\n"
	"{\n"
	"	local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} "
	"options=\n"
	"	COMPREPLY=()\n"
	"	# Readline splits --option=value into three words.\n"
	"	if [[ $word == = ]]; then\n"
	"		word=\n"
	"	elif [[ $option == = ]]; then\n"
	"		option=${COMP_WORDS[COMP_CWORD - 2]}\n"
	"	fi\n";

static const char tail[] = "	esac\n"
			   "	if [[ $word == -* && -n $options ]]; then\n"
			   "		_flmem_offer \"$word\" -W \"$options\"\n"
			   "	fi\n"
			   "}\n"
			   "\n"
			   "complete -F _flmem flmem\n";

/* Commands before the `return` of an option's value. */
static const char *const offers[] = {
	[OPT_COMPLETE_NONE] = "",
	[OPT_COMPLETE_FILE] = " _flmem_files \"$word\" -f &&",
	[OPT_COMPLETE_DIRECTORY] = " _flmem_files \"$word\" -d &&",
	[OPT_COMPLETE_PID] = " _flmem_pids \"$word\" &&",
	[OPT_COMPLETE_COMMAND] = " _flmem_offer \"$word\" -c &&",
	[OPT_COMPLETE_TOPIC] = "",
};

static void print_name(const struct cmd *cmd, const struct opt *o, FILE *out)
{
	(void)cmd;
	fprintf(out, " --%s", o->name);
}

static void print_valued(const struct cmd *cmd, const struct opt *o, FILE *out)
{
	(void)cmd;
	if (o->kind == OPT_FLAG)
		return;
	fprintf(out, " --%s", o->name);
	if (o->letter)
		fprintf(out, " -%c", o->letter);
}

static void print_choices(const struct opt *o, FILE *out)
{
	fputs(" _flmem_offer \"$word\" -W \"", out);
	for (const char *const *c = o->choices; *c; c++)
		fprintf(out, "%s%s", c == o->choices ? "" : " ", *c);
	fputs("\" && return ;;\n", out);
}

/* One case for each option with a value, also without completions. */
static void print_value_case(const struct cmd *cmd, const struct opt *o, FILE *out)
{
	(void)cmd;
	if (o->kind == OPT_FLAG)
		return;
	fprintf(out, "		--%s", o->name);
	if (o->letter)
		fprintf(out, " | -%c", o->letter);
	fputc(')', out);
	if (o->kind == OPT_CHOICE) {
		print_choices(o, out);
		return;
	}
	fprintf(out, "%s return ;;\n", offers[emit_completes(o)]);
}

static void print_names(FILE *out)
{
	for (const struct cmd *const *c = cmd_table; *c; c++)
		fprintf(out, "%s%s", c == cmd_table ? "" : " ", (*c)->name);
}

static void print_arguments(const struct cmd *cmd, FILE *out)
{
	if (cmd->takes_command) {
		fputs("		_flmem_line \"", out);
		emit_each_option(cmd, print_valued, out);
		fputs("\" && return\n", out);
	} else if (cmd->complete == OPT_COMPLETE_TOPIC) {
		fputs("		[[ $word == -* ]] || _flmem_offer \"$word\" -W \"", out);
		print_names(out);
		for (const struct help_topic *t = help_topics; t->name; t++)
			fprintf(out, " %s", t->name);
		fputs("\"\n", out);
	} else if (cmd->complete != OPT_COMPLETE_NONE) {
		fprintf(out, "		[[ $word == -* ]] || _flmem_files \"$word\" -%c\n",
			cmd->complete == OPT_COMPLETE_DIRECTORY ? 'd' : 'f');
	}
}

static void print_command(const struct cmd *cmd, FILE *out)
{
	bool valued = false;

	fprintf(out, "	%s)\n		options=\"", cmd->name);
	emit_each_option(cmd, print_name, out);
	fputs("\"\n", out);
	for (const struct opt *o = cmd->options; o->name; o++)
		valued |= o->kind != OPT_FLAG;
	if (valued) {
		fputs("		case $option in\n", out);
		emit_each_option(cmd, print_value_case, out);
		fputs("		esac\n", out);
	}
	print_arguments(cmd, out);
	fputs("		;;\n", out);
}

void emit_bash(FILE *out)
{
	fputs(head, out);
	fputs("	if ((COMP_CWORD == 1)); then\n		_flmem_offer \"$word\" -W \"", out);
	print_names(out);
	for (const struct opt *o = opt_globals; o->name; o++)
		fprintf(out, " --%s", o->name);
	fputs("\"\n		return\n	fi\n	case ${COMP_WORDS[1]} in\n", out);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		print_command(*c, out);
	fputs(tail, out);
}
