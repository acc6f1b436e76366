/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the search for variables that functions of allocators use, in their machine code for
 * aarch64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "allocators/arm_code.h"
#include "base/cleanup.h"

#define WORDS 16

struct row {
	const char *name;
	uint64_t at;
	enum flmem_arm_use use;
	uint64_t expected; /* 0: no variable is found */
	uint32_t code[WORDS];
};

/* Rows marked so are from Debian 12's gperftools 2.10 and mimalloc 2.0.9. */
static const struct row rows[] = {
	{"MallocExtension::instance()",
	 0x1b2b0,
	 FLMEM_ARM_LOAD,
	 0x1e6150,
	 {0xa9be7bfd, 0x910003fd, 0xf9000bf3, 0xf0000e53, 0x91052273, 0xf9400660, 0xb4000080}},
	{"tc_free()",
	 0x1d300,
	 FLMEM_ARM_LOAD,
	 0x1e5f48,
	 {0x90000e41, 0xaa0003e2, 0xf947a421, 0xb5000681}},
	{"MallocHook_AddNewHook()",
	 0x17e74,
	 FLMEM_ARM_ARGUMENT,
	 0x37830,
	 {0xa9be7bfd, 0xaa0003e2, 0xb0000041, 0x910003fd, 0x91298021, 0xf9000bf3, 0xaa0003f3,
	  0x52800140, 0x97ffd557, 0xaa1303e1, 0x90000100, 0x9120c000, 0x97ffd57f}},
	{"mi_register_deferred_free()",
	 0xf964,
	 FLMEM_ARM_STORE,
	 0x6db88,
	 {0xd00002e2, 0xf905c440, 0x912e2042, 0x91002042, 0xc89ffc41, 0xd65f03c0}},
	{"the same behind bti c and paciasp",
	 0xf95c,
	 FLMEM_ARM_STORE,
	 0x6db88,
	 {0xd503245f, 0xd503233f, 0xd00002e2, 0xf905c440, 0xd65f03c0}},
	{"another argument is stored",
	 0xf964,
	 FLMEM_ARM_STORE,
	 0,
	 {0xd00002e2, 0xf905c441, 0xd65f03c0, 0xf905c440}},
	{"a call changes the base", /* adrp x2; bl; ldr x0, [x2] */
	 0x1000,
	 FLMEM_ARM_LOAD,
	 0,
	 {0xd00002e2, 0x97ffd557, 0xf9400040}},
	{"a call keeps the base", /* adrp x19; bl; ldr x0, [x19] */
	 0x1000,
	 FLMEM_ARM_LOAD,
	 0x5f000,
	 {0xd00002f3, 0x97ffd557, 0xf9400260}},
	{"another instruction changes the base", /* adrp x2; sub x2, x2, x1; ldr x0, [x2] */
	 0x1000,
	 FLMEM_ARM_LOAD,
	 0,
	 {0xd00002e2, 0xcb010042, 0xf9400040}},
	{"a load changes the base", /* adrp x2; ldp x3, x2, [sp]; ldr x0, [x2] */
	 0x1000,
	 FLMEM_ARM_LOAD,
	 0,
	 {0xd00002e2, 0xa9400be3, 0xf9400040}},
	{"behind a jump", /* cbz x0; adrp x2; ldr x0, [x2] */
	 0x1000,
	 FLMEM_ARM_LOAD,
	 0,
	 {0xb4000080, 0xd00002e2, 0xf9400040}},
	{"behind the end", /* retaa; adrp x2; ldr x0, [x2] */
	 0x1000,
	 FLMEM_ARM_LOAD,
	 0,
	 {0xd65f0bff, 0xd00002e2, 0xf9400040}},
	{"passed by a jump", /* adrp x0, backwards; add x0, x0, #1, lsl #12; b */
	 0x5000,
	 FLMEM_ARM_ARGUMENT,
	 0x5000,
	 {0xf0ffffe0, 0x91400400, 0x14000010}},
	{"adr", /* adr x3, -4; ldr x0, [x3, #8] */
	 0x5000,
	 FLMEM_ARM_LOAD,
	 0x5004,
	 {0x10ffffe3, 0xf9400460}},
};

static void variables_are_found_in_code(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		unsigned char code[sizeof(row->code)];
		uint64_t address = 0;
		bool found;

		memcpy(code, row->code, sizeof(code));
		found = flmem_arm_code_variable(code, sizeof(code), row->at, row->use, &address);
		if (found != (row->expected != 0) || (found && address != row->expected))
			fail_msg("%s: %d, 0x%llx", row->name, found, (unsigned long long)address);
	}
}

/* No instruction after the given bytes may be decoded. */
static void code_ends_where_it_was_read(void **state)
{
	const struct row *row = &rows[0];
	unsigned char code[sizeof(row->code)];
	uint64_t address;

	(void)state;
	memcpy(code, row->code, sizeof(code));
	assert_false(flmem_arm_code_variable(code, 23, row->at, row->use, &address));
	assert_true(flmem_arm_code_variable(code, 24, row->at, row->use, &address));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_are_found_in_code),
		cmocka_unit_test(code_ends_where_it_was_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
