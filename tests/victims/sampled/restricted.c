/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that restricts itself after it has allocated: restricted HOW [CALL]. Whatever it does
 * from then on it does by itself, and allocates all the time; each call of the kernel that is not
 * its own ends it. Status 0: it has lived. CALL is the number of the only call that kills, else all
 * do that a plain program does not need. Or: restricted exec CALL PROGRAM ARGUMENTS, which is
 * executed then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK	((size_t)100 << 10)
#define BLOCKS	100
#define THREADS 4
/* Bits of a register above the half that the kernel uses for these arguments. */
#define UPPER_HALF (1L << 32)
#define ROOM	   (64U << 10)

#define ALLOW(call)                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static __attribute__((noinline)) void allocate(unsigned count)
{
	void *volatile kept;

	for (unsigned i = 0; i < count; i++) {
		kept = malloc(BLOCK);
		kept = realloc(kept, 2 * BLOCK);
		free(kept);
	}
}

/* Calls that the allocator and threads of the C library need. */
static struct sock_filter few[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ALLOW(brk),
	ALLOW(mmap),
	ALLOW(munmap),
	ALLOW(mremap),
	ALLOW(mprotect),
	ALLOW(madvise),
	ALLOW(futex),
	ALLOW(exit),
	ALLOW(exit_group),
	ALLOW(wait4),
	ALLOW(rt_sigreturn),
	ALLOW(restart_syscall),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static struct sock_filter one[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static struct sock_fprog filter = {sizeof(few) / sizeof(few[0]), few};

static int is_how(const char *how, const char *word)
{
	return strcmp(how, word) == 0;
}

static void restrict_by_prctl(void)
{
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		_exit(3);
}

static void restrict_by_call(unsigned flags)
{
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) != 0)
		_exit(3);
}

static atomic_uint started;

/* The thread is inside the sampler most of the time. */
static void *allocate_always(void *unused)
{
	(void)unused;
	allocate(1);
	started++;
	for (;;)
		allocate(1);
	return NULL;
}

static void restrict_all_threads(void)
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, allocate_always, NULL) != 0)
			_exit(3);
	/* The start of a thread needs calls that the filter does not allow. */
	while (started < THREADS)
		sched_yield();
	allocate(BLOCKS);
	restrict_by_call(SECCOMP_FILTER_FLAG_TSYNC);
	allocate(BLOCKS);
	/*
	 * The threads end with the process: the end of a single thread needs calls that the filter
	 * does not allow.
	 */
}

static void wait_for(pid_t child)
{
	int status = 1;

	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		syscall(SYS_exit_group, 4);
}

/* Tests a child of a restricted process, and one that restricts itself before it has allocated. */
static void fork_restricted(void)
{
	pid_t child = fork();

	if (child == 0) {
		restrict_by_prctl();
		allocate(BLOCKS);
		syscall(SYS_exit_group, 0);
	}
	wait_for(child);
}

/* Restricts itself through a pointer that the sampler has not given out. */
static void restrict_unseen(void)
{
	void *library = dlopen("libc.so.6", RTLD_NOW);
	int (*opened)(int, ...) = (int (*)(int, ...))dlsym(library, "prctl");

	if (opened(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		_exit(3);
}

/* Tests a child that has found out that it is not sampled. */
static void fork_dormant(void)
{
	pid_t child = fork();

	if (child == 0) {
		allocate(BLOCKS);
		restrict_unseen();
		allocate(BLOCKS);
		syscall(SYS_exit_group, 0);
	}
	wait_for(child);
}

/* A restriction in a child of vfork() does not concern its parent, whose memory it shares. */
static void vfork_restricted(const char *program)
{
	pid_t child = vfork();

	if (child == 0) {
		struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
		const struct sock_fprog nothing = {1, &all};

		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &nothing);
		execl(program, program, "none", (char *)NULL);
		_exit(3);
	}
	wait_for(child);
}

static void restrict_itself(const char *how, const char *program, char **rest)
{
	static const struct sock_fprog damaged = {0, few};

	if (is_how(how, "strict")) {
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	} else if (is_how(how, "prctl")) {
		restrict_by_prctl();
	} else if (is_how(how, "call")) {
		restrict_by_call(0);
	} else if (is_how(how, "prctl-call")) {
		if (syscall(SYS_prctl | UPPER_HALF, PR_SET_SECCOMP | UPPER_HALF,
			    SECCOMP_MODE_FILTER, &filter) != 0)
			_exit(3);
	} else if (is_how(how, "opened")) {
		restrict_unseen();
	} else if (is_how(how, "dormant")) {
		fork_dormant();
	} else if (is_how(how, "threads")) {
		restrict_all_threads();
	} else if (is_how(how, "fork")) {
		fork_restricted();
	} else if (is_how(how, "vfork")) {
		vfork_restricted(program);
	} else if (is_how(how, "clock")) {
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	} else if (is_how(how, "exec")) {
		restrict_by_prctl();
		execv(rest[0], rest);
		_exit(3);
	} else if (is_how(how, "failing")) {
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &damaged) == 0 || errno != EINVAL ||
		    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == 0 || errno != EFAULT)
			_exit(3);
	} else if (!is_how(how, "none")) {
		_exit(2);
	}
}

int main(int count, char **values)
{
	const char *how = count > 1 ? values[1] : "none";
	void *volatile mapped;

	if (is_how(how, "exec") && count < 4)
		return 2;
	if (count > 2) {
		one[1].k = (uint32_t)strtoul(values[2], NULL, 10);
		filter = (struct sock_fprog){sizeof(one) / sizeof(one[0]), one};
	}
	/* In strict mode the allocator may neither request nor release memory. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_ARENA_MAX, 1);
	allocate(BLOCKS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) != 0)
		return 3;
	restrict_itself(how, values[0], values + 3);
	allocate(BLOCKS);
	if (!is_how(how, "strict"))
		mapped = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
	/* exit() flushes and ends by calls that strict mode forbids. */
	syscall(is_how(how, "strict") ? SYS_exit : SYS_exit_group, 0);
	return 4;
}
