// SPDX-License-Identifier: Apache-2.0
/*
 * A library that takes the lock of the interpreter while it is loaded: it makes the file that
 * SAMPLED_BEGUN names and waits for that of SAMPLED_GO first. With OPENER, the one that opens it, in
 * a thread that does not hold that lock.
 */
#ifdef OPENER
#include <dlfcn.h>
#include <pthread.h>

static char file[4096];

static void *open_file(void *unused)
{
	(void)unused;
	dlopen(file, RTLD_NOW);
	return NULL;
}

__attribute__((visibility("default"))) int open_in_thread(const char *path)
{
	pthread_t thread;
	unsigned i = 0;

	for (; path[i] && i < sizeof(file) - 1; i++)
		file[i] = path[i];
	return pthread_create(&thread, NULL, open_file, NULL) || pthread_detach(thread);
}
#else
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define PAUSE_US 10000U

int PyGILState_Ensure(void);
void PyGILState_Release(int state);

__attribute__((constructor)) static void begin(void)
{
	const char *begun = getenv("SAMPLED_BEGUN"), *go = getenv("SAMPLED_GO");

	if (!begun || !go)
		return;
	close(open(begun, O_WRONLY | O_CREAT, 0600));
	while (access(go, F_OK) != 0)
		usleep(PAUSE_US);
	PyGILState_Release(PyGILState_Ensure());
}
#endif
