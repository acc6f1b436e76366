/* SPDX-License-Identifier: Apache-2.0 */
/* Tests Python and notebooks as trees of calls: the names that imports bind, and the arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "documents/document.h"

static void put_value(const struct flmem_node *node, struct flmem_buf *out)
{
	static const char kinds[] = {
		[FLMEM_NODE_NULL] = 'n',      [FLMEM_NODE_BOOL] = 'b',	 [FLMEM_NODE_INTEGER] = 'i',
		[FLMEM_NODE_REAL] = 'r',      [FLMEM_NODE_STRING] = 's', [FLMEM_NODE_MAP] = '{',
		[FLMEM_NODE_EXPRESSION] = '?'};

	flmem_buf_printf(out, "%s%c%s", node->key ? node->key : "", kinds[node->kind], node->text);
	for (const struct flmem_node *n = node->first; n; n = n->next) {
		put_value(n, out);
		flmem_buf_puts(out, n->next ? "," : "");
	}
	flmem_buf_puts(out, node->kind == FLMEM_NODE_MAP ? "}" : "");
}

/* Writes "path(arguments)" for each call and "+path" for each other use, each with its line. */
static char *show(const struct flmem_document *document)
{
	static const char *const lists[] = {"bases", "values"};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
	const struct flmem_node *n;

	n = flmem_node_first(flmem_node_get(document->root, "calls"));
	for (; n; n = n->next) {
		flmem_buf_printf(&out, "%u %s", n->place.line, flmem_node_get(n, "path")->text);
		put_value(flmem_node_get(n, "args"), &out);
		flmem_buf_putc(&out, ' ');
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++) {
		n = flmem_node_first(flmem_node_get(document->root, lists[i]));
		for (; n; n = n->next)
			flmem_buf_printf(&out, "%u %c%s ", n->place.line, i ? '+' : '<', n->text);
	}
	return flmem_buf_take(&out);
}

static void check(enum flmem_syntax syntax, const char *source, const char *expected)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_FREE char *shown = NULL;
	struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_error err = {0};

	flmem_buf_puts(&text, source);
	if (flmem_document_read(syntax, &text, &document, &err))
		fail_msg("%s\non:\n%s", err.message, source);
	shown = show(&document);
	if (strcmp(shown, expected) != 0)
		fail_msg("%s\ninstead of\n%s\non:\n%s", shown, expected, source);
}

