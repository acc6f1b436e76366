/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_INTERFACES_H
#define FLMEM_PROC_INTERFACES_H

/*
 * Tests which of the kernel interfaces that flmem uses work for this process. Each is used once in
 * a short-lived child, because a seccomp filter may send a signal instead of an error. A second,
 * idle child is traced and read; no other process is touched.
 */

#include <stdbool.h>

#include <flmem/error.h>

/* The interfaces. X(NAME, text, first Linux release, what flmem does with it) */
#define FLMEM_INTERFACES(X)                                                             \
	X(PTRACE, "ptrace", "3.4", "trim borrows a thread with it")                     \
	X(PROCESS_VM_READV, "process_vm_readv", "3.2", "detect reads memory with it")   \
	X(PIDFD, "pidfd", "5.3", "a process is pinned with it")                         \
	X(OPENAT2, "openat2", "5.6", "files of a process are opened with it")           \
	X(PAGEMAP_SCAN, "PAGEMAP_SCAN", "6.7", "resident pages are found fast with it") \
	X(PROCMAP_QUERY, "PROCMAP_QUERY", "6.11", "mappings are found fast with it")

enum flmem_interface {
#define FLMEM_INTERFACE_ENUM(name, text, since, use) FLMEM_INTERFACE_##name,
	FLMEM_INTERFACES(FLMEM_INTERFACE_ENUM) FLMEM_INTERFACE_COUNT
#undef FLMEM_INTERFACE_ENUM
};

struct flmem_interface_info {
	const char *name;
	const char *since;
	const char *use;
};

extern const struct flmem_interface_info flmem_interfaces[FLMEM_INTERFACE_COUNT];

struct flmem_interface_result {
	int error;   /* 0: the interface works; else its errno */
	bool killed; /* a seccomp filter killed the child instead */
	/*
	 * The call was not tried: it needs the right to trace, and a child of this process cannot
	 * be traced, because this process cannot (PR_GET_DUMPABLE is not 1).
	 */
	bool untried;
};

/* Tests all interfaces. Fails only if no child can be started. */
int flmem_interfaces_probe(struct flmem_interface_result ret_results[FLMEM_INTERFACE_COUNT],
			   struct flmem_error *err);

/*
 * Tests whether a process of another user may be traced. Returns 0, -EACCES or -EPERM, or -ESRCH if
 * no such process is visible. It opens /proc/PID/mem of one, which the kernel allows under exactly
 * the conditions of PTRACE_SEIZE (PTRACE_MODE_ATTACH), and reads nothing.
 */
int flmem_interfaces_other_user(void);

#endif
