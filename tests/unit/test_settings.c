/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/settings.h>

#include "base/cleanup.h"
#include "base/text/quote.h"
#include "base/text/version_number.h"
#include "runtimes/gpu_devices.h"
#include "settings/preload.h"
#include "settings/table.h"

#define AUTO_SETTINGS FLMEM_AUTO(flmem_settings_clear)

static const struct flmem_setting *find(const struct flmem_settings *settings, const char *name)
{
	for (size_t i = 0; i < settings->count; i++)
		if (strcmp(settings->rows[i].name, name) == 0)
			return &settings->rows[i];
	return NULL;
}

static void make(const struct flmem_settings_request *request, struct flmem_settings *settings)
{
	struct flmem_error err = {0};

	if (flmem_settings_make(request, settings, &err))
		fail_msg("%s", err.message);
}

/* No name occurs twice for one set of circumstances, and every text for the reader is present. */
static void the_table_is_sound(void **state)
{
	const struct flmem_setting_row *a, *b;

	(void)state;
	for (size_t i = 0; (a = flmem_setting_row_at(i)); i++) {
		assert_non_null(a->reason);
		assert_non_null(a->source);
		assert_true(!a->valid == !a->invalid);
		for (size_t k = i + 1; (b = flmem_setting_row_at(k)); k++)
			if (strcmp(a->name, b->name) == 0 && (a->roles & b->roles))
				assert_int_not_equal(a->needs, b->needs);
	}
}

static void roles_have_their_values(void **state)
{
	static const struct {
		enum flmem_role role;
		bool high;
		const char *arenas;
	} rows[] = {
		{FLMEM_ROLE_SERVER, false, "4"},
		{FLMEM_ROLE_SERVER, true, "8"},
		{FLMEM_ROLE_CLIENT, false, "2"},
		{FLMEM_ROLE_TRAINER, false, "2"},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_settings_request request = {.role = rows[i].role,
							 .high_parallelism = rows[i].high};
		AUTO_SETTINGS struct flmem_settings settings = {0};

		make(&request, &settings);
		assert_string_equal(find(&settings, "MALLOC_ARENA_MAX")->value, rows[i].arenas);
	}
}

static void a_missing_gpu_is_a_reason_of_its_settings_alone(void **state)
{
	struct flmem_settings_request request = {
		.role = FLMEM_ROLE_CLIENT, .gpu_missing = "none here", .framework_version = "2.9"};
	AUTO_SETTINGS struct flmem_settings without = {0}, of_server = {0};

	(void)state;
	make(&request, &without);
	assert_string_equal(find(&without, "cuda_empty_cache")->reason, "none here");
	assert_null(find(&without, "cuda_empty_cache")->value);
	/* NVFlare 2.9 does not read the variable, with a GPU either. */
	assert_non_null(strstr(find(&without, "NVFLARE_CUDA_EMPTY_CACHE")->reason, "2.7.2 to 2.8"));
	assert_non_null(find(&without, "client_memory_gc_rounds")->value);
	request.role = FLMEM_ROLE_SERVER;
	make(&request, &of_server);
	assert_null(find(&of_server, "cuda_empty_cache"));
}

static void other_roles_have_no_settings(void **state)
{
	struct flmem_settings settings = {.count = 77};
	struct flmem_settings_request request = {0};

	(void)state;
	assert_int_equal(flmem_settings_make(&request, &settings, NULL), FLMEM_EUSAGE);
	request.role = FLMEM_ROLE_SERVER_JOB;
	assert_int_equal(flmem_settings_make(&request, &settings, NULL), FLMEM_EUSAGE);
	assert_int_equal(settings.count, 77);
}

