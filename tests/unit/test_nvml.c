/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the reader of NVML against tests/fakes/nvml.c, which has NVML's documented ABI. The real
 * library was never tried: it comes with the driver of an NVIDIA GPU.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/host_facts.h"
#include "runtimes/nvml.h"

#define GIB (UINT64_C(1) << 30)
#define PID 4711

static const char *const settings[] = {"FAKE_NVML_INIT",     "FAKE_NVML_PID",	 "FAKE_NVML_OTHERS",
				       "FAKE_NVML_NO_LISTS", "FAKE_NVML_NO_MIG", "FAKE_NVML_CUDA"};

/*
 * Loads the fake. The dynamic linker gives a library that is loaded already to any caller that
 * requests its soname, so the fake is used in place of a real one too.
 */
static void *load_fake(int revision)
{
	char path[4096];
	void *fake;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(settings); i++)
		unsetenv(settings[i]);
	snprintf(path, sizeof(path), BUILT "/fakes/nvml_%d/libnvidia-ml.so.1", revision);
	fake = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!fake)
		fail_msg("%s", dlerror());
	return fake;
}

static struct flmem_nvml *open_nvml(void)
{
	struct flmem_nvml *nvml = NULL;
	struct flmem_error err = {0};

	if (flmem_nvml_open(&nvml, &err))
		fail_msg("%s", err.message);
	return nvml;
}

