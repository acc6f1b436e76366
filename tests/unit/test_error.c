/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/error.h>

#include "base/text/text.h"

static void a_message_carries_its_errno(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_error_set(&err, FLMEM_EPERM, EACCES, "cannot open '%s'", "x"),
			 FLMEM_EPERM);
	assert_int_equal(err.code, FLMEM_EPERM);
	assert_int_equal(err.sys_errno, EACCES);
	assert_string_equal(err.message, "cannot open 'x': Permission denied");
	flmem_error_set(&err, FLMEM_EFAILED, EIO, "cannot read 'x'");
	assert_string_equal(err.message, "cannot read 'x': Input/output error; check the disk and "
					 "the kernel log (dmesg)");
}

static void a_failed_allocation_is_a_failure_with_enomem(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_error_nomem(&err, "cannot follow process %d", 7), FLMEM_EFAILED);
	assert_int_equal(err.code, FLMEM_EFAILED);
	assert_int_equal(err.sys_errno, ENOMEM);
	assert_string_equal(err.message, "cannot follow process 7: Cannot allocate memory");
}

static void context_keeps_the_errno_and_sets_the_code(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	flmem_error_set(&err, FLMEM_ENOPROC, ESRCH, "cannot read it");
	assert_int_equal(flmem_error_prefix(&err, FLMEM_EPARTLY, "process %d", 7), FLMEM_EPARTLY);
	assert_int_equal(err.code, FLMEM_EPARTLY);
	assert_int_equal(err.sys_errno, ESRCH);
	assert_string_equal(err.message, "process 7: cannot read it: No such process");
}

/* A caller that passes NULL gets the returned code and nothing else. */
static void without_an_error_object_the_code_remains(void **state)
{
	(void)state;
	assert_int_equal(flmem_error_set(NULL, FLMEM_EPERM, 0, "refused"), FLMEM_EPERM);
	assert_int_equal(flmem_error_nomem(NULL, "refused"), FLMEM_EFAILED);
	assert_int_equal(flmem_error_prefix(NULL, FLMEM_EUSAGE, "--listen"), FLMEM_EUSAGE);
}

static void long_messages_are_cut_and_never_overflow(void **state)
{
	char text[2 * FLMEM_ERROR_MESSAGE_MAX];
	struct {
		struct flmem_error err;
		char after[8];
	} guarded = {.after = "guard"};

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (size_t length = FLMEM_ERROR_MESSAGE_MAX - 8; length < sizeof(text); length++) {
		int shown = (int)length;

		flmem_error_set(&guarded.err, FLMEM_EFAILED, ENOMEM, "%.*s", shown, text);
		assert_true(strlen(guarded.err.message) < FLMEM_ERROR_MESSAGE_MAX);
		flmem_error_set(&guarded.err, FLMEM_EUSAGE, 0, "the cause");
		assert_int_equal(
			flmem_error_prefix(&guarded.err, FLMEM_EUSAGE, "%.*s", shown, text),
			FLMEM_EUSAGE);
		assert_true(strlen(guarded.err.message) < FLMEM_ERROR_MESSAGE_MAX);
		assert_string_equal(guarded.after, "guard");
	}
}

static char *long_path(char *out, size_t length, const char *end)
{
	memset(out, 'd', length);
	out[0] = '/';
	memcpy(out + length - strlen(end), end, strlen(end) + 1);
	return out;
}

static void assert_ends(const char *text, const char *end)
{
	assert_true(strlen(text) < FLMEM_ERROR_MESSAGE_MAX);
	assert_true(strlen(text) >= FLMEM_ERROR_MESSAGE_MAX - 4);
	assert_string_equal(text + strlen(text) - strlen(end), end);
}

static void a_long_name_loses_its_middle_and_the_reason_stays(void **state)
{
	struct flmem_error err = {0};
	char path[4096], other[4096];

	(void)state;
	long_path(path, 4000, "/model.safetensors");
	flmem_error_set(&err, FLMEM_EPERM, EACCES, "cannot open '%s', its base", path);
	assert_memory_equal(err.message, "cannot open '/ddd", 17);
	assert_ends(err.message, "d/model.safetensors', its base: Permission denied");
	flmem_error_set(&err, FLMEM_EUSAGE, 0, "'%s' ('%s') has no tensor 'w'; name another", path,
			long_path(other, 300, "/it's.npz"));
	assert_non_null(strstr(err.message, "/model.safetensors' ('/dd"));
	assert_ends(err.message, "d/it's.npz') has no tensor 'w'; name another");
	flmem_error_prefix(&err, FLMEM_EUSAGE, "'%s'", path);
	assert_memory_equal(err.message, "'/ddd", 5);
	assert_ends(err.message, "d/it's.npz') has no tensor 'w'; name another");
}

static void characters_are_not_cut_apart(void **state)
{
	struct flmem_error err = {0};
	char path[2000];

	(void)state;
	for (size_t i = 0; i + 2 < sizeof(path); i += 2)
		memcpy(path + i, "\xc3\xa4", 3);
	for (int shown = 1000; shown < 1010; shown++) {
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "%.*s'%s' is not a model", shown - 1000,
				"          ", path);
		assert_true(flmem_text_is_utf8(err.message));
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "%.*s%s", shown - 1000, "          ", path);
		assert_true(flmem_text_is_utf8(err.message));
	}
}

static void a_long_context_leaves_the_cause(void **state)
{
	struct flmem_error err = {0};
	char text[2 * FLMEM_ERROR_MESSAGE_MAX];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	flmem_error_set(&err, FLMEM_EUSAGE, 0, "the cause");
	flmem_error_prefix(&err, FLMEM_EUSAGE, "%s", text);
	assert_memory_equal(err.message, "xxx", 3);
	assert_ends(err.message, "xxx: the cause");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_carries_its_errno),
		cmocka_unit_test(a_failed_allocation_is_a_failure_with_enomem),
		cmocka_unit_test(context_keeps_the_errno_and_sets_the_code),
		cmocka_unit_test(without_an_error_object_the_code_remains),
		cmocka_unit_test(long_messages_are_cut_and_never_overflow),
		cmocka_unit_test(a_long_name_loses_its_middle_and_the_reason_stays),
		cmocka_unit_test(characters_are_not_cut_apart),
		cmocka_unit_test(a_long_context_leaves_the_cause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
