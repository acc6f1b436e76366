/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/module_search.h"

#include <stdio.h>
#include <string.h>

#include "base/files/io.h"
#include "base/text/text.h"

#define RELEASE_MAX	   ((size_t)64 << 10)
#define RELEASE_LEVELS_MAX 5

/* Parses JAVA_VERSION="17.0.15" in the text of a `release` file. */
static bool parse_version(const char *text, char version[FLMEM_ALLOCATOR_VERSION_MAX])
{
	static const char key[] = "JAVA_VERSION=\"";
	const char *at = flmem_text_starts(text, key) ? text : strstr(text, "\nJAVA_VERSION=\"");
	size_t length;

	if (!at)
		return false;
	at = strchr(at, '"') + 1;
	length = strcspn(at, "\"\n");
	if (!length || length >= FLMEM_ALLOCATOR_VERSION_MAX)
		return false;
	memcpy(version, at, length);
	version[length] = '\0';
	return true;
}

/*
 * Reads the version from the `release` file, which is two to five levels above libjvm.so, by
 * version and layout of the JDK.
 */
static void read_java_version(const struct flmem_process *process, const char *path,
			      char version[FLMEM_ALLOCATOR_VERSION_MAX])
{
	FLMEM_AUTO_FREE char *directory = strdup(path);
	char *slash;

	for (int i = 0; directory && i <= RELEASE_LEVELS_MAX; i++) {
		FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
		FLMEM_AUTO_FREE char *name = NULL;
		FLMEM_AUTO_CLOSE int fd = -1;

		slash = strrchr(directory, '/');
		if (!slash || slash == directory)
			return;
		*slash = '\0';
		if (asprintf(&name, "%s/release", directory) < 0) {
			name = NULL;
			return;
		}
		fd = flmem_process_open_file(process, name);
		if (fd >= 0 && !flmem_io_read_all(fd, RELEASE_MAX, &text) &&
		    parse_version(text.data, version))
			return;
	}
}

static bool recognise_java(const struct flmem_view *view, const struct flmem_module *module,
			   struct flmem_allocator *ret_found)
{
	struct flmem_allocator found = {
		.evidence = "libjvm.so exports JNI_CreateJavaVM; it manages the Java heap",
	};

	if (!flmem_text_starts(flmem_text_basename(module->path), "libjvm") ||
	    !flmem_module_exports(module, "JNI_CreateJavaVM"))
		return false;
	read_java_version(view->process, module->path, found.version);
	*ret_found = found;
	return true;
}

const struct flmem_allocator_ops flmem_allocator_java = {
	.kind = FLMEM_ALLOCATOR_JAVA,
	.files = {"libjvm"},
	.recognise = recognise_java,
	.unreadable_reason = "the JVM reports the Java heap: jcmd PID GC.heap_info",
	.is_runtime = true,
	.trim_advice =
		"only the JVM itself can release the Java heap: jcmd PID GC.run, and for its "
		"native memory jcmd PID System.trim_native_heap (JDK 18 or newer)",
};
