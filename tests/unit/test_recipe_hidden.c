/* SPDX-License-Identifier: Apache-2.0 */
/* Tests recipes that a script reaches in other ways than by the names that it assigns them to. */
#include <stdio.h>

#include "script_rows.h"

#define RECIPE "r = R(" BOTH ")\n"
#define RUN    "r.execute(env)\n"
#define CLASS  "class A:\n  q = R(" BOTH ")\n"
#define HELD   "class A:\n  def __init__(self):\n    self.q = R(" BOTH ")\n"
#define GIVEN  "class A:\n  @property\n  def q(self):\n    return R(" BOTH ")\n"
#define MADE   "def make():\n  return R(" BOTH ")\n"

#define DOUBT(text, hit)                                                                      \
	{                                                                                     \
		"NVF-PARTS-ELSEWHERE", PT text, .hits = 1, .line = (hit), .severity = INFO,   \
						.says = "the recipe is changed, or passed on" \
	}
#define USE(text) DOUBT(RECIPE text "\n" RUN, 3)
#define CODE(text)                                               \
	{                                                        \
		"NVF-IMPORTED-BY-NAME", PT RECIPE text "\n" RUN, \
			.hits = 1, .line = 3, .severity = INFO,  \
			.says = "cannot tell which classes"      \
	}
#define SILENT(text)                                                      \
	{                                                                 \
		"NVF-PARTS-ELSEWHERE", PT RECIPE text "\n" RUN, .hits = 0 \
	}
#define QUIET(text)                                            \
	{                                                      \
		"NVF-PARTS-ELSEWHERE", PT text "\n", .hits = 0 \
	}

static const struct row scopes[] = {
	USE("locals()['r'].clear()"),
	USE("locals().get('r').clear()"),
	USE("vars()['r'].clear()"),
	USE("vars()[name].clear()"),
	USE("vars()[f'{x}'].clear()"),
	USE("f(**locals())"),
	USE("f(vars())"),
	USE("x = locals()"),
	USE("for x in locals().values(): x.clear()"),
	USE("g = globals\ng()['r'].clear()"),
	DOUBT(RECIPE "def f():\n  x = globals()\n", 4),
	USE("getattr(own, 'r').clear()"),
	USE("operator.attrgetter('a.r')(own).clear()"),
	USE("getattr(sys.modules[__name__], name).clear()"),
	USE("sys.modules[__name__].r.clear()"),
	USE("importlib.import_module(__name__).r.clear()"),
	USE("import __main__"),
	USE("from __main__ import r as q"),
	USE("inspect.currentframe().f_locals['r'].clear()"),
	USE("sys._getframe(1).f_globals.clear()"),
	USE("x = eval(text)"),
	CODE("eval(f'{n}.clear()')"),
	CODE("eval('r' + text)"),
	CODE("builtins.exec(text)"),
	USE("compile(text, 'x', 'exec')"),
	CODE("e = exec\ne('r.clear()')"),
	SILENT("print(locals())\nx = '%(a)s' % locals()\ny = '{a}'.format(**locals())"),
	SILENT("x = vars()['a']\nif 'r' in locals(): pass\nx = locals().get('a')"),
	SILENT("x = getattr(args, 'a', None)\nlog = getLogger(__name__)\nprint(__name__)"),
	SILENT("sys.modules[__name__].__doc__\nif __name__ == '__main__': pass"),
	SILENT("model.eval()\ndf.eval(text)\nre.compile(text)\nf(eval=True)\nx = eval('1 + 2')"),
	SILENT("re.compile('r')\nx = re.compile('y')\nsql.exec('r.clear()')\ndf.eval('r * 2')"),
	USE("builtins.exec('r.clear()')"),
	QUIET("def f():\n  " RECIPE "  r.execute(env)\ndef g():\n  return locals()\n"),
};

