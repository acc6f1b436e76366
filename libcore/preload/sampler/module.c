/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How Python code calls the sampler: as a module that is never made. `_imp.create_dynamic` loads
 * the library and calls this function, which carries out the order in an attribute of sys and
 * raises an ImportError with the answer. Nothing is imported and no module remains. The lock of the
 * interpreter is released meanwhile.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "preload/sampler/attach.h"
#include "preload/sampler/got.h"

#define ANSWER_MAX 512U
#define ORDER_MAX  (FLMEM_SAMPLER_STATE_PATH + 16U)

/* Functions of the interpreter, all of its stable interface. */
struct interpreter {
	void *(*get)(const char *);	     /* PySys_GetObject */
	char *(*bytes)(void *);		     /* PyBytes_AsString */
	void *(*save)(void);		     /* PyEval_SaveThread */
	void (*restore)(void *);	     /* PyEval_RestoreThread */
	void (*raise)(void *, const char *); /* PyErr_SetString */
	void **error;			     /* PyExc_ImportError */
};

static bool find_in_python(const char *name, void *ret_pointer)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	memcpy(ret_pointer, &found, sizeof(found));
	return found != NULL;
}

static bool find_interpreter(struct interpreter *python)
{
	return find_in_python("PySys_GetObject", &python->get) &&
	       find_in_python("PyBytes_AsString", &python->bytes) &&
	       find_in_python("PyEval_SaveThread", &python->save) &&
	       find_in_python("PyEval_RestoreThread", &python->restore) &&
	       find_in_python("PyErr_SetString", &python->raise) &&
	       find_in_python("PyExc_ImportError", &python->error);
}

void *PyInit_flmem_sampler(void) __attribute__((visibility("default")));

void *PyInit_flmem_sampler(void)
{
	struct interpreter python;
	char order[ORDER_MAX], answer[ANSWER_MAX], attribute[64];
	const char *given;
	void *request, *thread;

	/* Without an exception the interpreter raises its own. */
	if (!find_interpreter(&python))
		return NULL;
	snprintf(attribute, sizeof(attribute), "%s%ld", FLMEM_SAMPLER_REQUEST, syscall(SYS_gettid));
	request = python.get(attribute);
	given = request ? python.bytes(request) : NULL;
	if (!given)
		return NULL;
	sampler_copy_text(order, sizeof(order), given);
	sampler_walk_prepare();
	thread = python.save();
	sampler_attach_order(order, (uintptr_t)python.get, answer, sizeof(answer));
	python.restore(thread);
	python.raise(*python.error, answer);
	return NULL;
}