/* glibc treats such a value as absent, so the role's is set; the note describes the user's. */
static void a_value_that_its_reader_ignores_counts_as_not_set(void **state)
{
	static const char *const ignored[] = {"0", "abc", "-1", "2x", "", "08"};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(ignored); i++) {
		char word[64];
		char *const environment[] = {word, NULL};
		struct flmem_settings_request request = {.role = FLMEM_ROLE_CLIENT,
							 .environment = environment};
		AUTO_SETTINGS struct flmem_settings settings = {0};
		const struct flmem_setting *arenas;

		snprintf(word, sizeof(word), "MALLOC_ARENA_MAX=%s", ignored[i]);
		make(&request, &settings);
		arenas = find(&settings, "MALLOC_ARENA_MAX");
		assert_string_equal(arenas->value, "2");
		assert_int_equal(arenas->origin, FLMEM_SETTING_ROLE);
		assert_int_equal(arenas->note != NULL, *ignored[i] != '\0');
	}
}

static void a_tunable_without_effect_leaves_the_variable(void **state)
{
	static char *const environment[] = {
		(char *)"GLIBC_TUNABLES=glibc.malloc.arena_max=0:glibc.malloc.tcache_count=0",
		NULL};
	struct flmem_settings_request request = {.role = FLMEM_ROLE_CLIENT,
						 .environment = environment};
	AUTO_SETTINGS struct flmem_settings settings = {0};

	(void)state;
	make(&request, &settings);
	assert_string_equal(find(&settings, "MALLOC_ARENA_MAX")->value, "2");
}

/* With some values (-1) glibc sets no limit, and does not read the variable either. */
static void a_tunable_without_a_bound_is_replaced(void **state)
{
	static char *const environment[] = {
		(char *)"GLIBC_TUNABLES=glibc.malloc.arena_max=-1:glibc.malloc.tcache_count=0",
		NULL};
	struct flmem_settings_request request = {.role = FLMEM_ROLE_CLIENT,
						 .environment = environment};
	AUTO_SETTINGS struct flmem_settings settings = {0};
	const struct flmem_setting *arenas;

	(void)state;
	make(&request, &settings);
	arenas = find(&settings, "GLIBC_TUNABLES");
	assert_non_null(arenas);
	assert_string_equal(arenas->value, "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=2");
	assert_int_equal(arenas->origin, FLMEM_SETTING_ROLE);
	assert_non_null(arenas->note);
}

static void a_decay_that_never_comes_is_noted(void **state)
{
	(void)state;
	assert_non_null(flmem_setting_problem("MALLOC_CONF", "dirty_decay_ms:9,dirty_decay_ms:-1"));
	assert_null(flmem_setting_problem("MALLOC_CONF", "dirty_decay_ms:-1,dirty_decay_ms:0"));
	assert_null(flmem_setting_problem("MALLOC_CONF", "muzzy_decay_ms:-1"));
}

static void an_interval_that_fails_is_kept_and_noted(void **state)
{
	static char *const environment[] = {(char *)"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two", NULL};
	struct flmem_settings_request request = {.role = FLMEM_ROLE_CLIENT,
						 .environment = environment};
	AUTO_SETTINGS struct flmem_settings settings = {0};

	(void)state;
	make(&request, &settings);
	assert_int_equal(find(&settings, "NVFLARE_CUDA_EMPTY_CACHE") == NULL, true);
	assert_string_equal(find(&settings, "NVFLARE_CLIENT_MEMORY_GC_ROUNDS")->value, "two");
	assert_non_null(strstr(find(&settings, "NVFLARE_CLIENT_MEMORY_GC_ROUNDS")->note, "fails"));
}

static void a_kept_value_that_does_nothing_is_noted(void **state)
{
	static char *const environment[] = {(char *)"MALLOC_ARENA_MAX=7",
					    (char *)"NVFLARE_CUDA_EMPTY_CACHE=1",
					    (char *)"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=3", NULL};
	struct flmem_settings_request request = {
		.role = FLMEM_ROLE_CLIENT, .gpu = true, .environment = environment};
	AUTO_SETTINGS struct flmem_settings settings = {0};

	(void)state;
	make(&request, &settings);
	assert_int_equal(find(&settings, "MALLOC_ARENA_MAX")->origin, FLMEM_SETTING_USER);
	assert_null(find(&settings, "MALLOC_ARENA_MAX")->note);
	assert_non_null(find(&settings, "NVFLARE_CUDA_EMPTY_CACHE")->note);
	assert_non_null(strstr(find(&settings, "NVFLARE_CLIENT_MEMORY_GC_ROUNDS")->note,
			       "instead of the job's own value"));
	assert_string_equal(find(&settings, "NVFLARE_CLIENT_MEMORY_GC_ROUNDS")->value, "3");
}

