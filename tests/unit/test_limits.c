/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frameworks/limits.h"

#define MIB UINT64_C(1048576)
#define GIB (1024 * MIB)

#define UNDECIDED 1

static void sizes_are_read_as_their_programs_do(void **state)
{
	static const struct {
		enum flmem_limit_style style;
		const char *text;
		uint64_t bytes; /* expected limit; UNDECIDED: the text does not decide */
	} sizes[] = {
		{FLMEM_LIMIT_DOCKER, "8g", 8 * GIB},
		{FLMEM_LIMIT_DOCKER, "512MB", 512 * MIB},
		{FLMEM_LIMIT_DOCKER, "1.5gb", 3 * GIB / 2},
		{FLMEM_LIMIT_DOCKER, "2GiB", 2 * GIB},
		{FLMEM_LIMIT_DOCKER, "4096", 4096},
		{FLMEM_LIMIT_DOCKER, "4096b", 4096},
		{FLMEM_LIMIT_DOCKER, "0", UINT64_MAX},
		{FLMEM_LIMIT_DOCKER, "$MEMORY", UNDECIDED},
		{FLMEM_LIMIT_DOCKER, "8x", UNDECIDED},
		{FLMEM_LIMIT_DOCKER, "8gigs", UNDECIDED},
		{FLMEM_LIMIT_DOCKER, "", UNDECIDED},
		{FLMEM_LIMIT_KUBERNETES, "8Gi", 8 * GIB},
		{FLMEM_LIMIT_KUBERNETES, "8G", 8000000000},
		{FLMEM_LIMIT_KUBERNETES, "2k", 2000},
		{FLMEM_LIMIT_KUBERNETES, "8Gb", UNDECIDED},
		{FLMEM_LIMIT_KUBERNETES, "8m", UNDECIDED},
		{FLMEM_LIMIT_KUBERNETES, "8g", UNDECIDED},
		{FLMEM_LIMIT_KUBERNETES, "8gi", UNDECIDED},
		{FLMEM_LIMIT_KUBERNETES, "8K", UNDECIDED},
		{FLMEM_LIMIT_KUBERNETES, "8Ki", 8192},
		{FLMEM_LIMIT_SLURM, "4096", 4 * GIB},
		{FLMEM_LIMIT_SLURM, "16G", 16 * GIB},
		{FLMEM_LIMIT_SLURM, "0", UNDECIDED},
		{FLMEM_LIMIT_SYSTEMD, "60G", 60 * GIB},
		{FLMEM_LIMIT_SYSTEMD, "infinity", UINT64_MAX},
		{FLMEM_LIMIT_SYSTEMD, "50%", UNDECIDED},
		{FLMEM_LIMIT_MEBIBYTES, "4096", 4 * GIB},
		{FLMEM_LIMIT_MEBIBYTES, "4G", UNDECIDED},
		{FLMEM_LIMIT_DOCKER, "99999999999999999999g", UNDECIDED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint64_t bytes = 0;

		if (!flmem_limit_parse(sizes[i].style, sizes[i].text, &bytes))
			bytes = UNDECIDED;
		if (bytes != sizes[i].bytes)
			fail_msg("'%s' has %ju bytes", sizes[i].text, (uintmax_t)bytes);
	}
}

/* A limit that could suffice for one of the roles is not too low. */
static void a_role_that_is_not_known_needs_the_least_of_all(void **state)
{
	const struct flmem_plan_peaks peaks = {.server = 8 * GIB, .client = 2 * GIB};
	struct flmem_limit_need need = flmem_limit_need_of(&peaks, FLMEM_ROLE_NONE);

	(void)state;
	assert_int_equal(need.least, 2 * GIB);
	assert_int_equal(need.most, 8 * GIB);
	need = flmem_limit_need_of(&peaks, FLMEM_ROLE_SIMULATOR_SERVER);
	assert_int_equal(need.least, 8 * GIB);
	assert_int_equal(need.most, UINT64_MAX);
	need = flmem_limit_need_of(&peaks, FLMEM_ROLE_CLIENT_JOB);
	assert_int_equal(need.least, 2 * GIB);
	assert_int_equal(need.most, 2 * GIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read_as_their_programs_do),
		cmocka_unit_test(a_role_that_is_not_known_needs_the_least_of_all),
	};

	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
