/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <flmem/text.h>

#include "cmd.h"
#include "help.h"

static int run_help(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct flmem_error err = {0};
	const struct cmd *topic;
	char shown[64];

	(void)options;
	if (!rest->count)
		return help_overview(stdout);
	if (rest->count > 1) {
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "help accepts one command or topic");
		return cmd_fail(cmd, false, &err);
	}
	for (const struct help_topic *t = help_topics; t->name; t++)
		if (strcmp(rest->values[0], t->name) == 0)
			return t->print(stdout);
	topic = cmd_find(rest->values[0]);
	if (topic)
		return help_command(topic, stdout);
	flmem_text_escape(rest->values[0], shown, sizeof(shown));
	flmem_error_set(&err, FLMEM_EUSAGE, 0, "no help on '%s'; see 'flmem help'", shown);
	return cmd_fail(cmd, false, &err);
}

static const struct opt options_table[] = {{0}};

static const char *const examples[] = {
	"flmem help trim",
	"description and options of trim",
	"flmem help exit-codes",
	"the exit statuses of all commands",
	NULL,
};

const struct cmd cmd_help = {
	.name = "help",
	.summary = "explains a command or a topic",
	.arguments = "[command | topic]",
	.examples = examples,
	.options = options_table,
	.complete = OPT_COMPLETE_TOPIC,
	.run = run_help,
};
