/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_seccomp FILTER WHERE: waits in read() on standard input with a heap worth trimming, under a
 * seccomp filter for one call, or one argument of it. WHERE is `all` (the only thread has it),
 * `worker` (only a thread beside the main one has it), `only` (the same, and the main thread waits
 * for a lock, where nobody may borrow it), or `sleep` (the only thread sleeps, by a relative time).
 *
 * safe_seccomp FILTER run PROGRAM ARGS: becomes PROGRAM under that filter.
 */
#include "safe_common.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ANY (-1)

/* The action for a call, or for a call whose argument has this value in its lower half. */
static const struct filter {
	const char *name;
	uint32_t action;
	int number, argument;
	uint32_t value;
} filters[] = {
	{"kill-madvise", SECCOMP_RET_KILL_PROCESS, SYS_madvise, ANY, 0},
	{"kill-dontneed", SECCOMP_RET_KILL_PROCESS, SYS_madvise, 2, MADV_DONTNEED},
	{"kill-hugepage", SECCOMP_RET_KILL_PROCESS, SYS_madvise, 2, MADV_HUGEPAGE},
	{"kill-one-length", SECCOMP_RET_KILL_PROCESS, SYS_madvise, 1, 0x77777000},
	{"thread-dontneed", SECCOMP_RET_KILL_THREAD, SYS_madvise, 2, MADV_DONTNEED},
	{"trap-brk", SECCOMP_RET_TRAP, SYS_brk, ANY, 0},
	{"trace-madvise", SECCOMP_RET_TRACE, SYS_madvise, ANY, 0},
	{"notify-madvise", SECCOMP_RET_USER_NOTIF, SYS_madvise, ANY, 0},
	{"error-madvise", SECCOMP_RET_ERRNO | EPERM, SYS_madvise, ANY, 0},
	{"log-madvise", SECCOMP_RET_LOG, SYS_madvise, ANY, 0},
	{"kill-wake", SECCOMP_RET_KILL_PROCESS, SYS_futex, 1, FUTEX_WAKE_PRIVATE},
	{"kill-sleep", SECCOMP_RET_KILL_PROCESS, SYS_nanosleep, ANY, 0},
	{"kill-clock", SECCOMP_RET_KILL_PROCESS, SYS_clock_gettime, 0, CLOCK_MONOTONIC},
	{"kill-sigreturn", SECCOMP_RET_KILL_PROCESS, SYS_rt_sigreturn, ANY, 0},
	{"kill-restart", SECCOMP_RET_KILL_PROCESS, SYS_restart_syscall, ANY, 0},
	{"kill-clone3", SECCOMP_RET_KILL_PROCESS, SYS_clone3, ANY, 0},
	{"error-clone3", SECCOMP_RET_ERRNO | EPERM, SYS_clone3, ANY, 0},
#ifdef SYS_creat
	{"kill-creat", SECCOMP_RET_KILL_PROCESS, SYS_creat, ANY, 0},
#endif
	{"kill-swapon", SECCOMP_RET_KILL_PROCESS, SYS_swapon, ANY, 0},
	{"error-swapon", SECCOMP_RET_ERRNO | EPERM, SYS_swapon, ANY, 0},
};

static void install(const struct sock_filter *code, size_t count)
{
	struct sock_fprog program = {.len = (unsigned short)count,
				     .filter = (struct sock_filter *)(uintptr_t)code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		victim_die("seccomp filter");
}

static void install_one(const struct filter *filter)
{
	uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) +
				 8U * (unsigned)(filter->argument < 0 ? 0 : filter->argument));
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)filter->number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
		BPF_JUMP(BPF_JMP | (filter->argument < 0 ? BPF_JGE : BPF_JEQ) | BPF_K,
			 filter->value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, filter->action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install(code, sizeof(code) / sizeof(code[0]));
}

/*
 * Installs a filter like container engines' default: unlisted calls fail, clone3 as if it did not
 * exist, clone is allowed without new namespaces; another architecture kills.
 */
static void install_container(void)
{
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xc000003e, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7e020000, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_swapon, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};

	install(code, sizeof(code) / sizeof(code[0]));
}

