/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/mountinfo: the target may have mounted what it likes. */
#include "fuzz.h"
#include "proc/files/backing.h"
#include "proc/files/mounts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_MOUNTS struct flmem_mounts mounts = FLMEM_MOUNTS_INIT;
	FLMEM_AUTO_FREE char *text = fuzz_text(data, size);
	dev_t devices[FLMEM_TMPFS_MAX];
	const struct flmem_mount *mount;

	if (flmem_mounts_parse(text, strlen(text), &mounts))
		return 0;
	mount = flmem_mounts_covering(&mounts, "/tmp/a");
	if (mount && (mount->point[0] != '/' || strlen(mount->point) > strlen("/tmp/a")))
		abort();
	if (flmem_tmpfs_parse(text, devices) > FLMEM_TMPFS_MAX)
		abort();
	return 0;
}
