/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

/* pestered MODE: does what a sampler inside of malloc() must not break, and prints "survived". */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "preload/profile_format.h"

#define BLOCK	 4000U
#define BLOCKS	 200U
#define HALF	 (256U << 10)
#define UNMAPPED 20000U

static void *volatile sink;
static int survived;

static void fail(const char *what)
{
	fprintf(stderr, "pestered: %s\n", what);
	_exit(3);
}

static void *load_library(void)
{
	void *library = dlopen(getenv("SAMPLED_ONE"), RTLD_NOW);
	void *function = library ? dlsym(library, "library_allocate") : NULL;

	if (!function)
		fail("SAMPLED_ONE");
	return function;
}

static pthread_barrier_t cancelled;

/*
 * malloc() is not a cancellation point, even when the sampler looks up a file for the first time,
 * or handles a new thread (with a context).
 */
static void *run_cancelled(void *context)
{
	void *(*function)(size_t);
	void *address = context ? context : load_library();

	memcpy(&function, &address, sizeof(function));
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_barrier_wait(&cancelled);
	pthread_barrier_wait(&cancelled);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	sink = function(BLOCK);
	survived = 1;
	pthread_testcancel();
	fail("not cancelled");
	return NULL;
}

static void cancel_thread(void *function)
{
	pthread_t thread;
	void *result;

	pthread_barrier_init(&cancelled, NULL, 2);
	if (pthread_create(&thread, NULL, run_cancelled, function))
		fail("pthread_create");
	pthread_barrier_wait(&cancelled);
	pthread_cancel(thread);
	pthread_barrier_wait(&cancelled);
	pthread_join(thread, &result);
	survived = survived && result == PTHREAD_CANCELED;
}

static void mode_cancel(void)
{
	cancel_thread(NULL);
}

static void mode_cancel_first(void)
{
	cancel_thread(load_library());
}

#ifdef __x86_64__
/* Calls malloc() with `base` in the register of the frame pointer. */
__attribute__((noinline)) static void allocate_with(void *base)
{
	void *(*volatile function)(size_t) = malloc;

	__asm__ volatile("push %%rbp\n\t"
			 "mov %%rsp, %%r12\n\t"
			 "mov %[base], %%rbp\n\t"
			 "sub $256, %%rsp\n\t"
			 "and $-16, %%rsp\n\t"
			 "mov $4000, %%edi\n\t"
			 "call *%[function]\n\t"
			 "mov %%r12, %%rsp\n\t"
			 "pop %%rbp\n\t"
			 :
			 : [base] "r"(base), [function] "r"(function)
			 : "r12", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
			   "memory", "cc");
}

static void map_above(char *above)
{
	if ((void *)syscall(SYS_mmap, above, (size_t)HALF, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L) != above)
		fail("mmap");
}

/*
 * The register holds an address above the stack, in memory that is unmapped without the sampler's
 * notice.
 */
static void *run_stale(void *context)
{
	char *above = (char *)context + HALF;

	for (unsigned i = 0; i < 50; i++) {
		map_above(above);
		allocate_with(above + HALF / 2);
		syscall(SYS_munmap, above, (size_t)HALF);
		allocate_with(above + HALF / 2);
	}
	survived = 1;
	return NULL;
}

