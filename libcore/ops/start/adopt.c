/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/start/adopt.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file_place.h"
#include "base/text/text.h"
#include "proc/argv_env.h"
#include "proc/status.h"

#define ANCESTORS_MAX 256

/*
 * Returns true if all IDs of the process are those of this user. A set-id program has mixed IDs:
 * this user may not end it.
 */
static bool is_own_process(const struct flmem_process *process)
{
	const uint32_t own = geteuid();
	struct flmem_status status;

	return flmem_status_read(process, &status, NULL) == 0 && status.uid.known &&
	       status.uid.real == own && status.uid.effective == own && status.uid.saved == own &&
	       status.uid.fs == own;
}

/*
 * Returns true if the process is in this PID namespace: a container's process writes into its
 * workspace a PID that is valid only in its namespace.
 */
static bool is_in_same_namespace(const struct flmem_process *process)
{
	struct stat own, its;

	return stat("/proc/self/ns/pid", &own) == 0 &&
	       fstatat(process->dirfd, "ns/pid", &its, 0) == 0 && flmem_file_is_same(&own, &its);
}

/* Returns true if the process is an ancestor of this one, as far as this user may read. */
static bool is_ancestor(const struct flmem_process *process)
{
	pid_t at = getppid();

	for (int i = 0; i < ANCESTORS_MAX && at > 1; i++) {
		FLMEM_AUTO_PROCESS struct flmem_process one = FLMEM_PROCESS_INIT;

		if (at == process->pid)
			return true;
		if (flmem_process_open(at, &one, NULL))
			return false;
		at = one.parent;
	}
	return false;
}

static size_t count_argv_words(char *const *argv)
{
	size_t count = 0;

	while (argv[count])
		count++;
	return count;
}

/*
 * Returns true if the process has the arguments of the command. For a script the kernel puts the
 * interpreter before them, and uses the path of the script as its name: execve(2).
 */
static bool runs_command(const struct flmem_process *process, char *const *argv)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = {0};
	size_t count = count_argv_words(argv), before;

	if (!count || flmem_argv_env_read_argv(process, &words, NULL) || words.cut ||
	    words.count < count)
		return false;
	before = words.count - count;
	for (size_t i = 1; i < count; i++)
		if (strcmp(words.values[before + i], argv[i]) != 0)
			return false;
	if (!before)
		return strcmp(words.values[0], argv[0]) == 0;
	/* Skip the interpreter and its one argument, if any. */
	return before <= 2 &&
	       strcmp(flmem_text_basename(words.values[before]), flmem_text_basename(argv[0])) == 0;
}

/*
 * Returns true if the process was started in this directory, even if it has changed its directory
 * since.
 */
static bool has_started_here(const struct flmem_process *process)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env environment = {0};
	FLMEM_AUTO_FREE char *here = getcwd(NULL, 0);
	const char *there;

	if (!here || flmem_argv_env_read_env(process, &environment, NULL))
		return false;
	there = flmem_argv_env_getenv(&environment, "PWD");
	return there && strcmp(there, here) == 0;
}

/*
 * Returns true if the process has the same directory: the same words in another directory name
 * another program, for example in a copied workspace, whose pid.fl belongs to another job.
 */
static bool is_in_same_directory(const struct flmem_process *process)
{
	struct stat own, its;

	return (stat(".", &own) == 0 && fstatat(process->dirfd, "cwd", &its, 0) == 0 &&
		flmem_file_is_same(&own, &its)) ||
	       has_started_here(process);
}

const char *flmem_adoptable(const struct flmem_process *process, char *const *argv)
{
	if (process->pid <= 1 || process->kernel_thread)
		return "which belongs to the system";
	if (!is_own_process(process))
		return "which runs as another user";
	if (process->pidfd < 0)
		return "which this kernel cannot pin (pidfd_open, Linux 5.3)";
	if (!is_in_same_namespace(process))
		return "which is in another pid namespace, or cannot be read";
	if (process->pid == getpid() || is_ancestor(process))
		return "which has started this one";
	if (!runs_command(process, argv))
		return "which runs another command";
	if (!is_in_same_directory(process))
		return "which was started in another directory, so it may be another job";
	return NULL;
}
