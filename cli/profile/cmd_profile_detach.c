/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_attach.h"

static const struct opt profile_detach_options_table[] = {
	PROFILE_ATTACH_PID_OPTION,
	PROFILE_ATTACH_ENGINE_OPTION(
		"the sampler, as given to 'flmem profile attach' (default sampler)"),
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

static const char *const profile_detach_examples[] = {
	"flmem profile detach --pid 4711",
	"end the profile; the process continues as before",
	"flmem profile detach --engine jemalloc --pid 4711 -o client.heap",
	"write a dump of jemalloc's own profiling, and end its sampling",
	NULL,
};

const struct cmd cmd_profile_detach = {
	.name = "profile detach",
	.ends_first = true,
	.summary = "ends the sampling of a running process",
	.description =
		"Restores every call that 'flmem profile attach' redirected, and completes "
		"the file. It also ends the sampling that another flmem started, even one "
		"that was killed. Afterwards the process can be attached to again.\n\n"
		"With --engine jemalloc it sets prof.active to false. With --output, jemalloc "
		"first writes a dump, in a thread that flmem starts for it. The other threads "
		"run; as for every dump of jemalloc, a thread whose allocation is sampled "
		"meanwhile waits. If the dump fails, sampling continues. 'flmem profile "
		"table' and the other commands that read profiles can read the dump.",
	.examples = profile_detach_examples,
	.options = profile_detach_options_table,
	.options_size = sizeof(struct profile_attach_options),
	.run = run_profile_detach,
};
