/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_attach.h"

static const struct opt profile_attach_options_table[] = {
	PROFILE_ATTACH_PID_OPTION,
	PROFILE_ATTACH_ENGINE_OPTION(
		"the sampler to use: that of flmem (default), or the process's own jemalloc, "
		"if it was started with MALLOC_CONF=prof:true,prof_active:false"),
	PROFILE_ATTACH_OUTPUT_OPTION(
		"the profile to write (required, except with --engine jemalloc), where the "
		"process may create files; in a container "
		"/proc/PID/root/tmp/NAME"),
	{.name = "interval",
	 .letter = 'i',
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct profile_attach_options, interval_bytes),
	 .metavar = "SIZE",
	 .help = "average number of bytes allocated between samples (default 512KiB, and up to "
		 "8MiB while samples would take much time)"},
	{.name = "limit",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct profile_attach_options, limit_bytes),
	 .metavar = "SIZE",
	 .help = "size of the profile, from 1MiB to 4GiB, allocated at the "
		 "start (default 64MiB)"},
	{.name = "native",
	 .letter = 'n',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct profile_attach_options, native),
	 .help = "record the native frames inside and between Python frames, too, as far as the "
		 "code has unwind tables (on x86-64) or frame pointers"},
	PROFILE_ATTACH_FORCE_OPTION,
	PROFILE_ATTACH_COMMON_OPTIONS,
	{0},
};

static int run_profile_attach(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	return profile_attach_run(cmd, options, rest, false);
}

static const char *const profile_attach_examples[] = {
	"flmem profile attach --pid 4711 -o client.prof",
	"start to sample a running client",
	"sudo flmem profile attach --pid 4711 -o /proc/4711/root/tmp/client.prof",
	"the same in a container, from its host",
	"flmem profile attach --engine jemalloc --pid 4711",
	"enable jemalloc's own profiling in the process",
	NULL,
};

const struct cmd cmd_profile_attach = {
	.name = "profile attach",
	.ends_first = true,
	.summary = "starts to sample the heap of a running Python process",
	.description =
		"Loads the sampler into the process at a safe point, in a new thread, and "
		"redirects the allocator calls of all loaded objects while all threads run. "
		"The command only starts the sampling; it ends with 'flmem profile detach' or "
		"with the process. The profile does not contain earlier allocations.\n\n"
		"The command refuses a process that 'flmem trim --gc' would refuse, that is "
		"already sampled, that is a free-threaded Python, or that uses another C "
		"library than the sampler. The library stays loaded until the process ends. If "
		"the process was started by 'flmem start --profile-socket', the command uses "
		"its socket, borrows no thread, and the process need not use Python.\n\n"
		"With --engine jemalloc the command loads nothing, and the process does not "
		"need Python: a call on a borrowed thread, with the checks of 'flmem trim', "
		"sets prof.active. jemalloc then samples with its own interval and writes its "
		"own dumps, or one at 'flmem profile detach --engine jemalloc --output FILE'.",
	.examples = profile_attach_examples,
	.options = profile_attach_options_table,
	.options_size = sizeof(struct profile_attach_options),
	.run = run_profile_attach,
};