static void mode_stale(void)
{
	void *stack = mmap(NULL, 2 * (size_t)HALF, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	if (stack == MAP_FAILED || pthread_attr_setstack(&attributes, stack, HALF) ||
	    pthread_create(&thread, &attributes, run_stale, stack))
		fail("a thread");
	pthread_join(thread, NULL);
}

static volatile int ended;

static void *run_unmapper(void *above)
{
	while (!ended) {
		syscall(SYS_munmap, above, (size_t)HALF);
		map_above(above);
	}
	return NULL;
}

static ucontext_t here, coroutine;
static char *reserve;

static void run_coroutine(void)
{
	for (unsigned i = 0; i < UNMAPPED; i++)
		allocate_with(reserve + HALF + HALF / 2);
	survived = 1;
}

/* A coroutine; another thread maps and unmaps the memory to which its frame pointer leads. */
static void mode_unmapping(void)
{
	pthread_t thread;

	reserve = mmap(NULL, 2 * (size_t)HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (reserve == MAP_FAILED || getcontext(&coroutine) ||
	    pthread_create(&thread, NULL, run_unmapper, reserve + HALF))
		fail("a coroutine");
	coroutine.uc_stack.ss_sp = reserve;
	coroutine.uc_stack.ss_size = HALF;
	coroutine.uc_link = &here;
	makecontext(&coroutine, run_coroutine, 0);
	swapcontext(&here, &coroutine);
	ended = 1;
	pthread_join(thread, NULL);
}
#else
static void mode_stale(void)
{
	survived = 1;
}

static void mode_unmapping(void)
{
	survived = 1;
}
#endif

/* Truncates the profile, partly or wholly. */
static void mode_truncate(void)
{
	const char *path = getenv("PESTERED_FILE");
	void *old = malloc(BLOCK);

	sink = malloc(BLOCK);
	if (!path || truncate(path, 1 << 20))
		fail("PESTERED_FILE");
	free(old);
	sink = malloc(BLOCK);
	old = malloc(BLOCK);
	if (truncate(path, 0))
		fail("truncate");
	free(old);
	for (unsigned i = 0; i < 100; i++)
		free(malloc(BLOCK));
	survived = 1;
}

/* Overwrites bytes by any values. */
static void scramble(unsigned char *bytes, size_t count)
{
	unsigned number = 12345;

	for (size_t i = 0; i < count; i++) {
		number = number * 1103515245U + 12345U;
		bytes[i] = (unsigned char)(number >> 16);
	}
}

static unsigned char *map_profile(size_t *ret_size)
{
	const char *path = getenv("PESTERED_FILE");
	int fd = path ? open(path, O_RDWR) : -1;
	struct stat status;
	void *at;

	if (fd < 0 || fstat(fd, &status))
		fail("PESTERED_FILE");
	at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		fail("mmap");
	*ret_size = (size_t)status.st_size;
	return at;
}

static void allocate_and_free(void **blocks)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		free(blocks[i]);
		blocks[i] = malloc(BLOCK);
	}
}

/* The tables have other contents, and the header claims that they are larger. */
static void mode_scrambled(void)
{
	static void *blocks[BLOCKS];
	struct flmem_profile_header *header;
	size_t size;
	unsigned char *profile = map_profile(&size);

	allocate_and_free(blocks);
	scramble(profile + FLMEM_PROFILE_HEADER_SIZE, size - FLMEM_PROFILE_HEADER_SIZE);
	header = (void *)profile;
	for (unsigned i = 0; i < header->sections; i++) {
		header->section[i].capacity = UINT32_MAX;
		header->section[i].used = UINT32_MAX / 2;
	}
	header->interval_now_bytes = 0;
	allocate_and_free(blocks);
	allocate_and_free(blocks);
	survived = 1;
}

/* Another file has replaced the profile: the sampler must not change it. */
static void mode_replaced(void)
{
	static void *blocks[BLOCKS];
	size_t size;
	unsigned char *profile = map_profile(&size), *copy;

	copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		fail("mmap");
	allocate_and_free(blocks);
	scramble(profile, size);
	memcpy(copy, profile, size);
	allocate_and_free(blocks);
	survived = memcmp(profile, copy, size) == 0;
}

static void wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child)
		fail("fork");
	if (status)
		fprintf(stderr, "pestered: the child has status %#x\n", (unsigned)status);
	survived = status == 0;
}

/* A child that may not write files of the profile's size. */
static void mode_file_limit(void)
{
	struct rlimit limit = {1 << 20, 1 << 20};
	pid_t child = fork();

	if (child == 0) {
		setrlimit(RLIMIT_FSIZE, &limit);
		for (unsigned i = 0; i < 1000; i++)
			free(malloc(BLOCK));
		_exit(0);
	}
	wait_for(child);
}

static void *run_small(void *context)
{
	for (unsigned i = 0; i < 100; i++)
		free(malloc(BLOCK));
	return context;
}

