/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_attach.h"

static const struct opt options_table[] = {
	PROFILE_ATTACH_PID_OPTION,
	PROFILE_ATTACH_ENGINE_OPTION("what samples, as it was given to attach"),
	PROFILE_ATTACH_OUTPUT_OPTION(
		"with --engine jemalloc: the dump to write first, where the process may create "
		"files; in a container /proc/PID/root/tmp/NAME"),
	PROFILE_ATTACH_FORCE_OPTION,
	PROFILE_ATTACH_COMMON_OPTIONS,
	{0},
};

static int run_profile_detach(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	return profile_attach_run(cmd, options, rest, true);
}

static const char *const examples[] = {
	"flmem profile detach --pid 4711",
	"end the profile; the process continues as before",
	"flmem profile detach --engine jemalloc --pid 4711 -o client.heap",
	"write the dump of its own jemalloc, and end its sampling",
	NULL,
};

const struct cmd cmd_profile_detach = {
	.name = "profile detach",
	.ends_first = true,
	.summary = "ends the sampling of a running process",
	.description =
		"Puts back every entry that 'flmem profile attach' redirected, and completes the "
		"file. It also ends what another flmem began, or one that was killed. The sampler "
		"can be attached again.\n\n"
		"With --engine jemalloc it sets prof.active to false. With --output, jemalloc "
		"first writes its dump, in a thread that is started for it; the other threads "
		"run, and wait as they do for every dump of jemalloc if they are sampled "
		"meanwhile. If the dump fails, sampling continues. 'flmem profile table' and the "
		"others read it.",
	.examples = examples,
	.options = options_table,
	.options_size = sizeof(struct profile_attach_options),
	.run = run_profile_detach,
};
