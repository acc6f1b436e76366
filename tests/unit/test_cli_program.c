/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "live/live.h"

static void the_script_stands_for_its_interpreter(void **state)
{
	(void)state;
	assert_string_equal(live_program("/usr/bin/python3.11 -u /srv/fl/train.py --lr 1"),
			    "train.py --lr 1");
	assert_string_equal(live_program("/opt/venv/bin/python -W ignore -X dev ./client.py"),
			    "client.py");
	assert_string_equal(
		live_program("python3 -um nvflare.private.fed.app.client.worker_process "
			     "-m /work"),
		"nvflare.private.fed.app.client.worker_process -m /work");
	assert_string_equal(live_program("/bin/bash -e /srv/start.sh"), "start.sh");
}

static void what_has_no_script_keeps_its_name(void **state)
{
	(void)state;
	assert_string_equal(live_program(""), "");
	assert_string_equal(live_program("/usr/sbin/flower-superlink --insecure"),
			    "flower-superlink --insecure");
	assert_string_equal(live_program("/usr/bin/python3"), "python3");
	assert_string_equal(live_program("/usr/bin/python3 -u"), "python3 -u");
	assert_string_equal(live_program("python3 -c import time"), "python3 -c import time");
	assert_string_equal(live_program("/opt/pythonic/tool x"), "tool x");
	assert_string_equal(live_program("pythonista /a/b"), "pythonista /a/b");
	assert_string_equal(live_program("python3 -m"), "python3 -m");
	assert_string_equal(live_program("/"), "/");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_script_stands_for_its_interpreter),
		cmocka_unit_test(what_has_no_script_keeps_its_name),
	};

	return cmocka_run_group_tests_name("cli_program", tests, NULL, NULL);
}
