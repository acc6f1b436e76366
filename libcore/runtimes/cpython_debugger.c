/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_doors.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/seccomp.h"
#include "runtimes/cpython_letter.h"
#include "runtimes/cpython_syscalls.h"

#define NONE FLMEM_CPYTHON_NONE

/*
 * The low byte of eval_breaker (Include/internal/pycore_ceval.h). Bit 0 asks the thread to give the
 * lock up, and then it waits until another one has it: set without another one, it would wait for
 * ever. What others change between our reading and writing is made good by asking for all that is
 * harmless to ask for in vain; whoever wants the lock asks again after the switch interval.
 */
#define BREAK_GIL_DROP 0x01U
#define BREAK_HARMLESS 0x0eU /* signals, pending calls, an asynchronous exception */
#define BREAK_DEBUGGER 0x20U

/* Between taking the wish back and taking the file away: the interpreter may just be opening it. */
#define OPENING_US 50000U

#define NAME_MAX_LENGTH 64

/* A script in the file system of the process, removed when this goes out of scope. */
struct script {
	int directory;
	const char *path; /* of the directory, as the process sees it */
	char name[NAME_MAX_LENGTH];
};

static void remove_script(struct script *script)
{
	if (script->name[0])
		unlinkat(script->directory, script->name, 0);
	if (script->directory >= 0)
		close(script->directory);
	*script = (struct script){.directory = -1};
}

