/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_syscalls.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

/* Constants that are newer than some headers (asm-generic/mman-common.h). */
#define ADVICE_GUARD_INSTALL 102
#define NAME_MAPPING	     0x53564d41 /* PR_SET_VMA (linux/prctl.h) */

#define CLONE_OF_THREAD                                                                     \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/*
 * Calls of pthread_create() of glibc 2.28 to 2.43 with its stack, and of the new thread before it
 * runs and when it ends (nptl/pthread_create.c, allocatestack.c; musl makes some of them). glibc
 * falls back to clone only when clone3 gives ENOSYS.
 */
static const struct flmem_syscall thread_rows[] = {
	{SYS_clone3, "clone3", FLMEM_FAILURE_ENOSYS_FINE, {{0}}},
	{SYS_clone, "clone", FLMEM_FAILURE_REFUSED, {FLMEM_ARG_IS(CLONE_OF_THREAD)}},
	{SYS_mmap,
	 "mmap",
	 FLMEM_FAILURE_REFUSED,
	 {{0},
	  {0},
	  FLMEM_ARG_WITHIN(PROT_READ | PROT_WRITE),
	  FLMEM_ARG_WITHIN(MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE),
	  FLMEM_ARG_INT(-1),
	  FLMEM_ARG_IS(0)}},
	{SYS_mprotect,
	 "mprotect",
	 FLMEM_FAILURE_REFUSED,
	 {{0}, {0}, FLMEM_ARG_WITHIN(PROT_READ | PROT_WRITE)}},
	{SYS_madvise, "madvise", FLMEM_FAILURE_FINE, {{0}, {0}, FLMEM_ARG_IS(MADV_DONTNEED)}},
	{SYS_madvise,
	 "madvise",
	 FLMEM_FAILURE_FINE,
	 {{0}, {0}, FLMEM_ARG_IS(ADVICE_GUARD_INSTALL)}},
	{SYS_futex, "futex", FLMEM_FAILURE_REFUSED, {{0}, FLMEM_ARG_IS(FUTEX_WAIT_PRIVATE)}},
	{SYS_futex, "futex", FLMEM_FAILURE_REFUSED, {{0}, FLMEM_ARG_IS(FUTEX_WAKE_PRIVATE)}},
	FLMEM_CALL_FINE(set_robust_list),
	FLMEM_CALL_FINE(rseq),
	/* made by remote/borrow_state.c. */
	{SYS_prctl,
	 "prctl",
	 FLMEM_FAILURE_FINE,
	 {FLMEM_ARG_INT(PR_SET_TSC), FLMEM_ARG_IS(PR_TSC_ENABLE)}},
	FLMEM_CALL_PLAIN(munmap),
	FLMEM_CALL_PLAIN(rt_sigprocmask),
	FLMEM_CALL_PLAIN(rt_sigaction),
	FLMEM_CALL_PLAIN(clock_nanosleep),
	FLMEM_CALL_PLAIN(sched_yield),
	FLMEM_CALL_PLAIN(gettid),
	FLMEM_CALL_PLAIN(exit),
};

static const struct flmem_syscall_table thread_table = {
	.maker = "starting a thread",
	.rows = thread_rows,
	.count = FLMEM_ARRAY_SIZE(thread_rows),
};

/*
 * Calls of flmem's frame around the code (cpython_source.c), and of its allocations. A thread of
 * 3.14 and later asks for its stack: if sched_getaffinity() of pthread_getattr_np() fails, other
 * than with ENOSYS, the interpreter assumes 4 MB of it for the recursion of finalisers. 3.15 asks
 * for huge pages, and with -X dev names its memory (PR_SET_VMA).
 */
static const struct flmem_syscall code_rows[] = {
	{SYS_openat,
	 "openat",
	 FLMEM_FAILURE_REFUSED,
	 {FLMEM_ARG_INT(AT_FDCWD), {0}, FLMEM_ARG_IS(O_WRONLY | O_CLOEXEC)}},
	{SYS_futex,
	 "futex",
	 FLMEM_FAILURE_REFUSED,
	 {{0}, FLMEM_ARG_IS(FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME)}},
	{SYS_futex, "futex", FLMEM_FAILURE_REFUSED, {{0}, FLMEM_ARG_IS(FUTEX_WAIT_BITSET_PRIVATE)}},
	{SYS_sched_getaffinity, "sched_getaffinity", FLMEM_FAILURE_ENOSYS_FINE, {{0}}},
	{SYS_madvise, "madvise", FLMEM_FAILURE_FINE, {{0}, {0}, FLMEM_ARG_IS(MADV_HUGEPAGE)}},
	{SYS_prctl, "prctl", FLMEM_FAILURE_FINE, {FLMEM_ARG_INT(NAME_MAPPING)}},
	FLMEM_CALL_PLAIN(pwrite64),
	FLMEM_CALL_PLAIN(close),
	FLMEM_CALL_PLAIN(brk),
	FLMEM_CALL_PLAIN(clock_gettime),
	FLMEM_CALL_PLAIN(getpid),
	FLMEM_CALL_PLAIN(tgkill),
};

static const struct flmem_syscall_table code_table = {
	.maker = "flmem's Python code",
	.rows = code_rows,
	.count = FLMEM_ARRAY_SIZE(code_rows),
};

static const struct flmem_syscall_table program_table = {
	.maker = "Python code of the program",
	.runs_program_code = true,
};

/* Calls for PEP 768: the interpreter reads and runs a file, which removes itself. */
static const struct flmem_syscall script_rows[] = {
	{SYS_openat,
	 "openat",
	 FLMEM_FAILURE_REFUSED,
	 {FLMEM_ARG_INT(AT_FDCWD), {0}, FLMEM_ARG_WITHIN(O_CLOEXEC)}},
	FLMEM_CALL_PLAIN(read),
	FLMEM_CALL_PLAIN(lseek),
	FLMEM_CALL_PLAIN(newfstatat),
	FLMEM_CALL_PLAIN(fstat),
	FLMEM_CALL_PLAIN(ioctl),
#ifdef SYS_unlink
	FLMEM_CALL_PLAIN(unlink),
#endif
	FLMEM_CALL_PLAIN(unlinkat),
};

static const struct flmem_syscall_table script_table = {
	.maker = "running a script by PEP 768",
	.rows = script_rows,
	.count = FLMEM_ARRAY_SIZE(script_rows),
};

const struct flmem_syscall_list flmem_cpython_syscalls_new_thread = {
	.tables = {&thread_table, &code_table, &program_table}, .count = 3};
const struct flmem_syscall_list flmem_cpython_syscalls_debugger = {
	.tables = {&script_table, &code_table, &thread_table, &program_table}, .count = 4};
