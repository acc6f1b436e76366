/* SPDX-License-Identifier: Apache-2.0 */
/* Tests with tests/fakes/cuda.c; gpu.bats has the real driver where there is a GPU. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <flmem/own_process.h>

#include "runtimes/cuda_pools.h"

#define DRIVER BUILT "/fakes/cuda/libcuda.so.1"
#define MIB    (UINT64_C(1) << 20)

/* The tests run in this order, since a loaded driver stays loaded. */
static void without_the_driver_there_is_nothing_to_do(void **state)
{
	struct flmem_error err = {0};
	uint64_t released = 7;

	(void)state;
	assert_int_equal(flmem_cuda_pools_trim(&released, &err), 0);
	assert_int_equal(released, 0);
	assert_int_equal(err.code, 0);
	assert_non_null(dlopen(DRIVER, RTLD_NOW));
}

static void a_device_without_a_context_is_left_alone(void **state)
{
	struct flmem_error err = {0};
	uint64_t released = 7;

	(void)state;
	setenv("FAKE_CUDA_CONTEXT", "0", 1);
	assert_int_equal(flmem_cuda_pools_trim(&released, &err), 0);
	assert_int_equal(released, 0);
	unsetenv("FAKE_CUDA_CONTEXT");
}

static void an_error_of_cuda_is_reported(void **state)
{
	struct flmem_error err = {0};
	uint64_t released = 7;

	(void)state;
	setenv("FAKE_CUDA_ERROR", "700", 1);
	assert_int_equal(flmem_cuda_pools_trim(&released, &err), FLMEM_EFAILED);
	assert_string_equal(err.message, "cuMemPoolTrimTo: CUDA error 700");
	assert_int_equal(released, 0);
	unsetenv("FAKE_CUDA_ERROR");
}

static void the_pool_of_a_used_device_is_trimmed_once(void **state)
{
	struct flmem_error err = {0};
	uint64_t released = 0;
	int own = flmem_cleanup_memory(NULL);

	(void)state;
	assert_int_equal(flmem_cleanup_memory_with(0, &released, &err), own);
	assert_int_equal(released, 0);
	assert_int_equal(flmem_cleanup_memory_with(FLMEM_CLEANUP_CUDA, &released, &err), own);
	assert_int_equal(released, 64 * MIB);
	assert_int_equal(flmem_cleanup_memory_with(FLMEM_CLEANUP_CUDA, &released, NULL), own);
	assert_int_equal(released, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_driver_there_is_nothing_to_do),
		cmocka_unit_test(a_device_without_a_context_is_left_alone),
		cmocka_unit_test(an_error_of_cuda_is_reported),
		cmocka_unit_test(the_pool_of_a_used_device_is_trimmed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
