/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C program with an interpreter inside: embedded LIBPYTHON released|held|ended
 *
 *	released	the main thread waits without the interpreter's lock
 *	held		it waits with the lock, in C code
 *	ended		the interpreter was ended before
 *
 * A second thread, unknown to Python, waits beside. The library is loaded at run time, so that one
 * build serves all releases.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char litter[] = "import gc\n"
			     "gc.disable()\n"
			     "class Cycle: pass\n"
			     "for _ in range(3000):\n"
			     " one = Cycle()\n"
			     " one.itself = one\n";

/* Finds a function of the library, as a pointer of the given type. */
static void find(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "embedded: no %s\n", name);
		exit(2);
	}
	memcpy(function, &found, sizeof(found));
}

static void *wait_for_ever(void *unused)
{
	(void)unused;
	for (;;)
		poll(NULL, 0, -1);
	return NULL;
}

int main(int argc, char **argv)
{
	void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
	void (*initialize)(int), *(*save_thread)(void);
	int (*run)(const char *), (*finalize)(void);
	pthread_t other;

	if (!library) {
		fprintf(stderr, "embedded: %s\n", argc == 3 ? dlerror() : "two arguments");
		return 2;
	}
	find(library, "Py_InitializeEx", &initialize);
	find(library, "PyRun_SimpleString", &run);
	find(library, "PyEval_SaveThread", &save_thread);
	find(library, "Py_FinalizeEx", &finalize);
	initialize(0);
	if (run(litter) || pthread_create(&other, NULL, wait_for_ever, NULL))
		return 1;
	if (strcmp(argv[2], "released") == 0)
		save_thread();
	else if (strcmp(argv[2], "ended") == 0)
		finalize();
	puts("ready");
	fflush(stdout);
	wait_for_ever(NULL);
	return 0;
}
