/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <flmem/report.h>
#include <flmem/text.h>

#include "cmd.h"

static void print_error(const char *command, const struct flmem_error *err)
{
	char shown[FLMEM_ERROR_MESSAGE_MAX];

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

int cmd_no_arguments(const struct opt_rest *rest, struct flmem_error *err)
{
	char shown[64];

	if (!rest->count)
		return 0;
	flmem_text_escape(rest->values[0], shown, sizeof(shown));
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "unexpected argument '%s'", shown);
}
