/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which unwind rules are remembered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "preload/sampler/sampler.h"
#include "preload/sampler/stack.h"

struct sampler_control sampler_control;
struct sampler_tables sampler_tables;
__thread struct sampler_thread sampler_thread;
static struct sampler_scratch scratch;
static unsigned searches;

/* Replaces the search for modules: it finds code nowhere, which is remembered, too. */
uint32_t sampler_module_find(struct sampler_scratch *unused, uintptr_t address)
{
	(void)unused;
	(void)address;
	searches++;
	return FLMEM_PROFILE_NONE;
}

static unsigned find_all(const uintptr_t *addresses, size_t count)
{
	searches = 0;
	for (size_t i = 0; i < count; i++)
		assert_int_equal(sampler_rule_find(&scratch, addresses[i]).how,
				 SAMPLER_UNWIND_UNKNOWN);
	return searches;
}

/* A search takes about 20 system calls: addresses must not displace each other at once. */
static void test_addresses_that_share_their_places(void **state)
{
	uintptr_t addresses[SAMPLER_WAYS + 1], address = SAMPLER_PAGE;

	(void)state;
	for (size_t count = 0; count <= SAMPLER_WAYS; address++)
		if (sampler_hash(address, 2) % SAMPLER_RULES / SAMPLER_WAYS == 7)
			addresses[count++] = address;
	for (unsigned closed = 0; closed < 2; closed++) {
		assert_int_equal(find_all(addresses, SAMPLER_WAYS), SAMPLER_WAYS);
		assert_int_equal(find_all(addresses, SAMPLER_WAYS), 0);
		/* One more address takes the place of another one. */
		assert_int_equal(find_all(&addresses[SAMPLER_WAYS], 1), 1);
		assert_int_equal(find_all(&addresses[SAMPLER_WAYS], 1), 0);
		sampler_control.stale_modules++; /* a library has been closed */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_that_share_their_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
