/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/gpu_devices.h"

#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/text.h"

/*
 * True for /dev/nvidiaN. A container may have any one of them, /dev/nvidia5 alone for example.
 * nvidiactl and nvidia-uvm also exist where the driver found no GPU.
 */
static bool is_numbered_nvidia(const char *name)
{
	static const char prefix[] = "nvidia";
	size_t digits;

	if (!flmem_text_starts(name, prefix))
		return false;
	name += strlen(prefix);
	digits = strspn(name, "0123456789");
	return digits && !name[digits];
}

static unsigned judge_node(const char *name)
{
	/* WSL has one node for all GPUs of Windows. */
	if (is_numbered_nvidia(name) || strcmp(name, "dxg") == 0)
		return FLMEM_GPU_NVIDIA;
	return strcmp(name, "kfd") == 0 ? FLMEM_GPU_AMD : 0;
}

unsigned flmem_gpu_devices_find(const char *directory)
{
	FLMEM_AUTO_DIR DIR *dir = flmem_io_open_dir(AT_FDCWD, directory);
	struct dirent *entry;
	unsigned found = 0;

	while (dir && (entry = readdir(dir)))
		found |= judge_node(entry->d_name);
	return found;
}
