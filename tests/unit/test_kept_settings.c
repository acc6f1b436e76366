/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests values quoted for each reader, settings printed in each format, and settings made from
 * environments, against kept texts (kept.h). The environments look random and are the same in every
 * run.
 */
#include <ctype.h>
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
#include "base/text/buf.h"
#include "base/text/quote.h"
#include "kept.h"
#include "proc/argv_env.h"
#include "series.h"
#include "settings/observed.h"
#include "settings/preload.h"

static void put_shown(struct flmem_buf *out, const char *text)
{
	for (; *text; text++)
		if (isprint((unsigned char)*text))
			flmem_buf_putc(out, *text);
		else
			flmem_buf_printf(out, "<%02x>", (unsigned char)*text);
}

static flmem_quote_fn *const quotes[] = {
	flmem_quote_sh,	     flmem_quote_fish,
	flmem_quote_csh,     flmem_quote_dotenv,
	flmem_quote_docker,  flmem_quote_yaml,
	flmem_quote_k8s,     flmem_quote_sh_in_yaml,
	flmem_quote_systemd, flmem_quote_systemd_command,
};

static void put_quoted(struct flmem_buf *out, size_t quote, const char *value)
{
	FLMEM_AUTO_BUF struct flmem_buf quoted = FLMEM_BUF_INIT;
	const char *problem = quotes[quote](&quoted, value);

	put_shown(out, problem ? problem : quoted.data);
	flmem_buf_puts(out, problem ? " !\n" : "\n");
}

/* Quotes each byte within a value, at its start and at its end, and characters of two bytes. */
static void quotes_are_as_kept(void **state)
{
	static const char *const values[] = {
		"",
		"a'b\"c",
		"a'$b",
		"${a}",
		"$a",
		"a$",
		"a\\b",
		"\\",
		"'",
		"\"",
		"a b",
		"-a",
		"~/x",
		"#a",
		"a#b",
		"!a",
		"%a$(b)",
		"a\r\nb",
		" a",
		"a ",
		"\xc2\x85",
		"\xc2\xa0",
		"\xc2\x9f",
		"\xc2\x80",
		"a=b",
		"\xe2\x80",
		"\xe2\x80\xa8",
		"\xe2\x80\xa9",
		"\xe2\x80\xaa",
		"\xef\xbb\xbf",
		"a\tb",
		"a'\nb",
		"a'\\b",
		"a'`b",
		"a\"'$",
		"\xc3\xa9",
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t q = 0; q < FLMEM_ARRAY_SIZE(quotes); q++) {
		for (int c = 1; c < 256; c++) {
			const char value[] = {'a', (char)c, 'b', '\0'};

			put_quoted(&out, q, value);
		}
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(values); i++)
			put_quoted(&out, q, values[i]);
	}
	kept_compare("quotes.txt", &out);
}

static size_t pick_index(uint64_t *noise, size_t count)
{
	return (size_t)(noise_uniform(noise) * (double)count);
}

static const char *const words[] = {
	"MALLOC_ARENA_MAX=3",
	"MALLOC_ARENA_MAX=0",
	"MALLOC_ARENA_MAX=",
	"MALLOC_ARENA_MAX",
	"MALLOC_ARENA_MAXX=1",
	"GLIBC_TUNABLES=glibc.malloc.arena_max=4",
	"GLIBC_TUNABLES=glibc.malloc.arena_max=0",
	"MALLOC_CONF=narenas:2",
	"MALLOC_CONF=",
	"LD_PRELOAD=/x/liba.so",
	"LD_PRELOAD=/x/libjemalloc.so.1 /y.so",
	"LD_PRELOAD=/l/libmine.so",
	"LD_PRELOAD=/x/libtcmalloc.so.4:/y",
	"LD_PRELOAD=",
	"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=3",
	"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two",
	"NVFLARE_CUDA_EMPTY_CACHE=true",
	"NVFLARE_CUDA_EMPTY_CACHE=1",
	"NVFLARE_ENABLE_JEMALLOC_PRELOAD=1",
	"NVFLARE_",
	"NVFLARE_=1",
	"NVFLARE_X=1",
	"MALLOC_=1",
	"MALLOC_X=1",
	"TCMALLOC_=",
	"TMPDIR=/a",
	"TMPDI=/a",
	"TMPDIRS=/a",
	"GOGC=50",
	"PYTHONMALLOC=malloc",
	"MALLOC_PASSWORD=secret",
	"=x",
	"",
};

