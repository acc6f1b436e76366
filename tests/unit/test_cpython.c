/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "elf/modules.h"
#include "runtimes/cpython.h"

static void the_hexadecimal_version_is_told_as_python_tells_it(void **state)
{
	static const struct {
		uint32_t hex;
		const char *text;
	} rows[] = {
		{0x030b02f0, "3.11.2"},	  {0x030d00f0, "3.13.0"},   {0x030e00c1, "3.14.0rc1"},
		{0x030d00a5, "3.13.0a5"}, {0x030c00b4, "3.12.0b4"}, {0x030f0cf0, "3.15.12"},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_cpython python = {0};

		flmem_cpython_set_version(&python, rows[i].hex);
		assert_string_equal(python.version, rows[i].text);
		assert_int_equal(python.major, 3);
	}
}

static void a_program_without_python_has_none(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_IMAGE_CACHE struct flmem_image_cache *cache = flmem_image_cache_new();
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	FLMEM_AUTO_MODULES struct flmem_modules modules = {0};
	struct flmem_view view = {.process = &process, .maps = &maps, .modules = &modules};
	struct flmem_cpython python = {.major = 7};

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	assert_int_equal(flmem_maps_read(&process, &maps, NULL), 0);
	assert_int_equal(flmem_modules_load(&process, &maps, cache, &modules, NULL), 0);
	assert_false(flmem_cpython_find(&view, &python));
	assert_int_equal(python.major, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hexadecimal_version_is_told_as_python_tells_it),
		cmocka_unit_test(a_program_without_python_has_none),
	};

	return cmocka_run_group_tests_name("cpython", tests, NULL, NULL);
}