/* An external trainer takes the variable instead of the interval that the job has tuned. */
static void an_interval_is_set_only_where_the_job_sets_none(void **state)
{
	static const struct {
		enum flmem_settings_job job;
		const char *user;  /* value of the user; NULL: not set */
		const char *value; /* expected value; NULL: left out */
		bool force;
		/* Text in the reason of the omission, or in the note; NULL: none. */
		const char *says;
	} rows[] = {
		{FLMEM_SETTINGS_JOB_UNKNOWN, NULL, NULL, false, "--job"},
		{FLMEM_SETTINGS_JOB_SET, NULL, NULL, false, "sets its own"},
		{FLMEM_SETTINGS_JOB_UNREAD, NULL, NULL, false, "no external trainer"},
		{FLMEM_SETTINGS_JOB_LEFT, NULL, "1", false, NULL},
		{FLMEM_SETTINGS_JOB_UNKNOWN, "3", "3", false, "instead of the job's"},
		{FLMEM_SETTINGS_JOB_UNKNOWN, "3", "3", true, "instead of the job's"},
		{FLMEM_SETTINGS_JOB_SET, "3", "3", true, "instead of the job's"},
		{FLMEM_SETTINGS_JOB_LEFT, "3", "3", false, NULL},
		{FLMEM_SETTINGS_JOB_LEFT, "3", "1", true, NULL},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		char word[64];
		char *const environment[] = {rows[i].user ? word : NULL, NULL};
		struct flmem_settings_request request = {.role = FLMEM_ROLE_TRAINER,
							 .gpu = true,
							 .job = rows[i].job,
							 .force = rows[i].force,
							 .environment = environment};
		AUTO_SETTINGS struct flmem_settings settings = {0};
		const struct flmem_setting *one;
		const char *text;

		snprintf(word, sizeof(word), "NVFLARE_CLIENT_MEMORY_GC_ROUNDS=%s",
			 rows[i].user ? rows[i].user : "");
		make(&request, &settings);
		one = find(&settings, "NVFLARE_CLIENT_MEMORY_GC_ROUNDS");
		text = one->origin == FLMEM_SETTING_OMITTED ? one->reason : one->note;
		if (!one->value != !rows[i].value ||
		    (one->value && strcmp(one->value, rows[i].value) != 0) ||
		    !text != !rows[i].says || (text && !strstr(text, rows[i].says)))
			fail_msg("row %zu: %s, %s", i, one->value, text);
		/* The same cleanup empties the cache. */
		assert_int_equal(find(&settings, "NVFLARE_CUDA_EMPTY_CACHE")->value != NULL,
				 rows[i].job == FLMEM_SETTINGS_JOB_LEFT);
	}
}

static void a_name_that_only_begins_alike_is_not_the_users(void **state)
{
	static char *const environment[] = {(char *)"MALLOC_ARENA_MAXIMUM=9",
					    (char *)"MALLOC_ARENA_MA=9", (char *)"MALLOC_ARENA_MAX",
					    NULL};
	struct flmem_settings_request request = {.role = FLMEM_ROLE_CLIENT,
						 .environment = environment};
	AUTO_SETTINGS struct flmem_settings settings = {0};

	(void)state;
	make(&request, &settings);
	assert_string_equal(find(&settings, "MALLOC_ARENA_MAX")->value, "2");
}

