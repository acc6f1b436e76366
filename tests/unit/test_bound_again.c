/* SPDX-License-Identifier: Apache-2.0 */
/* Names of recipes that a script may bind again, and settings that it passes to others. */
#include "script_rows.h"

#include "base/cleanup.h"

#define AGAIN "may be that of something else"
#define OTHER "what is not NVFlare's"
#define DOUBTED(text, where, what)                                                          \
	{                                                                                   \
		"NVF-CLASS-PASSED-ON", PT text, .hits = 1, .line = (where), .says = (what), \
						.severity = INFO                            \
	}
#define NOTHING(text)                                     \
	{                                                 \
		"NVF-CLASS-PASSED-ON", PT text, .hits = 0 \
	}
#define CALL "R(" BOTH ")\n"

static const struct row names[] = {
	DOUBTED("def f():\n  class R: pass\n  " CALL, 3, AGAIN),
	DOUBTED("if x:\n  class R(Mine): pass\n" CALL, 3, AGAIN),
	DOUBTED("def f():\n  def R(): pass\n  " CALL, 3, AGAIN),
	DOUBTED("match x:\n  case R:\n    pass\n" CALL, 3, AGAIN),
	DOUBTED("match x:\n  case [1, *R]:\n    pass\n" CALL, 3, AGAIN),
	DOUBTED("match x:\n  case {'a': 1} as R:\n    pass\n" CALL, 3, AGAIN),
	DOUBTED("from helpers import *\n" CALL, 2, AGAIN),
	DOUBTED("def f():\n  from .helpers import *\n" CALL, 3, AGAIN),
	NOTHING("from nvflare.recipe import *\n" CALL),
	NOTHING("from typing import *\n" CALL),
	NOTHING("match x:\n  case R(name=R2):\n    pass\n  case a.R:\n    pass\n" CALL),
	NOTHING("match x:\n  case y if R:\n    pass\n" CALL),
	NOTHING(CALL "from helpers import *\n"),
	NOTHING(CALL "def f():\n  class R: pass\n"),
	NOTHING("def f():\n  class Q: pass\n  def S(): pass\n" CALL),
};

/* Without a word of NVFlare but those. */
static const struct row settings[] = {
	{"NVF-SETTING-ASSIGNED", "from helpers import make\nmake(server_memory_gc_rounds=0)\n",
	 .hits = 1, .line = 2, .says = OTHER, .severity = INFO},
	{"NVF-SETTING-ASSIGNED", "import helpers\nhelpers.make(client_memory_gc_rounds=2)\n",
	 .hits = 1, .line = 2, .says = OTHER, .severity = INFO},
};

static void names_that_are_bound_again_are_doubts(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		check_row(&names[i]);
}

static void settings_of_others_are_doubts(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(settings); i++)
		check_row(&settings[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_are_bound_again_are_doubts),
		cmocka_unit_test(settings_of_others_are_doubts),
	};

	return cmocka_run_group_tests_name("bound_again", tests, NULL, NULL);
}
