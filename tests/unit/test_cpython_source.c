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

/* Makes foreign bytes: a length and a text after the cookie. */
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
	size_t length;

	(void)state;
	memset(bytes, 'x', sizeof(bytes)); /* bytes after it are not a part of it */
	length = put_answer(bytes, UINT32_MAX, "ok\n1234");
	assert_true(flmem_cpython_answer_parse(bytes, length, cookie, &answer));
	assert_true(answer.cut);
	assert_string_equal(answer.output, "1234");
	flmem_cpython_answer_clear(&answer);
	assert_false(flmem_cpython_answer_parse(bytes, 11, cookie, &answer));
	bytes[3] ^= 1;
	assert_false(flmem_cpython_answer_parse(bytes, length, cookie, &answer));
}

static void skip_without_python(void)
{
	if (access("/usr/bin/python3", X_OK)) {
		print_message("SKIP: there is no /usr/bin/python3\n");
		skip();
	}
}

/*
 * Runs the wrapped code in a real Python, after a line of the program, and writes the answer into a
 * file instead of memory.
 */
static void run_in_python(const char *before, const struct flmem_cpython_code *code,
			  unsigned char *bytes)
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
	/* Offset 0 of the file replaces the address. */
	place = strstr(source.data, "/proc/self/mem");
	assert_non_null(place);
	memcpy(place, "/proc/self/fd/", 14);
	dprintf(fd, "%s\n%.*s", before, (int)(place + 13 - source.data), source.data);
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

/*
 * Runs a source as the main thread would, again and again, with a signal at one line after the
 * other whose handler raises. Each time the code must run once, in another thread, and the handler
 * must be called again once this thread is back here. The kernel counts the threads: it knows one
 * before it first runs.
 */
static const char interrupting[] =
	"import _thread,os,signal,sys,time\n"
	"text=open(sys.argv[1]).read()\n"
	"class Interrupt(Exception):pass\n"
	"calls=[]\n"
	"def handler(number,frame):\n"
	"    calls.append(number)\n"
	"    raise Interrupt\n"
	"signal.signal(signal.SIGUSR1,handler)\n"
	"def trace(frame,event,unused):\n"
	"    if frame.f_globals.get('W') and event=='line' and frame.f_lineno>1:\n"
	"        global left\n"
	"        left-=1\n"
	"        if not left:signal.raise_signal(signal.SIGUSR1)\n"
	"    return trace\n"
	"def run(line):\n"
	"    global left\n"
	"    left,sys.ran,again=line,[],0\n"
	"    del calls[:]\n"
	"    sys.settrace(trace)\n"
	"    exec(compile(text,'<string>','exec'),{})\n"
	"    sys.settrace(None)\n"
	"    interrupted=len(calls)\n"
	"    end=time.monotonic()+20\n"
	"    while time.monotonic()<end and (not sys.ran or len(os.listdir('/proc/self/task'))>1 "
	"or len(calls)<2*interrupted):\n"
	"        try:time.sleep(.001)\n"
	"        except Interrupt:again+=1\n"
	"    assert len(sys.ran)==1 and sys.ran[0]!=_thread.get_ident(),(line,sys.ran)\n"
	"    assert again==interrupted,(line,again,interrupted)\n"
	"    return interrupted\n"
	"lines=0\n"
	"while run(lines+1):lines+=1\n"
	"assert lines>=5,lines\n"
	"def profile(frame,event,function):\n"
	"    if event=='c_return' and function is _thread.start_new_thread:\n"
	"        sys.setprofile(None)\n"
	"        signal.raise_signal(signal.SIGUSR1)\n"
	"sys.setprofile(profile)\n"
	"assert run(-1)==1\n";

