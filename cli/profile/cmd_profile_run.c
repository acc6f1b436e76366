/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include <flmem/launch.h>
#include <flmem/profile.h>

#include "cmd.h"
#include "signals.h"

struct profile_run_options {
	const char *output;
	uint64_t interval_bytes;
	uint64_t limit_bytes;
	bool native;
	bool follow_children;
	bool python_allocators;
	bool force;
};

static const struct opt profile_run_options_table[] = {
	{.name = "output",
	 .letter = 'o',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct profile_run_options, output),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "the profile to write (required)"},
	{.name = "interval",
	 .letter = 'i',
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct profile_run_options, interval_bytes),
	 .metavar = "SIZE",
	 .help = "average number of bytes allocated between samples (default 512KiB, and up to "
		 "8MiB while samples would take much time); smaller is more exact and costs more"},
	{.name = "limit",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct profile_run_options, limit_bytes),
	 .metavar = "SIZE",
	 .help = "size of the profile, from 1MiB to 4GiB, allocated at the "
		 "start (default 64MiB)"},
	{.name = "native",
	 .letter = 'n',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct profile_run_options, native),
	 .help = "record the native frames inside and between Python frames, too, as far as the "
		 "code has unwind tables (on x86-64) or frame pointers"},
	{.name = "python-allocators",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct profile_run_options, python_allocators),
	 .help = "sample Python's small objects individually: sets PYTHONMALLOC=malloc, which "
		 "makes Python slower (default: sample its arenas of 256 KiB or 1 MiB)"},
	{.name = "follow-children",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct profile_run_options, follow_children),
	 .help = "sample child processes, too, each in its own FILE.PID (default: only the "
		 "process that is started)"},
	{.name = "force",
	 .letter = 'f',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct profile_run_options, force),
	 .help = "replace an existing file"},
	{0},
};

static int profile_run(const struct profile_run_options *o, const struct opt_rest *rest,
		       struct flmem_error *err)
{
	const struct flmem_profile_request request = {
		.output = o->output,
		.interval_bytes = o->interval_bytes,
		.limit_bytes = o->limit_bytes,
		.native = o->native,
		.follow_children = o->follow_children,
		.python_allocators = o->python_allocators,
		.force = o->force,
	};
	char **environment;
	int rc;

	if (!o->output)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name the profile to write with --output FILE");
	if (!rest->count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "no command to profile; give it after --");
	rc = flmem_profile_prepare(&request, rest->values, environ, &environment, err);
	if (rc)
		return rc;
	signals_restore();
	rc = flmem_launch_exec(rest->values, environment, err);
	flmem_launch_environment_free(environment);
	unlink(o->output);
	return rc;
}

static int run_profile_run(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct flmem_error err = {0};
	int rc = profile_run(options, rest, &err);

	return rc ? cmd_fail(cmd, false, &err) : 0;
}

static const char *const profile_run_examples[] = {
	"flmem profile run -o client.prof -- python3 client.py",
	"one sample per 512 KiB of allocations",
	"flmem profile run -o site.prof --follow-children -- ./start.sh",
	"also the processes that a script starts: site.prof.PID",
	NULL,
};

const struct cmd cmd_profile_run = {
	.name = "profile run",
	.summary = "runs a command and samples its heap",
	.arguments = "[--] command [arguments]",
	.description =
		"Executes the command in the process of flmem, so process ID, signals and "
		"exit status are those of the command. A preloaded library samples its "
		"allocations. The file can be read while the command runs and after it was "
		"killed. If the process executes another program, the profile starts again.\n\n"
		"A program that is linked statically or set-user-ID does not load the "
		"library; the file then stays 'not started'.",
	.examples = profile_run_examples,
	.options = profile_run_options_table,
	.options_size = sizeof(struct profile_run_options),
	.takes_command = true,
	.run = run_profile_run,
};
