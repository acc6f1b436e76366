/* SPDX-License-Identifier: Apache-2.0 */
/* Runs code in a thread that enters the interpreter as flmem does, between calls of getppid. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

int PyGILState_Ensure(void);
void PyGILState_Release(int state);
int PyRun_SimpleString(const char *code);

struct entry {
	const char *code;
	void *interpreter; /* NULL: PyGILState_Ensure() creates the state of the thread */
	void *(*create)(void *interpreter);
};

static void *enter(void *argument)
{
	const struct entry *entry = argument;

	syscall(SYS_getppid);
	if (entry->interpreter)
		entry->create(entry->interpreter);
	PyGILState_Ensure();
	PyRun_SimpleString(entry->code);
	if (entry->interpreter)
		PyGILState_Release(0);
	PyGILState_Release(1);
	syscall(SYS_getppid);
	return NULL;
}

int run_entered(const char *code, int creates)
{
	void *(*main_interpreter)(void) =
		(void *(*)(void))dlsym(RTLD_DEFAULT, "PyInterpreterState_Main");
	struct entry entry = {.code = code};
	pthread_t thread;

	if (creates) {
		entry.interpreter = main_interpreter();
		entry.create = (void *(*)(void *))dlsym(RTLD_DEFAULT, "PyThreadState_New");
	}
	return pthread_create(&thread, NULL, enter, &entry) || pthread_join(thread, NULL);
}