static const struct {
	const char *source, *calls;
} rows[] = {
	{"import a\na.f(1)\n", "2 a.fargs{0i1} "},
	{"import a.b as c, d\nc.f(); d.e.g(x=-2)\n", "2 a.b.fargs{} 2 d.e.gargs{xi-2} "},
	{"import a.b\na.b.f(+3, -0.5, 1_000)\n", "2 a.b.fargs{0i3,1r-0.5,2i1000} "},
	{"from a import (f, # both\n g as h,)\nf()\nh(\n 'x'\n)\n", "3 a.fargs{} 4 a.gargs{0sx} "},
	{"from a import *\nf(1)\n", "2 a.fargs{0i1} "},
	{"from a import *\nfrom b import *\nf(1)\n", "3 b.fargs{0i1} 3 a.fargs{0i1} "},
	{"from a import *\ndef f(x): pass\nf(1)\n", ""},
	{"from . import f\nfrom .a import g\nf(); g()\n", "3 .fargs{} 3 .a.gargs{} "},
	{"import os\ndel os.environ['A'], x\ndel os.environ[b]\ndel os.environ['A'].b\n",
	 "2 os.environ.__delitem__args{0sA} 3 os.environ.__delitem__args{0?} "},
	{"import a\ra.f(1)\r\n\ra.g()\r", "2 a.fargs{0i1} 4 a.gargs{} "},
	/* values of arguments */
	{"from a import f\nf(True, b=False, c=None, d=x, e=1 + 1, g='s' 't')",
	 "2 a.fargs{0btrue,bbfalse,cnnull,d?x,e?,g?} "},
	{"from a import f\nf(f'{x}', r'y', '''z''', 0x10, 1e3, 'a')",
	 "2 a.fargs{0?,1sy,2sz,3i16,4r1e3,5sa} "},
	{"from a import f\nf(0XfF, 0o17, 0b1_1, -0x1, 0x, 017, 0b2, 0xfffffffffffffffff, 0x1j)",
	 "2 a.fargs{0i255,1i15,2i3,3i-1,4?,5?,6?,7?,8?} "},
	{"from a import f\nf(*p, **q)\nf(x == 1, (0), [1, 2], lambda u, v: u)",
	 "2 a.fargs{*?p,**?q} 3 a.fargs{0?,1?,2?,3?} "},
	{"from a import f\nf(c={'k': 1, 'm': {'n': x}}, d=dict(u=2, v=y))",
	 "2 a.fargs{c{ki1,m{n?x}},d{ui2,v?y}} "},
	{"from a import f\nf({**b, 'k': 1}, {k: 1}, {1, 2}, {'k': 1} | z, {'k': v for v in w})",
	 "2 a.fargs{0{**?b,ki1},1?,2?,3?,4{k?}} "},
	{"from a import f\nf({'k': 1, j: 2})", "2 a.fargs{0{ki1,**?}} "},
	{"from a import F, f\nf(F, F.x, F())", "2 a.fargs{0?a.F,1?a.F.x,2?} 2 a.Fargs{} 2 +a.F "
					       "2 +a.F.x "},
	/* calls within others, and texts that only look like calls */
	{"from a import f, g\nx = [f(1) for y in g(f(2))]",
	 "2 a.fargs{0i1} 2 a.gargs{0?} 2 a.fargs{0i2} "},
	{"from a import f\nb.f(1)\nself.f(2)\n# f(3)\n'''f(4)'''\ndef f2(): f(5)",
	 "6 a.fargs{0i5} "},
	{"from a import f as g\ndef f(): pass\nf(1)\ng(2)", "4 a.fargs{0i2} "},
	/* other names for an imported one */
	{"from a import f\ng = f\nh = g\nh(1)", "4 a.fargs{0i1} "},
	{"import a\nself.s = a.f\nself.s(1)", "3 a.fargs{0i1} "},
	{"import a\ns: type = a.f\ns(1)\nif x: y\nelse: t = s\nt(2)",
	 "3 a.fargs{0i1} 6 a.fargs{0i2} "},
	{"from a import f\nf: object = b()\nf(1)", ""},
	{"from a import f\nf = other\nf(1)", ""},
	{"if p:\n from a import F\n F(1)\nelse:\n from b import F\n F(2)",
	 "3 a.Fargs{0i1} 6 b.Fargs{0i2} "},
	{"from functools import partial\nfrom a import f\ng = partial(f, 1, k=2)",
	 "3 a.fargs{**?a.f,0i1,ki2} 3 + "},
	/* uses without a call */
	{"from a import F\nclass G(F, metaclass=M): pass", "2 <a.F "},
	{"from a import F\nd = {'x': F}\ndef g(r=F) -> F: return F", "2 +a.F 3 +a.F 3 +a.F "},
	{"from a import F\ndef g(x: F, y: F = None): isinstance(x, F)\nz: F = h", ""},
	/* texts that are not Python */
	{"from a import f\nf(1", "2 a.fargs{0i1} "},
	{"from a import f\nf(]1)", "2 a.fargs{0?,1i1} "},
	{"from a import f\nf(x=)\nf(,)\nf('open\nf(2)", "2 a.fargs{x?} 3 a.fargs{0?} 4 a.fargs{0?} "
							"5 a.fargs{0i2} "},
};

static void calls_are_those_of_imported_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		check(FLMEM_SYNTAX_PYTHON, rows[i].source, rows[i].calls);
}

