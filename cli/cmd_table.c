/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include <string.h>

extern const struct cmd cmd_detect;
extern const struct cmd cmd_trim;
extern const struct cmd cmd_env;
extern const struct cmd cmd_help;
extern const struct cmd cmd_recommend;
extern const struct cmd cmd_start;
extern const struct cmd cmd_watch;

const struct cmd *const cmd_table[] = {
	&cmd_detect, &cmd_trim, &cmd_env, &cmd_start, &cmd_watch, &cmd_recommend, &cmd_help, NULL,
};

const struct cmd *cmd_find(const char *name)
{
	for (const struct cmd *const *c = cmd_table; *c; c++)
		if (strcmp((*c)->name, name) == 0)
			return *c;
	return NULL;
}
