/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With LD_AUDIT: makes the dynamic linker take long in the middle of loading the sampler. Loaded in
 * the ordinary way: threads that fork all the time, whose children use the linker.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fork_often.h"

#define SLEEP_MS 100
#define HUNG_S	 5

__typeof__(la_version) la_version __attribute__((visibility("default")));
__typeof__(la_activity) la_activity __attribute__((visibility("default")));
__typeof__(la_objsearch) la_objsearch __attribute__((visibility("default")));
__typeof__(la_objopen) la_objopen __attribute__((visibility("default")));

const long fork_pause_ms = 1;
static bool is_loading; /* the sampler is being loaded */
static bool was_refused;

unsigned la_version(unsigned version)
{
	return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	(void)namespace;
	(void)cookie;
	is_loading |= strstr(map->l_name, "/.flmem-") != NULL;
	return 0;
}

/* With SLOW_LOADS_REFUSED, the sampler is not found the first time. */
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
	(void)cookie;
	(void)flag;
	if (!getenv("SLOW_LOADS_REFUSED") || !strstr(name, "/.flmem-") || was_refused)
		return (char *)(uintptr_t)name;
	was_refused = true;
	return NULL;
}

/* Called right before the linker's list of objects counts as consistent again. */
void la_activity(uintptr_t *cookie, unsigned flag)
{
	(void)cookie;
	if (is_loading && flag == LA_ACT_CONSISTENT)
		sleep_ms(SLEEP_MS);
	if (flag == LA_ACT_CONSISTENT)
		is_loading = false;
}

/* The linker requires a consistent list when a library is requested that was opened before. */
_Noreturn void use_linker(void)
{
	Dl_info own;

	alarm(HUNG_S);
	close(STDERR_FILENO);
	walk_list();
	_exit(dladdr((void *)&is_loading, &own) && dlopen(own.dli_fname, RTLD_NOW) ? 0 : 1);
}
