/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocator of this machine, in every way of linking it, recognised in a live process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <flmem/roles.h>

#include "allocators/allocator.h"
#include "base/text/text.h"

#define VICTIM(name)   VICTIMS "/allocators/" name
#define START_LIMIT_MS 60000

#define SAMPLER	      BUILT "/../libcore/flmem/libflmem-sampler.so"
#define SAMPLER_READY BUILT "/../libcore/flmem/libflmem-sampler-ready.so"

/* An allocator that has to be found; the order of rows does not matter. */
struct expected {
	enum flmem_allocator_kind kind;
	enum flmem_linkage linkage;
	bool serves_malloc;
	const char *prefix;   /* NULL: the prefix is unknown */
	const char *version;  /* beginning of the version; NULL: unknown */
	const char *evidence; /* a part of the text; NULL: any text */
};

struct row {
	const char *name;
	const char *program[4]; /* the program and its arguments */
	const char *preload;	/* value of LD_PRELOAD */
	struct expected found[4];
};

#define SHARED FLMEM_LINKAGE_SHARED
#define STATIC FLMEM_LINKAGE_STATIC
#define GLIBC(serves)                                                        \
	{                                                                    \
		FLMEM_ALLOCATOR_GLIBC, SHARED, serves, "", "2.", "libc.so.6" \
	}
#define JEMALLOC(linkage, serves, prefix)                                           \
	{                                                                           \
		FLMEM_ALLOCATOR_JEMALLOC, linkage, serves, prefix, "5.", "jemalloc" \
	}
#define TCMALLOC(linkage, prefix)                                                   \
	{                                                                           \
		FLMEM_ALLOCATOR_TCMALLOC, linkage, true, prefix, "2.", "gperftools" \
	}
#define MIMALLOC(linkage, serves)                                         \
	{                                                                 \
		FLMEM_ALLOCATOR_MIMALLOC, linkage, serves, "", "2.", NULL \
	}

