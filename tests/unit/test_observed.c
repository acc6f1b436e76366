/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/buf.h"
#include "proc/argv_env.h"
#include "settings/observed.h"

static void settings_are_picked_out_once_each_and_redacted(void **state)
{
	static const char bytes[] =
		"PATH=/bin\0MALLOC_ARENA_MAX=2\0MALLOC_=x\0MALLOC_ARENA_MAX=9\0"
		"MALLOC_TRIM_THRESHOLD_=131072\0BARE\0PYTHONMALLOC=malloc\0"
		"PYTHONMALLOCSTATS=1\0TMPDIRS=/"
		"x\0GOGCX=1\0GLIBC_TUNABLES2=a\0NVFLARE=1\0_RJEM_MALLOC_CONF=a:b\0XMALLOC_CONF=no\0"
		"NVFLARE_JOB_AUTH_TOKEN=secret\0LD_PRELOAD=\0LD_PRELOADX=no\0=odd";
	static const char *const expected[][2] = {
		{"MALLOC_ARENA_MAX", "2"},
		{"MALLOC_TRIM_THRESHOLD_", "131072"},
		{"PYTHONMALLOC", "malloc"},
		{"_RJEM_MALLOC_CONF", "a:b"},
		{"NVFLARE_JOB_AUTH_TOKEN", "<redacted>"},
		{"LD_PRELOAD", ""},
	};
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = {0};
	struct flmem_setting_report *rows;
	size_t count;

	(void)state;
	flmem_buf_append(&buf, bytes, sizeof(bytes));
	assert_int_equal(flmem_argv_env_split(&buf, false, &words), 0);
	assert_int_equal(flmem_settings_observe(&words, &rows, &count, NULL), 0);
	assert_int_equal(count, FLMEM_ARRAY_SIZE(expected));
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(rows[i].name, expected[i][0]);
		assert_string_equal(rows[i].value, expected[i][1]);
		assert_string_equal(rows[i].source, "environment");
	}
	flmem_settings_free(rows, count);
}

static void an_endless_environment_is_bounded(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = {0};
	struct flmem_setting_report *rows;
	size_t count;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		flmem_buf_printf(&buf, "NVFLARE_%d=1", i);
		flmem_buf_putc(&buf, '\0');
	}
	assert_int_equal(flmem_argv_env_split(&buf, false, &words), 0);
	assert_int_equal(flmem_settings_observe(&words, &rows, &count, NULL), 0);
	assert_int_equal(count, 256);
	flmem_settings_free(rows, count);
}

/* The value in force is shown; a value that its reader ignores or rejects has a note about that. */
static void values_without_effect_are_noted(void **state)
{
	static const struct {
		const char *word;
		const char *note; /* the note; NULL: none */
	} cases[] = {
		{"MALLOC_ARENA_MAX=2", NULL},
		{"MALLOC_ARENA_MAX=0", "sets no limit"},
		{"MALLOC_ARENA_MAX=", "sets no limit"},
		{"MALLOC_ARENA_MAX=abc", "sets no limit"},
		{"GLIBC_TUNABLES=glibc.malloc.arena_max=2", NULL},
		{"GLIBC_TUNABLES=a=b:glibc.malloc.arena_max=0", "sets no limit"},
		{"GLIBC_TUNABLES=glibc.malloc.tcache_count=0", NULL},
		{"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two", "flare.init()"},
		{"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=2", NULL},
		{"NVFLARE_CUDA_EMPTY_CACHE=1", "treats it as false"},
		{"NVFLARE_CUDA_EMPTY_CACHE=True", NULL},
		{"PYTHONMALLOC=0", NULL},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
		FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = {0};
		struct flmem_setting_report *rows;
		size_t count;

		flmem_buf_append(&buf, cases[i].word, strlen(cases[i].word) + 1);
		assert_int_equal(flmem_argv_env_split(&buf, false, &words), 0);
		assert_int_equal(flmem_settings_observe(&words, &rows, &count, NULL), 0);
		assert_int_equal(count, 1);
		if (!cases[i].note != !rows[0].note ||
		    (rows[0].note && !strstr(rows[0].note, cases[i].note)))
			fail_msg("%s: %s", cases[i].word, rows[0].note ? rows[0].note : "no note");
		flmem_settings_free(rows, count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_are_picked_out_once_each_and_redacted),
		cmocka_unit_test(an_endless_environment_is_bounded),
		cmocka_unit_test(values_without_effect_are_noted),
	};

	return cmocka_run_group_tests_name("observed", tests, NULL, NULL);
}
