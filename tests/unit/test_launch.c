/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <flmem/launch.h>

#include "base/cleanup.h"
#include "settings/preload.h"

#define AUTO_SETTINGS	 FLMEM_AUTO(flmem_settings_clear)
#define AUTO_ENVIRONMENT FLMEM_AUTO(free_environment)
#define AUTO_PROOF	 FLMEM_AUTO(flmem_preload_proof_clear)

static void free_environment(char ***environment)
{
	flmem_launch_environment_free(*environment);
}

static void make(const struct flmem_settings_request *request, struct flmem_settings *settings)
{
	struct flmem_error err = {0};

	if (flmem_settings_make(request, settings, &err))
		fail_msg("%s", err.message);
}

static void the_environment_is_kept_but_for_the_settings(void **state)
{
	char *const environment[] = {(char *)"A=1",
				     (char *)"MALLOC_ARENA_MAX=",
				     (char *)"no equals sign",
				     (char *)"MALLOC_ARENA_MAX=9",
				     (char *)"B=x=y",
				     NULL};
	struct flmem_settings_request request = {.role = FLMEM_ROLE_SERVER, .force = true};
	AUTO_SETTINGS struct flmem_settings settings = {0};
	AUTO_ENVIRONMENT char **made = NULL;

	(void)state;
	make(&request, &settings);
	assert_int_equal(flmem_launch_environment(&settings, environment, false, &made, NULL), 0);
	assert_string_equal(made[0], "A=1");
	assert_string_equal(made[1], "no equals sign");
	assert_string_equal(made[2], "B=x=y");
	assert_string_equal(made[3], "MALLOC_ARENA_MAX=4");
	assert_null(made[4]);
}

/* Proves the preload on /bin/true with the user's `preload` in front. Returns the result code. */
static int prove(const char *preload, const char *library, struct flmem_preload_proof *ret_proof,
		 struct flmem_error *err)
{
	char *const argv[] = {(char *)"/bin/true", NULL};
	char *const environment[] = {(char *)(uintptr_t)preload, (char *)"PATH=/bin:/usr/bin",
				     NULL};
	struct flmem_settings_request request = {
		.role = FLMEM_ROLE_CLIENT,
		.allocator = FLMEM_SETTINGS_ALLOCATOR_JEMALLOC,
		.jemalloc_library = library,
		.environment = environment,
	};
	AUTO_SETTINGS struct flmem_settings settings = {0};
	AUTO_ENVIRONMENT char **made = NULL;

	make(&request, &settings);
	assert_int_equal(flmem_launch_environment(&settings, environment, false, &made, NULL), 0);
	return flmem_launch_prove(&settings, argv, made, ret_proof, err);
}

static void need_jemalloc(void)
{
	FLMEM_AUTO_FREE char *found = flmem_jemalloc_find();

	if (found)
		return;
	print_message("SKIP: no jemalloc is installed\n");
	skip();
}

static void the_users_own_jemalloc_is_what_is_proven(void **state)
{
	static const char *const rows[] = {"LD_PRELOAD=libjemalloc.so.2",
					   "LD_PRELOAD=libm.so.6:libjemalloc.so.2",
					   "LD_PRELOAD=libm.so.6", "LD_PRELOAD="};

	(void)state;
	need_jemalloc();
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		AUTO_PROOF struct flmem_preload_proof proof = {0};
		struct flmem_error err = {0};

		if (prove(rows[i], NULL, &proof, &err))
			fail_msg("%s: %s", rows[i], err.message);
		assert_non_null(strstr(proof.library, "libjemalloc"));
		assert_non_null(strstr(proof.program, "true"));
	}
}

static void another_allocator_in_front_is_no_jemalloc(void **state)
{
	struct flmem_preload_proof proof = {0};
	struct flmem_error err = {0};

	(void)state;
	need_jemalloc();
	if (access("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", R_OK) < 0)
		skip();
	assert_int_equal(prove("LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
			       NULL, &proof, &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "malloc is served by"));
	assert_null(proof.program);
}

static void a_library_that_is_none_is_refused(void **state)
{
	struct flmem_preload_proof proof = {0};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(prove("A=1", "/etc/passwd", &proof, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "does not load"));
	assert_null(proof.program);
}

/* With SIGCHLD ignored the kernel would reap the probe unseen. */
static void an_ignored_sigchld_does_no_harm_and_stays(void **state)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};
	struct sigaction before, after;
	struct flmem_error err = {0};
	struct flmem_preload_proof proof = {0};

	(void)state;
	sigaction(SIGCHLD, &ignored, &before);
	assert_int_equal(prove("A=1", "/etc/passwd", &proof, &err), FLMEM_EUNSUPPORTED);
	sigaction(SIGCHLD, &before, &after);
	assert_ptr_equal(after.sa_handler, SIG_IGN);
	assert_non_null(strstr(err.message, "does not load"));
}

static void probes_are_reaped(void **state)
{
	struct flmem_preload_proof proof = {0};

	(void)state;
	for (int i = 0; i < 5; i++)
		prove("A=1", "/etc/passwd", &proof, NULL);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_environment_is_kept_but_for_the_settings),
		cmocka_unit_test(the_users_own_jemalloc_is_what_is_proven),
		cmocka_unit_test(another_allocator_in_front_is_no_jemalloc),
		cmocka_unit_test(a_library_that_is_none_is_refused),
		cmocka_unit_test(an_ignored_sigchld_does_no_harm_and_stays),
		cmocka_unit_test(probes_are_reaped),
	};

	return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
