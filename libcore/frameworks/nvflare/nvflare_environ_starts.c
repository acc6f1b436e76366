/* SPDX-License-Identifier: Apache-2.0 */
/* What in Python starts a program. */
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/nvflare_launch_rules.h"

bool flmem_nvflare_starts_by_package(const char *path)
{
	static const char *const packages[] = {"pexpect",
					       "sh",
					       "plumbum",
					       "fabric",
					       "invoke",
					       "docker",
					       "podman",
					       "paramiko",
					       "submitit",
					       "nox",
					       "sarge",
					       "delegator",
					       "anyio.run_process",
					       "anyio.open_process",
					       "trio.run_process",
					       "pty.spawn",
					       "psutil.Popen"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(packages); i++) {
		size_t length = strlen(packages[i]);

		if (strncmp(path, packages[i], length) == 0 &&
		    (!path[length] || path[length] == '.'))
			return true;
	}
	return false;
}

bool flmem_nvflare_is_start(const char *path)
{
	static const char *const starts[] = {"subprocess.",	  "os.system", "os.popen",
					     "os.exec",		  "os.spawn",  "os.posix_spawn",
					     "asyncio.create_sub"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(starts); i++)
		if (flmem_text_starts(path, starts[i]))
			return true;
	return flmem_nvflare_starts_by_package(path);
}

bool flmem_nvflare_has_start(const struct flmem_check *check)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");

	while (n && !flmem_nvflare_is_start(flmem_nvflare_path_text(n)))
		n = n->next;
	return n;
}
