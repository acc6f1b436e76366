/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_exec WHO PROGRAM: waits for a byte, then executes PROGRAM, another copy of this one that
 * gives it more rights. WHO: `alone`, the only thread; `main`, beside another thread; `other`, a
 * thread that is not the main one. Without arguments: writes R, waits for a byte with known
 * contents of its heap and stack, compares them and writes S if it has the rights, else N.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAP_BYTES  100000
#define STACK_BYTES 20000
#define BLOCKS	    2000

static const char *program;

static void *wait_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void *execute(void *unused)
{
	char byte;

	if (read(STDIN_FILENO, &byte, 1) == 1)
		execl(program, program, (char *)NULL);
	_exit(8);
	return unused;
}

static int be_next(void)
{
	volatile char *heap = malloc(HEAP_BYTES);
	volatile char stack[STACK_BYTES];
	char byte;

	for (int i = 0; i < HEAP_BYTES; i++)
		heap[i] = (char)i;
	for (int i = 0; i < STACK_BYTES; i++)
		stack[i] = (char)~i;
	if (write(STDOUT_FILENO, "R", 1) != 1 || read(STDIN_FILENO, &byte, 1) != 1)
		return 5;
	for (int i = 0; i < HEAP_BYTES; i++)
		if (heap[i] != (char)i)
			return 6;
	for (int i = 0; i < STACK_BYTES; i++)
		if (stack[i] != (char)~i)
			return 7;
	return write(STDOUT_FILENO, getuid() != geteuid() ? "S" : "N", 1) != 1;
}

int main(int argc, char **argv)
{
	bool alone = argc > 1 && strcmp(argv[1], "alone") == 0;
	bool other = argc > 1 && strcmp(argv[1], "other") == 0;
	pthread_t thread;

	if (argc < 3)
		return be_next();
	program = argv[2];
	for (int i = 0; i < BLOCKS; i++) /* a heap to trim */
		free(malloc(HEAP_BYTES));
	if (!alone && pthread_create(&thread, NULL, other ? execute : wait_for_ever, NULL))
		return 9;
	(other ? wait_for_ever : execute)(NULL);
	return 0;
}
