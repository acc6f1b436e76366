/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_HOST_FACTS_H
#define FLMEM_PROC_HOST_FACTS_H

/*
 * Facts about this machine and the rights of the calling process on it. They are read below a root
 * directory, so that tests can read captured trees.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/value.h>

struct flmem_host_facts {
	char kernel[65]; /* release by uname(2) */
	char architecture[65];
	uint64_t page_bytes;
	/* "always", "madvise" or "never"; "": the kernel has no transparent huge pages. */
	char thp_mode[16];
	struct flmem_u64 memory_total_bytes;
	struct flmem_u64 memory_available_bytes;
	struct flmem_u64 swap_total_bytes;
	struct flmem_u64 swap_free_bytes;
	int yama_level;	    /* 0 to 3; -1: the kernel has no Yama */
	bool selinux_deny;  /* SELinux boolean deny_ptrace is on */
	bool may_trace_any; /* CAP_SYS_PTRACE is effective in this process */
	bool may_open_any;  /* CAP_DAC_OVERRIDE is effective in this process */
	bool own_user_namespace;
	bool own_pid_namespace;
	struct flmem_u64 seccomp_mode; /* 0 none, 1 strict, 2 filter */
};

/*
 * Reads the facts below "/". The function with `rootfd` reads a captured tree. Fails only without
 * /proc.
 */
int flmem_host_facts_read(struct flmem_host_facts *ret_facts, struct flmem_error *err);
int flmem_host_facts_read_at(int rootfd, struct flmem_host_facts *ret_facts,
			     struct flmem_error *err);

/*
 * Returns true if more threads can run now than there are processors; false also if /proc/loadavg
 * cannot be read. The kernel counts the threads of the whole machine, in containers too.
 */
bool flmem_host_is_busy(void);
bool flmem_host_is_busy_at(int rootfd, uint64_t processors);

/*
 * Returns true if this process is not in the first PID namespace: its PIDs are not those of the
 * host.
 */
bool flmem_own_pid_namespace(void);

/*
 * What can prevent tracing a process. X(NAME, why, how to open it). Both texts complete a sentence
 * about tracing and end without a full stop.
 */
#define FLMEM_GATES(X)                                                                          \
	X(OPEN, "access is allowed", "nothing to do")                                           \
	X(SECCOMP, "a seccomp filter refuses the ptrace system call",                           \
	  "run flmem outside the sandbox; docker: --security-opt seccomp=unconfined; systemd: " \
	  "allow @debug in SystemCallFilter=")                                                  \
	X(SELINUX, "SELinux forbids it (boolean deny_ptrace)", "setsebool deny_ptrace off")     \
	X(YAMA_NOBODY, "Yama level 3 forbids all tracing until the next boot",                  \
	  "set kernel.yama.ptrace_scope to 0, 1 or 2 in /etc/sysctl.d and reboot")              \
	X(YAMA_ADMIN, "Yama level 2 allows tracing only with CAP_SYS_PTRACE",                   \
	  "run flmem as root, in a container with --cap-add=SYS_PTRACE, or: sysctl "            \
	  "kernel.yama.ptrace_scope=0")                                                         \
	X(YAMA_CHILDREN, "Yama level 1 allows a process to trace only its own children",        \
	  "run flmem as root, in a container with --cap-add=SYS_PTRACE, or: sysctl "            \
	  "kernel.yama.ptrace_scope=0")                                                         \
	X(CAPABILITY, "tracing processes of other users or groups needs CAP_SYS_PTRACE",        \
	  "run flmem as that user or as root, in a container with --cap-add=SYS_PTRACE")        \
	X(OWNER, "opening /proc/PID/mem of other users needs CAP_DAC_OVERRIDE, too",            \
	  "run flmem as that user, or in a container with --cap-add=SYS_PTRACE "                \
	  "--cap-add=DAC_OVERRIDE")                                                             \
	X(PRIVATE, "the process is not dumpable, or has capabilities that flmem lacks",         \
	  "run flmem as root")                                                                  \
	X(USER_NAMESPACE, "this user namespace grants no permission for processes outside it",  \
	  "run flmem on the host, or inside the namespace of the process (nsenter -U -t PID)")  \
	X(SECURITY_MODULE, "a security module (AppArmor, SELinux or another) forbids it",       \
	  "look for the denial with 'dmesg | grep -i denied'; docker: --security-opt apparmor=" \
	  "unconfined")

enum flmem_gate {
#define FLMEM_GATE_ENUM(name, why, how) FLMEM_GATE_##name,
	FLMEM_GATES(FLMEM_GATE_ENUM)
#undef FLMEM_GATE_ENUM
};

const char *flmem_gate_why(enum flmem_gate gate);
const char *flmem_gate_how(enum flmem_gate gate);

/* Return the first closed gate, for processes of this user and for those of others. */
enum flmem_gate flmem_gate_own(const struct flmem_host_facts *facts);
enum flmem_gate flmem_gate_others(const struct flmem_host_facts *facts);

#endif