static void preloads_are_joined(void **state)
{
	static const struct {
		const char *mine;
		const char *joined;
		bool noted;
	} rows[] = {
		{"LD_PRELOAD=", "/j/libjemalloc.so.2", false},
		{"LD_PRELOAD=/a.so", "/a.so:/j/libjemalloc.so.2", false},
		{"LD_PRELOAD=/a.so /b.so", "/a.so /b.so:/j/libjemalloc.so.2", false},
		{"LD_PRELOAD=/other/libjemalloc.so.1:/a.so", "/other/libjemalloc.so.1:/a.so",
		 false},
		{"LD_PRELOAD=/a.so libjemalloc.so.2", "/a.so libjemalloc.so.2", false},
		{"LD_PRELOAD=/libjemalloc.d/a.so", "/libjemalloc.d/a.so:/j/libjemalloc.so.2",
		 false},
		{"LD_PRELOAD=/x/libtcmalloc.so.4", "/x/libtcmalloc.so.4:/j/libjemalloc.so.2", true},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		char *const environment[] = {(char *)(uintptr_t)rows[i].mine, NULL};
		struct flmem_settings_request request = {
			.role = FLMEM_ROLE_CLIENT,
			.allocator = FLMEM_SETTINGS_ALLOCATOR_JEMALLOC,
			.jemalloc_library = "/j/libjemalloc.so.2",
			.elsewhere = true,
			.force = i % 2,
			.environment = environment,
		};
		AUTO_SETTINGS struct flmem_settings settings = {0};

		make(&request, &settings);
		assert_string_equal(find(&settings, "LD_PRELOAD")->value, rows[i].joined);
		assert_int_equal(find(&settings, "LD_PRELOAD")->note != NULL, rows[i].noted);
		assert_int_equal(settings.allocator, FLMEM_ALLOCATOR_JEMALLOC);
		assert_int_equal(find(&settings, "MALLOC_ARENA_MAX")->origin,
				 FLMEM_SETTING_OMITTED);
	}
}

static void releases_are_compared_by_the_parts_they_have(void **state)
{
	static const struct {
		const char *a, *b;
		int order;
	} rows[] = {
		{"2.8", "2.9.0", -1}, {"2.8.1", "2.8.0", 1}, {"2.10", "2.9", 1},
		{"2.8", "2.8.7", 0},  {"3", "2.9.9", 1},     {"2.9.0rc1", "2.9", 0},
		{"2.7", "2.7.2", 0},  {"02.8", "2.8", 0},    {"2.8.dev1", "2.9", -1},
	};
	static const char *const bad[] = {"", "x", ".1", "v2.8", "2.8 ", "-1", "99999999", "2.8/1"};
	/* Kernels are called so, versions that a user gives are not. */
	static const char *const kernels[] = {"2..9",  "2.9.",	"2.9-",	   "6.8.0+",
					      "2.9a*", "2.9.!", "2.9 rc1", "2.99999999"};
	static const char *const options[] = {"2",	  "2.9",	  "2.9.0",   "2.9.0.1",
					      "2.9.0rc1", "2.9.0+cu.121", "2.9.dev0"};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_version_number a, b;

		assert_int_equal(flmem_version_number_parse(rows[i].a, &a, NULL), 0);
		assert_int_equal(flmem_version_number_parse(rows[i].b, &b, NULL), 0);
		assert_int_equal(flmem_version_number_compare(&a, &b), rows[i].order);
		assert_int_equal(flmem_version_number_compare(&b, &a), -rows[i].order);
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(bad); i++) {
		struct flmem_version_number release = {.count = 77};

		assert_int_equal(flmem_version_number_parse(bad[i], &release, NULL), FLMEM_EUSAGE);
		assert_int_equal(flmem_version_number_option(bad[i], &release, NULL), FLMEM_EUSAGE);
		assert_int_equal(release.count, 77);
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(kernels); i++) {
		struct flmem_version_number release = {.count = 77};

		assert_int_equal(flmem_version_number_option(kernels[i], &release, NULL),
				 FLMEM_EUSAGE);
		assert_int_equal(release.count, 77);
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(options); i++) {
		struct flmem_version_number release;

		assert_int_equal(flmem_version_number_option(options[i], &release, NULL), 0);
		assert_int_equal(release.parts[0], 2);
	}
}

