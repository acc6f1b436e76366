/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/mountinfo: the target may have mounted what it likes. */
#include "fuzz.h"
#include "proc/backing.h"
#include "proc/temporary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_FREE char *text = fuzz_text(data, size), *again = fuzz_text(data, size);
	dev_t devices[FLMEM_TMPFS_MAX];
	char type[FLMEM_MOUNT_TYPE_MAX];

	if (flmem_mount_type_of(text, "/tmp/a", type) && strlen(type) >= sizeof(type))
		abort();
	if (flmem_tmpfs_parse(again, devices) > FLMEM_TMPFS_MAX)
		abort();
	return 0;
}
