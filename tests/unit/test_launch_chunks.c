/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the variables that stand for a job's tensor_download_chunk_size and np_download_chunk_size.
 */
#include "launch_rows.h"

#include "base/cleanup.h"

#define TENSORS "NVFLARE_TENSOR_DOWNLOAD_CHUNK_SIZE"
#define ARRAYS	"NVFLARE_NP_DOWNLOAD_CHUNK_SIZE"
#define START	"nvflare simulator job\n"
#define ZERO	"NVF-ENV-CHUNK-ZERO"
#define INVALID "NVF-ENV-CHUNK-INVALID"

static const struct file_row files[] = {
	{"run.sh", {ZERO, "export " TENSORS "=0\n" START, 1, NULL}},
	{"run.sh", {ZERO, ARRAYS "=-1 " START, 1, NULL}},
	{"run.sh", {ZERO, "export " TENSORS "=' 1 '\n" START, 0, NULL}},
	{"run.sh", {ZERO, "export " TENSORS "=2M\n" START, 0, NULL}},
	{"run.sh", {INVALID, "export " TENSORS "=2M\n" START, 1, NULL}},
	{"run.sh", {INVALID, "export " ARRAYS "=\n" START, 1, NULL}},
	{"run.sh", {INVALID, "export " ARRAYS "=0\n" START, 0, NULL}},
	{"run.sh", {UNCLEAR, "export " ARRAYS "=$N\n" START, 1, "only when the file runs"}},
	{".env", {ZERO, ARRAYS "=0\n", 1, NULL}},
	{"Dockerfile", {INVALID, "FROM a\nENV " TENSORS "=1.5\nCMD " START, 1, NULL}},
	{"compose.yaml",
	 {ZERO, "services: {a: {image: nvflare, environment: {" ARRAYS ": 0}}}\n", 1, NULL}},
	{"run.sh",
	 {"NVF-ENV-UNKNOWN", "export NVFLARE_TENSORS_DOWNLOAD_CHUNK_SIZE=0\n" START, 1, NULL}},
	{"run.sh", {"NVF-ENV-UNKNOWN", "export NVFLARE_DOWNLOAD_CHUNK=0\n" START, 1, NULL}},
	{"job.py",
	 {"NVF-ENVIRON-CANNOT-TELL", "import os\nimport nvflare\nos.environ['" ARRAYS "'] = '0'\n",
	  1, NULL}},
};

static void chunk_sizes_of_the_environment_are_checked(void **state)
{
	(void)state;
	assert_true(files_are_right(files, FLMEM_ARRAY_SIZE(files)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunk_sizes_of_the_environment_are_checked),
	};

	return cmocka_run_group_tests_name("launch_chunks", tests, NULL, NULL);
}