#define WORDS_MAX 10

static size_t pick_words(uint64_t *noise, char *environment[WORDS_MAX + 1])
{
	size_t count = pick_index(noise, WORDS_MAX);

	for (size_t i = 0; i < count; i++)
		environment[i] =
			(char *)(uintptr_t)words[pick_index(noise, FLMEM_ARRAY_SIZE(words))];
	environment[count] = NULL;
	return count;
}

/* Each number has its own statement: a compiler chooses the order within an initialiser. */
static struct flmem_settings_request pick_request(uint64_t *noise, char **environment)
{
	static const enum flmem_role roles[] = {FLMEM_ROLE_SERVER, FLMEM_ROLE_CLIENT,
						FLMEM_ROLE_TRAINER};
	static const char *const versions[] = {NULL, "2.7.1", "2.7.2", "2.8.1", "2.9.0", "x"};
	static const char *const libraries[] = {"/l/libmine.so", "/l/libjemalloc.so.2",
						"libjemalloc.so", "/a b/x.so"};
	struct flmem_settings_request r = {.environment = environment, .elsewhere = true};

	r.role = roles[pick_index(noise, FLMEM_ARRAY_SIZE(roles))];
	r.framework = (enum flmem_framework)pick_index(noise, 4);
	r.framework_version = versions[pick_index(noise, FLMEM_ARRAY_SIZE(versions))];
	r.high_parallelism = pick_index(noise, 4) == 0;
	r.gpu = pick_index(noise, 2);
	r.gpu_missing = !r.gpu && pick_index(noise, 2) ? "no GPU here" : NULL;
	r.force = pick_index(noise, 3) == 0;
	r.job = (enum flmem_settings_job)pick_index(noise, 4);
	r.allocator = pick_index(noise, 2) ? FLMEM_SETTINGS_ALLOCATOR_JEMALLOC
					   : FLMEM_SETTINGS_ALLOCATOR_GLIBC;
	r.jemalloc_library = libraries[pick_index(noise, FLMEM_ARRAY_SIZE(libraries))];
	return r;
}

static void put_made(struct flmem_buf *out, const struct flmem_settings *settings)
{
	flmem_buf_printf(out, "%s %s\n", flmem_allocator_name(settings->allocator),
			 settings->jemalloc_library ? settings->jemalloc_library : "-");
	for (size_t i = 0; i < settings->count; i++) {
		const struct flmem_setting *s = &settings->rows[i];

		flmem_buf_printf(out, " %s=%s %s %s %.30s; %.20s\n", s->name,
				 s->value ? s->value : "-", flmem_setting_origin_name(s->origin),
				 s->where ? s->where : "-", s->reason, s->note ? s->note : "-");
	}
}

static void put_request(uint64_t seed, struct flmem_buf *out)
{
	uint64_t noise = seed * 2654435761U + 23;
	char *environment[WORDS_MAX + 1];
	struct flmem_settings settings = {0};
	struct flmem_settings_request request;
	struct flmem_error err = {0};

	pick_words(&noise, environment);
	request = pick_request(&noise, environment);
	if (flmem_settings_make(&request, &settings, &err))
		flmem_buf_printf(out, "%s\n", err.message);
	else
		put_made(out, &settings);
	flmem_settings_clear(&settings);
}

static void made_settings_are_as_kept(void **state)
{
	(void)state;
	kept_compare_seeds("made", 250, 10000, put_request);
}

