/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/preflight.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/modules.h"
#include "proc/host_facts.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/status.h"
#include "remote/arch.h"
#include "remote/checks/hugetlb.h"
#include "remote/checks/libc_threads.h"
#include "remote/checks/own_supervisor.h"
#include "remote/checks/quiet_stop.h"
#include "remote/checks/userfaults.h"

#define TRACERS_MAX 16U

/* Credentials of both sides of the permission check. */
struct permission_check {
	const struct flmem_process *process;
	struct flmem_status target;
	struct flmem_status self;
};

static int read_self(struct flmem_status *ret_status, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	int rc = flmem_process_open(getpid(), &self, err);

	return rc ? rc : flmem_status_read(&self, ret_status, err);
}

static int read_permission_check(const struct flmem_process *process,
				 struct permission_check *ret_check, struct flmem_error *err)
{
	struct permission_check check = {.process = process};
	int rc = flmem_status_read(process, &check.target, err);

	if (!rc)
		rc = read_self(&check.self, err);
	if (rc)
		return rc;
	*ret_check = check;
	return 0;
}

static bool has_thread_ended(char state)
{
	return state == 'Z' || state == 'X';
}

/* Once the main thread has exited, the mappings are only under /proc/PID/task/TID. */
static int refuse_ended(const struct flmem_process *process, struct flmem_error *err)
{
	struct flmem_status status;

	if (flmem_status_read(process, &status, NULL) == 0 && !status.threads.unknown &&
	    status.threads.value > 1)
		return flmem_error_set(
			err, FLMEM_ENOPROC, 0,
			"the main thread of process %d has exited while other threads still run; "
			"flmem does not read the memory of such a process",
			(int)process->pid);
	return flmem_error_set(
		err, FLMEM_ENOPROC, 0,
		"process %d is a zombie: it has exited, and its parent has not waited for it yet",
		(int)process->pid);
}

/*
 * Refuses a process that is exiting: it has released its memory before it is a zombie; the init
 * process of a PID namespace waits in between for all others there.
 */
static int check_released(const struct flmem_process *process, struct flmem_error *err)
{
	struct flmem_status status;

	if (flmem_status_read(process, &status, NULL) || !status.rss_bytes.unknown)
		return 0;
	return flmem_error_set(err, FLMEM_ENOPROC, 0,
			       "process %d is ending: it has released its memory already",
			       (int)process->pid);
}

int flmem_preflight_processor(struct flmem_error *err)
{
	if (flmem_arch_supported())
		return 0;
	return flmem_error_set(
		err, FLMEM_EUNSUPPORTED, 0,
		"not supported here: this flmem was built for a processor architecture "
		"on which it cannot borrow threads (only x86-64 and aarch64)");
}

static int check_image(const struct flmem_view *view, struct flmem_error *err)
{
	const struct flmem_module *program = flmem_modules_main(view->modules);
	const char *why = "the process has no program file";
	struct flmem_image *image = program ? flmem_module_image(program, &why) : NULL;
	int pid = (int)view->process->pid;

	if (!image)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "cannot borrow a thread of process %d: %s", pid, why);
	if (!flmem_arch_supported() || flmem_image_machine(image) != flmem_arch_machine())
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d runs on a processor architecture on which flmem "
				       "cannot borrow threads (only x86-64 and aarch64)",
				       pid);
	return 0;
}

int flmem_preflight_identity(const struct flmem_process *process, struct flmem_error *err)
{
	int pid = (int)process->pid;

	if (process->pid == getpid())
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "process %d is flmem itself", pid);
	if (process->kernel_thread)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d is a kernel thread; it has no user-space memory",
				       pid);
	return has_thread_ended(process->state) ? refuse_ended(process, err)
						: check_released(process, err);
}

int flmem_preflight_rights(const struct flmem_process *process, const struct flmem_maps *maps,
			   struct flmem_error *err)
{
	for (size_t i = 0; i < maps->count; i++) {
		unsigned char byte;
		int rc;

		if (!maps->rows[i].inode || !(maps->rows[i].flags & FLMEM_MAP_READ))
			continue;
		rc = flmem_process_read_memory(process, maps->rows[i].start, &byte, 1);
		return rc == -EPERM || rc == -EACCES ? flmem_preflight_explain(process, rc, err)
						     : 0;
	}
	return 0;
}

