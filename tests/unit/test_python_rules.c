/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the rules about the Python of a job: scripts that must trigger them, and near misses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "findings.h"
#include "tree.h"

#define FLARE "import nvflare.client as flare\n"
#define SWARM "from nvflare.app_opt.pt.recipes.swarm import SwarmLearningRecipe\n"

struct row {
	const char *rule, *script;
	size_t hits;
	unsigned line; /* line of the last finding; 0: any */
};

static const struct row rows[] = {
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(m, clear_cache=False)\n", 1, 2},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(m, False)\n", 1, 2},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(\n  f(a, (b, c)),\n  clear_cache = False,\n)\n",
	 1, 4},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(m, \\\n  clear_cache=False) # off\n", 1, 3},
	{"NVF-CLEAR-CACHE-FALSE", "import nvflare.client\nnvflare.client.send(m, False)\n", 1, 2},
	{"NVF-CLEAR-CACHE-FALSE", "from nvflare import client as c\nc.send(m, False)\n", 1, 2},
	{"NVF-CLEAR-CACHE-FALSE", "from nvflare.client import (init,\n send as s)\ns(m, False)\n",
	 1, 3},
	{"NVF-CLEAR-CACHE-FALSE", "from nvflare.client import *\nsend(m, False)\n", 1, 2},
	{"NVF-CLEAR-CACHE-FALSE",
	 "import os, nvflare.client as fl\nfl.send(m, False); fl.send(m, False)", 2, 2},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(m)\nflare.send(m, clear_cache=True)\n", 0, 0},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "# flare.send(m, False)\n'''flare.send(m, False)'''\n", 0,
	 0},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "sock.send(m, False)\nsend(m, False)\n", 0, 0},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "self.flare.send(m, False)\n", 0, 0},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(f(m, False))\nflare.send(m, not False)\n", 0,
	 0},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(False, m)\nflare.send(m, False or x)\n", 0, 0},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(g(clear_cache=False))\n", 0, 0},
	{"NVF-CLEAR-CACHE-FALSE",
	 "from nvflare.client import send as s\ndef send(m, c): pass\n"
	 "send(m, False)\n",
	 0, 0},
	{"NVF-CLEAR-CACHE-FALSE", "import nvflare.clients as flare\nflare.send(m, False)\n", 0, 0},

	/* values that are false in Python, and send under other names */
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(m, clear_cache=0)\n", 1, 2},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(m, clear_cache=None)\nflare.send(m, '')\n", 2,
	 3},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(m, 0.0)\nflare.send(m, {})\n", 2, 3},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "flare.send(m, clear_cache=1)\nflare.send(m, 'no')\n", 0,
	 0},
	{"NVF-CLEAR-CACHE-FALSE", "import nvflare\nnvflare.client.send(m, clear_cache=0)\n", 1, 2},
	{"NVF-CLEAR-CACHE-FALSE", "from nvflare.client.api import send\nsend(m, False)\n", 1, 2},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "send = flare.send\nsend(m, clear_cache=False)\n", 1, 3},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "s = flare.send\nt = s\nt(m, False)\n", 1, 4},
	{"NVF-CLEAR-CACHE-FALSE",
	 FLARE "import functools as f\ns = f.partial(flare.send, clear_cache=False)\n", 1, 3},
	{"NVF-CLEAR-CACHE-FALSE",
	 "def train():\n    import nvflare.client as flare\n    flare.send(m, False)\n", 1, 3},

	{"NVF-CLEAR-CACHE-UNKNOWN", FLARE "flare.send(m, clear_cache=keep)\n", 1, 2},
	{"NVF-CLEAR-CACHE-UNKNOWN", FLARE "flare.send(m, not keep)\nflare.send(m, **kw)\n", 2, 3},
	{"NVF-CLEAR-CACHE-UNKNOWN", FLARE "flare.send(*args)\n", 1, 2},
	{"NVF-CLEAR-CACHE-UNKNOWN",
	 FLARE "from functools import partial\npartial(flare.send, m)()\n", 1, 3},
	{"NVF-CLEAR-CACHE-UNKNOWN", FLARE "flare.send(m, True)\nflare.send(m, clear_cache=1)\n", 0,
	 0},
	{"NVF-CLEAR-CACHE-UNKNOWN", FLARE "flare.send(m, ctx=c)\nsock.send(m, keep)\n", 0, 0},

	{"NVF-SEND-PASSED-ON", FLARE "run(flare.send)\nrun(callback=flare.send)\n", 2, 3},
	{"NVF-SEND-PASSED-ON", FLARE "x = {'s': flare.send}\n", 1, 2},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "c = flare.init()\nc.api.send(m, False)\n", 1, 3},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "api = f()\napi.send(m, clear_cache=False)\n", 1, 3},
	{"NVF-CLEAR-CACHE-FALSE",
	 FLARE "class A:\n  def f(self):\n    self.flare = flare\n  def g(self):\n"
	       "    self.flare.send(m, False)\n",
	 1, 6},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "class A:\n  s = flare.send\nA.s(m, False)\n", 1, 4},
	{"NVF-CLEAR-CACHE-FALSE",
	 FLARE "class A:\n  def f(self):\n    self.f = flare\na = A()\na.f.send(m, False)\n", 1, 6},
	{"NVF-CLEAR-CACHE-FALSE",
	 FLARE "class A:\n  def f(self):\n    self.s = flare.send\nA().s(m)\na.s(m, False)\n", 1,
	 6},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "self.f = socket\na.f.send(m, False)\n", 0, 0},
	{"NVF-CLEAR-CACHE-FALSE", FLARE "c.api.send(m)\napi.send(m, clear_cache=1)\n", 0, 0},
	{"NVF-CLEAR-CACHE-UNKNOWN", FLARE "c.api.send(m, k)\na.send(m, clear_cache=k)\n", 2, 3},
	{"NVF-SEND-PASSED-ON", FLARE "getattr(flare, 'send')(m)\ntrain(flare)\n", 2, 3},
	{"NVF-SEND-PASSED-ON", FLARE "self.flare = flare\nf = flare\n", 0, 0},
	{"NVF-SEND-PASSED-ON", FLARE "match flare.send:\n  case s:\n    s(m, False)\n", 1, 2},
	{"NVF-SEND-PASSED-ON", FLARE "match flare.send, 1:\n  case s, _:\n    s(m, False)\n", 1, 2},
	{"NVF-SEND-PASSED-ON", FLARE "match 1, flare.send:\n  case _, s:\n    s(m, False)\n", 1, 2},
	{"NVF-SEND-PASSED-ON", FLARE "for s in flare.send, 1:\n  s(m, False)\n", 1, 2},
	{"NVF-SEND-PASSED-ON", FLARE "type S = flare.send\nS.__value__(m, False)\n", 1, 2},
	{"NVF-SEND-PASSED-ON", FLARE "typed = flare.send\nmatch = flare.send\n", 0, 0},
	{"NVF-SEND-PASSED-ON", FLARE "if x in flare.send.y:\n  re.match(flare.send(m))\n", 0, 0},
	{"NVF-SEND-PASSED-ON", FLARE "flare.send.__defaults__ = (False,)\n", 1, 2},
	{"NVF-SEND-PASSED-ON", FLARE "flare.send.a = flare.receive.__doc__ = 1\n", 0, 0},
	{"NVF-SEND-PASSED-ON", FLARE "s = flare.send\ns(m)\nrun(sock.send)\n", 0, 0},

	{"NVF-LIGHTNING-KEEPS-PARAMS", "import nvflare.client.lightning as flare\n", 1, 1},
	{"NVF-LIGHTNING-KEEPS-PARAMS", "\nfrom nvflare.client import lightning\n", 1, 2},
	{"NVF-LIGHTNING-KEEPS-PARAMS", "from nvflare.app_opt.lightning.api import patch\n", 1, 1},
	{"NVF-LIGHTNING-KEEPS-PARAMS", FLARE "import lightning\n", 0, 0},
	{"NVF-LIGHTNING-KEEPS-PARAMS", "# import nvflare.client.lightning\n", 0, 0},

	{"NVF-SWARM-TRAIN-ARGS",
	 SWARM "r = SwarmLearningRecipe(name='x',\n train_args={'a': 1, "
	       "\"memory_gc_rounds\": 1})\n",
	 1, 3},
	{"NVF-SWARM-TRAIN-ARGS",
	 "import nvflare.app_opt.pt.recipes as p\n"
	 "r = p.SimpleSwarmLearningRecipe(train_args=dict(cuda_empty_cache=True))\n",
	 1, 2},
	{"NVF-SWARM-TRAIN-ARGS",
	 SWARM "r = SwarmLearningRecipe(train_args={}, memory_gc_rounds=1)\n", 0, 0},
	{"NVF-SWARM-TRAIN-ARGS",
	 SWARM "r = SwarmLearningRecipe(train_args={'x': {'memory_gc_rounds': 1}})\n", 0, 0},
	{"NVF-SWARM-TRAIN-ARGS",
	 "from nvflare.recipe import FedAvgRecipe\n"
	 "r = FedAvgRecipe(train_args={'memory_gc_rounds': 1})\n",
	 0, 0},
};

