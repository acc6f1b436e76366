// SPDX-License-Identifier: Apache-2.0
/* Functions that threads of C run while their process is attached to. Each returns 0. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT	    __attribute__((visibility("default")))
#define BLOCK_BYTES (3U << 20)
#define PAUSE_US    10000U
#define STACK_BYTES 16384U
#define GUARD_BYTES 8192U
#define OPENERS	    8U

static volatile char file[4096];

static void copy_file(const char *path)
{
	for (size_t i = 0; i < sizeof(file) - 1 && (i == 0 || path[i - 1]); i++)
		file[i] = path[i];
}

static int start(void *(*run)(void *))
{
	pthread_t thread;

	return pthread_create(&thread, NULL, run, NULL) || pthread_detach(thread);
}

static void *open_file(void *unused)
{
	(void)unused;
	dlopen((const char *)file, RTLD_NOW);
	return NULL;
}

EXPORT int open_in_thread(const char *path)
{
	copy_file(path);
	return start(open_file);
}

static void *find_in_file(void *unused)
{
	void *library = dlopen((const char *)file, RTLD_NOW);
	void *found = library ? dlsym(library, "open_neighbour") : NULL;

	(void)unused;
	if (library)
		dlclose(library);
	return found;
}

/* Opens a library on a stack just large enough for dlopen(). */
EXPORT int open_on_small_stack(const char *path)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *found = NULL;
	char *stack = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	copy_file(path);
	if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) != 0)
		return 1;
	pthread_attr_init(&attributes);
	if (pthread_attr_setstack(&attributes, stack + GUARD_BYTES, STACK_BYTES) != 0 ||
	    pthread_create(&thread, &attributes, find_in_file, NULL) != 0)
		return 2;
	pthread_join(thread, &found);
	return found ? 0 : 3;
}

static void allocate(void)
{
	char *volatile block = malloc(BLOCK_BYTES);

	if (!block)
		abort();
	block[0] = 1;
	free(block);
}

static void *allocate_filtered(void *unused)
{
	struct sock_filter rows[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog filter = {sizeof(rows) / sizeof(rows[0]), rows};

	(void)unused;
	/* The C library determines the number of processors first. */
	allocate();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		return NULL;
	for (;;) {
		allocate();
		usleep(PAUSE_US);
	}
}

/* Starts a thread that confines itself: a call that it does not make by itself ends the process. */
EXPORT int start_filtered(void)
{
	return start(allocate_filtered);
}

/* Shows the test that the wait has begun. */
static void show_wait(void)
{
	char path[sizeof(file) + 8];
	int fd;

	snprintf(path, sizeof(path), "%s.waits", (const char *)file);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}

static volatile sig_atomic_t interrupts_fork;

/* A handler of the program before a fork, which waits for a file. */
static void wait_for_file(void)
{
	if (interrupts_fork) {
		interrupts_fork = 0;
		raise(SIGUSR1);
	}
	if (*file)
		show_wait();
	if (*file)
		while (access((const char *)file, F_OK) != 0)
			usleep(PAUSE_US);
}

__attribute__((constructor)) static void register_handler(void)
{
	pthread_atfork(wait_for_file, NULL, NULL);
}

static void *fork_once(void *unused)
{
	pid_t child = fork();

	(void)unused;
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	*file = '\0';
	return NULL;
}

static int fork_and_wait(void)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(0);
	return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

static void fork_in_handler(int signal)
{
	(void)signal;
	if (fork_and_wait())
		abort();
}

/* Sends a signal in the middle of a fork; its handler forks. */
EXPORT int fork_in_fork(void)
{
	struct sigaction action = {.sa_handler = fork_in_handler};

	interrupts_fork = 1;
	return sigaction(SIGUSR1, &action, NULL) || fork_and_wait();
}

/* Makes a fork that lasts until the file exists. */
EXPORT int fork_until(const char *path)
{
	copy_file(path);
	return start(fork_once);
}

/* Looks up once, and again as long as that fork lasts. */
static void *find_in_self(void *unused)
{
	void *program, *found;

	(void)unused;
	do {
		program = dlopen(NULL, RTLD_NOW);
		found = program ? dlsym(program, "main") : NULL;
	} while (*file);
	return found;
}

/* Several threads look for functions, as after each library that they open. */
EXPORT int find_in_threads(void)
{
	int failed = 0;

	for (unsigned i = 0; i < OPENERS; i++)
		failed |= start(find_in_self);
	return failed;
}

#define PHASE_OFFSET 12 /* offset in flmem_sampler_state */
#define SAMPLING     2U

static void *detach_at_once(void *unused)
{
	void (*order)(const char *order, char *answer);
	const char *state;
	uint32_t phase = 0;
	char answer[512];

	(void)unused;
	while (!(state = dlsym(RTLD_DEFAULT, "flmem_sampler_state")))
		usleep(PAUSE_US);
	*(void **)&order = dlsym(RTLD_DEFAULT, "flmem_sampler_order");
	while (phase != SAMPLING) {
		sched_yield();
		memcpy(&phase, state + PHASE_OFFSET, sizeof(phase));
	}
	order("detach", answer);
	if (strcmp(answer, "flmem: ok") != 0)
		abort();
	return NULL;
}

/* Ends a profile as soon as there is one, as another flmem could. */
EXPORT int detach_when_attached(void)
{
	return start(detach_at_once);
}