static int check_kernel(struct flmem_error *err)
{
	struct utsname names;

	if (uname(&names) || flmem_quiet_stop_fits_kernel(names.release))
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "Linux %.20s does not show which system call flmem interrupts, so "
			       "it could end with EINTR (aarch64); use Linux 5.3 or later",
			       names.release);
}

static pid_t find_tracer(pid_t tid)
{
	struct flmem_status status;

	return flmem_status_read_number(tid, &status) ? 0 : (pid_t)flmem_u64_or(status.tracer, 0);
}

/*
 * Refuses a process that traces flmem. Each system call of a process under strace waits for the
 * tracer: flmem would wait for a thread that it has stopped itself, and so would its end, where the
 * tracer follows that (PTRACE_O_TRACEEXIT). A tracer may be traced in turn.
 */
static int check_own_tracers(const struct flmem_process *process, struct flmem_error *err)
{
	pid_t tracer = find_tracer(getpid());
	char name[32];

	for (unsigned i = 0; tracer && i < TRACERS_MAX; i++, tracer = find_tracer(tracer)) {
		snprintf(name, sizeof(name), "task/%d", (int)tracer);
		if (faccessat(process->dirfd, name, F_OK, 0) == 0)
			return flmem_error_set(err, FLMEM_EUNSAFE, 0,
					       "process %d traces this flmem, so each would wait "
					       "for the other; run flmem without it",
					       (int)process->pid);
	}
	return 0;
}

int flmem_preflight_fixed(const struct flmem_view *view, struct flmem_error *err)
{
	struct flmem_status target;
	int rc = flmem_status_read(view->process, &target, err);

	if (!rc)
		rc = check_image(view, err);
	if (!rc)
		rc = check_own_tracers(view->process, err);
	if (!rc)
		rc = check_kernel(err);
	if (rc)
		return rc;
	if (target.shadow_stack)
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"process %d has a shadow stack, so a borrowed thread would be killed",
			(int)view->process->pid);
	if (target.seccomp_mode.value == SECCOMP_MODE_STRICT && !target.seccomp_mode.unknown)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d runs in seccomp strict mode, which kills it for "
				       "the system calls that a release of memory needs",
				       (int)view->process->pid);
	rc = flmem_huge_pages_check(view->process, &target, err);
	if (!rc)
		rc = flmem_userfaults_check(view->process, err);
	if (!rc)
		rc = flmem_own_supervisor_check(view->process, err);
	if (rc)
		return rc;
	return flmem_libc_threads_check(view, err);
}

static int refuse_traced(const struct flmem_process *process, const struct flmem_status *target,
			 struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "process %d is traced by process %d; end that trace first",
			       (int)process->pid, (int)target->tracer.value);
}

static int check_now(const struct flmem_process *process, bool is_traceable,
		     struct flmem_error *err)
{
	struct flmem_status target;
	int rc = flmem_status_read(process, &target, err);

	if (rc)
		return rc;
	if (has_thread_ended(target.state))
		return refuse_ended(process, err);
	if (flmem_status_is_dumping(&target))
		return flmem_error_set(err, FLMEM_ENOPROC, 0,
				       "process %d is ending: a signal has ended it, and its core "
				       "dump is being written",
				       (int)process->pid);
	if (is_traceable && !target.tracer.unknown && target.tracer.value)
		return refuse_traced(process, &target, err);
	if (flmem_status_is_stopped(&target))
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "process %d is stopped; continue it first (kill -CONT %d)",
				       (int)process->pid, (int)process->pid);
	return 0;
}

int flmem_preflight_now(const struct flmem_process *process, struct flmem_error *err)
{
	return check_now(process, true, err);
}

int flmem_preflight_stopped(const struct flmem_process *process, struct flmem_error *err)
{
	return check_now(process, false, err);
}

/*
 * True for a process of another user. ptrace(2): all three IDs of the target must equal the real
 * IDs of the tracer (fsuid here).
 */