/* clang-format off */
static const struct row rows[] = {
	{"glibc", {VICTIM("glibc")}, NULL, {GLIBC(true)}},
	{"glibc, PIE", {VICTIM("glibc-pie")}, NULL, {GLIBC(true)}},
	{"glibc, started by its loader", {"/lib64/ld-linux-x86-64.so.2", VICTIM("glibc-pie")}, NULL,
	 {GLIBC(true)}},
	{"glibc, static", {VICTIM("glibc-static")}, NULL,
	 {{FLMEM_ALLOCATOR_GLIBC, STATIC, true, "", NULL, "_int_malloc"}}},
	{"glibc, static PIE", {VICTIM("glibc-static-pie")}, NULL,
	 {{FLMEM_ALLOCATOR_GLIBC, STATIC, true, "", NULL, "_int_malloc"}}},
	{"glibc, static, stripped", {VICTIM("glibc-static-stripped")}, NULL,
	 {{FLMEM_ALLOCATOR_GLIBC, STATIC, true, NULL, NULL, "messages"}}},

	/* The sampler passes calls to the next malloc(). */
	{"glibc behind the sampler", {VICTIM("glibc")}, SAMPLER, {GLIBC(true)}},
	{"jemalloc behind the sampler", {VICTIM("glibc")}, SAMPLER ":libjemalloc.so.2",
	 {GLIBC(false), JEMALLOC(SHARED, true, "")}},
	{"jemalloc before the sampler", {VICTIM("glibc")}, "libjemalloc.so.2:" SAMPLER,
	 {GLIBC(false), JEMALLOC(SHARED, true, "")}},
	{"jemalloc, built in, beside the sampler", {VICTIM("jemalloc-built-in")}, SAMPLER,
	 {GLIBC(false), JEMALLOC(STATIC, true, "")}},
	{"mimalloc behind the sampler that is ready", {VICTIM("glibc")},
	 SAMPLER_READY ":libmimalloc.so.2", {GLIBC(false), MIMALLOC(SHARED, true)}},
	{"a malloc that nobody knows, beside the sampler", {VICTIM("own-malloc")}, SAMPLER,
	 {GLIBC(false), {FLMEM_ALLOCATOR_UNKNOWN, STATIC, true, NULL, NULL, "defines malloc"}}},

	{"a malloc that nobody knows, with the names of the sampler", {VICTIM("glibc")},
	 VICTIM("impostor.so"),
	 {GLIBC(false), {FLMEM_ALLOCATOR_UNKNOWN, SHARED, true, NULL, NULL, "defines malloc"}}},
	{"jemalloc behind the sampler, behind one with its names", {VICTIM("glibc")},
	 VICTIM("impostor.so") ":" SAMPLER ":libjemalloc.so.2",
	 {GLIBC(false), JEMALLOC(SHARED, false, ""),
	  {FLMEM_ALLOCATOR_UNKNOWN, SHARED, true, NULL, NULL, "defines malloc"}}},

	{"jemalloc", {VICTIM("jemalloc")}, NULL, {GLIBC(false), JEMALLOC(SHARED, true, "")}},
	{"jemalloc, preloaded", {VICTIM("glibc")}, "libjemalloc.so.2",
	 {GLIBC(false), JEMALLOC(SHARED, true, "")}},
	{"jemalloc, built in", {VICTIM("jemalloc-built-in")}, NULL,
	 {GLIBC(false), JEMALLOC(STATIC, true, "")}},
	{"jemalloc, built in, stripped", {VICTIM("jemalloc-built-in-stripped")}, NULL,
	 {GLIBC(false), JEMALLOC(STATIC, true, "")}},
	{"jemalloc, static", {VICTIM("jemalloc-static")}, NULL, {JEMALLOC(STATIC, true, "")}},
	{"jemalloc, static PIE", {VICTIM("jemalloc-static-pie")}, NULL,
	 {JEMALLOC(STATIC, true, "")}},
	{"jemalloc, static, stripped", {VICTIM("jemalloc-static-stripped")}, NULL,
	 {JEMALLOC(STATIC, true, "")}},
	{"jemalloc, je_", {VICTIM("prefix-je_pie")}, NULL,
	 {GLIBC(true), JEMALLOC(STATIC, false, "je_")}},
	{"jemalloc, _rjem_", {VICTIM("prefix-_rjem_pie")}, NULL,
	 {GLIBC(true), JEMALLOC(STATIC, false, "_rjem_")}},
	{"jemalloc, _rjem_, stripped", {VICTIM("prefix-_rjem_stripped")}, NULL,
	 {GLIBC(true), JEMALLOC(STATIC, false, NULL)}},
	{"jemalloc, je_, beside static glibc", {VICTIM("prefix-je_static")}, NULL,
	 {{FLMEM_ALLOCATOR_GLIBC, STATIC, true, "", NULL, "_int_malloc"},
	  JEMALLOC(STATIC, false, "je_")}},
	{"jemalloc, opened for itself alone", {VICTIM("opener"), "libjemalloc.so.2"}, NULL,
	 {GLIBC(true), JEMALLOC(SHARED, false, "")}},
	{"a program that exports mallctl", {VICTIM("dummy-mallctl")}, NULL, {GLIBC(true)}},

	{"tcmalloc", {VICTIM("tcmalloc")}, NULL, {GLIBC(false), TCMALLOC(SHARED, "")}},
	{"tcmalloc, preloaded", {VICTIM("glibc-pie")}, "libtcmalloc_minimal.so.4",
	 {GLIBC(false), TCMALLOC(SHARED, "")}},
	{"tcmalloc, built in", {VICTIM("tcmalloc-built-in")}, NULL,
	 {GLIBC(false), TCMALLOC(STATIC, "")}},
	{"tcmalloc, built in, stripped", {VICTIM("tcmalloc-built-in-stripped")}, NULL,
	 {GLIBC(false), TCMALLOC(STATIC, NULL)}},
	{"tcmalloc, static", {VICTIM("tcmalloc-static")}, NULL, {TCMALLOC(STATIC, "")}},
	{"tcmalloc, static PIE", {VICTIM("tcmalloc-static-pie")}, NULL, {TCMALLOC(STATIC, "")}},
	{"tcmalloc, static, stripped", {VICTIM("tcmalloc-static-stripped")}, NULL,
	 {TCMALLOC(STATIC, NULL)}},
	{"tcmalloc, opened for itself alone", {VICTIM("opener"), "libtcmalloc_minimal.so.4"}, NULL,
	 {GLIBC(true), {FLMEM_ALLOCATOR_TCMALLOC, SHARED, false, "", "2.", "gperftools"}}},

	{"mimalloc", {VICTIM("mimalloc")}, NULL, {GLIBC(false), MIMALLOC(SHARED, true)}},
	{"mimalloc, preloaded", {VICTIM("glibc")}, "libmimalloc.so.2",
	 {GLIBC(false), MIMALLOC(SHARED, true)}},
	{"mimalloc, opened for itself alone", {VICTIM("opener"), "libmimalloc.so.2"}, NULL,
	 {GLIBC(true), MIMALLOC(SHARED, false)}},
	{"mimalloc inside, malloc's address taken", {VICTIM("mimalloc-inside")}, NULL,
	 {GLIBC(true), {FLMEM_ALLOCATOR_MIMALLOC, STATIC, false, NULL, NULL, "stripped"}}},
	{"mimalloc, built in", {VICTIM("mimalloc-built-in")}, NULL,
	 {GLIBC(false), MIMALLOC(STATIC, true)}},
	{"mimalloc, static", {VICTIM("mimalloc-static")}, NULL, {MIMALLOC(STATIC, true)}},

	{"musl", {VICTIM("musl")}, NULL,
	 {{FLMEM_ALLOCATOR_MUSL, SHARED, true, "", "1.", "mallocng"}}},
	{"musl, static", {VICTIM("musl-static")}, NULL,
	 {{FLMEM_ALLOCATOR_MUSL, STATIC, true, "", NULL, "mallocng"}}},
	{"musl, static, stripped", {VICTIM("musl-static-stripped")}, NULL,
	 {{FLMEM_ALLOCATOR_MUSL, STATIC, true, NULL, NULL, "mallocng"}}},

	{"a malloc that nobody knows", {VICTIM("own-malloc")}, NULL,
	 {GLIBC(false), {FLMEM_ALLOCATOR_UNKNOWN, STATIC, true, NULL, NULL, "defines malloc"}}},
	{"Java", {"/usr/bin/java", VICTIM_SOURCES "/Sleeper.java"}, NULL,
	 {GLIBC(true), {FLMEM_ALLOCATOR_JAVA, SHARED, false, NULL, "", "libjvm"}}},
	{"Go 1.18 and later, with cgo", {VICTIM("go-inline")}, NULL,
	 {GLIBC(true), {FLMEM_ALLOCATOR_GO, STATIC, false, NULL, "1.21.5", "Go"}}},
	{"Go before 1.18", {VICTIM("go-pointer")}, NULL,
	 {{FLMEM_ALLOCATOR_GLIBC, STATIC, true, "", NULL, "_int_malloc"},
	  {FLMEM_ALLOCATOR_GO, STATIC, false, NULL, "1.16.7", "Go"}}},
	{"Go", {VICTIM("go-sleeper")}, NULL,
	 {{FLMEM_ALLOCATOR_GO, STATIC, false, NULL, "1.", "Go"}}},
};
/* clang-format on */

