/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/status.h"

static struct flmem_status read_captured(const char *tree, pid_t pid)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int dir = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct flmem_status status = {0};

	assert_true(dir >= 0);
	assert_int_equal(flmem_process_open_at(dir, pid, &process, NULL), 0);
	assert_int_equal(flmem_status_read(&process, &status, NULL), 0);
	return status;
}

static void assert_known(struct flmem_u64 number, uint64_t value)
{
	assert_null(number.unknown);
	assert_true(number.value == value);
}

static void every_field_is_read(void **state)
{
	struct flmem_status s = read_captured(FIXTURES "/proc/plain", 4711);

	(void)state;
	assert_string_equal(s.name, "pt main\\\\thr\\n1");
	assert_int_equal(s.state, 'S');
	assert_known(s.tgid, 4711);
	assert_known(s.parent, 4700);
	assert_known(s.tracer, 4720);
	assert_true(s.uid.known && s.uid.real == 1000 && s.uid.effective == 1001);
	assert_true(s.uid.saved == 1002 && s.uid.fs == 1003);
	assert_true(s.gid.known && s.gid.real == 100 && s.gid.fs == 103);
	assert_known(s.ns_pid, 5);
	assert_known(s.rss_bytes, UINT64_C(1249008) * 1024);
	assert_known(s.anon_bytes, UINT64_C(1048576) * 1024);
	assert_known(s.file_bytes, UINT64_C(200304) * 1024);
	assert_known(s.shmem_bytes, UINT64_C(128) * 1024);
	assert_known(s.swap_bytes, UINT64_C(64) * 1024);
	assert_known(s.threads, 21);
	assert_known(s.seccomp_mode, 2);
	assert_known(s.no_new_privs, 1);
	assert_known(s.cap_effective, 0xa80425fb);
	assert_known(s.sig_blocked, 0x10000);
	assert_known(s.sig_ignored, 0x1001000);
	assert_known(s.sig_caught, UINT64_C(0x8000000100000002));
	assert_known(s.thp_enabled, 1);
	assert_true(s.shadow_stack);
}

static void what_a_zombie_lacks_is_unknown_and_not_zero(void **state)
{
	struct flmem_status s = read_captured(FIXTURES "/proc/plain", 4712);

	(void)state;
	assert_int_equal(s.state, 'Z');
	assert_non_null(s.rss_bytes.unknown);
	assert_non_null(s.anon_bytes.unknown);
	assert_non_null(s.swap_bytes.unknown);
	assert_non_null(s.thp_enabled.unknown);
	assert_known(s.threads, 1);
	assert_false(s.shadow_stack);
}

static void what_an_old_kernel_lacks_is_unknown(void **state)
{
	struct flmem_status s = read_captured(FIXTURES "/proc/old", 812);

	(void)state;
	assert_int_equal(s.state, 'D');
	assert_known(s.rss_bytes, UINT64_C(9984) * 1024);
	assert_known(s.swap_bytes, 0);
	assert_non_null(s.anon_bytes.unknown);
	assert_non_null(s.ns_pid.unknown);
	assert_non_null(s.no_new_privs.unknown);
	assert_known(s.cap_effective, UINT64_C(0x1fffffffff));
}

static void garbled_lines_are_unknown(void **state)
{
	static const char *const values[] = {
		"",	  "x",	    "-5 kB",  "5",
		"5 KB",	  "5 kB x", "0x5 kB", "99999999999999999999 kB",
		"5kB\t ", "5 kB\r", "5\t",    "1 2 kB"};
	char text[128];

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(values); i++) {
		struct flmem_status s;

		snprintf(text, sizeof(text), "State:\tS\nVmRSS:\t%s\nVmSwap:\t7 kB", values[i]);
		assert_int_equal(flmem_status_parse(text, &s, NULL), 0);
		assert_non_null(s.rss_bytes.unknown);
		assert_known(s.swap_bytes, 7 * 1024);
	}
}

static void text_without_a_state_is_refused(void **state)
{
	static const char *const texts[] = {
		"",	     "\n\n", "State", "Name:\tx\n", "State:\t\nTgid:\t1\n", "XState:\tS\n",
		"Stat:\tS\n"};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(texts); i++) {
		struct flmem_status s = {.state = '?'};
		struct flmem_error err = {0};

		assert_int_equal(flmem_status_parse(texts[i], &s, &err), FLMEM_EFAILED);
		assert_int_equal(err.code, FLMEM_EFAILED);
		assert_int_equal(s.state, '?');
	}
}

static void endless_lists_and_names_are_cut(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	struct flmem_status s;

	(void)state;
	flmem_buf_puts(&buf, "State:\tR\nName:\t");
	for (int i = 0; i < 1000; i++)
		flmem_buf_putc(&buf, 'n');
	flmem_buf_puts(&buf, "\nNSpid:");
	for (int i = 0; i < 1000; i++)
		flmem_buf_printf(&buf, "\t%d", i);
	assert_int_equal(flmem_status_parse(buf.data, &s, NULL), 0);
	assert_int_equal(strlen(s.name), FLMEM_STATUS_NAME_MAX - 1);
	assert_known(s.ns_pid, 32);
}

/* The rest of a longer text is unknown: a mask in it would read as none. */
static void a_text_that_was_cut_is_refused(void **state)
{
	static char text[65536];
	FLMEM_AUTO_CLOSE int fd = memfd_create("status", MFD_CLOEXEC);
	struct flmem_status status;
	int length = snprintf(text, sizeof(text), "Name:\tx\nState:\tS (sleeping)\nTgid:\t1\n");

	(void)state;
	assert_true(fd >= 0);
	memset(text + length, '\n', sizeof(text) - (size_t)length);
	assert_int_equal(write(fd, text, (size_t)length), length);
	assert_int_equal(flmem_status_read_open(fd, &status), 0);
	assert_int_equal(pwrite(fd, text, sizeof(text), 0), sizeof(text));
	assert_int_equal(flmem_status_read_open(fd, &status), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_is_read),
		cmocka_unit_test(a_text_that_was_cut_is_refused),
		cmocka_unit_test(what_a_zombie_lacks_is_unknown_and_not_zero),
		cmocka_unit_test(what_an_old_kernel_lacks_is_unknown),
		cmocka_unit_test(garbled_lines_are_unknown),
		cmocka_unit_test(text_without_a_state_is_refused),
		cmocka_unit_test(endless_lists_and_names_are_cut),
	};

	return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
