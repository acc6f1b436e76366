/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "elf/modules.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/status.h"
#include "remote/arch.h"
#include "remote/seccomp.h"

#define CAPABILITY_SYS_PTRACE 19 /* include/uapi/linux/capability.h */

/* Both sides of the question who may touch whom. */
struct parties {
	const struct flmem_process *process;
	struct flmem_status target;
	struct flmem_status self;
	int yama; /* kernel.yama.ptrace_scope, -1: this kernel has none */
};

static int read_yama(void)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;

	if (flmem_io_read_file_at(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", 64, &buf) ||
	    buf.data[0] < '0' || buf.data[0] > '3')
		return -1;
	return buf.data[0] - '0';
}

static int read_self(struct flmem_status *ret_status, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	int rc = flmem_process_open(getpid(), &self, err);

	return rc ? rc : flmem_status_read(&self, ret_status, err);
}

static int read_parties(const struct flmem_process *process, struct parties *ret_parties,
			struct flmem_error *err)
{
	struct parties parties = {.process = process, .yama = read_yama()};
	int rc = flmem_status_read(process, &parties.target, err);

	if (!rc)
		rc = read_self(&parties.self, err);
	if (rc)
		return rc;
	*ret_parties = parties;
	return 0;
}

static bool has_ended(char state)
{
	return state == 'Z' || state == 'X';
}

static int refuse_ended(const struct flmem_process *process, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_ENOPROC, 0,
			       "process %d has ended; only its parent can clear it away",
			       (int)process->pid);
}

static int check_image(const struct flmem_view *view, struct flmem_error *err)
{
	const struct flmem_module *program = flmem_modules_main(view->modules);
	const char *why = "it has no program file";
	struct flmem_image *image = program ? flmem_module_image(program, &why) : NULL;
	int pid = (int)view->process->pid;

	if (!image)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "cannot work on process %d: %s",
				       pid, why);
	if (!flmem_arch_supported() || flmem_image_machine(image) != flmem_arch_machine())
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d runs on a processor that flmem cannot borrow "
				       "threads on yet (only x86-64)",
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
				       "process %d is a kernel thread; it has no memory of its own",
				       pid);
	return has_ended(process->state) ? refuse_ended(process, err) : 0;
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

int flmem_preflight_fixed(const struct flmem_view *view, bool *ret_check_seccomp,
			  struct flmem_error *err)
{
	struct parties parties;
	int rc = read_parties(view->process, &parties, err);

	if (!rc)
		rc = check_image(view, err);
	if (rc)
		return rc;
	if (parties.target.shadow_stack)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d has a shadow stack, which a borrowed thread "
				       "would violate",
				       (int)view->process->pid);
	if (parties.target.seccomp_mode.value == SECCOMP_MODE_STRICT &&
	    !parties.target.seccomp_mode.unknown)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "process %d runs in seccomp strict mode, which kills it for "
				       "the calls that giving memory back needs",
				       (int)view->process->pid);
	*ret_check_seccomp = !flmem_seccomp_is_harmless(&parties.target, &parties.self);
	return 0;
}

static int refuse_traced(const struct flmem_process *process, const struct flmem_status *target,
			 struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "process %d is being traced by process %d; end that first",
			       (int)process->pid, (int)target->tracer.value);
}

int flmem_preflight_now(const struct flmem_process *process, struct flmem_error *err)
{
	struct flmem_status target;
	int rc = flmem_status_read(process, &target, err);

	if (rc)
		return rc;
	if (has_ended(target.state))
		return refuse_ended(process, err);
	if (!target.tracer.unknown && target.tracer.value)
		return refuse_traced(process, &target, err);
	if (target.state == 'T' || target.state == 't')
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "process %d is stopped; let it go on first (kill -CONT %d)",
				       (int)process->pid, (int)process->pid);
	return 0;
}

