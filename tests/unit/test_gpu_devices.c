/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "runtimes/gpu_devices.h"

/* Returns the answer for a directory that holds this one node. */
static unsigned find_with(const char *name)
{
	char directory[] = "/tmp/flmem-dev-XXXXXX", path[128];
	unsigned found;
	int fd;

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	found = flmem_gpu_devices_find(directory);
	unlink(path);
	rmdir(directory);
	return found;
}

static void nodes_of_gpus(void **state)
{
	static const struct {
		const char *name;
		unsigned found;
	} rows[] = {
		{"nvidia0", FLMEM_GPU_NVIDIA},
		{"nvidia5", FLMEM_GPU_NVIDIA},
		{"nvidia15", FLMEM_GPU_NVIDIA},
		{"dxg", FLMEM_GPU_NVIDIA},
		{"kfd", FLMEM_GPU_AMD},
		{"nvidia", 0},
		{"nvidiactl", 0},
		{"nvidia-uvm", 0},
		{"nvidia0x", 0},
		{"nvidia-caps1", 0},
		{"dxgx", 0},
		{"null", 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (find_with(rows[i].name) != rows[i].found)
			fail_msg("%s", rows[i].name);
}

static void a_missing_directory_has_none(void **state)
{
	(void)state;
	assert_int_equal(flmem_gpu_devices_find("/tmp/flmem-no-such-directory"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_of_gpus),
		cmocka_unit_test(a_missing_directory_has_none),
	};

	return cmocka_run_group_tests_name("gpu_devices", tests, NULL, NULL);
}
