/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/report.h>
#include <flmem/text.h>

#include "cmd.h"
#include "print/print_format.h"

static void print_error(const char *command, const struct flmem_error *err)
{
	char shown[ESCAPED_MESSAGE_MAX];

	flmem_text_escape(err->message, shown, sizeof(shown));
	fprintf(stderr, "flmem%s%s: %s\n", command ? " " : "", command ? command : "", shown);
}

int cmd_fail(const struct cmd *cmd, bool json, const struct flmem_error *err)
{
	print_error(cmd ? cmd->name : NULL, err);
	if (json && cmd) {
		char name[CMD_NAME_MAX], *text;

		cmd_join_name(cmd, '-', name, sizeof(name));
		text = flmem_report_error_json(name, err);
		if (text)
			fputs(text, stdout);
		free(text);
	}
	return flmem_code_exit_status(err->code);
}

void cmd_codes_add(struct cmd_codes *codes, int code)
{
	if (!code) {
		codes->done++;
		return;
	}
	codes->code = codes->failed++ && codes->code != code ? FLMEM_EPARTLY : code;
}

int cmd_codes_combine(const struct cmd_codes *codes)
{
	return codes->failed && codes->done ? FLMEM_EPARTLY : codes->code;
}

static bool takes_pids(const struct cmd *cmd)
{
	for (const struct opt *o = cmd->options; o->name; o++)
		if (strcmp(o->name, "pid") == 0)
			return true;
	return false;
}

int cmd_no_arguments(const struct cmd *cmd, const struct opt_rest *rest, struct flmem_error *err)
{
	char shown[64];
	const char *word;

	if (!rest->count)
		return 0;
	word = rest->values[0];
	flmem_text_escape(word, shown, sizeof(shown));
	if (word[0] && !word[strspn(word, "0123456789")] && takes_pids(cmd))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "unexpected argument '%s'; did you mean '--pid %s'?", shown,
				       shown);
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "unexpected argument '%s'", shown);
}
