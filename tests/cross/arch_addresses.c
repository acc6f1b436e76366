/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which values the sampler takes for an address, a return address and a page on aarch64. */
#include <stdio.h>

#include "preload/sampler/sampler.h"

#define TOP	  UINT64_C(0xfffff7ff1230) /* the stack of a program, above 2^47 */
#define SIGNATURE UINT64_C(0x0055000000000000)

static int failed;

static void check_truth(int truth, const char *text)
{
	if (!truth)
		fprintf(stderr, "not %s\n", text);
	failed |= !truth;
}

#define CHECK(truth) check_truth(truth, #truth)

int main(void)
{
	const long page = sysconf(_SC_PAGESIZE);

	CHECK(sampler_can_be(TOP, 64));
	CHECK(sampler_can_be(UINT64_C(0xaaaae0001000), 64));
	CHECK(!sampler_can_be(UINT64_C(1) << 48, 64));
	CHECK(!sampler_can_be(TOP | SIGNATURE, 64));
	CHECK(sampler_return_address(TOP | SIGNATURE) == TOP);
	CHECK(sampler_return_address(TOP) == TOP);
	CHECK(sampler_page_size() == (uintptr_t)page);
	CHECK(sampler_page_of(TOP) == TOP / (uintptr_t)page * (uintptr_t)page);
	/* Children clear it by whole pages, of any kernel's size. */
	CHECK(_Alignof(struct sampler_control) == 65536 && sizeof(sampler_control) % 65536 == 0);
	return failed;
}
