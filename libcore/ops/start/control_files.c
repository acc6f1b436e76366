/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/start/control_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <flmem/parse.h>
#include <flmem/text.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "ops/start/adopt.h"
#include "proc/argv_env.h"
#include "proc/command.h"

#define DAEMON_PID "daemon_pid.fl"
#define PID	   "pid.fl"
#define SHUTDOWN   "shutdown.fl"
#define RESTART	   "restart.fl"

static const char *const control_files_names[] = {PID, SHUTDOWN, RESTART, DAEMON_PID};

/*
 * Returns true if the process can be the one that a file names: it must have existed when the file
 * was written. Both times are compared with some slack, since the clock may have been adjusted, and
 * treating a live supervisor as dead is the worse mistake.
 */
static bool existed_at_write(const struct flmem_process *process, const struct stat *file)
{
	const int64_t slack_us = 2000000;
	int64_t written_us = (int64_t)file->st_mtim.tv_sec * 1000000 + file->st_mtim.tv_nsec / 1000;

	return (int64_t)flmem_process_started_us(process) <= written_us + slack_us;
}

static int report_doubt(const struct flmem_control *control, enum flmem_code code, const char *name,
			const char *why, struct flmem_error *err)
{
	char shown[256];

	return flmem_error_set(err, code, 0, "%s in '%s' %s; remove it if nothing runs there", name,
			       flmem_text_escape(control->workspace, shown, sizeof(shown)), why);
}

/*
 * Reads the PID in a control file, as `echo $!` writes it; 0 if there is none. Anyone who may write
 * in the workspace could have replaced the file, so a link or another kind of file is refused.
 */
static int read_pid(const struct flmem_control *control, const char *name, pid_t *ret_pid,
		    struct stat *ret_status, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int fd = flmem_file_place_open_regular(control->directory_fd, name,
								O_RDONLY | O_NOFOLLOW, ret_status);
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	pid_t pid;

	*ret_pid = 0;
	if (fd == -ENOENT)
		return 0;
	if (fd == -ELOOP || fd == -EINVAL)
		return report_doubt(control, FLMEM_EFAILED, name, "is not a regular file", err);
	if (fd < 0)
		return report_doubt(control,
				    fd == -EACCES || fd == -EPERM ? FLMEM_EPERM : FLMEM_EFAILED,
				    name, "cannot be read", err);
	if (flmem_io_read_all(fd, 64, &text))
		return 0;
	text.data[strcspn(text.data, " \t\r\n")] = '\0';
	if (flmem_parse_pid(text.data, &pid, NULL) == 0)
		*ret_pid = pid;
	return 0;
}

/* Finds the live process that a file names and that existed when the file was written. */
static int find_process(const struct flmem_control *control, const char *name,
			struct flmem_process *ret_process, struct stat *ret_status,
			struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	pid_t pid;
	int rc = read_pid(control, name, &pid, ret_status, err);

	if (rc || !pid || pid == getpid() || flmem_process_open(pid, &process, NULL) ||
	    process.state == 'Z' || process.state == 'X' || !existed_at_write(&process, ret_status))
		return rc;
	*ret_process = process;
	process = (struct flmem_process)FLMEM_PROCESS_INIT;
	return 0;
}

/*
 * Returns true if the process may be NVFlare's supervisor, a shell that runs a script and takes no
 * lock. Its PID may have been reused, even if the file is newer than that process: restored, or of
 * a container that started anew. If the command line cannot be read, the doubt remains.
 */
static bool may_be_script(const struct flmem_process *process)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = {0};
	const char *name;

	if (process->kernel_thread)
		return false;
	if (flmem_argv_env_read_argv(process, &words, NULL) || !words.count)
		return true;
	name = words.values[0];
	return flmem_command_is_shell(*name == '-' ? name + 1 : name);
}

