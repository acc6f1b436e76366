/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_attach.h"

static const struct opt options_table[] = {
	PROFILE_ATTACH_PID_OPTION,
	PROFILE_ATTACH_COMMON_OPTIONS,
	{0},
};

static int run_profile_detach(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	return profile_attach_run(cmd, options, rest, true);
}

static const char *const examples[] = {
	"flmem profile detach --pid 4711",
	"end the profile; the process runs on as before",
	NULL,
};

const struct cmd cmd_profile_detach = {
	.name = "profile detach",
	.summary = "ends the sampling of a running process",
	.description =
		"Puts back every entry that `flmem profile attach` redirected, and completes the "
		"file. It also ends what another flmem began, or one that was killed. The sampler "
		"can be attached again.",
	.examples = examples,
	.options = options_table,
	.options_size = sizeof(struct profile_attach_options),
	.run = run_profile_detach,
};