static const struct row members[] = {
	DOUBT(CLASS "A.q.clear()\n", 4),
	DOUBT(CLASS "A().q.clear()\n", 4),
	DOUBT(CLASS "mutate(A().q)\n", 4),
	DOUBT(CLASS "  def f(self):\n    self.q.clear()\n", 5),
	DOUBT(CLASS "a = A()\na.q = load()\n", 5),
	DOUBT(CLASS "x = getattr(A, name)\n", 4),
	DOUBT(HELD "a = A()\na.q.clear()\n", 6),
	DOUBT(HELD "mutate([A()][0].q)\n", 5),
	DOUBT(HELD "  def f(self, name):\n    return getattr(self, name)\n", 6),
	DOUBT(GIVEN "A().q.clear()\n", 6),
	DOUBT(GIVEN "a = A()\nmutate(a.q)\n", 7),
	DOUBT("class A:\n  def make(self):\n    return R(" BOTH ")\na = A()\na.make().clear()\n",
	      6),
	DOUBT(MADE "x = make\nx().clear()\n", 4),
	DOUBT(MADE "x = list(map(make, y))\n", 4),
	DOUBT("class A:\n  def make(self):\n    return R(" BOTH ")\nf = A().make\n", 5),
	USE("R.clear(r)"),
	USE("if (q := r): q.clear()"),
	QUIET(CLASS "A().q.execute(env)\nprint(A.q.name)\na = A()\nif a.q: a.q.run(env)"),
	QUIET(CLASS "x = getattr(A, '__doc__')\ny = getattr(args, name)"),
	QUIET(HELD "  def f(self):\n    self.q.execute(env)\na = A()\na.q.export('x')"),
	QUIET(GIVEN "A().q.execute(env)"),
	QUIET(MADE "if __name__ == '__main__': make().execute(env)"),
};

static const struct row bound[] = {
	USE("f = r.add_client_config"),
	USE("map(r.add_client_config, xs)"),
	USE("[r.add_client_config][0](x)"),
	USE("x = {'a': r.add_server_config}"),
	USE("f = r.execute"),
	USE("r.execute.__self__.clear()"),
	USE("x = r.run.__func__"),
	USE("Thread(target=r.execute).start()"),
	DOUBT(CLASS "f = A.q.run\n", 4),
	SILENT("print(r.execute, callable(r.execute), r.execute.__name__, r.run.__doc__)"),
	SILENT("f(r.name, r.min_clients)\nif r.execute: pass"),
};

static const struct row decorators[] = {
	USE("@register(r)\ndef f(): pass"),
	USE("@r.hook\ndef f(): pass"),
	USE("@r\nclass A: pass"),
	DOUBT("@mutate\ndef make():\n  return R(" BOTH ")\nmake().execute(env)\n", 2),
	DOUBT("@cache\n@own.mutate(1)\ndef make():\n  return R(" BOTH ")\n", 3),
	DOUBT(RECIPE "@mutate\ndef f(x):\n  x.execute(env)\nf(r)\n", 3),
	QUIET("@functools.lru_cache(maxsize=None)\ndef make():\n  return R(" BOTH
	      ")\nmake().run(env)"),
	QUIET("@timed\ndef main():\n  " RECIPE "  r.execute(env)\nmain()"),
	QUIET("@pytest.fixture\ndef make():\n  return R(" BOTH ")\n"),
};

static const struct row fields[] = {
	USE("x = f'{r.clear()}'"),
	USE("print(f'{mutate(r)}')"),
	USE("print(rf\"a {{b}} {x:>{mutate(r)}}\")"),
	USE("print(f'{x[\"{\"]}{mutate(r)}')"),
	USE("x = f'{(q := r)}'"),
	USE("x = f'{setattr(r, name, 1)}'"),
	USE("x = f'{f\"{mutate(r)}\"}'"),
	USE("x = f'{r.clear(\n'"),
	USE("x = f'{locals()[n]}'"),
	USE("x = t'{mutate(r)}'"),
	USE("f'{r.add_client_config({1: 2})}'"),
	DOUBT(RECIPE "x = f'''\n{1}{mutate(r)}'''\n", 4),
	{"NVF-PARTS-ELSEWHERE", PT RECIPE "x = f'{r.job.clear()}'\n", .hits = 1, .line = 3},
	{"NVF-CLASS-PASSED-ON", PT "x = f'{R(" BOTH ").execute(env)}'\n", .hits = 1, .line = 2,
	 .severity = INFO, .says = "cannot tell with which arguments"},
	{"NVF-CLASS-PASSED-ON", PT RECIPE "x = f'{R.__name__} {R} {isinstance(x, R)}'\n",
	 .hits = 0},
	SILENT("print(f'{r} {r!r} {r=} {r.name:>10} {r.name!s} {type(r).__name__} {len(r.name)}')"),
	SILENT("print(f'{r.execute(env).get_status()}', f'{{mutate(r)}}', '{mutate(r)}')"),
	SILENT("x = f'{'\ny = f'}'\nz = f'{{'\nf'{'"),
};