#define CELL(source) "{\"cell_type\": \"code\", \"source\": " source "}"

/* clang-format off */
static const char notebook[] =
	"{\"cells\": [\n"
	"{\"cell_type\": \"markdown\", \"source\": [\"f(0)\"]},\n"
	CELL("[\"from a import f\\n\",\n\"\\n\",\n\"%run f(1)\\n\",\n\"f(2)\"]") ",\n"
	CELL("\"%%bash\\nf(3 'it\"") ",\n"
	CELL("\"f((4\"") ",\n"
	CELL("[\"%%time\\n\", \"f(5)\"]") ",\n"
	CELL("[\"%%writefile a.txt\\n\", \"f(6)\"]") ",\n"
	CELL("[\"%%writefile a.py\\n\",\n\"f(\\n\",\n\" x=7)\"]") "]}";
/* clang-format on */

static void the_code_of_a_notebook_is_read_cell_by_cell(void **state)
{
	(void)state;
	check(FLMEM_SYNTAX_NOTEBOOK, notebook,
	      "5 runpy.run_pathargs{0?file} 6 a.fargs{0i2} 7 os.systemargs{0sf(3 'it} 8 "
	      "a.fargs{0?} 9 a.fargs{0i5} 12 "
	      "a.fargs{xi7} ");
}

static void lazy_imports_are_imports(void **state)
{
	(void)state;
	check(FLMEM_SYNTAX_PYTHON, "lazy from a import f\nf(1)\n", "2 a.fargs{0i1} ");
	check(FLMEM_SYNTAX_PYTHON, "x = 1; lazy import a.b as c; c.f(1)\n", "1 a.b.fargs{0i1} ");
	check(FLMEM_SYNTAX_PYTHON, "lazy \\\n import a\na.f(1)\n", "3 a.fargs{0i1} ");
	check(FLMEM_SYNTAX_PYTHON, "lazy\\\nfrom a import f\nf(1)\n", "3 a.fargs{0i1} ");
	check(FLMEM_SYNTAX_PYTHON, "lazy import a\nlazy = 2\nlazy\nfrom b import f\na.g()\nf()\n",
	      "5 a.gargs{} 6 b.fargs{} ");
	check(FLMEM_SYNTAX_PYTHON, "def g():\n\tx = lazy\n\tfrom b import f\n\tf()\n",
	      "4 b.fargs{} ");
}

static const char other_cells[] =
	"{\"cells\": [\n"
	"{\"cell_type\": \"code\", \"source\": \"import a\"},\n"
	"{\"cell_type\": \"code\", \"source\": \"%%of_some_package x\\na.f(1)\"},\n"
	"{\"cell_type\": \"code\", \"source\": \"%%script --bg python3\\na.f(2)\"},\n"
	"{\"cell_type\": \"code\", \"source\": \"%%html\\na.f(3)\"},\n"
	"{\"cell_type\": \"code\", \"source\": \"%%writefile a.txt\\na.f(4)\"},\n"
	"{\"cell_type\": \"code\", \"source\": \"%%writefile a.py\\na.f(5)\"}]}\n";

/* A magic command that is not known may be of any package, which mostly run Python. */
static void cells_of_unknown_magics_are_python(void **state)
{
	(void)state;
	check(FLMEM_SYNTAX_NOTEBOOK, other_cells, "3 a.fargs{0i1} 4 a.fargs{0i2} 7 a.fargs{0i5} ");
}

static void expect_refusal(enum flmem_syntax syntax, const char *source, const char *why)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_error err = {0};

	flmem_buf_puts(&text, source);
	assert_int_equal(flmem_document_read(syntax, &text, &document, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, why));
}