/* The objects that teardown releases, also after a failed check. */
static struct scene {
	pid_t child;
	int input[2], output[2];
	struct flmem_process process;
	struct flmem_maps maps;
	struct flmem_image_cache *cache;
	struct flmem_modules modules;
	struct flmem_allocator_list list;
} scene;

static int set_up(void **state)
{
	(void)state;
	scene = (struct scene){.input = {-1, -1}, .output = {-1, -1}};
	scene.process = (struct flmem_process)FLMEM_PROCESS_INIT;
	return 0;
}

static int tear_down(void **state)
{
	if (scene.child > 0) {
		kill(scene.child, SIGKILL);
		waitpid(scene.child, NULL, 0);
	}
	for (int i = 0; i < 2; i++) {
		flmem_cleanup_close(&scene.input[i]);
		flmem_cleanup_close(&scene.output[i]);
	}
	flmem_modules_clear(&scene.modules);
	flmem_image_cache_free(scene.cache);
	flmem_maps_clear(&scene.maps);
	flmem_process_close(&scene.process);
	return set_up(state);
}

/* Reports whether the program of a row exists; prints a message if not. */
static bool is_here(const struct row *row)
{
	for (int i = 0; i < 2 && row->program[i]; i++) {
		if (row->program[i][0] == '/' && access(row->program[i], R_OK) != 0) {
			print_message("SKIP: %s: there is no %s here\n", row->name,
				      row->program[i]);
			return false;
		}
	}
	return true;
}