static int refuse_workspace(const struct flmem_control *control, pid_t pid, struct flmem_error *err)
{
	char who[32] = "another process", shown[256];

	if (pid)
		snprintf(who, sizeof(who), "process %d", (int)pid);
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "%s supervises '%s' already; stop it with: touch %s/" SHUTDOWN, who,
			       flmem_text_escape(control->workspace, shown, sizeof(shown)), shown);
}

/*
 * Locks the workspace. The lock shows another flmem or an emitted script, even after the file was
 * removed; the file shows NVFlare's own script. Where locks do not work, any process that the file
 * names counts.
 */
static int lock_workspace(const struct flmem_control *control, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process other = FLMEM_PROCESS_INIT;
	bool locked = flock(control->directory_fd, LOCK_EX | LOCK_NB) == 0;
	struct stat status;
	pid_t pid = 0;
	int rc;

	if (!locked && errno == EWOULDBLOCK) {
		read_pid(control, DAEMON_PID, &pid, &status, NULL);
		return refuse_workspace(control, pid, err);
	}
	rc = find_process(control, DAEMON_PID, &other, &status, err);
	if (!rc && other.dirfd >= 0 && (!locked || may_be_script(&other)))
		return refuse_workspace(control, other.pid, err);
	return rc;
}

/* Returns true if only this user can have written the file that names the process. */
static bool is_written_by_user(const struct flmem_control *control, const struct stat *file)
{
	/* Many users have a private group and a umask of 002; root's group has other members. */
	mode_t others = geteuid() ? S_IWOTH : S_IWOTH | S_IWGRP;
	struct stat directory;

	return fstat(control->directory_fd, &directory) == 0 && directory.st_uid == geteuid() &&
	       !(directory.st_mode & others) && file->st_uid == geteuid() && file->st_nlink == 1 &&
	       !(file->st_mode & others);
}

/*
 * Finds the process of an earlier supervisor that pid.fl names. It will be sent signals, so any
 * doubt is an error; starting a second command next to it would be as wrong.
 */
static int find_orphaned_process(const struct flmem_control *control, char *const *argv,
				 struct flmem_process *ret_process, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct stat status;
	const char *why = NULL;
	char text[160];
	int rc = find_process(control, PID, &process, &status, err);

	if (rc || process.dirfd < 0)
		return rc;
	if (!is_written_by_user(control, &status))
		why = "but users other than this one could have written that";
	else
		why = flmem_adoptable(&process, argv);
	if (why) {
		snprintf(text, sizeof(text), "names process %d, %s", (int)process.pid, why);
		return report_doubt(control, FLMEM_EPERM, PID, text, err);
	}
	*ret_process = process;
	process = (struct flmem_process)FLMEM_PROCESS_INIT;
	return 0;
}

static int write_pid(const struct flmem_control *control, const char *name, pid_t pid,
		     struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *path = NULL;
	struct flmem_file_place place = {.directory = control->directory_fd};
	char text[16];
	int length = snprintf(text, sizeof(text), "%d\n", (int)pid);

	if (asprintf(&path, "%s/%s", control->workspace, name) < 0) {
		path = NULL;
		return flmem_error_nomem(err, "cannot write %s", name);
	}
	place.path = path;
	place.name = name;
	return flmem_file_place_write(&place, text, (size_t)length, 0644, true, err);
}

int flmem_control_write_pid(const struct flmem_control *control, pid_t pid, struct flmem_error *err)
{
	return write_pid(control, PID, pid, err);
}

/* Starts inotify. Its instances are limited per user; without one the files are still polled. */
static void watch_directory(struct flmem_control *control)
{
	/* Path of the open directory, valid even if its own path was changed since. */
	char directory[32];

	snprintf(directory, sizeof(directory), "/proc/self/fd/%d", control->directory_fd);
	control->watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (control->watch_fd >= 0 &&
	    inotify_add_watch(control->watch_fd, directory,
			      IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR) < 0)
		close(FLMEM_TAKE_FD(control->watch_fd));
}

