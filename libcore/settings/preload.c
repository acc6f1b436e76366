/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocators/installed.h"
#include "base/cleanup.h"
#include "base/text/text.h"
#include "remote/probe_child.h"

#define PAGE_OF_MOST_BUILDS 4096

/* The directories of NVFlare's sub_start.sh, plus the other multiarch directories and Arch's. */
const char *const flmem_jemalloc_paths[] = {
	"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
	"/usr/lib/aarch64-linux-gnu/libjemalloc.so.2",
	"/usr/lib64/libjemalloc.so.2",
	"/usr/local/lib/libjemalloc.so",
	"/usr/local/lib/libjemalloc.so.2",
	"/usr/lib/libjemalloc.so.2",
	NULL,
};

static const char *const other_allocators[] = {
	"libtcmalloc", "libmimalloc",	     "libsnmalloc", "librpmalloc",
	"libhoard",    "libhardened_malloc", NULL,
};

char *flmem_jemalloc_find(void)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct flmem_installed_allocator *rows;
	char *path = NULL;
	size_t count;

	if (root < 0 || flmem_installed_find(root, &rows, &count, NULL))
		return NULL;
	for (size_t i = 0; i < count && !path; i++)
		if (rows[i].kind == FLMEM_ALLOCATOR_JEMALLOC)
			path = FLMEM_TAKE(rows[i].path);
	flmem_installed_free(rows, count);
	return path;
}

/* Finds the directory of libflmem, so that an installation can be moved; "" when unknown. */
static void find_own_directory(char *out, size_t size)
{
	/* Absolute: the loader's name may be relative to the working directory. */
	FLMEM_AUTO_FREE char *path = NULL;
	const char *slash;
	Dl_info info;

	out[0] = '\0';
	if (!dladdr((const void *)(uintptr_t)flmem_preload_find_own, &info) || !info.dli_fname)
		return;
	path = strchr(info.dli_fname, '/') ? realpath(info.dli_fname, NULL) : NULL;
	slash = path ? strrchr(path, '/') : NULL;
	if (slash)
		snprintf(out, size, "%.*s", (int)(slash - path), path);
}

int flmem_preload_find_own(const char *name, char ret_path[FLMEM_PRELOAD_PATH_MAX],
			   struct flmem_error *err)
{
	char own[4096];
	const char *const directories[] = {own, FLMEM_LIBDIR};

	find_own_directory(own, sizeof(own));
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(directories); i++) {
		snprintf(ret_path, FLMEM_PRELOAD_PATH_MAX, "%s/flmem/%s", directories[i], name);
		if (directories[i][0] && access(ret_path, R_OK) == 0)
			return flmem_preload_check(ret_path, true, err);
	}
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "%s/flmem/%s is missing",
			       own[0] ? own : FLMEM_LIBDIR, name);
}

int flmem_preload_check(const char *path, bool must_exist, struct flmem_error *err)
{
	char shown[128];

	flmem_text_escape(path, shown, sizeof(shown));
	if (path[0] != '/')
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not an absolute path to a library", shown);
	if (strpbrk(path, ": \t\n"))
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"'%s' cannot be used in LD_PRELOAD: a colon or space ends an entry; "
			"use a symbolic link without them",
			shown);
	if (must_exist && access(path, R_OK) < 0)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, errno,
				       "cannot read the library '%s'", shown);
	return 0;
}

/*
 * Runs the program of this process with a library: the program is known to be executable and to
 * load libraries.
 */
static int run_with(const char *path, struct flmem_error *err)
{
	FLMEM_AUTO_PROBE_CHILD struct flmem_probe_child child = FLMEM_PROBE_CHILD_INIT;
	FLMEM_AUTO_FREE char *preload = NULL, *program = realpath("/proc/self/exe", NULL);
	char *const argv[] = {program, NULL};
	char *environment[] = {NULL, NULL};

	if (!program || asprintf(&preload, "LD_PRELOAD=%s", path) < 0) {
		preload = NULL;
		return 0;
	}
	environment[0] = preload;
	return flmem_probe_child_start(argv, environment, &child, err);
}

int flmem_preload_check_pages(const char *path, struct flmem_error *err)
{
	struct flmem_error why = {0};
	long size = sysconf(_SC_PAGESIZE);
	char shown[128];

	if (size <= PAGE_OF_MOST_BUILDS || run_with(path, &why) != FLMEM_EUNSUPPORTED)
		return 0;
	flmem_text_escape(path, shown, sizeof(shown));
	return flmem_error_set(
		err, FLMEM_EUNSUPPORTED, 0,
		"'%s' cannot be used on this machine, whose pages have %ld KiB: %.200s; "
		"use a jemalloc that was built for them (--with-lg-page)",
		shown, size / 1024, why.message);
}

/*
 * Returns the first entry whose file name starts with one of the prefixes (the list ends in NULL).
 */
static const char *find_preload_entry(const char *value, const char *const *prefixes)
{
	while (*value) {
		size_t length = strcspn(value, ": ");
		const char *slash = memrchr(value, '/', length);
		const char *name = slash ? slash + 1 : value;
		size_t name_length = (size_t)(value + length - name);

		for (const char *const *p = prefixes; *p; p++)
			if (strlen(*p) <= name_length && flmem_text_starts(name, *p))
				return value;
		value += length;
		value += strspn(value, ": ");
	}
	return NULL;
}

char *flmem_preload_entry(const char *value, const char *prefix)
{
	const char *const prefixes[] = {prefix, NULL};
	const char *entry = find_preload_entry(value, prefixes);

	return entry ? strndup(entry, strcspn(entry, ": ")) : NULL;
}

bool flmem_preload_lists_other_allocator(const char *value)
{
	return find_preload_entry(value, other_allocators);
}