static void what_is_beyond_the_limits_is_refused(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	expect_refusal(FLMEM_SYNTAX_NOTEBOOK, "{\"nbformat\": 3}", "without cells");
	expect_refusal(FLMEM_SYNTAX_NOTEBOOK, "{", "column 2");
	flmem_buf_puts(&text, "from a import f\n");
	for (int i = 0; i < 200; i++)
		flmem_buf_puts(&text, "f(");
	expect_refusal(FLMEM_SYNTAX_PYTHON, text.data, "column 185: nested too deep");
	flmem_buf_reset(&text);
	flmem_buf_puts(&text, "from a import f\n");
	for (unsigned i = 0; i < FLMEM_DOCUMENT_NODES_MAX / 3; i++)
		flmem_buf_puts(&text, "f()\n");
	expect_refusal(FLMEM_SYNTAX_PYTHON, text.data, "too many values");
	flmem_buf_reset(&text);
	for (unsigned i = 0; i <= FLMEM_DOCUMENT_NODES_MAX; i++)
		flmem_buf_puts(&text, "import a\n");
	expect_refusal(FLMEM_SYNTAX_PYTHON, text.data, "too many imports");
}

/* Expects "name(arguments)" for each method, and "=name" for each attribute. */
static void check_uses(const char *source, const char *expected)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
	struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_node *n;

	flmem_buf_puts(&text, source);
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_PYTHON, &text, &document, NULL), 0);
	n = flmem_node_first(flmem_node_get(document.root, "methods"));
	for (; n; n = n->next) {
		flmem_buf_printf(&out, "%u %s", n->place.line, flmem_node_get(n, "path")->text);
		put_value(flmem_node_get(n, "args"), &out);
		flmem_buf_putc(&out, ' ');
	}
	n = flmem_node_first(flmem_node_get(document.root, "attributes"));
	for (; n; n = n->next)
		flmem_buf_printf(&out, "%u =%s ", n->place.line, n->text);
	if (strcmp(out.data ? out.data : "", expected) != 0)
		fail_msg("%s\ninstead of\n%s\non:\n%s", out.data, expected, source);
}

/* For Python, names with the same normal form NFKC are the same name. */
static void names_in_other_letters_are_those_in_ascii(void **state)
{
	(void)state;
	check_uses("r.\uff4d_\U0001d400(\ufb01t=1, \u017fet\uff3f\u00aa=2)\n",
		   "1 m_Aargs{fiti1,set_ai2} ");
	check_uses("r.\uff4b = 1\nr.\u210e\U0001d7cf = 2\n", "1 =k 2 =h1 ");
	check_uses("r.gr\u00f6\u00dfe = 1\nr.\u03b1k = 2\n", "1 =gr\u00f6\u00dfe 2 =\u03b1k ");
	check_uses("r.m('\uff4d')\n", "1 margs{0s\uff4d} ");
}

