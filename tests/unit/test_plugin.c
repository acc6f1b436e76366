/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the loader with the three revisions of tests/fakes/nvml.c, by their paths. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/plugin.h>

#include "base/cleanup.h"

#define OLDEST BUILT "/fakes/nvml_1/libnvidia-ml.so.1"
#define NEWEST BUILT "/fakes/nvml_3/libnvidia-ml.so.1"

#define LIST "nvmlDeviceGetComputeRunningProcesses"

static void *const untouched = (void *)0x5a5a;

static void the_first_library_that_loads_fills_the_slots(void **state)
{
	const struct flmem_plugin plugin = {
		.sonames = {"libflmem-absent.so.0", OLDEST, NEWEST},
		.missing = "this test needs NVML",
	};
	int (*init)(void) = NULL;
	int (*list)(void *, unsigned *, void *) = NULL;
	void *newest = untouched, *library = NULL;
	const struct flmem_plugin_symbol symbols[] = {
		{.names = {"nvmlInit_v2", "nvmlInit"}, .slot = &init},
		{.names = {LIST "_v3", LIST "_v2", LIST}, .slot = &list},
		{.names = {LIST "_v3"}, .slot = &newest, .optional = true},
	};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(
		flmem_plugin_load(&plugin, symbols, FLMEM_ARRAY_SIZE(symbols), &library, &err), 0);
	assert_int_equal(err.code, 0);
	assert_non_null(library);
	assert_null(newest); /* the oldest revision was loaded */
	assert_int_equal(init(), 0);
	assert_non_null(list);
	flmem_plugin_close(library);
}

static void a_missing_library_is_named_with_its_package(void **state)
{
	const struct flmem_plugin plugin = {
		.sonames = {"libflmem-absent.so.2", "libflmem-absent.so.1"},
		.missing = "this test needs libabsent (Debian: libabsent2)",
	};
	void *symbol = untouched, *library = untouched;
	const struct flmem_plugin_symbol symbols[] = {{.names = {"absent"}, .slot = &symbol}};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_plugin_load(&plugin, symbols, 1, &library, &err),
			 FLMEM_EUNSUPPORTED);
	assert_int_equal(err.code, FLMEM_EUNSUPPORTED);
	assert_ptr_equal(strstr(err.message, plugin.missing), err.message);
	assert_non_null(strstr(err.message, ": libflmem-absent.so.2: "));
	assert_ptr_equal(symbol, untouched);
	assert_ptr_equal(library, untouched);
}

/* Reports whether a library is loaded: RTLD_NOLOAD makes dlopen() find it only then. */
static bool is_loaded(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);

	flmem_plugin_close(library);
	return library;
}

static void a_library_stays_as_long_as_was_asked(void **state)
{
	struct flmem_plugin plugin = {.sonames = {NEWEST}, .missing = "this test needs NVML"};
	int (*init)(void) = NULL;
	const struct flmem_plugin_symbol symbols[] = {{.names = {"nvmlInit_v2"}, .slot = &init},
						      {.names = {"nvmlInit_v9"}, .slot = &init}};
	void *library = NULL;

	(void)state;
	assert_int_equal(flmem_plugin_load(&plugin, symbols, 2, &library, NULL),
			 FLMEM_EUNSUPPORTED);
	assert_false(is_loaded(NEWEST));
	assert_int_equal(flmem_plugin_load(&plugin, symbols, 1, &library, NULL), 0);
	assert_true(is_loaded(NEWEST));
	flmem_plugin_close(library);
	assert_false(is_loaded(NEWEST));
	plugin.stays = true;
	assert_int_equal(flmem_plugin_load(&plugin, symbols, 1, &library, NULL), 0);
	flmem_plugin_close(library);
	assert_true(is_loaded(NEWEST));
}

static void an_incomplete_library_fills_nothing(void **state)
{
	struct flmem_plugin plugin = {.sonames = {OLDEST}, .missing = "this test needs NVML"};
	void *first = untouched, *second = untouched, *library = untouched;
	const struct flmem_plugin_symbol symbols[] = {
		{.names = {"nvmlInit_v2"}, .slot = &first},
		{.names = {LIST "_v3", LIST "_v2"}, .slot = &second},
	};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_plugin_load(&plugin, symbols, 2, &library, &err),
			 FLMEM_EUNSUPPORTED);
	assert_string_equal(err.message, OLDEST " lacks " LIST "_v3; install a newer one");
	plugin.lacks = "what each driver has";
	assert_int_equal(flmem_plugin_load(&plugin, symbols, 2, &library, &err),
			 FLMEM_EUNSUPPORTED);
	assert_string_equal(err.message, OLDEST " lacks what each driver has");
	assert_ptr_equal(first, untouched);
	assert_ptr_equal(second, untouched);
	assert_ptr_equal(library, untouched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_library_that_loads_fills_the_slots),
		cmocka_unit_test(a_missing_library_is_named_with_its_package),
		cmocka_unit_test(a_library_stays_as_long_as_was_asked),
		cmocka_unit_test(an_incomplete_library_fills_nothing),
	};

	return cmocka_run_group_tests_name("plugin", tests, NULL, NULL);
}
