// SPDX-License-Identifier: Apache-2.0
/* Tests which answers of a process's socket flmem accepts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/profile/attached.h"
#include "ops/profile/attached_socket.h"

static void test_inner_user(void **state)
{
	static const char *const nested = "         0     100000      65536\n"
					  "     70000          7          1\n";
	uint32_t inner = 1;

	(void)state;
	assert_true(flmem_attached_socket_inner_user("0 0 4294967295\n", 1000, &inner));
	assert_int_equal(inner, 1000);
	assert_true(flmem_attached_socket_inner_user(nested, 100005, &inner));
	assert_int_equal(inner, 5);
	assert_true(flmem_attached_socket_inner_user(nested, 7, &inner));
	assert_int_equal(inner, 70000);
	assert_false(flmem_attached_socket_inner_user(nested, 8, &inner));
	assert_false(flmem_attached_socket_inner_user(nested, 99999, &inner));
	assert_false(flmem_attached_socket_inner_user(nested, 165536, &inner));
	assert_false(flmem_attached_socket_inner_user("", 0, &inner));
	assert_false(flmem_attached_socket_inner_user("nothing", 0, &inner));
	assert_false(flmem_attached_socket_inner_user("4294967290 0 100", 50, &inner));
	assert_int_equal(inner, 70000);
}

static int parse_state(const struct flmem_sampler_state *bytes, size_t length,
		       struct flmem_sampler_state *ret_state)
{
	return flmem_attached_state_parse(bytes, length, 1, ret_state, NULL);
}

static void test_state(void **state)
{
	struct flmem_sampler_state bytes = {0}, got;

	(void)state;
	/* The state of a process that nobody attached to. */
	assert_int_equal(parse_state(&bytes, sizeof(bytes), &got), 0);
	assert_int_equal(got.phase, FLMEM_SAMPLER_IDLE);
	assert_int_equal(parse_state(&bytes, sizeof(bytes) - 1, &got), FLMEM_EFAILED);
	assert_int_equal(parse_state(&bytes, 0, &got), FLMEM_EFAILED);
	bytes.magic = FLMEM_SAMPLER_STATE_MAGIC;
	bytes.version = FLMEM_SAMPLER_STATE_VERSION;
	bytes.phase = FLMEM_SAMPLER_SAMPLING;
	memset(bytes.path, 'x', sizeof(bytes.path));
	assert_int_equal(parse_state(&bytes, sizeof(bytes), &got), 0);
	assert_int_equal(got.phase, FLMEM_SAMPLER_SAMPLING);
	assert_int_equal(strlen(got.path), sizeof(got.path) - 1);
	bytes.phase = FLMEM_SAMPLER_DETACHING + 1;
	assert_int_equal(parse_state(&bytes, sizeof(bytes), &got), FLMEM_EUNSUPPORTED);
	bytes.phase = FLMEM_SAMPLER_IDLE;
	bytes.version++;
	assert_int_equal(parse_state(&bytes, sizeof(bytes), &got), FLMEM_EUNSUPPORTED);
	bytes.version--;
	bytes.magic++;
	assert_int_equal(parse_state(&bytes, sizeof(bytes), &got), FLMEM_EUNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inner_user),
		cmocka_unit_test(test_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