static void gpus_and_driver(void **state)
{
	void *fake = load_fake(3);
	struct flmem_nvml *nvml = open_nvml();
	FLMEM_AUTO_FREE char *driver = flmem_nvml_driver(nvml);
	struct flmem_gpu *gpus;
	size_t count;

	(void)state;
	assert_string_equal(driver, "555.42.06");
	assert_int_equal(flmem_nvml_gpus(nvml, &gpus, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_string_equal(gpus[0].name, "Fake GPU 80GB");
	assert_null(gpus[0].total_bytes.unknown);
	assert_int_equal(gpus[0].total_bytes.value, 80 * GIB);
	assert_int_equal(gpus[0].used_bytes.value, 3 * GIB);
	assert_int_equal(gpus[0].free_bytes.value, 77 * GIB - GIB / 2);
	assert_int_equal(gpus[0].mig, FLMEM_MIG_UNSUPPORTED);
	assert_string_equal(gpus[1].name, "Fake GPU 80GB parted");
	for (size_t i = 0; i < count; i++)
		free(gpus[i].name);
	free(gpus);
	flmem_nvml_close(nvml);
	dlclose(fake);
}

static void read_first_two(struct flmem_gpu *ret_gpus)
{
	struct flmem_nvml *nvml = open_nvml();
	struct flmem_gpu *gpus;
	size_t count;

	assert_int_equal(flmem_nvml_gpus(nvml, &gpus, &count, NULL), 0);
	assert_int_equal(count, 2);
	for (size_t i = 0; i < count; i++) {
		free(gpus[i].name);
		ret_gpus[i] = gpus[i];
	}
	free(gpus);
	flmem_nvml_close(nvml);
}

static void an_older_driver_counts_its_own_memory_as_used(void **state)
{
	struct flmem_gpu gpus[2] = {0};
	void *fake = load_fake(2);

	(void)state;
	read_first_two(gpus);
	assert_int_equal(gpus[0].used_bytes.value, 3 * GIB + GIB / 2);
	assert_int_equal(gpus[0].free_bytes.value, 77 * GIB - GIB / 2);
	dlclose(fake);
}

static void partitions_are_counted_or_unknown(void **state)
{
	struct flmem_gpu gpus[2] = {0};
	void *fake = load_fake(3);

	(void)state;
	read_first_two(gpus);
	assert_int_equal(gpus[0].mig_instances.value, 0);
	assert_null(gpus[0].mig_instances.unknown);
	assert_int_equal(gpus[1].mig, FLMEM_MIG_ON);
	assert_int_equal(gpus[1].mig_instances.value, 2);
	setenv("FAKE_NVML_NO_MIG", "1", 1);
	read_first_two(gpus);
	assert_int_equal(gpus[1].mig, FLMEM_MIG_UNKNOWN);
	assert_non_null(gpus[1].mig_instances.unknown);
	dlclose(fake);
	fake = load_fake(1); /* revision 1 lacks the functions */
	read_first_two(gpus);
	assert_int_equal(gpus[0].mig, FLMEM_MIG_UNKNOWN);
	assert_non_null(gpus[0].mig_instances.unknown);
	dlclose(fake);
}

static void cuda_versions(void **state)
{
	static const struct {
		const char *number, *text;
	} rows[] = {{"12050", "12.5"}, {"13000", "13.0"}, {"11080", "11.8"}, {"0", NULL},
		    {"-1", NULL},      {"999", NULL},	  {"1000000", NULL}};
	void *fake = load_fake(3);

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_nvml *nvml = open_nvml();
		FLMEM_AUTO_FREE char *cuda = NULL;

		setenv("FAKE_NVML_CUDA", rows[i].number, 1);
		cuda = flmem_nvml_cuda(nvml);
		flmem_nvml_close(nvml);
		if (rows[i].text)
			assert_string_equal(cuda, rows[i].text);
		else
			assert_null(cuda);
	}
	dlclose(fake);
}

static void one_process_with_every_revision_of_the_lists(void **state)
{
	(void)state;
	for (int revision = 1; revision <= 3; revision++) {
		void *fake = load_fake(revision);
		struct flmem_nvml *nvml = open_nvml();
		struct flmem_u64 bytes;

		setenv("FAKE_NVML_PID", "4711", 1);
		bytes = flmem_nvml_process_bytes(nvml, PID);
		assert_null(bytes.unknown);
		/*
		 * The 1 GiB counts once although two lists have it, and so do two parts of the
		 * other GPU.
		 */
		assert_int_equal(bytes.value, GIB + 2 * (GIB / 4));
		bytes = flmem_nvml_process_bytes(nvml, PID + 1);
		assert_non_null(bytes.unknown);
		bytes = flmem_nvml_process_bytes(nvml, PID + 2);
		assert_int_equal(bytes.unknown != NULL, flmem_own_pid_namespace());
		assert_int_equal(bytes.value, 0);
		flmem_nvml_close(nvml);
		dlclose(fake);
	}
}

static void lists_longer_than_the_first_guess(void **state)
{
	void *fake = load_fake(3);
	struct flmem_nvml *nvml = open_nvml();
	struct flmem_u64 bytes;

	(void)state;
	setenv("FAKE_NVML_PID", "4711", 1);
	setenv("FAKE_NVML_OTHERS", "5000", 1);
	bytes = flmem_nvml_process_bytes(nvml, PID);
	assert_null(bytes.unknown);
	assert_int_equal(bytes.value, GIB + 2 * (GIB / 4));
	setenv("FAKE_NVML_OTHERS", "1000000", 1); /* more processes than the bound */
	bytes = flmem_nvml_process_bytes(nvml, PID);
	assert_non_null(bytes.unknown);
	flmem_nvml_close(nvml);
	dlclose(fake);
}

static void no_lists_is_unknown_not_zero(void **state)
{
	void *fake = load_fake(3);
	struct flmem_nvml *nvml = open_nvml();

	(void)state;
	setenv("FAKE_NVML_NO_LISTS", "1", 1);
	assert_non_null(flmem_nvml_process_bytes(nvml, PID).unknown);
	flmem_nvml_close(nvml);
	dlclose(fake);
}

static void a_library_that_does_not_start(void **state)
{
	static const struct {
		const char *code, *text;
	} rows[] = {{"9", "not loaded"}, {"18", "different versions"}, {"999", "NVML error 999"}};
	void *fake = load_fake(3);

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_nvml *nvml = NULL;
		struct flmem_error err = {0};

		setenv("FAKE_NVML_INIT", rows[i].code, 1);
		assert_int_equal(flmem_nvml_open(&nvml, &err), FLMEM_EUNSUPPORTED);
		assert_null(nvml);
		assert_non_null(strstr(err.message, rows[i].text));
	}
	dlclose(fake);
}

static void no_library(void **state)
{
	void *there = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	struct flmem_nvml *nvml = NULL;
	struct flmem_error err = {0};

	(void)state;
	if (there) {
		dlclose(there);
		print_message("SKIP: this machine has an NVIDIA driver\n");
		skip();
	}
	assert_int_equal(flmem_nvml_open(&nvml, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "libnvidia-ml.so.1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_library),
		cmocka_unit_test(gpus_and_driver),
		cmocka_unit_test(an_older_driver_counts_its_own_memory_as_used),
		cmocka_unit_test(partitions_are_counted_or_unknown),
		cmocka_unit_test(cuda_versions),
		cmocka_unit_test(one_process_with_every_revision_of_the_lists),
		cmocka_unit_test(lists_longer_than_the_first_guess),
		cmocka_unit_test(no_lists_is_unknown_not_zero),
		cmocka_unit_test(a_library_that_does_not_start),
	};

	return cmocka_run_group_tests_name("nvml", tests, NULL, NULL);
}
