/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/host/features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/launch.h>
#include <flmem/settings.h>
#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"

/* Decides one row of the table and appends the reason to `why`. */
typedef bool feature_test(const struct flmem_platform *platform, struct flmem_buf *why);

/* Finds the first executable file of these names in PATH. */
static bool find_program(const char *const *names, char *ret_path, size_t size)
{
	for (; *names; names++) {
		const char *path = getenv("PATH");

		while (path && *path) {
			size_t length = strcspn(path, ":");

			snprintf(ret_path, size, "%.*s/%s", (int)length, path, *names);
			if (*path == '/' && access(ret_path, X_OK) == 0)
				return true;
			path += length + (path[length] == ':');
		}
	}
	return false;
}

static bool check_gc(const struct flmem_platform *platform, struct flmem_buf *why)
{
	static const char *const names[] = {"python3", "python", NULL};
	char path[4096];
	bool found = find_program(names, path, sizeof(path));

	(void)platform;
	if (found)
		flmem_buf_printf(why, "part of every Python; the first in PATH is %s", path);
	else
		flmem_buf_puts(why, "no Python in PATH");
	return found;
}

/* Returns `has`; if the C library lacks the feature, appends the reason. */
static bool check_libc_has(const struct flmem_platform *platform, bool has, struct flmem_buf *why)
{
	if (platform->libc && has)
		return true;
	if (platform->libc)
		flmem_buf_printf(why, "%s does not have it (%s)", platform->report->libc,
				 platform->libc->library[0] ? platform->libc->library
							    : platform->libc->linker);
	else
		flmem_buf_puts(why, "the C library of programs here is unknown");
	return false;
}

static bool check_arena_max(const struct flmem_platform *platform, struct flmem_buf *why)
{
	const struct flmem_libc *libc = platform->libc;

	if (!check_libc_has(platform, libc && libc->reads_arena_max, why))
		return false;
	flmem_buf_printf(why,
			 "%s reads it when a process starts; running processes keep their limit",
			 libc->library);
	return true;
}

static bool check_malloc_trim(const struct flmem_platform *platform, struct flmem_buf *why)
{
	const struct flmem_libc *libc = platform->libc;

	if (!check_libc_has(platform, libc && libc->has_malloc_trim, why))
		return false;
	flmem_buf_printf(why, "in %s, for its own heap; a preloaded allocator has another",
			 libc->library);
	return true;
}

static bool check_empty_cache(const struct flmem_platform *platform, struct flmem_buf *why)
{
	const struct flmem_host_report *report = platform->report;
	char count[FLMEM_TEXT_COUNTED_MAX];

	if (report->gpu_count) {
		flmem_buf_printf(why, "%s, driver %s; needs a PyTorch built for CUDA",
				 flmem_text_counted(report->gpu_count, "GPU", count, sizeof(count)),
				 report->gpu_driver ? report->gpu_driver : "unknown");
		return true;
	}
	flmem_buf_printf(why, "nothing to empty: %s",
			 report->gpu_unknown ? report->gpu_unknown : "the driver finds no GPU");
	return false;
}

static const char *find_jemalloc(const struct flmem_host_report *report)
{
	for (size_t i = 0; i < report->installed_count; i++)
		if (report->installed[i].kind == FLMEM_ALLOCATOR_JEMALLOC)
			return report->installed[i].path;
	return NULL;
}

/* Starts a shell with the library in a child that is inspected before its main(). */
static int prove_preload(const struct flmem_platform *platform, const char *library,
			 struct flmem_error *err)
{
	char *const command[] = {(char[]){"/bin/sh"}, NULL};
	struct flmem_settings_request request = {
		.role = FLMEM_ROLE_CLIENT,
		.allocator = FLMEM_SETTINGS_ALLOCATOR_JEMALLOC,
		.jemalloc_library = library,
	};
	struct flmem_settings settings = {0};
	struct flmem_preload_proof proof = {0};
	char **environment = NULL;
	int rc;

