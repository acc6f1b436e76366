/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/libc_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "elf/modules.h"
#include "proc/process.h"
#include "proc/task.h"

/* Size of a buffer for a list of children. */
#define CHILDREN_MAX ((size_t)64 << 10)

static bool has_several_threads(const struct flmem_process *process)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	int rc = flmem_tasks_read(process, &tasks);

	if (rc)
		return !flmem_task_has_ended(rc); /* threads that cannot be read may be several */
	return flmem_tasks_count_own(process, &tasks, 2) > 1;
}

static bool is_libc(const struct flmem_module *module)
{
	const char *slash = strrchr(module->path, '/');

	return strncmp(slash ? slash + 1 : module->path, "libc.so", strlen("libc.so")) == 0;
}

/*
 * True if the module belongs to the main namespace. A C library of another namespace (dlmopen())
 * has its own threads, which are unknown to the library whose heap the program uses.
 */
static bool is_of_namespace(const struct flmem_modules *modules, const struct flmem_module *module)
{
	return !modules->has_link_map || module->lookup_rank >= 0;
}

/* Returns false if one of these modules has the variable and its value is 0. */
static bool all_single_threaded(const struct flmem_view *view, bool libc, bool *found)
{
	uint64_t address;
	unsigned char value;

	for (size_t i = 0; i < view->modules->count; i++) {
		const struct flmem_module *module = &view->modules->rows[i];

		if (is_libc(module) != libc || !is_of_namespace(view->modules, module) ||
		    !flmem_module_symbol_any(module, "__libc_single_threaded", &address))
			continue;
		*found = true;
		if (!flmem_process_read_memory(view->process, address, &value, sizeof(value)) &&
		    !value)
			return false;
	}
	return true;
}

/*
 * True if the C library takes the process for single-threaded. The variable is in libc, and in a
 * program at a fixed address that uses it also there (a copy relocation); some versions then keep
 * only one of them up to date. pthread_create() clears it, and nothing sets it again in a process
 * that still has several threads. libc is first because it usually answers, and the search of a
 * hundred other modules takes milliseconds.
 */
static bool is_single_threaded(const struct flmem_view *view)
{
	bool found = false;

	return all_single_threaded(view, true, &found) &&
	       all_single_threaded(view, false, &found) && found;
}

static bool has_same_memory(pid_t one, pid_t other)
{
	return one != other && syscall(SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0;
}

/*
 * True if another process runs in the same memory (clone() with CLONE_VM and without
 * CLONE_THREAD). The kernel does not link such processes, so all are compared: the parent may have
 * ended. One that may not be traced counts as another memory. True where none can be listed.
 */
static bool shares_memory(const struct flmem_process *process)
{
	FLMEM_AUTO_DIR DIR *dir = flmem_io_open_dir(AT_FDCWD, "/proc");
	pid_t pid;

	if (!dir)
		return true;
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (flmem_parse_pid(entry->d_name, &pid, NULL) == 0 &&
		    has_same_memory(process->pid, pid))
			return true;
	return false;
}

static bool has_one_with_same_memory(const struct flmem_process *process, const char *pids)
{
	pid_t pid;

	for (const char *at = pids; *at; at += strspn(at, " \n")) {
		char number[16] = "";
		const size_t length = strcspn(at, " \n");

		if (length < sizeof(number))
			memcpy(number, at, length);
		if (flmem_parse_pid(number, &pid, NULL) == 0 && has_same_memory(process->pid, pid))
			return true;
		at += length;
	}
	return false;
}

/*
 * True if a child shares the thread's data. clone() gives the child the thread-local data of the
 * calling thread, even without vfork(): such a thread waits like any other. On kernels without
 * lists of children, all processes are compared.
 */
bool flmem_libc_threads_shares_data(const struct flmem_process *process, pid_t tid)
{
	FLMEM_AUTO_BUF struct flmem_buf pids = FLMEM_BUF_INIT;
	char name[48];

	snprintf(name, sizeof(name), "task/%d/children", (int)tid);
	if (flmem_io_read_file_at(process->dirfd, name, CHILDREN_MAX, &pids))
		return shares_memory(process);
	return has_one_with_same_memory(process, pids.data ? pids.data : "");
}

/*
 * The variable is read last, since it is cleared before a thread is created; and also first,
 * because the search takes time, and few processes need one.
 */
static bool has_unknown_threads(const struct flmem_view *view)
{
	return is_single_threaded(view) &&
	       (has_several_threads(view->process) || shares_memory(view->process)) &&
	       is_single_threaded(view);
}

int flmem_libc_threads_check(const struct flmem_view *view, struct flmem_error *err)
{
	if (!has_unknown_threads(view))
		return 0;
	return flmem_error_set(
		err, FLMEM_EUNSAFE, 0,
		"process %d has threads that its C library did not create (by a bare clone(), or "
		"of a process that shares its memory): they may use the heap without locks, or "
		"share the thread-local data of the thread to borrow",
		(int)view->process->pid);
}