static bool has_capability(const struct flmem_status *status)
{
	return !status->cap_effective.unknown &&
	       status->cap_effective.value >> CAPABILITY_SYS_PTRACE & 1U;
}

/* ptrace(2): all three ids of the target must equal the tracer's real ones (fsuid here). */
static bool is_other_user(const struct parties *p)
{
	uint32_t uid = p->self.uid.fs, gid = p->self.gid.fs;
	const struct flmem_ids *u = &p->target.uid, *g = &p->target.gid;

	return u->real != uid || u->effective != uid || u->saved != uid || g->real != gid ||
	       g->effective != gid || g->saved != gid;
}

static bool is_other_user_namespace(const struct parties *p)
{
	char mine[64], theirs[64];
	ssize_t length = readlink("/proc/self/ns/user", mine, sizeof(mine) - 1);

	if (length < 0)
		return false;
	mine[length] = '\0';
	/* The link of a process that may not be traced cannot be read either. */
	return flmem_process_readlink(p->process, "ns/user", theirs, sizeof(theirs)) ||
	       strcmp(mine, theirs) != 0;
}

static int refuse_filtered(const struct parties *p, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EPERM, 0,
			       "may not touch process %d: this container's seccomp profile "
			       "forbids ptrace; start it with --cap-add=SYS_PTRACE",
			       (int)p->process->pid);
}

static int explain_with_capability(const struct parties *p, struct flmem_error *err)
{
	int pid = (int)p->process->pid;

	if (p->yama == 3)
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "may not touch process %d: Yama level 3 forbids ptrace to "
				       "everyone until the next boot",
				       pid);
	if (is_other_user_namespace(p))
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "may not touch process %d: it is outside of this user "
				       "namespace; run flmem as root on the host",
				       pid);
	if (p->self.seccomp_mode.value == 2)
		return refuse_filtered(p, err);
	return flmem_error_set(err, FLMEM_EPERM, 0,
			       "may not touch process %d although CAP_SYS_PTRACE is there: a "
			       "security module (SELinux deny_ptrace, AppArmor) refuses",
			       pid);
}

static int explain_without_capability(const struct parties *p, struct flmem_error *err)
{
	int pid = (int)p->process->pid;

	if (is_other_user(p))
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "may not touch process %d of user %u without "
				       "CAP_SYS_PTRACE: run as that user or with sudo, in a "
				       "container with --cap-add=SYS_PTRACE",
				       pid, p->target.uid.real);
	if (p->yama == 1)
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "may not touch process %d: Yama level 1 allows only one's "
				       "own children; use sudo, or sysctl "
				       "kernel.yama.ptrace_scope=0",
				       pid);
	if (p->yama >= 2)
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "may not touch process %d: Yama level %d asks for "
				       "CAP_SYS_PTRACE; use sudo",
				       pid, p->yama);
	if (p->self.seccomp_mode.value == 2)
		return refuse_filtered(p, err);
	return flmem_error_set(err, FLMEM_EPERM, 0,
			       "may not touch process %d of the same user: it is not dumpable, or "
			       "has capabilities that flmem lacks; use sudo",
			       pid);
}

int flmem_preflight_explain(const struct flmem_process *process, int negative_errno,
			    struct flmem_error *err)
{
	struct parties parties;

	if (negative_errno != -EPERM && negative_errno != -EACCES)
		return flmem_process_error(process, negative_errno, "borrow a thread", err);
	if (read_parties(process, &parties, err))
		return err ? err->code : FLMEM_EPERM;
	/* A process that is ending has given its memory away already: ptrace says EPERM then. */
	if (has_ended(parties.target.state) || parties.target.rss_bytes.unknown)
		return refuse_ended(process, err);
	if (!parties.target.tracer.unknown && parties.target.tracer.value)
		return refuse_traced(process, &parties.target, err);
	return has_capability(&parties.self) ? explain_with_capability(&parties, err)
					     : explain_without_capability(&parties, err);
}
