/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to preload: a walk over the linker's list takes long in all threads but the first, so
 * that other threads fork meanwhile. The only thread of a child counts as the first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fork_often.h"

#define HUNG_S 20

extern __typeof__(dl_iterate_phdr) dl_iterate_phdr __attribute__((visibility("default")));

typedef int visit_object(struct dl_phdr_info *, size_t, void *);
typedef int walk_objects(visit_object *visit, void *context);

struct slow_walk {
	visit_object *visit;
	void *context;
	bool has_slept;
};

const long fork_pause_ms = 0;

static int visit_slowly(struct dl_phdr_info *info, size_t size, void *context)
{
	struct slow_walk *walk = context;

	if (!walk->has_slept)
		sleep_ms(10);
	walk->has_slept = true;
	return walk->visit(info, size, walk->context);
}

int dl_iterate_phdr(visit_object *visit, void *context)
{
	struct slow_walk walk = {visit, context, syscall(SYS_gettid) == getpid()};
	void *found = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	walk_objects *next;

	memcpy(&next, &found, sizeof(next));
	return next(visit_slowly, &walk);
}

_Noreturn void use_linker(void)
{
	alarm(HUNG_S);
	walk_list();
	_exit(0);
}