static int open_workspace(struct flmem_control *control, struct flmem_error *err)
{
	char shown[256];

	control->directory_fd = open(control->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (control->directory_fd >= 0)
		return 0;
	return flmem_error_set(err, flmem_code_of_open(errno), errno,
			       "cannot use the workspace '%s'",
			       flmem_text_escape(control->workspace, shown, sizeof(shown)));
}

/* Removes a request. A directory does not count as one, as for NVFlare's script. */
static bool remove_request(const struct flmem_control *control, const char *name)
{
	return unlinkat(control->directory_fd, name, 0) == 0 || errno == ENOENT || errno == EISDIR;
}

/* Removes old requests: one that stayed would end the command that is about to be started. */
static int remove_requests(const struct flmem_control *control, struct flmem_error *err)
{
	static const char *const requests[] = {SHUTDOWN, RESTART};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(requests); i++)
		if (!remove_request(control, requests[i]))
			return report_doubt(control, FLMEM_EPERM, requests[i], "cannot be removed",
					    err);
	return 0;
}

int flmem_control_open(const char *workspace, char *const *argv, struct flmem_control *ret_control,
		       struct flmem_process *ret_process, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process left = FLMEM_PROCESS_INIT;
	struct flmem_control control = FLMEM_CONTROL_INIT;
	int rc;

	control.workspace = workspace;
	rc = open_workspace(&control, err);
	if (!rc)
		rc = lock_workspace(&control, err);
	if (!rc)
		rc = find_orphaned_process(&control, argv, &left, err);
	if (!rc)
		rc = remove_requests(&control, err);
	if (!rc)
		rc = write_pid(&control, DAEMON_PID, getpid(), err);
	if (rc) {
		flmem_cleanup_close(&control.directory_fd);
		return rc;
	}
	watch_directory(&control);
	*ret_control = control;
	*ret_process = left;
	left = (struct flmem_process)FLMEM_PROCESS_INIT;
	return 0;
}

/* Notes an event; the removal of a file only wakes the reader. */
static void note_event(const struct inotify_event *event, struct flmem_requests *requests)
{
	if (!event->len || event->mask & IN_ISDIR || !(event->mask & (IN_CREATE | IN_MOVED_TO)))
		return;
	requests->shutdown |= strcmp(event->name, SHUTDOWN) == 0;
	requests->restart |= strcmp(event->name, RESTART) == 0;
}

static void read_watch_events(const struct flmem_control *control, struct flmem_requests *requests)
{
	_Alignas(struct inotify_event) char events[4096];
	ssize_t got;

	while ((got = read(control->watch_fd, events, sizeof(events))) > 0) {
		const struct inotify_event *event;

		for (char *at = events; at < events + got; at += sizeof(*event) + event->len) {
			event = (const struct inotify_event *)(const void *)at;
			note_event(event, requests);
		}
	}
}

static bool file_exists(const struct flmem_control *control, const char *name)
{
	return faccessat(control->directory_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_requested(const struct flmem_control *control, const char *name)
{
	struct stat status;

	return fstatat(control->directory_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       !S_ISDIR(status.st_mode);
}

void flmem_control_look(const struct flmem_control *control, struct flmem_requests *requests)
{
	if (control->watch_fd >= 0)
		read_watch_events(control, requests);
	requests->shutdown |= is_requested(control, SHUTDOWN);
	requests->restart |= !control->restart_stays && is_requested(control, RESTART);
	requests->pid_lost = !file_exists(control, PID);
}

bool flmem_control_clear_restart(struct flmem_control *control)
{
	bool reported = control->restart_stays;

	control->restart_stays = !remove_request(control, RESTART);
	return reported || !control->restart_stays;
}

void flmem_control_close(struct flmem_control *control)
{
	for (size_t i = 0; control->directory_fd >= 0 && i < FLMEM_ARRAY_SIZE(control_files_names);
	     i++)
		unlinkat(control->directory_fd, control_files_names[i], 0);
	flmem_cleanup_close(&control->watch_fd);
	flmem_cleanup_close(&control->directory_fd);
	*control = (struct flmem_control)FLMEM_CONTROL_INIT;
}