static void become(const struct row *row)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(scene.input[0], STDIN_FILENO);
	dup2(scene.output[1], STDOUT_FILENO);
	close(scene.input[1]);
	close(scene.output[0]);
	/* Static TLS for libraries that must otherwise be loaded at the start of a program. */
	setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536", 1);
	unsetenv("LD_PRELOAD");
	if (row->preload)
		setenv("LD_PRELOAD", row->preload, 1);
	execv(row->program[0], (char *const *)(uintptr_t)row->program);
	_exit(127);
}

/* Starts a program; false when its exit status 77 means that it cannot show this here. */
static bool start(const struct row *row)
{
	struct pollfd poller;
	char text[6];
	int status = 0;

	assert_int_equal(pipe(scene.input), 0);
	assert_int_equal(pipe(scene.output), 0);
	scene.child = fork();
	assert_true(scene.child >= 0);
	if (scene.child == 0)
		become(row);
	close(scene.output[1]);
	scene.output[1] = -1;
	poller = (struct pollfd){.fd = scene.output[0], .events = POLLIN};
	assert_int_equal(poll(&poller, 1, START_LIMIT_MS), 1);
	if (read(scene.output[0], text, sizeof(text)) == (ssize_t)sizeof(text)) {
		assert_memory_equal(text, "ready\n", sizeof(text));
		return true;
	}
	waitpid(scene.child, &status, 0);
	scene.child = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 77)
		fail_msg("%s ended with status %#x", row->program[0], (unsigned)status);
	return false;
}

static void look(pid_t pid)
{
	struct flmem_view view = {&scene.process, &scene.maps, &scene.modules};
	struct flmem_error err = {0};

	scene.cache = flmem_image_cache_new();
	assert_non_null(scene.cache);
	if (flmem_process_open(pid, &scene.process, &err) ||
	    flmem_maps_read(&scene.process, &scene.maps, &err) ||
	    flmem_modules_load(&scene.process, &scene.maps, scene.cache, &scene.modules, &err))
		fail_msg("%s", err.message);
	flmem_allocators_find(&view, &scene.list);
}

static bool same_text(const char *found, const char *expected)
{
	return found == expected || (found && expected && strcmp(found, expected) == 0);
}

static bool fits(const struct flmem_allocator *found, const struct expected *expected)
{
	return found->ops->kind == expected->kind && found->linkage == expected->linkage &&
	       found->serves_malloc == expected->serves_malloc &&
	       same_text(found->prefix, expected->prefix) &&
	       (expected->version ? flmem_text_starts(found->version, expected->version)
				  : !*found->version) &&
	       (!expected->evidence || strstr(found->evidence, expected->evidence));
}