static void put_printed(struct flmem_buf *out, const struct flmem_settings *settings, int format)
{
	for (int explain = 0; explain < 2; explain++) {
		FLMEM_AUTO_FREE char *text = NULL;
		struct flmem_error err = {0};

		if (flmem_settings_print(settings, (enum flmem_settings_format)format, explain,
					 &text, &err))
			flmem_buf_printf(out, "%s\n", err.message);
		else
			flmem_buf_printf(out, "%s--\n", text);
	}
}

/* Prints variables, settings of the job, omissions and notes, alone and together. */
static void printed_settings_are_as_kept(void **state)
{
	struct flmem_setting rows[] = {
		{.name = "JOB",
		 .value = (char[]){"5"},
		 .origin = FLMEM_SETTING_ROLE,
		 .where = "in the job",
		 .reason = "why",
		 .source = "src"},
		{.name = "OUT", .origin = FLMEM_SETTING_OMITTED, .reason = "left", .source = "s"},
		{.name = "OUT2", .origin = FLMEM_SETTING_OMITTED, .where = "job", .reason = "left"},
		{.name = "SET",
		 .value = (char[]){"a b"},
		 .origin = FLMEM_SETTING_ROLE,
		 .reason = "why",
		 .source = "src",
		 .note = "replaced"},
		{.name = "OWN",
		 .value = (char[]){"x"},
		 .origin = FLMEM_SETTING_USER,
		 .reason = "why",
		 .source = "src",
		 .note = "noted"},
		{.name = "OWN2",
		 .value = (char[]){"x"},
		 .origin = FLMEM_SETTING_USER,
		 .reason = "why",
		 .source = "src"},
		{.name = "JOINED",
		 .value = (char[]){"a:b"},
		 .origin = FLMEM_SETTING_JOINED,
		 .reason = "why",
		 .source = "src"},
		{.name = "BAD",
		 .value = (char[]){"a\nb"},
		 .origin = FLMEM_SETTING_ROLE,
		 .reason = "why",
		 .source = "src"},
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (int format = 0; format <= FLMEM_SETTINGS_FORMAT_NVFLARE_SLURM; format++)
		for (size_t first = 0; first < FLMEM_ARRAY_SIZE(rows); first++)
			for (size_t count = 1; first + count <= FLMEM_ARRAY_SIZE(rows);
			     count += 3) {
				const struct flmem_settings settings = {.rows = rows + first,
									.count = count};

				put_printed(&out, &settings, format);
			}
	kept_compare("printed.txt", &out);
}

static void formats_are_as_kept(void **state)
{
	static const char *const names[] = {
		"sh",  "fish",		 "csh",		  "dotenv", "systemd", "docker",
		"k8s", "nvflare-docker", "nvflare-slurm", "SH",	    "",	       "shx"};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		enum flmem_settings_format format = (enum flmem_settings_format)99;
		struct flmem_error err = {0};
		int rc = flmem_settings_format_find(names[i], &format, &err);

		flmem_buf_printf(&out, "%s %d %d %s %d\n", names[i], rc, (int)format, err.message,
				 rc ? 0 : flmem_settings_format_elsewhere(format));
	}
	kept_compare("formats.txt", &out);
}

static void preloads_are_as_kept(void **state)
{
	static const char *const paths[] = {"/l/x.so", "x.so", "/a b", "/a:b",	      "/a\tb",
					    "/a\nb",   "/",    "",     "/no/such\033"};
	static const char *const values[] = {
		"",
		"/l/libjemalloc.so.2",
		"libjemalloc.so",
		"/l/libjemallo.so",
		"/libjemalloc/x.so",
		":: /a.so::libjemalloc_x /b",
		"/a/libtcmalloc_minimal.so",
		"/a/libmimalloc",
		"/a/libsnmalloc:/b",
		"x librpmalloc.so",
		"/libhoard.so",
		"libhardened_malloc-light.so",
		"/libtcmallo:c",
		"/l/xlibtcmalloc",
		"libjemalloc",
		"libjemallo:c",
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < 2 * FLMEM_ARRAY_SIZE(paths); i++) {
		struct flmem_error err = {0};
		int rc = flmem_preload_check(paths[i / 2], i % 2, &err);

		flmem_buf_printf(&out, "%d %s\n", rc, err.message);
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(values); i++) {
		FLMEM_AUTO_FREE char *entry = flmem_preload_entry(values[i], "libjemalloc");

		flmem_buf_printf(&out, "%s: %s %d\n", values[i], entry ? entry : "-",
				 flmem_preload_lists_other_allocator(values[i]));
	}
	kept_compare("preloads.txt", &out);
}

