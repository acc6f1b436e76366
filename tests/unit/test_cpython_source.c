/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtimes/cpython_source.h"

static const unsigned char cookie[FLMEM_CPYTHON_COOKIE + 1] = "c\"o\\o\n\xff\x01";

/* Foreign bytes: a length and a text behind the cookie. */
static size_t put_answer(unsigned char *bytes, uint32_t length, const char *text)
{
	memcpy(bytes, cookie, FLMEM_CPYTHON_COOKIE);
	memcpy(bytes + FLMEM_CPYTHON_COOKIE, &length, sizeof(length));
	memset(bytes + FLMEM_CPYTHON_COOKIE + 4, 0, 8);
	memcpy(bytes + FLMEM_CPYTHON_ANSWER_HEAD, text, strlen(text));
	return FLMEM_CPYTHON_ANSWER_HEAD + strlen(text);
}

static void an_answer_is_taken_apart(void **state)
{
	struct flmem_cpython_answer answer;
	unsigned char bytes[256];
	size_t length = put_answer(bytes, 8, "ok\n1234\nrest");

	(void)state;
	assert_true(flmem_cpython_answer_parse(bytes, length, cookie, &answer));
	assert_null(answer.exception);
	assert_string_equal(answer.output, "1234\n");
	assert_false(answer.cut);
	flmem_cpython_answer_clear(&answer);
	length = put_answer(bytes, 31, "raised TypeError: no (line 2)\nx");
	assert_true(flmem_cpython_answer_parse(bytes, length, cookie, &answer));
	assert_string_equal(answer.exception, "TypeError: no (line 2)");
	assert_string_equal(answer.output, "x");
	flmem_cpython_answer_clear(&answer);
}

static void what_is_no_answer_is_none(void **state)
{
	struct flmem_cpython_answer answer;
	unsigned char bytes[256];
	size_t length = put_answer(bytes, UINT32_MAX, "ok\n1234");

	(void)state;
	assert_true(flmem_cpython_answer_parse(bytes, length, cookie, &answer));
	assert_true(answer.cut);
	assert_string_equal(answer.output, "1234");
	flmem_cpython_answer_clear(&answer);
	assert_false(flmem_cpython_answer_parse(bytes, 11, cookie, &answer));
	bytes[3] ^= 1;
	assert_false(flmem_cpython_answer_parse(bytes, length, cookie, &answer));
}

/* Runs the wrapped code in a real Python, which writes the answer into a file instead of memory. */
static void run_in_python(const struct flmem_cpython_code *code, unsigned char *bytes)
{
	FLMEM_AUTO_BUF struct flmem_buf source = FLMEM_BUF_INIT;
	size_t address_at;
	int file = memfd_create("answer", 0), status;
	char script[] = "/tmp/flmem-source-XXXXXX";
	FLMEM_AUTO_CLOSE int fd = mkstemp(script);
	char *place;
	pid_t child;

	assert_true(file >= 0 && fd >= 0);
	assert_int_equal(ftruncate(file, FLMEM_CPYTHON_ANSWER_MAX), 0);
	flmem_cpython_source_wrap(code, cookie, FLMEM_CPYTHON_OUTPUT_MAX, &source, &address_at);
	assert_false(source.failed);
	assert_memory_equal(source.data + address_at - 2, "0x0000000000000000", 18);
	assert_int_equal(source.length, strlen(source.data) + 1);
	/* Offset 0 of the file stands for the address. */
	place = strstr(source.data, "/proc/self/mem");
	assert_non_null(place);
	memcpy(place, "/proc/self/fd/", 14);
	dprintf(fd, "%.*s", (int)(place + 13 - source.data), source.data);
	dprintf(fd, "/%d%s\nassert 'o' not in vars() and 'S' not in vars()\n", file, place + 14);
	child = fork();
	if (child == 0) {
		execl("/usr/bin/python3", "python3", script, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	unlink(script);
	assert_int_equal(status, 0);
	assert_int_equal(pread(file, bytes, FLMEM_CPYTHON_ANSWER_MAX, 0), FLMEM_CPYTHON_ANSWER_MAX);
	close(file);
}

static void the_source_is_python_and_answers(void **state)
{
	static const char text[] =
		"print('\"', '\\\\', '\xc3\xa4')\nprint(__file__)\nraise KeyError(1)";
	const struct flmem_cpython_code code = {"odd \" name\\", text, sizeof(text) - 1};
	struct flmem_cpython_answer answer;
	unsigned char bytes[FLMEM_CPYTHON_ANSWER_MAX];

	(void)state;
	if (access("/usr/bin/python3", X_OK)) {
		print_message("SKIP: there is no /usr/bin/python3\n");
		skip();
	}
	run_in_python(&code, bytes);
	assert_true(flmem_cpython_answer_parse(bytes, sizeof(bytes), cookie, &answer));
	assert_true(answer.took_ns > 0);
	assert_string_equal(answer.exception, "KeyError: 1 (line 3)");
	assert_string_equal(answer.output, "\" \\ \xc3\xa4\nodd \" name\\\n");
	flmem_cpython_answer_clear(&answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_taken_apart),
		cmocka_unit_test(what_is_no_answer_is_none),
		cmocka_unit_test(the_source_is_python_and_answers),
	};

	return cmocka_run_group_tests_name("cpython_source", tests, NULL, NULL);
}
