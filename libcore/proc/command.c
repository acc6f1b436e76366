/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/text.h"

bool flmem_command_is_shell(const char *program)
{
	static const char *const names[] = {"sh",    "bash", "dash",	"zsh",	  "ksh",
					    "ksh93", "mksh", "ash",	"rbash",  "fish",
					    "csh",   "tcsh", "bsd-csh", "busybox"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (strcmp(flmem_text_basename(program), names[i]) == 0)
			return true;
	return false;
}

__attribute__((noreturn)) static void exec_command(char *const *argv, char *const *environment,
						   const sigset_t *mask, int report_fd)
{
	int error;

	sigprocmask(SIG_SETMASK, mask, NULL);
	execvpe(argv[0], argv, environment);
	error = errno;
	(void)flmem_io_write_all(report_fd, &error, sizeof(error));
	_exit(127);
}

static void reap_command(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int flmem_command_spawn(char *const *argv, char *const *environment, const sigset_t *mask,
			pid_t *ret_pid, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int report_read = -1;
	FLMEM_AUTO_CLOSE int report_write = -1;
	int ends[2], error;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot make a pipe");
	report_read = ends[0];
	report_write = ends[1];
	pid = fork();
	if (pid == 0)
		exec_command(argv, environment, mask, report_write);
	if (pid < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot start a process");
	close(FLMEM_TAKE_FD(report_write));
	if (read(report_read, &error, sizeof(error)) == (ssize_t)sizeof(error)) {
		reap_command(pid);
		return flmem_command_error(argv[0], error, err);
	}
	*ret_pid = pid;
	return 0;
}

/* Returns 0, or the errno of execve(2) for a file that does not exist or may not be executed. */
static int check_executable(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return errno;
	if (!S_ISREG(status.st_mode))
		return EACCES;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 ? errno : 0;
}

/* Searches PATH as execvp(3) does: of several files the first that may be executed. */
static int search_executable(const char *program, char **ret_path)
{
	const char *list = getenv("PATH");
	int error = ENOENT;

	if (!list)
		list = "/bin:/usr/bin"; /* the default path, confstr(_CS_PATH) */
	for (const char *end;; list = end + 1) {
		FLMEM_AUTO_FREE char *path = NULL;
		int one;

		end = strchrnul(list, ':');
		if (asprintf(&path, "%.*s%s%s", (int)(end - list), list, end > list ? "/" : "",
			     program) < 0) {
			path = NULL;
			return ENOMEM;
		}
		one = check_executable(path);
		if (!one) {
			*ret_path = FLMEM_TAKE(path);
			return 0;
		}
		error = one == EACCES ? EACCES : error;
		if (!*end)
			return error;
	}
}

static int find_executable(const char *program, char **ret_path)
{
	int error;

	if (!strchr(program, '/'))
		return *program ? search_executable(program, ret_path) : ENOENT;
	error = check_executable(program);
	if (error)
		return error;
	*ret_path = strdup(program);
	return *ret_path ? 0 : ENOMEM;
}

int flmem_command_find(const char *program, char **ret_path, struct flmem_error *err)
{
	int error = find_executable(program, ret_path);

	return error ? flmem_command_error(program, error, err) : 0;
}

int flmem_command_error(const char *program, int error, struct flmem_error *err)
{
	struct stat status;
	char shown[256];

	flmem_text_escape(program, shown, sizeof(shown));
	if ((error == ENOENT || error == ENOTDIR) && !strchr(program, '/'))
		return flmem_error_set(err, FLMEM_ENOCOMMAND, 0,
				       "cannot run '%s': no such command in PATH", shown);
	if (error == ENOENT && access(program, F_OK) == 0)
		return flmem_error_set(
			err, FLMEM_ENOCOMMAND, 0,
			"cannot run '%s': the interpreter or loader that it names is "
			"missing",
			shown);
	if (error == ENOENT || error == ENOTDIR)
		return flmem_error_set(err, FLMEM_ENOCOMMAND, error, "cannot run '%s'", shown);
	if (error == EACCES && stat(program, &status) == 0 && S_ISDIR(status.st_mode))
		error = EISDIR;
	return flmem_error_set(err, FLMEM_ENOEXEC, error, "cannot run '%s'", shown);
}
