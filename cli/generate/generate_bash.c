/* SPDX-License-Identifier: Apache-2.0 */
#include "generate/generate.h"

#include <string.h>

#include "help.h"

/*
 * The script works without the bash-completion package; it uses its _command_offset if it is
 * loaded.
 */
static const char generate_bash_head[] =
	"# shellcheck shell=bash\n"
	"# SPDX-License-Identifier: Apache-2.0\n"
	"# " GENERATE_ORIGIN "\n"
	"\n"
	"# _flmem_offer WORD COMPGEN-ARGUMENTS: completions of compgen that start with the word\n"
	"_flmem_offer()\n"
	"{\n"
	"	local word=$1\n"
	"	shift\n"
	"	mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen \"$@\" -- \"$word\")\n"
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
	"# _flmem_line BEGIN VALUED: completes the command line after the options of flmem\n"
	"_flmem_line()\n"
	"{\n"
	"	local begin=$1\n"
	"	while ((begin < COMP_CWORD)); do\n"
	"		case ${COMP_WORDS[begin]} in\n"
	"		--) ((begin += 1)) && break ;;\n"
	"		-*)\n"
	"			if [[ ${COMP_WORDS[begin + 1]} == = ]]; then\n"
	"				((begin += 3))\n"
	"			elif [[ \" $2 \" == *\" ${COMP_WORDS[begin]} \"* ]]; then\n"
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

static const char generate_bash_tail[] = "	esac\n"
					 "	if [[ $word == -* && -n $options ]]; then\n"
					 "		_flmem_offer \"$word\" -W \"$options\"\n"
					 "	fi\n"
					 "}\n"
					 "\n"
					 "complete -F _flmem flmem\n";

/* These are shell commands before the `return` of an option's value. */
static const char *const generate_bash_offers[] = {
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

static void print_bash_valued(const struct cmd *cmd, const struct opt *o, FILE *out)
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

/* Prints one case for each option with a value, also without completions. */
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
	fprintf(out, "%s return ;;\n", generate_bash_offers[generate_completes(o)]);
}

static void print_names(const struct cmd *const *table, FILE *out)
{
	for (const struct cmd *const *c = table; *c; c++)
		fprintf(out, "%s%s", c == table ? "" : " ", cmd_word(*c));
}

/* Prints the topics of `flmem help`; after the name of a command its verbs. */
static void print_bash_topics(FILE *out)
{
	fputs("		if ((COMP_CWORD == 2)); then\n"
	      "			[[ $word == -* ]] || _flmem_offer \"$word\" -W \"",
	      out);
	print_names(cmd_table, out);
	for (const struct help_topic *t = help_topics; t->name; t++)
		fprintf(out, " %s", t->name);
	fputs("\"\n		fi\n", out);
	for (const struct cmd *const *c = cmd_table; *c; c++) {
		if (!(*c)->verbs)
			continue;
		fprintf(out,
			"		if ((COMP_CWORD == 3)) && [[ ${COMP_WORDS[2]} == %s ]]; "
			"then\n"
			"			_flmem_offer \"$word\" -W \"",
			(*c)->name);
		print_names((*c)->verbs, out);
		fputs("\"\n		fi\n", out);
	}
}

static void print_bash_verbs(const struct cmd *cmd, FILE *out)
{
	fputs("		if ((COMP_CWORD == 2)) && [[ $word != -* ]]; then\n"
	      "			_flmem_offer \"$word\" -W \"",
	      out);
	print_names(cmd->verbs, out);
	fputs("\"\n		fi\n", out);
}

static void print_arguments(const struct cmd *cmd, FILE *out)
{
	if (cmd->takes_command) {
		fprintf(out, "		_flmem_line %d \"", strchr(cmd->name, ' ') ? 3 : 2);
		generate_each_option(cmd, print_bash_valued, out);
		fputs("\" && return\n", out);
	} else if (cmd->complete == OPT_COMPLETE_TOPIC) {
		print_bash_topics(out);
	} else if (cmd->complete != OPT_COMPLETE_NONE) {
		fprintf(out, "		[[ $word == -* ]] || _flmem_files \"$word\" -%c\n",
			cmd->complete == OPT_COMPLETE_DIRECTORY ? 'd' : 'f');
	}
}

static void print_bash_command(const struct cmd *cmd, FILE *out)
{
	bool valued = false;

	fprintf(out, strchr(cmd->name, ' ') ? "	'%s')\n" : "	%s)\n", cmd->name);
	fputs("		options=\"", out);
	generate_each_option(cmd, print_name, out);
	fputs("\"\n", out);
	for (const struct opt *o = cmd->options; o->name; o++)
		valued |= o->kind != OPT_FLAG;
	if (valued) {
		fputs("		case $option in\n", out);
		generate_each_option(cmd, print_value_case, out);
		fputs("		esac\n", out);
	}
	if (cmd->verbs)
		print_bash_verbs(cmd, out);
	print_arguments(cmd, out);
	fputs("		;;\n", out);
}

/*
 * Prints how the completed command is selected: it has two words if the second one is a verb and
 * ends before the cursor's word.
 */
static void print_selection(FILE *out)
{
	const char *between = "";

	fputs("	local command=${COMP_WORDS[1]}\n", out);
	if (generate_has_verbs()) {
		fputs("	case \"$command ${COMP_WORDS[2]}\" in\n	", out);
		for (const struct cmd *const *c = cmd_table; *c; c++)
			for (const struct cmd *const *v = (*c)->verbs; v && *v; v++) {
				fprintf(out, "%s'%s'", between, (*v)->name);
				between = " | ";
			}
		fputs(") ((COMP_CWORD == 2)) || command+=\" ${COMP_WORDS[2]}\" ;;\n	esac\n",
		      out);
	}
	fputs("	case $command in\n", out);
}

void generate_bash(FILE *out)
{
	fputs(generate_bash_head, out);
	fputs("	if ((COMP_CWORD == 1)); then\n		_flmem_offer \"$word\" -W \"", out);
	print_names(cmd_table, out);
	for (const struct opt *o = opt_globals; o->name; o++)
		fprintf(out, " --%s", o->name);
	fputs("\"\n		return\n	fi\n", out);
	print_selection(out);
	generate_each_command(print_bash_command, out);
	fputs(generate_bash_tail, out);
}