static void check_row(size_t index, const struct row *row)
{
	struct flmem_recommendations found = {0};
	const char *path;
	struct tree tree;
	const struct flmem_finding *last;
	size_t hits;

	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, "job/app/custom/client.py", row->script);
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	assert_int_equal(found.problem_count, 0);
	hits = findings_of(&found, row->rule, &last);
	if (hits != row->hits)
		fail_msg("row %zu: %s fired %zu times on:\n%s", index, row->rule, hits,
			 row->script);
	if (row->line && (!last || last->line != row->line))
		fail_msg("row %zu: line %u, not %u", index, last ? last->line : 0, row->line);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

static void rules_fire_where_they_should_and_nowhere_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		check_row(i, &rows[i]);
}

static void scripts_without_nvflare_are_passed_over(void **state)
{
	struct flmem_recommendations found = {0};
	const char *path;
	struct tree tree;

	(void)state;
	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, "a.py", "import socket\n");
	tree_write(&tree, "b.py", "\x00\x01", 2);
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	assert_int_equal(found.file_count, 0);
	assert_int_equal(found.problem_count, 1);
	assert_true(found.problems[0].warning);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_fire_where_they_should_and_nowhere_else),
		cmocka_unit_test(scripts_without_nvflare_are_passed_over),
	};

	return cmocka_run_group_tests_name("python_rules", tests, NULL, NULL);
}