static void methods_and_attributes_are_kept(void **state)
{
	(void)state;
	check_uses("r = f()\nr.m({'k': 0}, n)\na.b.m2(x=1)\n",
		   "2 margs{0{ki0},1?n} 3 m2args{xi1} ");
	check_uses("self.m(1)\ncls.m(2)\nf(3)\nimport a\na.m(4)\n", "1 margs{0i1} 2 margs{0i2} ");
	check_uses("f().m(1)\na[0].n(2)\n'x'.o(3)\nf()(4)\n",
		   "1 margs{0i1} 2 nargs{0i2} 3 oargs{0i3} 4 args{0i4} ");
	check_uses("r.__dict__.m(1)\nvars(r).n(2)\nvars(r)[k].o(3)\n",
		   "1 __dict__.margs{0i1} 2 __dict__.nargs{0i2} 3 oargs{0i3} ");
	check_uses("f().k = 1\na[0].l += 2\nself.r.m = 3\nx = r.n = 4\nr.o, r.p = 5, 6\n",
		   "1 =k 2 =l 3 =m 4 =n 5 =o 5 =p ");
	check_uses("r.k: int = 1\nr.l, r.m\nr.n, x == y\nif r.o: x = 1\n", "1 =k ");
	check_uses("vars(r)[k] = 1\nvars(r)['k'] = 1\nr.__dict__[k] = 2\nvars(r)[k]\n",
		   "1 =__dict__ 3 =__dict__ ");
	check_uses("from a import *\nm(1)\nr.n(2)\n", "3 nargs{0i2} ");
	check_uses("setattr(r, 'k', 1)\n__import__('a')\n", "1 setattrargs{0?r,1sk,2i1} "
							    "2 __import__args{0sa} ");
	check_uses("r.m(s.n(1))\n", "1 margs{0?} 1 nargs{0i1} ");
	check_uses("r.k = 1\nif r.l == 2: r.s.m = r.n\nself.o = 3\ncls.o = 3\nx = 4\n",
		   "1 =k 2 =m ");
	check_uses("f(r.k, k=1)\n[r.k]\nr.k + 1\nr.k\n", "");
	check_uses("r.k += 1\nr.l //= 2\nr.m == 3\nr.n <= 3\nr.o <<= 1\n", "1 =k 2 =l 5 =o ");
	check_uses("\xef\xbb\xbfr.k = 1\n", "1 =k ");
}

/* Members that modules and classes lose, and members that functions and classes define. */
static void assigned_and_defined_members_are_kept(void **state)
{
	static const char source[] =
		"import a.b as m, c\nfrom d import E\nm.f = 1\nE.g, c.h.i = 1, 2\nx.j = 3\nk = 4\n"
		"def l():\n  self.n = o = 5\n  p = 6\nclass Q(E):\n  async def r(s, t=1): pass\n"
		"m.f == 1\nm.f()\nself.u.v = 1\n";
	static const char *const lists[] = {"rebound", "definitions"};
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_BUF struct flmem_buf shown = FLMEM_BUF_INIT;
	struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	flmem_buf_puts(&text, source);
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_PYTHON, &text, &document, NULL), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (const struct flmem_node *n =
			     flmem_node_first(flmem_node_get(document.root, lists[i]));
		     n; n = n->next)
			flmem_buf_printf(&shown, "%u %s;", n->place.line, n->text);
	assert_string_equal(shown.data, "3 a.b.f;4 d.E.g;4 c.h.i;7 l;8 n;8 o;9 p;11 r;");
}

/* Full names in strings, which libraries use to import classes. */
static void full_names_in_strings_are_kept(void **state)
{
	static const char source[] =
		"x = 'a.b.C', f(\"a.b:D\"), \"\"\"m.n\"\"\", r'q.r' # 'no.no'\n"
		"y = 'one', 'a. b', 'a-b.c', '', \"\"\"\ntwo.three\"\"\"\n";
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_BUF struct flmem_buf shown = FLMEM_BUF_INIT;
	struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_node *n;

	(void)state;
	flmem_buf_puts(&text, source);
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_PYTHON, &text, &document, NULL), 0);
	n = flmem_node_first(flmem_node_get(document.root, "paths"));
	for (; n; n = n->next)
		flmem_buf_printf(&shown, "%u %s;", n->place.line, n->text);
	assert_string_equal(shown.data, "1 a.b.C;1 a.b.D;1 m.n;1 q.r;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_names_in_strings_are_kept),
		cmocka_unit_test(assigned_and_defined_members_are_kept),
		cmocka_unit_test(calls_are_those_of_imported_names),
		cmocka_unit_test(names_in_other_letters_are_those_in_ascii),
		cmocka_unit_test(methods_and_attributes_are_kept),
		cmocka_unit_test(the_code_of_a_notebook_is_read_cell_by_cell),
		cmocka_unit_test(cells_of_unknown_magics_are_python),
		cmocka_unit_test(lazy_imports_are_imports),
		cmocka_unit_test(what_is_beyond_the_limits_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
