/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that a jemalloc which does not support the pages of this machine is refused before it is
 * loaded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <flmem/launch.h>
#include <flmem/settings.h>

#include "base/cleanup.h"
#include "settings/preload.h"

#define SMALL_PAGES BUILT "/fakes/libjemalloc_small_pages.so"

static long page_size; /* page size of the next query; 0: the machine's */

long __real_sysconf(int name);
long __wrap_sysconf(int name);

long __wrap_sysconf(int name)
{
	long size = page_size;

	if (name != _SC_PAGESIZE || !size)
		return __real_sysconf(name);
	page_size = 0;
	return size;
}

char *__wrap_flmem_jemalloc_find(void);

/* Replaces the search: this is the installed jemalloc. */
char *__wrap_flmem_jemalloc_find(void)
{
	return strdup(SMALL_PAGES);
}

static void assert_refused(int rc, const struct flmem_error *err)
{
	assert_int_equal(rc, FLMEM_EUNSUPPORTED);
	if (!strstr(err->message, "Unsupported system page size"))
		fail_msg("%s", err->message);
}

/*
 * Reports whether jemalloc may be tried. It cannot be where a child may not be traced, nor with
 * AddressSanitizer, which ends a program with a preloaded library.
 */
static bool may_try(void)
{
#if defined(__SANITIZE_ADDRESS__)
	print_message("SKIP: AddressSanitizer refuses preloads\n");
	return false;
#endif
	struct flmem_error err = {0};

	page_size = 16384;
	return flmem_preload_check_pages(SMALL_PAGES, &err) != 0;
}

static void a_library_for_smaller_pages_is_refused(void **state)
{
	struct flmem_settings_request request = {.role = FLMEM_ROLE_CLIENT,
						 .allocator = FLMEM_SETTINGS_ALLOCATOR_JEMALLOC,
						 .jemalloc_library = SMALL_PAGES};
	struct flmem_settings settings = {0};
	struct flmem_error err = {0};
	long sizes[] = {16384, 65536};

	(void)state;
	if (!may_try())
		skip();
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(sizes); i++) {
		page_size = sizes[i];
		assert_refused(flmem_settings_make(&request, &settings, &err), &err);
	}
	assert_non_null(strstr(err.message, "64 KiB"));
	/* Settings for another machine are not tried on this one. */
	request.elsewhere = true;
	page_size = 65536;
	assert_int_equal(flmem_settings_make(&request, &settings, &err), 0);
	flmem_settings_clear(&settings);
}

static void an_installed_one_is_used_only_where_it_fits(void **state)
{
	struct flmem_settings_request request = {.role = FLMEM_ROLE_CLIENT,
						 .allocator = FLMEM_SETTINGS_ALLOCATOR_AUTO};
	struct flmem_settings settings = {0};
	struct flmem_error err = {0};

	(void)state;
	if (!may_try())
		skip();
	page_size = 16384;
	assert_int_equal(flmem_settings_make(&request, &settings, &err), 0);
	assert_int_equal(settings.allocator, FLMEM_ALLOCATOR_GLIBC);
	assert_null(settings.jemalloc_library);
	flmem_settings_clear(&settings);
	request.allocator = FLMEM_SETTINGS_ALLOCATOR_JEMALLOC;
	page_size = 16384;
	assert_refused(flmem_settings_make(&request, &settings, &err), &err);
}

/* Nothing runs where every build fits. */
static void small_pages_are_not_tried(void **state)
{
	(void)state;
	page_size = 4096;
	assert_int_equal(flmem_preload_check_pages(SMALL_PAGES, NULL), 0);
}

static void a_library_that_fits_is_taken(void **state)
{
	(void)state;
	page_size = 16384;
	assert_int_equal(flmem_preload_check_pages("/no/such/library.so", NULL), 0);
}

/* `start` proves the preload in any case, with the program itself. */
static void a_start_is_refused_with_the_reason(void **state)
{
	char library[] = SMALL_PAGES, preload[] = "LD_PRELOAD=" SMALL_PAGES;
	const struct flmem_settings settings = {.jemalloc_library = library};
	char *const argv[] = {(char[]){"/bin/true"}, NULL};
	char *const environment[] = {preload, NULL};
	struct flmem_preload_proof proof = {0};
	struct flmem_error err = {0};

	(void)state;
	if (!may_try())
		skip();
	assert_refused(flmem_launch_prove(&settings, argv, environment, &proof, &err), &err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_library_for_smaller_pages_is_refused),
		cmocka_unit_test(an_installed_one_is_used_only_where_it_fits),
		cmocka_unit_test(small_pages_are_not_tried),
		cmocka_unit_test(a_library_that_fits_is_taken),
		cmocka_unit_test(a_start_is_refused_with_the_reason),
	};

	return cmocka_run_group_tests_name("preload_pages", tests, NULL, NULL);
}