/* A directory of the process, and never one outside of its root. */
static int open_directory(const struct flmem_process *process, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	FLMEM_AUTO_CLOSE int root =
		openat(process->dirfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? -1 : (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* Readable by the process alone, which may have another user than we. */
static bool give_away(const struct flmem_process *process, int fd)
{
	struct flmem_status status;

	if (flmem_status_read(process, &status, NULL) || !status.uid.known || !status.gid.known)
		return false;
	if (status.uid.fs != geteuid() && fchown(fd, status.uid.fs, status.gid.fs))
		return false;
	return fchmod(fd, S_IRUSR) == 0;
}

static bool fill_script(const struct flmem_process *process, const struct script *script, int fd,
			const struct flmem_cpython_letter *letter)
{
	char removal[256];
	int length = snprintf(removal, sizeof(removal),
			      "try:__import__('os').unlink('%s/%s')\nexcept OSError:pass\n",
			      script->path, script->name);

	/* It removes itself, so that it does not stay when we end early. */
	return flmem_io_write_all(fd, removal, (size_t)length) == 0 &&
	       flmem_io_write_all(fd, letter->text.data, letter->text.length - 1) == 0 &&
	       give_away(process, fd);
}

static int write_script(const struct flmem_cpython_visit *visit,
			const struct flmem_cpython_letter *letter, struct script *script,
			struct flmem_error *err)
{
	static const char *const directories[] = {"/tmp", "/var/tmp", "/dev/shm"};
	const struct flmem_process *process = visit->view->process;
	uint64_t number;

	memcpy(&number, letter->cookie, sizeof(number));
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(directories); i++) {
		FLMEM_AUTO_CLOSE int fd = -1;

		script->path = directories[i];
		script->directory = open_directory(process, directories[i]);
		if (script->directory < 0)
			continue;
		snprintf(script->name, sizeof(script->name), ".flmem-%016llx.py",
			 (unsigned long long)number);
		fd = openat(script->directory, script->name,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    S_IRUSR | S_IWUSR);
		if (fd < 0)
			script->name[0] = '\0';
		else if (fill_script(process, script, fd, letter))
			return 0;
		remove_script(script);
	}
	return flmem_error_set(
		err, FLMEM_EUNSAFE, errno,
		"process %d has no directory for temporary files that its code could "
		"be put into",
		(int)process->pid);
}

/*
 * Only the main thread: what is written for another one, which ends just then, would be written
 * into memory that has been freed. Not while it waits, since it would look only when it goes on.
 */
static const struct flmem_cpython_thread *choose_thread(const struct flmem_cpython_visit *visit)
{
	const struct flmem_cpython_thread *thread = flmem_cpython_state_main(&visit->state);
	struct flmem_task_wait wait;

	if (!thread || !thread->main_interpreter || !thread->tid ||
	    (flmem_task_read_wait(visit->view->process, thread->tid, &wait) == 1 &&
	     !flmem_cpython_gil_is_waited_for(&visit->state.gil, &wait)))
		return NULL;
	return thread;
}

static int write_failed(const struct flmem_cpython_visit *visit, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EFAILED, 0, "cannot write to the memory of process %d",
			       (int)visit->view->process->pid);
}

/* The path, that there is one, and at last that the thread is to look. */
static int announce(const struct flmem_cpython_visit *visit,
		    const struct flmem_cpython_thread *thread, const struct script *script,
		    struct flmem_error *err)
{
	const struct flmem_cpython_layout *layout = &visit->place.layout;
	const struct flmem_process *process = visit->view->process;
	uint64_t support = thread->state + layout->debugger_support;
	uint64_t breaker = thread->state + layout->eval_breaker;
	const int32_t pending = 1;
	char path[128];
	uint8_t byte;
	int length = snprintf(path, sizeof(path), "%s/%s", script->path, script->name);

	if ((uint32_t)length >= layout->debugger_path_size ||
	    flmem_process_write_memory(process, support + layout->debugger_path, path,
				       (size_t)length + 1) ||
	    flmem_process_write_memory(process, support + layout->debugger_pending, &pending,
				       sizeof(pending)) ||
	    flmem_process_read_memory(process, breaker, &byte, sizeof(byte)))
		return write_failed(visit, err);
	byte = (uint8_t)((byte & ~BREAK_GIL_DROP) | BREAK_HARMLESS | BREAK_DEBUGGER);
	if (flmem_process_write_memory(process, breaker, &byte, sizeof(byte)))
		return write_failed(visit, err);
	return 0;
}

static bool is_pending(const struct flmem_cpython_visit *visit, uint64_t thread_state)
{
	const struct flmem_cpython_layout *layout = &visit->place.layout;
	int32_t pending = 1;

	flmem_process_read_memory(visit->view->process,
				  thread_state + layout->debugger_support +
					  layout->debugger_pending,
				  &pending, sizeof(pending));
	return pending != 0;
}

static int take_back(const struct flmem_cpython_visit *visit,
		     const struct flmem_cpython_thread *thread, struct flmem_error *err)
{
	const struct flmem_cpython_layout *layout = &visit->place.layout;
	const int32_t none = 0;
	bool waits = is_pending(visit, thread->state);

	if (waits)
		flmem_process_write_memory(visit->view->process,
					   thread->state + layout->debugger_support +
						   layout->debugger_pending,
					   &none, sizeof(none));
	flmem_clock_sleep_us(OPENING_US);
	return flmem_error_set(
		err, FLMEM_EFAILED, 0, "%s within %llu ms in thread %d of process %d%s",
		waits ? "the code has not begun" : "the code has not come to its end",
		(unsigned long long)(visit->call->timeout_us / 1000U), (int)thread->tid,
		(int)visit->view->process->pid,
		waits ? " and was taken back" : "; it goes on and does no harm");
}

static int run_script(struct flmem_cpython_visit *visit, const struct flmem_cpython_thread *thread,
		      struct flmem_error *err)
{
	FLMEM_AUTO_CPYTHON_LETTER struct flmem_cpython_letter letter = {.text = FLMEM_BUF_INIT};
	FLMEM_AUTO(remove_script) struct script script = {.directory = -1};
	int rc = flmem_cpython_letter_write(visit, false, &letter, err);

	if (!rc)
		rc = write_script(visit, &letter, &script, err);
	if (!rc)
		rc = announce(visit, thread, &script, err);
	if (!rc)
		rc = flmem_cpython_letter_await(visit, &letter, err);
	if (rc == FLMEM_EFAILED)
		return take_back(visit, thread, err);
	flmem_cpython_letter_erase(visit, &letter);
	return rc;
}

bool flmem_cpython_has_debugger_door(const struct flmem_cpython_visit *visit)
{
	const struct flmem_cpython_layout *layout = &visit->place.layout;
	int32_t enabled = 0;

	return layout->debugger_support != NONE &&
	       flmem_process_read_memory(visit->view->process,
					 visit->state.main_interpreter + layout->debugger_enabled,
					 &enabled, sizeof(enabled)) == 0 &&
	       enabled == 1;
}

/* Nothing is stopped by this door, but for a thread with filters, which are read then. */
static int check_seccomp(const struct flmem_cpython_visit *visit, pid_t tid,
			 struct flmem_error *err)
{
	const struct flmem_seccomp_calls calls = {
		.list = &flmem_cpython_syscalls_debugger,
		.assume = visit->call->assume_seccomp,
		.repeated = {.number = -1},
	};

	if (visit->call->dry_run)
		return flmem_seccomp_check_outside(visit->view->process, tid, &calls, err);
	return flmem_seccomp_check_running(visit->view->process, tid, &calls, err);
}

int flmem_cpython_door_debugger(struct flmem_cpython_visit *visit, struct flmem_error *err)
{
	const struct flmem_cpython_thread *thread = choose_thread(visit);
	int rc;

	if (!thread)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "the main thread of the Python of process %d waits",
				       (int)visit->view->process->pid);
	if (is_pending(visit, thread->state))
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "a debugger has just left code for thread %d of process %d",
				       (int)thread->tid, (int)visit->view->process->pid);
	visit->result->door = FLMEM_CPYTHON_DOOR_DEBUGGER;
	visit->result->tid = thread->tid;
	visit->result->waited_in = NULL;
	rc = check_seccomp(visit, thread->tid, err);
	return rc || visit->call->dry_run ? rc : run_script(visit, thread, err);
}
