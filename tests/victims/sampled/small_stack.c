/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

/*
 * malloc() in a signal handler on an alternate stack, called from Python. There is a page below the
 * stack that cannot be accessed.
 */

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	  4096U
#define LARGE	  (16U * PAGE)
#define UNTOUCHED 0x5a

static char *low; /* lowest address of the stack */
static volatile uintptr_t handled_at, called_at;
static void *volatile kept;

static __attribute__((noinline)) void allocate(void)
{
	called_at = (uintptr_t)__builtin_frame_address(0);
	kept = malloc(100);
}

static void allocate_here(int signal)
{
	(void)signal;
	allocate();
}

static void note_place(int signal)
{
	(void)signal;
	handled_at = (uintptr_t)__builtin_frame_address(0);
}

static int raise_on_stack(size_t size, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK}, old;
	stack_t stack = {.ss_size = size}, before;

	low = mmap(NULL, PAGE + LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (low == MAP_FAILED)
		return -1;
	low += PAGE;
	if (mprotect(low, LARGE, PROT_READ | PROT_WRITE))
		return -1;
	memset(low, UNTOUCHED, size);
	stack.ss_sp = low;
	if (sigaltstack(&stack, &before) || sigaction(SIGUSR1, &action, &old))
		return -1;
	raise(SIGUSR1);
	return sigaction(SIGUSR1, &old, NULL) || sigaltstack(&before, NULL) ? -1 : 0;
}

/* Returns how many bytes of the stack the call of malloc() took. */
__attribute__((visibility("default"))) int measure(void)
{
	size_t untouched = 0;

	if (raise_on_stack(LARGE, allocate_here))
		return -1;
	while (low[untouched] == UNTOUCHED)
		untouched++;
	return (int)(called_at - (uintptr_t)low - untouched);
}

/* Allocates with a deep stack, so that the sampler knows the thread's stack down to here. */
static __attribute__((noinline)) void allocate_below(void)
{
	volatile char room[4 * LARGE];

	room[0] = room[sizeof(room) / 2] = 0;
	for (int i = 0; i < 3; i++)
		allocate();
}

static int raise_inside(char *stack, size_t size, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK}, old;
	stack_t alternate = {.ss_sp = stack, .ss_size = size}, before;

	if (sigaltstack(&alternate, &before) || sigaction(SIGUSR1, &action, &old))
		return -1;
	raise(SIGUSR1);
	return sigaction(SIGUSR1, &old, NULL) || sigaltstack(&before, NULL) ? -1 : 0;
}

/*
 * Allocates on an array of the thread's own stack, of which so many bytes are left in the handler.
 * Returns how many bytes below it were overwritten.
 */
__attribute__((visibility("default"))) int allocate_inside(unsigned left)
{
	struct {
		char below[PAGE], stack[LARGE];
	} own __attribute__((aligned(64)));
	size_t size;
	int overwritten = 0;

	allocate_below();
	if (raise_inside(own.stack, sizeof(own.stack), note_place))
		return -1;
	size = ((uintptr_t)own.stack + sizeof(own.stack) - handled_at + left) & ~(size_t)63;
	memset(own.below, UNTOUCHED, sizeof(own.below));
	if (raise_inside(own.stack, size, allocate_here))
		return -1;
	for (size_t i = 0; i < sizeof(own.below); i++)
		overwritten += own.below[i] != UNTOUCHED;
	return overwritten;
}

/* Allocates on a stack of so many bytes; 0: of which so many are left in the handler. */
__attribute__((visibility("default"))) int allocate_on(unsigned size, unsigned left)
{
	if (!size && raise_on_stack(LARGE, note_place))
		return -1;
	/* The kernel's data there are aligned to 64 bytes. */
	if (!size)
		size = (LARGE - (unsigned)(handled_at - (uintptr_t)low) + left) & ~63U;
	return raise_on_stack(size, allocate_here);
}

/* Runs both in a child that has not allocated yet; -1: it was killed. */
__attribute__((visibility("default"))) int run_in_child(unsigned size, unsigned left)
{
	int *result = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child;

	if (result == MAP_FAILED)
		return -1;
	child = fork();
	if (child == 0) {
		*result = size || left ? allocate_on(size, left) : measure();
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && !status ? *result : -1;
}