/* Tries each name that is observed, and names that only begin or end like one. */
static void observed_names_are_as_kept(void **state)
{
	static const char *const names[] = {"MALLOC_",
					    "GLIBC_TUNABLES",
					    "_RJEM_MALLOC_CONF",
					    "JE_MALLOC_CONF",
					    "LD_PRELOAD",
					    "TCMALLOC_",
					    "MIMALLOC_",
					    "PYTHONMALLOC",
					    "PYTORCH_ALLOC_CONF",
					    "PYTORCH_CUDA_ALLOC_CONF",
					    "PYTORCH_NO_CUDA_MEMORY_CACHING",
					    "TMPDIR",
					    "GOMEMLIMIT",
					    "GOGC",
					    "NVFLARE_",
					    "NVFLAR",
					    "APPFL_",
					    "FLWR_",
					    "FLOWER_",
					    "LD_LIBRARY_PATH",
					    "PATH",
					    "OMP_NUM_THREADS",
					    "MALLO"};
	static const char *const forms[][2] = {
		{"", "=1"}, {"", "X=1"}, {"X", "=1"}, {"", "="}, {"", ""}};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names) * FLMEM_ARRAY_SIZE(forms); i++) {
		struct flmem_setting_report *rows;
		char word[64];
		const char *const values[] = {word};
		struct flmem_argv_env env = {.values = (const char **)(uintptr_t)values,
					     .count = 1};
		size_t count;

		snprintf(word, sizeof(word), "%s%s%s", forms[i % FLMEM_ARRAY_SIZE(forms)][0],
			 names[i / FLMEM_ARRAY_SIZE(forms)], forms[i % FLMEM_ARRAY_SIZE(forms)][1]);
		assert_int_equal(flmem_settings_observe(&env, &rows, &count, NULL), 0);
		flmem_buf_printf(&out, "%s:", word);
		for (size_t k = 0; k < count; k++)
			flmem_buf_printf(&out, " %s=%s", rows[k].name, rows[k].value);
		flmem_buf_putc(&out, '\n');
		flmem_settings_free(rows, count);
	}
	kept_compare("observed-names.txt", &out);
}

static void put_observed(uint64_t seed, struct flmem_buf *out)
{
	uint64_t noise = seed * 2654435761U + 41;
	struct flmem_setting_report *rows;
	char *environment[WORDS_MAX + 1];
	const char *values[WORDS_MAX + 1];
	struct flmem_argv_env env = {.values = values};
	size_t count;

	env.count = pick_words(&noise, environment);
	for (size_t i = 0; i < env.count; i++)
		values[i] = environment[i];
	assert_int_equal(flmem_settings_observe(&env, &rows, &count, NULL), 0);
	for (size_t i = 0; i < count; i++)
		flmem_buf_printf(out, " %s=%s %s %.20s", rows[i].name, rows[i].value,
				 rows[i].source, rows[i].note ? rows[i].note : "-");
	flmem_buf_putc(out, '\n');
	flmem_settings_free(rows, count);
}

static void observed_settings_are_as_kept(void **state)
{
	(void)state;
	kept_compare_seeds("observed", 150, 10000, put_observed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quotes_are_as_kept),
		cmocka_unit_test(made_settings_are_as_kept),
		cmocka_unit_test(printed_settings_are_as_kept),
		cmocka_unit_test(formats_are_as_kept),
		cmocka_unit_test(preloads_are_as_kept),
		cmocka_unit_test(observed_settings_are_as_kept),
		cmocka_unit_test(observed_names_are_as_kept),
	};

	return cmocka_run_group_tests_name("kept_settings", tests, NULL, NULL);
}