static const struct row names[] = {
	USE("getattr(r, f'{n}')()"),
	USE("getattr(r, rF'{n}')()"),
	USE("getattr(r, t'{n}')"),
	USE("getattr(r, '{}'.format(n))()"),
	USE("getattr(r, 'set_' + n)(1)"),
	USE("getattr(r, '%s' % n)"),
	USE("getattr(r, 'a' if b else n)"),
	USE("getattr(r, 'na' 'me')"),
	USE("getattr(r, 'add_x')(1)"),
	USE("getattr(r, 'job').to(1)"),
	USE("getattr(r, 'parts')['a'] = 1"),
	USE("getattr(r, r'_job')"),
	USE("locals()['x' + n].clear()"),
	USE("locals().get('x' + n)"),
	DOUBT(HELD "  def f(self, n):\n    return getattr(self, f'{n}')\n", 6),
	DOUBT(HELD "  def f(self, n):\n    return getattr(self, 'a' + n)\n", 6),
	SILENT("print(getattr(r, 'name'))\nx = getattr(r, r'name', None)\ny = getattr(r, f'name')"),
	SILENT("getattr(r, 'execute')(env)\nx = getattr(r, 'name').lower()"),
	QUIET(HELD "  def f(self):\n    return getattr(self, 'a', None)"),
};

static const struct row objects[] = {
	USE("for x in gc.get_objects(): x.clear()"),
	USE("x = get_objects()[0]"),
	USE("gc.get_referrers(x)[0].clear()"),
	USE("gc.get_referents(x)[0].clear()"),
	USE("ctypes.cast(id(x), ctypes.py_object).value.clear()"),
	USE("import job"),
	USE("import os, job as j"),
	USE("from job import *"),
	USE("from . import job"),
	DOUBT(RECIPE "def f():\n  import job\n  job.r.clear()\nf()\n", 4),
	SILENT("print(len(gc.get_objects()))\nx = len(gc.get_referrers(y))"),
	SILENT("import jobs\nfrom a import job\nfrom job.a import b\nimport a.job\njob = 1"),
};

static size_t count_doubts(const char *script)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	size_t hits;

	check_script("job.py", script, NULL, &found);
	hits = findings_of(&found, "NVF-PARTS-ELSEWHERE", &last);
	flmem_recommendations_clear(&found);
	return hits;
}

/* flmem keeps 256 definitions, and a depth of 32. It knows nothing about others. */
static void definitions_beyond_the_limit_are_a_doubt(void **state)
{
	char many[16384] = "import nvflare\n", deep[4096] = PT;
	size_t length = strlen(many), at = strlen(deep);

	(void)state;
	for (int i = 0; i < 300; i++)
		length += (size_t)snprintf(many + length, sizeof(many) - length,
					   "def f():\n  pass\n");
	assert_int_equal(count_doubts(many), 0);
	snprintf(many + length, sizeof(many) - length, "%s", PT MADE "mutate(make())\n");
	assert_int_not_equal(count_doubts(many), 0);
	for (int i = 0; i < 40; i++)
		at += (size_t)snprintf(deep + at, sizeof(deep) - at, "%*sdef f():\n", i, "");
	snprintf(deep + at, sizeof(deep) - at,
		 "%40sdef m():\n%41sreturn R(" BOTH ")\n%40smutate(m())\n", "", "", "");
	assert_int_not_equal(count_doubts(deep), 0);
}

#define CHECK_ROWS(rows)                                            \
	for (size_t i = 0; i < sizeof(rows) / sizeof(*(rows)); i++) \
	check_row(&(rows)[i])

static void recipes_are_reached_by_scopes(void **state)
{
	(void)state;
	CHECK_ROWS(scopes);
}

static void recipes_are_reached_as_members(void **state)
{
	(void)state;
	CHECK_ROWS(members);
}

static void methods_of_recipes_are_kept(void **state)
{
	(void)state;
	CHECK_ROWS(bound);
}

static void decorators_may_change_recipes(void **state)
{
	(void)state;
	CHECK_ROWS(decorators);
}

static void fields_of_strings_are_code(void **state)
{
	(void)state;
	CHECK_ROWS(fields);
}

static void names_of_attributes_may_be_made(void **state)
{
	(void)state;
	CHECK_ROWS(names);
}

static void all_objects_may_have_recipes(void **state)
{
	(void)state;
	CHECK_ROWS(objects);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recipes_are_reached_by_scopes),
		cmocka_unit_test(recipes_are_reached_as_members),
		cmocka_unit_test(methods_of_recipes_are_kept),
		cmocka_unit_test(decorators_may_change_recipes),
		cmocka_unit_test(fields_of_strings_are_code),
		cmocka_unit_test(names_of_attributes_may_be_made),
		cmocka_unit_test(all_objects_may_have_recipes),
		cmocka_unit_test(definitions_beyond_the_limit_are_a_doubt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