/*
 * Installs a filter that kills for every call that is not listed here as one of the allocators'
 * release functions or of the victim itself: it shows a call that flmem's tables lack.
 */
static void install_listed(void)
{
	static const int numbers[] = {
		SYS_read,
		SYS_write,
		SYS_exit_group,
		SYS_madvise,
		SYS_brk,
		SYS_munmap,
		SYS_mmap,
		SYS_mprotect,
		SYS_futex,
		SYS_nanosleep,
		SYS_clock_gettime,
		SYS_rt_sigreturn,
		SYS_prctl,
		SYS_sched_yield,
		SYS_getrandom,
		SYS_restart_syscall,
		SYS_process_madvise,
		SYS_clock_nanosleep,
		SYS_getrusage,
	};
	enum {
		COUNT = sizeof(numbers) / sizeof(numbers[0])
	};
	struct sock_filter code[COUNT + 3];

	code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					       offsetof(struct seccomp_data, nr));
	for (int i = 0; i < COUNT; i++)
		code[i + 1] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)numbers[i], (uint8_t)(COUNT - i), 0);
	code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	install(code, COUNT + 3);
}

/* PR_SET_SYSCALL_USER_DISPATCH: system calls from code outside of this program raise SIGSYS. */
static bool dispatch_is_on;
static volatile char dispatch_blocks;
extern const char __executable_start[], etext[];

static void install_dispatch(void)
{
	if (prctl(59, 1, __executable_start, etext - __executable_start, &dispatch_blocks) != 0)
		victim_die("no user dispatch");
}

static long read_byte(char *byte)
{
#ifdef __x86_64__
	long result;

	if (dispatch_is_on) {
		dispatch_blocks = 1;
		__asm__ volatile("syscall"
				 : "=a"(result)
				 : "0"(SYS_read), "D"(STDIN_FILENO), "S"(byte), "d"(1)
				 : "rcx", "r11", "memory");
		dispatch_blocks = 0;
		return result;
	}
#endif
	return read(STDIN_FILENO, byte, 1);
}

static void install_named(const char *name)
{
	if (strcmp(name, "listed") == 0) {
		install_listed();
		return;
	}
	if (strcmp(name, "dispatch") == 0) {
		install_dispatch();
		dispatch_is_on = true;
		return;
	}
	if (strcmp(name, "container") == 0) {
		install_container();
		return;
	}
	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
		if (strcmp(filters[i].name, name) == 0) {
			install_one(&filters[i]);
			return;
		}
	errno = EINVAL;
	victim_die(name);
}

static void wait_for_input(void)
{
	char byte;

	while (read_byte(&byte) == 1) {
		heap_check();
		victim_round();
	}
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *be_worker(void *name)
{
	pthread_mutex_lock(&held);
	install_named(name);
	thread_started();
	wait_for_input();
	_exit(0);
}

static void sleep_long(void)
{
	struct timespec time = {.tv_sec = 9};

	/* Not clock_nanosleep(), which glibc's nanosleep() uses and which restarts as well. */
	while (syscall(SYS_nanosleep, &time, NULL) == 0)
		victim_round();
	victim_interrupted();
}

int main(int argc, char **argv)
{
	const char *where = argc > 2 ? argv[2] : "";

	if (strcmp(where, "run") == 0 && argc > 3) {
		install_named(argv[1]);
		execv(argv[3], argv + 3);
		victim_die(argv[3]);
	}
	victim_open();
	heap_spread();
	if (strcmp(where, "worker") == 0 || strcmp(where, "only") == 0) {
		threads_start(1, be_worker, argv[1]);
	} else if (argc > 2) {
		install_named(argv[1]);
	} else {
		errno = EINVAL;
		victim_die("usage: safe_seccomp FILTER all|worker|only|sleep|run");
	}
	victim_ready();
	if (strcmp(where, "only") == 0)
		pthread_mutex_lock(&held);
	if (strcmp(where, "worker") == 0)
		pause();
	if (strcmp(where, "sleep") == 0)
		sleep_long();
	wait_for_input();
	return 0;
}
