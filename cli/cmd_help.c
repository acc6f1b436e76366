/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <flmem/text.h>

#include "cmd.h"
#include "help.h"

/* Refuses an unknown topic. `above` is the command that has no such verb, or NULL. */
static int refuse_topic(const struct cmd *cmd, const struct cmd *above, const char *word)
{
	struct flmem_error err = {0};
	char shown[64], meant[2 * CMD_NAME_MAX];

	flmem_text_escape(word, shown, sizeof(shown));
	if (above)
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "no help on '%s %s'; see 'flmem help %s'",
				above->name, shown, above->name);
	else if (cmd_suggest(word, meant, sizeof(meant)))
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "no help on '%s'; did you mean %s?", shown,
				meant);
	else
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "no help on '%s'; see 'flmem help'", shown);
	return cmd_fail(cmd, false, &err);
}

static int refuse_words(const struct cmd *cmd)
{
	struct flmem_error err = {0};

	flmem_error_set(&err, FLMEM_EUSAGE, 0, "help accepts one command or topic");
	return cmd_fail(cmd, false, &err);
}

static int help_verb(const struct cmd *cmd, const struct cmd *above, const char *word)
{
	const struct cmd *verb = cmd_find_verb(above, word);

	return verb ? help_command(verb, stdout) : refuse_topic(cmd, above, word);
}

static int run_help(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct cmd *topic;
	const char *word;

	(void)options;
	if (!rest->count)
		return help_overview(stdout);
	word = rest->values[0];
	topic = cmd_find(word);
	if (rest->count > (topic && topic->verbs ? 2 : 1))
		return refuse_words(cmd);
	for (const struct help_topic *t = help_topics; t->name; t++)
		if (strcmp(word, t->name) == 0)
			return t->print(stdout);
	if (topic && rest->count == 2)
		return help_verb(cmd, topic, rest->values[1]);
	return topic ? help_command(topic, stdout) : refuse_topic(cmd, NULL, word);
}

static const struct opt help_options_table[] = {{0}};

static const char *const help_examples[] = {
	"flmem help trim",
	"description and options of trim",
	"flmem help exit-codes",
	"the exit statuses of all commands",
	"flmem help values",
	"how to write sizes, times and other values of options",
	NULL,
};

const struct cmd cmd_help = {
	.name = "help",
	.summary = "explains a command or a topic",
	.arguments = "[command [subcommand] | topic]",
	.description = "Prints the description, options and examples of a command or subcommand, "
		       "as its option --help does, or one of these topics: exit-codes, "
		       "conditions, values, environment. Without arguments it lists the commands "
		       "and the topics.",
	.examples = help_examples,
	.options = help_options_table,
	.complete = OPT_COMPLETE_TOPIC,
	.run = run_help,
};
