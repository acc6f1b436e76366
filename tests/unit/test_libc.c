/* SPDX-License-Identifier: Apache-2.0 */
#include <gnu/libc-version.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "elf/libc.h"

static void this_program(void **state)
{
	struct flmem_libc libc;
	struct flmem_error err = {0};

	(void)state;
	if (flmem_libc_of_program("/proc/self/exe", &libc, &err))
		fail_msg("%s", err.message);
	assert_int_equal(libc.kind, FLMEM_ALLOCATOR_GLIBC);
	assert_string_equal(libc.version, gnu_get_libc_version());
	assert_int_equal(access(libc.library, R_OK), 0);
	assert_true(libc.has_malloc_trim);
	assert_true(libc.reads_arena_max);
}

static void musl(void **state)
{
	static const char linker[] = "/lib/ld-musl-x86_64.so.1";
	struct flmem_libc libc;
	struct flmem_error err = {0};

	(void)state;
	if (access(linker, R_OK) || access(VICTIMS "/libc_musl", X_OK)) {
		print_message("SKIP: needs musl-tools\n");
		skip();
	}
	if (flmem_libc_of_program(VICTIMS "/libc_musl", &libc, &err))
		fail_msg("%s", err.message);
	assert_int_equal(libc.kind, FLMEM_ALLOCATOR_MUSL);
	assert_string_equal(libc.linker, linker);
	assert_false(libc.has_malloc_trim);
	assert_false(libc.reads_arena_max);
	assert_int_equal(strncmp(libc.version, "1.", 2), 0);
	assert_true(strspn(libc.version, "0123456789.") == strlen(libc.version));
}

static void what_has_no_linker_is_refused(void **state)
{
	struct flmem_libc libc = {.kind = FLMEM_ALLOCATOR_GO};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_libc_of_program(VICTIMS "/elf/static", &libc, &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "statically linked"));
	assert_int_equal(flmem_libc_of_program("/nonexistent", &libc, &err), FLMEM_EUNSUPPORTED);
	assert_int_equal(flmem_libc_of_program("/etc/passwd", &libc, &err), FLMEM_EUNSUPPORTED);
	assert_int_equal(libc.kind, FLMEM_ALLOCATOR_GO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(this_program),
		cmocka_unit_test(musl),
		cmocka_unit_test(what_has_no_linker_is_refused),
	};

	return cmocka_run_group_tests_name("libc", tests, NULL, NULL);
}