static void write_file(char *path, const char *text)
{
	FLMEM_AUTO_CLOSE int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void a_signal_in_the_main_thread_is_not_lost(void **state)
{
	static const char text[] = "import sys,_thread\nsys.ran.append(_thread.get_ident())";
	const struct flmem_cpython_code code = {"run", text, sizeof(text) - 1};
	FLMEM_AUTO_BUF struct flmem_buf source = FLMEM_BUF_INIT;
	char driver[] = "/tmp/flmem-driver-XXXXXX", file[] = "/tmp/flmem-start-XXXXXX";
	size_t address_at;
	char *place;
	int status;
	pid_t child;

	(void)state;
	skip_without_python();
	flmem_cpython_source_wrap_start(&code, cookie, FLMEM_CPYTHON_OUTPUT_MAX, &source,
					&address_at);
	assert_false(source.failed);
	place = strstr(source.data, "/proc/self/mem");
	assert_non_null(place);
	memcpy(place, "/dev/null     ", 9);
	memmove(place + 9, place + 14, strlen(place + 14) + 1);
	write_file(driver, interrupting);
	write_file(file, source.data);
	child = fork();
	if (child == 0) {
		execl("/usr/bin/python3", "python3", driver, file, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	unlink(driver);
	unlink(file);
	assert_int_equal(status, 0);
}

static void the_source_is_python_and_answers(void **state)
{
	static const char text[] =
		"print('\"', '\\\\', '\xc3\xa4')\nprint(__file__)\nraise KeyError(1)";
	const struct flmem_cpython_code code = {"odd \" name\\", text, sizeof(text) - 1};
	struct flmem_cpython_answer answer;
	unsigned char bytes[FLMEM_CPYTHON_ANSWER_MAX];

	(void)state;
	skip_without_python();
	run_in_python("", &code, bytes);
	assert_true(flmem_cpython_answer_parse(bytes, sizeof(bytes), cookie, &answer));
	assert_true(answer.took_ns > 0);
	assert_string_equal(answer.exception, "KeyError: 1 (line 3)");
	assert_string_equal(answer.output, "\" \\ \xc3\xa4\nodd \" name\\\n");
	flmem_cpython_answer_clear(&answer);
}

/* Functions of the program with these names would end it with an error. */
static void functions_of_the_program_are_not_called(void **state)
{
	static const char *const programs[] = {
		"def exec(*a):import os;os._exit(2)",
		"__builtins__=__builtins__.__dict__\ndef exec(*a):import os;os._exit(3)",
		"import builtins,os\nbuiltins.print=lambda *a,**k:os._exit(4)",
		"import os\ne=os._exit\nos.open=os.pwrite=os.close=lambda *a:e(5)",
	};
	const struct flmem_cpython_code code = {"own", "print(1,2,end='.')\nprint('3')", 29};
	struct flmem_cpython_answer answer;

	(void)state;
	skip_without_python();
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		unsigned char bytes[FLMEM_CPYTHON_ANSWER_MAX];

		run_in_python(programs[i], &code, bytes);
		assert_true(flmem_cpython_answer_parse(bytes, sizeof(bytes), cookie, &answer));
		assert_null(answer.exception);
		assert_string_equal(answer.output, "1 2.3\n");
		flmem_cpython_answer_clear(&answer);
	}
}

/* There is then no answer, and no exception that the program would report. */
static void a_replaced_exec_is_not_called(void **state)
{
	static const char *const programs[] = {
		"import builtins,os\nbuiltins.exec=lambda *a:os._exit(6)",
		"__builtins__=None",
		"__builtins__=type('own',(),{'exec':lambda *a:None})()",
	};
	const struct flmem_cpython_code code = {"own", "print(1)", 8};
	struct flmem_cpython_answer answer;

	(void)state;
	skip_without_python();
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		unsigned char bytes[FLMEM_CPYTHON_ANSWER_MAX];

		run_in_python(programs[i], &code, bytes);
		assert_false(flmem_cpython_answer_parse(bytes, sizeof(bytes), cookie, &answer));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_taken_apart),
		cmocka_unit_test(what_is_no_answer_is_none),
		cmocka_unit_test(the_source_is_python_and_answers),
		cmocka_unit_test(functions_of_the_program_are_not_called),
		cmocka_unit_test(a_replaced_exec_is_not_called),
		cmocka_unit_test(a_signal_in_the_main_thread_is_not_lost),
	};

	return cmocka_run_group_tests_name("cpython_source", tests, NULL, NULL);
}
