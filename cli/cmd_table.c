/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

extern const struct cmd cmd_aggregate;
extern const struct cmd cmd_detect;
extern const struct cmd cmd_trim;
extern const struct cmd cmd_env;
extern const struct cmd cmd_exchange;
extern const struct cmd cmd_help;
extern const struct cmd cmd_profile;
extern const struct cmd cmd_recommend;
extern const struct cmd cmd_start;
extern const struct cmd cmd_watch;

const struct cmd *const cmd_table[] = {
	&cmd_detect,  &cmd_trim,      &cmd_env,	     &cmd_start, &cmd_watch, &cmd_recommend,
	&cmd_profile, &cmd_aggregate, &cmd_exchange, &cmd_help,	 NULL,
};