static void check(const struct row *row)
{
	bool used[FLMEM_ARRAY_SIZE(scene.list.rows)] = {false};
	bool good = true;
	size_t wanted = 0;

	for (; wanted < FLMEM_ARRAY_SIZE(row->found) && row->found[wanted].linkage; wanted++) {
		size_t i = 0;

		while (i < scene.list.count &&
		       (used[i] || !fits(&scene.list.rows[i], &row->found[wanted])))
			i++;
		if (i < scene.list.count)
			used[i] = true;
		else
			good = false;
	}
	if (good && wanted == scene.list.count)
		return;
	for (size_t i = 0; i < scene.list.count; i++) {
		const struct flmem_allocator *found = &scene.list.rows[i];

		print_error("found: %s '%s' %s prefix %s serves %d in %s: %s\n",
			    flmem_allocator_name(found->ops->kind), found->version,
			    found->linkage == SHARED ? "shared" : "static",
			    found->prefix ? found->prefix : "unknown", found->serves_malloc,
			    found->module->path, found->evidence);
	}
	fail_msg("%s: not as expected", row->name);
}

static void recognise(void **state)
{
	const struct row *row = *state;

	if (!is_here(row))
		skip();
	if (!start(row)) {
		print_message("SKIP: %s: the library does not load here\n", row->name);
		skip();
	}
	look(scene.child);
	check(row);
}

/* The second answers come from the notes of the cached images. */
static void asking_again_gives_the_same(void **state)
{
	static const struct row row = {"glibc", {VICTIM("glibc")}, NULL, {GLIBC(true)}};
	struct flmem_view view = {&scene.process, &scene.maps, &scene.modules};
	struct flmem_allocator_list again;

	(void)state;
	assert_true(start(&row));
	look(scene.child);
	check(&row);
	flmem_allocators_find(&view, &again);
	assert_memory_equal(&again, &scene.list, sizeof(again));
}

/* The version alone decides: one call leaves some dirty pages in 4.1 to 4.5. */
static void some_versions_of_jemalloc_are_purged_more_than_once(void **state)
{
	static const struct row row = {"jemalloc", {VICTIM("jemalloc")}, NULL, {{0}}};
	static const struct {
		const char *version;
		size_t calls; /* number of calls, with the one for the thread's cache */
	} versions[] = {
		{"3.6.0-0-g46", 2}, {"4.0.4-0-g91", 2}, {"4.1.1-0-ge0", 4},
		{"4.5.0-0-g04", 4}, {"5.3.0-0-g54", 2}, {"", 4}, /* unknown */
	};
	const unsigned char arenas[] = {8, 0, 0, 0};
	struct flmem_view view = {&scene.process, &scene.maps, &scene.modules};

	(void)state;
	if (!is_here(&row) || !start(&row))
		skip();
	look(scene.child);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(versions); i++) {
		struct flmem_allocator found = {0};
		struct flmem_chain chain = {0};

		for (size_t k = 0; k < scene.list.count; k++)
			if (scene.list.rows[k].serves_malloc)
				found = scene.list.rows[k];
		snprintf(found.version, sizeof(found.version), "%s", versions[i].version);
		assert_int_equal(found.ops->plan_trim(&view, &found, arenas, &chain, NULL), 0);
		assert_int_equal(chain.count, versions[i].calls);
		assert_false(chain.overflow);
	}
}

static void own_markers_fool_nobody(void **state)
{
	(void)state;
	look(getpid());
	/*
	 * This program contains every marker's text; under AddressSanitizer its malloc is unknown.
	 */
	for (size_t i = 0; i < scene.list.count; i++) {
		enum flmem_allocator_kind kind = scene.list.rows[i].ops->kind;

		assert_true(kind == FLMEM_ALLOCATOR_GLIBC || kind == FLMEM_ALLOCATOR_UNKNOWN);
	}
	assert_true(scene.list.count >= 1);
}

int main(void)
{
	struct CMUnitTest tests[FLMEM_ARRAY_SIZE(rows) + 3] = {
		cmocka_unit_test_setup_teardown(asking_again_gives_the_same, set_up, tear_down),
		cmocka_unit_test_setup_teardown(some_versions_of_jemalloc_are_purged_more_than_once,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(own_markers_fool_nobody, set_up, tear_down),
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		tests[i + 3] = (struct CMUnitTest){
			.name = rows[i].name,
			.test_func = recognise,
			.setup_func = NULL,
			.teardown_func = tear_down,
			.initial_state = (void *)(uintptr_t)&rows[i],
		};
	set_up(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