static void quoting_is_exact(void **state)
{
	static const struct {
		flmem_quote_fn *quote;
		const char *value, *quoted; /* the value, and its quoted form; NULL: refused */
	} rows[] = {
		{flmem_quote_sh, "plain:1,2", "plain:1,2"},
		{flmem_quote_sh, "", "''"},
		{flmem_quote_sh, "a'b", "'a'\\''b'"},
		{flmem_quote_sh, "~", "'~'"},
		{flmem_quote_sh, "a=b", "'a=b'"},
		{flmem_quote_fish, "a'b\\c", "'a\\'b\\\\c'"},
		{flmem_quote_csh, "a!b'c", "'a'\\!'b'\\''c'"},
		{flmem_quote_csh, "a\nb", NULL},
		{flmem_quote_dotenv, "a b", "'a b'"},
		{flmem_quote_dotenv, "a'b\n", "\"a'b\\n\""},
		{flmem_quote_dotenv, "${a}", NULL},
		{flmem_quote_dotenv, "$a'", NULL},
		{flmem_quote_docker, " a\"'#", " a\"'#"},
		{flmem_quote_docker, "a\nb", NULL},
		{flmem_quote_yaml, "2", "\"2\""},
		{flmem_quote_yaml, "a\"\\\n\x7f", "\"a\\\"\\\\\\x0a\\x7f\""},
		{flmem_quote_yaml, "\xc2\x85\xe2\x80\xa8\xef\xbb\xbf", "\"\\x85\\u2028\\ufeff\""},
		{flmem_quote_yaml, "\xff", NULL},
		{flmem_quote_yaml, "$a", "\"$a\""},
		{flmem_quote_k8s, "$(a)", "\"$$(a)\""},
		{flmem_quote_systemd, "a=%i \"\\\n", "\"a=%%i \\\"\\\\\\n\""},
		{flmem_quote_systemd, "$a b", "\"$a b\""},
		{flmem_quote_systemd, "a\x01", NULL},
		{flmem_quote_systemd, "a\xef\xbf\xbf", NULL},
		{flmem_quote_systemd, "\xef\xb7\x90", NULL},
		{flmem_quote_systemd, "\xf0\x9f\xbf\xbe", NULL},
		{flmem_quote_systemd, "\xef\xb7\xb0\xef\xbf\xbd", "\"\xef\xb7\xb0\xef\xbf\xbd\""},
		{flmem_quote_systemd_command, "$a b", "\"$$a b\""},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
		const char *problem = rows[i].quote(&out, rows[i].value);

		assert_int_equal(problem == NULL, rows[i].quoted != NULL);
		assert_string_equal(out.data, rows[i].quoted ? rows[i].quoted : "");
	}
}

static void a_library_of_flmem_that_is_nowhere_is_missing(void **state)
{
	char found[FLMEM_PRELOAD_PATH_MAX];
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_preload_find_own("libnone.so", found, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "/flmem/libnone.so is missing"));
}

static void a_gpu_is_present_where_one_is_found(void **state)
{
	(void)state;
	assert_int_equal(flmem_settings_gpu_present(), flmem_gpu_devices_find("/dev") > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_is_sound),
		cmocka_unit_test(roles_have_their_values),
		cmocka_unit_test(a_library_of_flmem_that_is_nowhere_is_missing),
		cmocka_unit_test(a_gpu_is_present_where_one_is_found),
		cmocka_unit_test(a_missing_gpu_is_a_reason_of_its_settings_alone),
		cmocka_unit_test(other_roles_have_no_settings),
		cmocka_unit_test(a_value_that_its_reader_ignores_counts_as_not_set),
		cmocka_unit_test(a_tunable_without_effect_leaves_the_variable),
		cmocka_unit_test(a_tunable_without_a_bound_is_replaced),
		cmocka_unit_test(a_decay_that_never_comes_is_noted),
		cmocka_unit_test(an_interval_that_fails_is_kept_and_noted),
		cmocka_unit_test(a_kept_value_that_does_nothing_is_noted),
		cmocka_unit_test(an_interval_is_set_only_where_the_job_sets_none),
		cmocka_unit_test(a_name_that_only_begins_alike_is_not_the_users),
		cmocka_unit_test(preloads_are_joined),
		cmocka_unit_test(releases_are_compared_by_the_parts_they_have),
		cmocka_unit_test(quoting_is_exact),
	};

	return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