	/* Without this check the proof, which traces its child, could end this process. */
	if (platform->interfaces[FLMEM_INTERFACE_PTRACE].killed)
		return flmem_error_set(err, FLMEM_EPERM, 0, "%s",
				       flmem_gate_why(FLMEM_GATE_SECCOMP));
	rc = flmem_settings_make(&request, &settings, err);
	if (!rc)
		rc = flmem_launch_environment(&settings, environ, false, &environment, err);
	if (!rc)
		rc = flmem_launch_prove(&settings, command, environment, &proof, err);
	flmem_preload_proof_clear(&proof);
	flmem_launch_environment_free(environment);
	flmem_settings_clear(&settings);
	return rc;
}

static bool check_preload(const struct flmem_platform *platform, struct flmem_buf *why)
{
	const char *library = find_jemalloc(platform->report);
	struct flmem_error err = {0};
	int rc;

	if (!library) {
		flmem_buf_puts(why, "not installed; apt-get install libjemalloc2, dnf install "
				    "jemalloc, apk add jemalloc");
		return false;
	}
	rc = prove_preload(platform, library, &err);
	if (!rc)
		flmem_buf_printf(why, "%s serves malloc of a child that was started with it",
				 library);
	else if (rc == FLMEM_EPERM)
		flmem_buf_printf(why, "%s is installed, but loading it could not be tested: %s",
				 library, err.message);
	else
		flmem_buf_printf(why, "%s", err.message);
	return !rc || rc == FLMEM_EPERM;
}

static const struct {
	const char *name;
	feature_test *test;
} features_rows[] = {
	{"gc.collect()", check_gc},	      {"MALLOC_ARENA_MAX", check_arena_max},
	{"malloc_trim()", check_malloc_trim}, {"torch.cuda.empty_cache()", check_empty_cache},
	{"jemalloc preload", check_preload},
};

/* Returns true for calls that need the right to trace. */
static bool needs_tracing(enum flmem_interface interface)
{
	return interface == FLMEM_INTERFACE_PTRACE || interface == FLMEM_INTERFACE_PROCESS_VM_READV;
}

static bool check_interface(const struct flmem_platform *platform, enum flmem_interface interface,
			    struct flmem_buf *why)
{
	const struct flmem_interface_info *info = &flmem_interfaces[interface];
	const struct flmem_interface_result *result = &platform->interfaces[interface];
	bool gated = needs_tracing(interface) && platform->own_gate != FLMEM_GATE_OPEN;

	if (!result->error && !(result->untried && gated)) {
		flmem_buf_puts(why, info->use);
		return true;
	}
	if (gated)
		flmem_buf_puts(why, flmem_gate_why(platform->own_gate));
	else if (result->killed)
		flmem_buf_puts(why, "a seccomp filter kills the caller");
	else
		flmem_buf_printf(why, "%s (Linux has it since %s)", strerror(result->error),
				 info->since);
	flmem_buf_printf(why, "; %s", info->use);
	return false;
}

int flmem_features_read(const struct flmem_platform *platform, struct flmem_feature **ret_features,
			size_t *ret_count, struct flmem_error *err)
{
	size_t fixed = FLMEM_ARRAY_SIZE(features_rows), count = fixed + FLMEM_INTERFACE_COUNT;
	struct flmem_feature *features = calloc(count, sizeof(*features));

	for (size_t i = 0; features && i < count; i++) {
		FLMEM_AUTO_BUF struct flmem_buf why = FLMEM_BUF_INIT;

		if (i < fixed) {
			features[i].name = features_rows[i].name;
			features[i].works = features_rows[i].test(platform, &why);
		} else {
			features[i].name = flmem_interfaces[i - fixed].name;
			features[i].works =
				check_interface(platform, (enum flmem_interface)(i - fixed), &why);
		}
		features[i].why = flmem_buf_take(&why);
		if (features[i].why)
			continue;
		flmem_features_free(features, count);
		features = NULL;
	}
	if (!features)
		return flmem_error_nomem(err, "cannot store the features of the host");
	*ret_features = features;
	*ret_count = count;
	return 0;
}

void flmem_features_free(struct flmem_feature *features, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(features[i].why);
	free(features);
}