/* The first allocation that a child samples is in a thread with the smallest stack. */
static void mode_small_stack(void)
{
	pthread_attr_t attributes;
	size_t size = (size_t)PTHREAD_STACK_MIN;
	char *stack = mmap(NULL, size + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;
	pid_t child;

	pthread_attr_init(&attributes);
	if (stack == MAP_FAILED || mprotect(stack + 4096, size, PROT_READ | PROT_WRITE) ||
	    pthread_attr_setstack(&attributes, stack + 4096, size))
		fail("a stack");
	child = fork();
	if (child == 0) {
		if (pthread_create(&thread, &attributes, run_small, NULL))
			_exit(3);
		pthread_join(thread, NULL);
		_exit(0);
	}
	wait_for(child);
}

/* A refused allocation does not count, whatever its size. */
static void mode_refused(void)
{
	volatile size_t size = SIZE_MAX / 4 * 3;

	if (malloc(size) || calloc(size, 1))
		fail("allocated");
	errno = 0;
	if (reallocarray(NULL, size, 4) || errno != ENOMEM)
		fail("no reason");
	for (unsigned i = 0; i < 1000; i++)
		sink = malloc(BLOCK);
	survived = 1;
}

#ifdef __x86_64__
/* Calls a function with its arguments on a stack that ends at an odd multiple of 8 bytes. */
extern void *call_misaligned(void *function, ...);
__asm__(".text\n.globl call_misaligned\n.type call_misaligned, @function\n"
	"call_misaligned:\n\tpushq %rbp\n\tmovq %rsp, %rbp\n\tandq $-16, %rsp\n"
	"\tsubq $8, %rsp\n\tmovq %rdi, %rax\n\tmovq %rsi, %rdi\n\tmovq %rdx, %rsi\n"
	"\tmovq %rcx, %rdx\n\tmovq %r8, %rcx\n\tcall *%rax\n\tleave\n\tret\n"
	".size call_misaligned, . - call_misaligned\n");

/*
 * The ABI requires an aligned stack at each call. Few calls of the C library's malloc() need that.
 */
static void *run_misaligned(void *context)
{
	const size_t length = 1 << 20;
	void *block, *other = NULL, *mapping;

	free(malloc(1)); /* the first call of a thread is one of them */
	for (unsigned i = 0; i < BLOCKS; i++) {
		block = call_misaligned((void *)malloc, (size_t)BLOCK + i);
		block = call_misaligned((void *)realloc, block, (size_t)2 * BLOCK);
		call_misaligned((void *)posix_memalign, &other, (size_t)64, (size_t)BLOCK);
		call_misaligned((void *)free, block);
		call_misaligned((void *)free, other);
		call_misaligned((void *)free, call_misaligned((void *)calloc, (size_t)2, length));
		mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
		mapping = call_misaligned((void *)mremap, mapping, length, 2 * length,
					  (size_t)MREMAP_MAYMOVE);
		call_misaligned((void *)munmap, mapping, 2 * length);
	}
	return context;
}
#else
static void *run_misaligned(void *context)
{
	return context;
}
#endif

/* Also tests a thread and a child that have not been sampled yet. */
static void mode_misaligned(void)
{
	pthread_t thread;
	pid_t child = fork();

	if (child == 0) {
		run_misaligned(NULL);
		_exit(0);
	}
	wait_for(child);
	if (pthread_create(&thread, NULL, run_misaligned, NULL))
		fail("thread");
	pthread_join(thread, NULL);
	run_misaligned(NULL);
}

static const struct {
	const char *name;
	void (*function)(void);
} modes[] = {
	{"cancel", mode_cancel},	   {"stale", mode_stale},
	{"truncate", mode_truncate},	   {"file-limit", mode_file_limit},
	{"small-stack", mode_small_stack}, {"refused", mode_refused},
	{"unmapping", mode_unmapping},	   {"scrambled", mode_scrambled},
	{"replaced", mode_replaced},	   {"cancel-first", mode_cancel_first},
	{"misaligned", mode_misaligned},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(argv[1], modes[i].name) == 0) {
			modes[i].function();
			if (!survived)
				fail("did not survive");
			puts("survived");
			return 0;
		}
	return 2;
}