static bool is_other_user(const struct permission_check *p)
{
	uint32_t uid = p->self.uid.fs, gid = p->self.gid.fs;
	const struct flmem_ids *u = &p->target.uid, *g = &p->target.gid;

	return u->real != uid || u->effective != uid || u->saved != uid || g->real != gid ||
	       g->effective != gid || g->saved != gid;
}

static bool is_other_user_namespace(const struct permission_check *p)
{
	char mine[64], theirs[64];
	ssize_t length = readlink("/proc/self/ns/user", mine, sizeof(mine) - 1);

	if (length < 0)
		return false;
	mine[length] = '\0';
	/* If the process may not be traced, its link cannot be read either. */
	return flmem_process_readlink(p->process, "ns/user", theirs, sizeof(theirs)) ||
	       strcmp(mine, theirs) != 0;
}

/*
 * True if the file of the memory belongs to another user: it has mode 0600, and the permission to
 * trace does not override it.
 */
static bool is_memory_of_other_owner(const struct permission_check *p,
				     const struct flmem_host_facts *facts)
{
	struct stat file;

	return !facts->may_open_any && fstatat(p->process->dirfd, "mem", &file, 0) == 0 &&
	       file.st_uid != p->self.uid.fs;
}

/* Returns the gate that can refuse a process with CAP_SYS_PTRACE. */
static enum flmem_gate gate_despite_capability(const struct permission_check *p,
					       const struct flmem_host_facts *facts)
{
	/* All other user namespaces descend from the initial one. */
	if (facts->own_user_namespace && is_other_user_namespace(p))
		return FLMEM_GATE_USER_NAMESPACE;
	if (is_memory_of_other_owner(p, facts))
		return FLMEM_GATE_OWNER;
	return facts->seccomp_mode.value == SECCOMP_MODE_FILTER ? FLMEM_GATE_SECCOMP
								: FLMEM_GATE_SECURITY_MODULE;
}

static enum flmem_gate find_gate(const struct permission_check *p)
{
	struct flmem_host_facts facts;
	enum flmem_gate gate;

	if (flmem_host_facts_read(&facts, NULL))
		return FLMEM_GATE_SECURITY_MODULE;
	gate = is_other_user(p) ? flmem_gate_others(&facts) : flmem_gate_own(&facts);
	if (gate != FLMEM_GATE_OPEN)
		return gate;
	if (facts.may_trace_any)
		return gate_despite_capability(p, &facts);
	return facts.seccomp_mode.value == SECCOMP_MODE_FILTER ? FLMEM_GATE_SECCOMP
							       : FLMEM_GATE_PRIVATE;
}

enum flmem_gate flmem_preflight_reading_gate(const struct flmem_process *process)
{
	struct flmem_host_facts facts;
	struct permission_check check;

	if (read_permission_check(process, &check, NULL) || flmem_host_facts_read(&facts, NULL))
		return FLMEM_GATE_CAPABILITY;
	if (facts.may_trace_any && facts.own_user_namespace && is_other_user_namespace(&check))
		return FLMEM_GATE_USER_NAMESPACE;
	if (facts.may_trace_any)
		return is_memory_of_other_owner(&check, &facts) ? FLMEM_GATE_OWNER
								: FLMEM_GATE_SECURITY_MODULE;
	return is_other_user(&check) ? FLMEM_GATE_CAPABILITY : FLMEM_GATE_PRIVATE;
}

int flmem_preflight_explain(const struct flmem_process *process, int negative_errno,
			    struct flmem_error *err)
{
	struct permission_check check;
	enum flmem_gate gate;

	if (negative_errno != -EPERM && negative_errno != -EACCES)
		return flmem_process_error(process, negative_errno, "borrow a thread", err);
	if (read_permission_check(process, &check, err))
		return err ? err->code : FLMEM_EPERM;
	/* A process that is ending has released its memory already: ptrace then returns EPERM. */
	if (has_thread_ended(check.target.state) || check.target.rss_bytes.unknown)
		return refuse_ended(process, err);
	if (!check.target.tracer.unknown && check.target.tracer.value)
		return refuse_traced(process, &check.target, err);
	gate = find_gate(&check);
	return flmem_error_set(err, FLMEM_EPERM, 0, "no permission for process %d: %s; %s",
			       (int)process->pid, flmem_gate_why(gate), flmem_gate_how(gate));
}
