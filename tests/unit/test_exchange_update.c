/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/exchange/server/update.h"

/* The file belongs to the server: a failure to read it is not the client's fault. */
static void errors_of_the_disk_refuse_no_update(void **state)
{
	static const int errors[] = {EMFILE, ENFILE, ENOMEM,	ENOSPC,	  EDQUOT, EIO,
				     ESTALE, EACCES, ETIMEDOUT, ENOTCONN, EPERM};

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		assert_true(
			flmem_update_can_pass(&(const struct flmem_error){.sys_errno = errors[i]}));
	assert_false(flmem_update_can_pass(&(const struct flmem_error){.code = FLMEM_EUSAGE}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_of_the_disk_refuse_no_update),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
