/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the order to attach: what it waits for, and in which order it acts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "preload/sampler/got.h"
#include "preload/sampler/hold.h"
#include "preload/sampler/hooks.h"
#include "preload/sampler/requests.h"

__thread struct sampler_thread sampler_thread __attribute__((tls_model("initial-exec")));
struct sampler_control sampler_control;
struct sampler_shown flmem_sampler_state;
extern struct sampler_shown sampler_shown __attribute__((alias("flmem_sampler_state")));
static unsigned opened, caught_up;

void flmem_sampler_order(const char *order, char *answer);

void sampler_walk_prepare_late(void)
{
}

bool sampler_is_interposed(void)
{
	return false;
}

void sampler_hooks_resolve_loaded(void)
{
}

uintptr_t sampler_symbol_find(const char *name, unsigned *ret_count)
{
	(void)name;
	(void)ret_count;
	return 0;
}

const char *sampler_got_redirect(uintptr_t python, struct flmem_sampler_entries *entries)
{
	(void)python;
	(void)entries;
	return NULL;
}

void sampler_got_redirect_again(uintptr_t python, struct flmem_sampler_entries *entries)
{
	(void)python;
	(void)entries;
}

uint64_t sampler_got_restore(uint64_t *ret_unseen)
{
	(void)ret_unseen;
	return 0;
}

/* Replaces the function of got.c: it may run only in a thread that may have opened a library. */
void sampler_got_catch_up(void)
{
	caught_up += opened && sampler_thread.opened;
}

const char *sampler_profile_open(const char *path)
{
	assert_string_equal(path, "/p");
	opened++;
	return NULL;
}

bool sampler_profile_close(void)
{
	return true;
}

void sampler_profile_note_unseen(uint64_t unseen)
{
	(void)unseen;
}

static int begin(void **state)
{
	(void)state;
	memset(&sampler_shown, 0, sizeof(sampler_shown));
	memset(&sampler_thread, 0, sizeof(sampler_thread));
	opened = caught_up = 0;
	return 0;
}

/* A late call would write into the next profile's tables and release what that does not hold. */
static void test_no_profile_begins_before_calls_of_the_last_one_end(void **state)
{
	char answer[FLMEM_SAMPLER_ANSWER_MAX];

	(void)state;
	sampler_shown.state.inside = 1;
	flmem_sampler_order(FLMEM_SAMPLER_ORDER_ATTACH "/p", answer);
	assert_string_equal(answer,
			    FLMEM_SAMPLER_REFUSED "a call from an earlier profile has not ended");
	assert_int_equal(opened, 0);
	assert_int_equal(sampler_shown.state.phase, FLMEM_SAMPLER_IDLE);
	sampler_shown.state.inside = 0;
	flmem_sampler_order(FLMEM_SAMPLER_ORDER_ATTACH "/p", answer);
	assert_string_equal(answer, FLMEM_SAMPLER_DONE);
	assert_int_equal(opened, 1);
}

/* A library loaded between the first walk and the profile could not be redirected then. */
static void test_libraries_are_searched_again_once_there_is_a_profile(void **state)
{
	char answer[FLMEM_SAMPLER_ANSWER_MAX];

	(void)state;
	flmem_sampler_order(FLMEM_SAMPLER_ORDER_ATTACH "/p", answer);
	assert_string_equal(answer, FLMEM_SAMPLER_DONE);
	assert_int_equal(caught_up, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_no_profile_begins_before_calls_of_the_last_one_end,
				       begin),
		cmocka_unit_test_setup(test_libraries_are_searched_again_once_there_is_a_profile,
				       begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
