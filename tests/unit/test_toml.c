/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests TOML: texts that are read, texts that are refused and on which line, and the rules about
 * pyproject.toml.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "documents/document.h"
#include "findings.h"
#include "tree.h"

static int read_text(const char *bytes, struct flmem_document *document, struct flmem_error *err)
{
	struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_puts(&text, bytes);
	return flmem_document_read(FLMEM_SYNTAX_TOML, &text, document, err);
}

static const struct {
	const char *text;
	const char *way[4];
	enum flmem_node_kind kind;
	const char *value;
	unsigned line;
} values[] = {
	{"a = 1", {"a"}, FLMEM_NODE_INTEGER, "1", 1},
	{"# x\r\n\r\na = true # y\r\n", {"a"}, FLMEM_NODE_BOOL, "true", 3},
	{"[a.b]\n c . d = -2.5", {"a", "b", "c", "d"}, FLMEM_NODE_REAL, "-2.5", 2},
	{"a = \"x\\n\\u00e9\"", {"a"}, FLMEM_NODE_STRING, "x\n\xc3\xa9", 1},
	{"a = 'x\\n'", {"a"}, FLMEM_NODE_STRING, "x\\n", 1},
	{"a = \"\"\"\nx\n\"y\"\"\"\"\nb = 1", {"a"}, FLMEM_NODE_STRING, "x\n\"y\"", 1},
	{"a = '''\r\n\nx\\ \"\"\"''''\nb = 1", {"a"}, FLMEM_NODE_STRING, "\nx\\ \"\"\"'", 1},
	{"a = ''''''", {"a"}, FLMEM_NODE_STRING, "", 1},
	{"a = '''x'''\nb = 2", {"b"}, FLMEM_NODE_INTEGER, "2", 2},
	{"'a b' = 1", {"a b"}, FLMEM_NODE_INTEGER, "1", 1},
	{"\"a.b\".c = 1", {"a.b", "c"}, FLMEM_NODE_INTEGER, "1", 1},
	{"a = {b = 1, c.d = 2}", {"a", "c", "d"}, FLMEM_NODE_INTEGER, "2", 1},
	{"a = [ # x\n 1,\n 2,\n]\nb = 3", {"b"}, FLMEM_NODE_INTEGER, "3", 5},
	{"[a]\nb = 1\n[a.c]\nd = 2\n[e]\n", {"a", "c", "d"}, FLMEM_NODE_INTEGER, "2", 4},
	{"a = 1979-05-27", {"a"}, FLMEM_NODE_STRING, "1979-05-27", 1},
	{"a = 0x1F", {"a"}, FLMEM_NODE_INTEGER, "31", 1},
	{"a = 0o17", {"a"}, FLMEM_NODE_INTEGER, "15", 1},
	{"a = 0b1_1\nb = 1_000", {"a"}, FLMEM_NODE_INTEGER, "3", 1},
	{"a = 0b1_1\nb = +1_000", {"b"}, FLMEM_NODE_INTEGER, "1000", 2},
	{"a = +inf\nb = nan", {"b"}, FLMEM_NODE_REAL, "nan", 2},
	{"a = +inf", {"a"}, FLMEM_NODE_REAL, "+inf", 1},
	{"a = -1_0.5e-0_1", {"a"}, FLMEM_NODE_REAL, "-10.5e-01", 1},
	{"a = \"x\ty\"", {"a"}, FLMEM_NODE_STRING, "x\ty", 1},
	{"a = \"\\U0001F600\\x41\\e\\u0000\"",
	 {"a"},
	 FLMEM_NODE_STRING,
	 "\xf0\x9f\x98\x80\x41\033\xef\xbf\xbd",
	 1},
	{"a = \"\"\"x \\\"\"\" \\  \r\n\n  y\"\"\"", {"a"}, FLMEM_NODE_STRING, "x \"\"\" y", 1},
	{"a = \"\"\"x\r\ny\"\"\"\"\"\nb = 1", {"a"}, FLMEM_NODE_STRING, "x\ny\"\"", 1},
	{"a = 1979-05-27 07:32:00.5+01:00\nb = 1",
	 {"a"},
	 FLMEM_NODE_STRING,
	 "1979-05-27 07:32:00.5+01:00",
	 1},
	{"a = 2000-02-29t23:59z", {"a"}, FLMEM_NODE_STRING, "2000-02-29t23:59z", 1},
	{"a = 07:32", {"a"}, FLMEM_NODE_STRING, "07:32", 1},
	{"a = { # x\n b = 1,\n}\nc = 2", {"c"}, FLMEM_NODE_INTEGER, "2", 4},
	{"[a.b]\n[a]\nc = 1", {"a", "c"}, FLMEM_NODE_INTEGER, "1", 3},
	{"[a.b.c]\n[a]\nb.d = 1", {"a", "b", "d"}, FLMEM_NODE_INTEGER, "1", 3},
	{"[a]\nx.y = 1\n[a.x.z]\nb = 2", {"a", "x", "z", "b"}, FLMEM_NODE_INTEGER, "2", 4},
	{"[[a]]\n[a.b]\n[[a]]\n[a.b]\nc = 1\n[d]\ne = 2", {"d", "e"}, FLMEM_NODE_INTEGER, "2", 7},
};

static void values_keep_their_places(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(values); i++) {
		FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
		const char *way[5] = {values[i].way[0], values[i].way[1], values[i].way[2],
				      values[i].way[3], NULL};
		const struct flmem_node *node;
		struct flmem_error err = {0};

		if (read_text(values[i].text, &document, &err))
			fail_msg("row %zu: %s", i, err.message);
		node = flmem_node_at(document.root, way);
		assert_non_null(node);
		assert_int_equal(node->kind, values[i].kind);
		assert_string_equal(node->text, values[i].value);
		assert_int_equal(node->place.line, values[i].line);
	}
}

static void tables_of_a_list_follow_each_other(void **state)
{
	static const char text[] = "[[a.b]]\nc = 1\n[[a.b]]\n[a.b.d]\ne = 2\n";
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	const struct flmem_node *list;

	(void)state;
	assert_int_equal(read_text(text, &document, NULL), 0);
	list = FLMEM_NODE_AT(document.root, "a", "b");
	assert_int_equal(list->kind, FLMEM_NODE_LIST);
	assert_non_null(flmem_node_get(list->first, "c"));
	assert_non_null(FLMEM_NODE_AT(list->last, "d", "e"));
	assert_ptr_equal(list->first->next, list->last);
}

static const struct {
	const char *text;
	unsigned line;
} bad[] = {
	{"a", 1},
	{"a =", 1},
	{"a = b", 1},
	{"= 1", 1},
	{"\na = 1 b = 2", 2},
	{"a = 1\na = 2", 2},
	{"a = 'x", 1},
	{"a = \"\"\"x", 1},
	{"a = [1, 2", 1},
	{"a = {b = 1", 1},
	{"a = {b}", 1},
	{"[a", 1},
	{"[a]]", 1},
	{"[[a]", 1},
	{"[]", 1},
	{"a = 1\n[a]", 2},
	{"a = 1\n[[a]]", 2},
	{"a = 1\na.b = 2", 2},
	{"a = \"\\x\"", 1},
	{"[a]\nb = 1\n[a]\nc = 2", 3},
	{"a.b = 1\n[a]", 2},
	{"[a.b]\n[a]\n[a.c]\n[a]", 4},
	{"[a]\nb.c = 1\n[a.b]", 3},
	{"[a.b]\n[a]\nb.c = 1", 3},
	{"[[a]]\n[a]", 2},
	{"[[a.b]]\n[a]\nb.c = 1", 3},
	{"[a]\n[[a]]", 2},
	{"a = []\n[[a]]", 2},
	{"a = [{b = 1}]\n[a.c]", 2},
	{"a = {b = 1}\n[a.c]", 2},
	{"a = {b = 1}\n[a]", 2},
	{"a = {b = 1}\na.c = 2", 2},
	{"a = {b = {}, b.c = 2}", 1},
	{"a = {,}", 1},
	{"a = 017", 1},
	{"a = 1__0", 1},
	{"a = 1_", 1},
	{"a = _1", 1},
	{"a = 1.", 1},
	{"a = 1e", 1},
	{"a = ++1", 1},
	{"a = -0x1", 1},
	{"a = 0x", 1},
	{"a = 0b2", 1},
	{"a = 0X1", 1},
	{"a = 1979-02-29", 1},
	{"a = \"\\ \n\"", 1},
	{"a = 1979-13-01", 1},
	{"a = 1979-05-27T", 1},
	{"a = 1979-05-27x07:32", 1},
	{"a = 0000-05-27", 1},
	{"a = 24:00:00", 1},
	{"a = 07:32:60", 1},
	{"a = 07:32:00.", 1},
	{"a = 1979-05-27T07:32+24:00", 1},
	{"a = '\x01'", 1},
	{"a = 1\n# \x7f", 2},
	{"a = 1\rb = 2", 1},
	{"a = 1\n# \f", 2},
	{"a = \"\"\"x\"\"\"\"\"\"", 1},
	{"a = \"\\/\"", 1},
	{"a = \"\\ud800\"", 1},
	{"a = \"\\U00110000\"", 1},
	{"a = \"\\u12\"", 1},
	{"a = \"\"\"\\ x\"\"\"", 1},
	{"a = \"\"\"\\\"\"\"", 1},
	{"\"a\nb\" = 1", 1},
	{"\"\"\"a\"\"\" = 1", 1},
	{"a.", 1},
	{"a = [1 2]", 1},
	{"a = 20s", 1},
	{"a = '''\r'''", 1},
};

static void what_is_none_is_refused_with_its_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(bad); i++) {
		FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};

		if (read_text(bad[i].text, &document, NULL) != FLMEM_EUSAGE ||
		    document.bad_line != bad[i].line)
			fail_msg("row %zu, line %u: %s", i, document.bad_line, bad[i].text);
	}
}

static void nesting_is_limited(void **state)
{
	static const char *const parts[] = {"[", "{a=", "a."};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(parts); i++) {
		FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
		struct flmem_buf text = FLMEM_BUF_INIT;

		flmem_buf_puts(&text, i < 2 ? "a = " : "");
		for (int n = 0; n < 50000; n++)
			flmem_buf_puts(&text, parts[i]);
		assert_int_equal(flmem_document_read(FLMEM_SYNTAX_TOML, &text, &document, NULL),
				 FLMEM_EUSAGE);
	}
}

#define FEDERATION "[tool.flwr.app]\n[tool.flwr.federations.a]\n"

static const struct {
	const char *text;
	size_t hits, elsewhere;
} projects[] = {
	{FEDERATION "options.num-supernodes = 20\n", 1, 0},
	{FEDERATION "options.num-supernodes = 2\n", 1, 0},
	{FEDERATION "options.num-supernodes = 1\n", 0, 0},
	{FEDERATION "options.num-supernodes = 0x14\n", 1, 0},
	{FEDERATION "options.num-supernodes = 1_0\n", 1, 0},
	{FEDERATION "options.num-supernodes = 2\noptions.backend.client-resources.num-cpus = 8\n",
	 0, 0},
	{FEDERATION "options.num-supernodes = 2\noptions.backend.client-resources.num_cpus = 8\n",
	 1, 0},
	{FEDERATION "options = {num-supernodes = 20, backend = {name = 'ray'}}\n", 1, 0},
	{FEDERATION "address = '1.2.3.4'\n", 0, 0},
	{"[tool.flwr.app.config]\nnum-server-rounds = 3\n", 0, 1},
	{"[tool.flwr.app]\n[tool.flwr.federations]\n", 0, 1},
	{"[tool.flwr.federations]\ndefault = 'local'\n", 0, 1}, /* the federation is elsewhere */
	{"[tool.flwr.federations]\ndefault = 'l'\nl.address = '1.2.3.4'\n", 0, 0},
	{"[tool.flwr.federations]\ndefault = 'm'\nl.address = '1.2.3.4'\n", 0, 1},
	{"[tool.other.federations.a]\noptions.num-supernodes = 20\n", 0, 0},
	{FEDERATION "options.num-supernodes = 9 # flmem: ignore FLWR-SIM-RESOURCES small\n", 0, 0},
};

#define APP "from flwr.app import ArrayRecord\n"

static const struct {
	const char *text;
	size_t hits;
} scripts[] = {
	{APP "r = ArrayRecord(model.state_dict())\n", 1},
	{APP "r = ArrayRecord(arrays, keep_input=True)\n", 1},
	{"from flwr.app import \uff21rrayRecord as R\nr = R(arrays)\n", 1},
	{"import flwr.app\nr = flwr.app.\U0001d400rray\u211becord(arrays)\n", 1},
	{APP "r = ArrayRecord.from_numpy_ndarrays(arrays)\n", 1},
	{"import flwr.app as a\nr = a.ArrayRecord(torch_state_dict=s)\n", 1},
	{APP "r = ArrayRecord(arrays, keep_input=False)\n", 0},
	{APP "r = ArrayRecord()\n", 0},
	{APP "r = ArrayRecord(arrays, **more)\n", 1},
	{APP "r = ArrayRecord(*arrays)\n", 1},
	{APP "r = ArrayRecord(arrays, keep_input=keep)\n", 1},
	{APP "r = ArrayRecord(arrays, keep_input=1)\n", 1},
	{APP "r = ArrayRecord(arrays, keep_input=0)\nArrayRecord(a, keep_input=None)\n", 0},
	{APP "r = ArrayRecord(arrays, keep_input='')\nArrayRecord(a, keep_input=0.0)\n", 0},
	{APP "import functools\nr = functools.partial(ArrayRecord, keep_input=True)\n", 1},
	{APP "import functools\nr = functools.partial(ArrayRecord, keep_input=False)\n", 0},
	{APP "from flwr.app import ConfigRecord\nr = ConfigRecord(arrays)\n", 0},
	{"# flwr\nfrom other import ArrayRecord\nr = ArrayRecord(arrays)\n", 0},
};

/* Returns the number of findings of a rule that a file has by itself. */
static size_t hits_in(const char *file, const char *text, const char *rule)
{
	FLMEM_AUTO(flmem_recommendations_clear) struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	struct tree tree;
	const char *path = tree.path;
	size_t hits;

	tree_init(&tree);
	tree_puts(&tree, file, text);
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	assert_int_equal(flmem_recommendations_failures(&found), 0);
	hits = findings_of(&found, rule, &last);
	tree_clear(&tree);
	return hits;
}

static void records_that_keep_their_input_are_reported(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(scripts); i++)
		if (hits_in("client_app.py", scripts[i].text, "FLWR-KEEP-INPUT") != scripts[i].hits)
			fail_msg("row %zu", i);
}

#define LEGACY	   "import flwr as f\n"
#define SIMULATION "from flwr.simulation import run_simulation\n"
#define RUN	   "run_simulation(s, c, 9, backend_config={'client_resources': "
#define TABLE	   "options.num-supernodes = 2\noptions.backend.client-resources = "
#define RESOURCES  "options.num-supernodes = 2\noptions.backend.client-resources."
#define IMPORT	   "from importlib import import_module\n"
#define CPUS	   RESOURCES "num-cpus = "
#define INIT	   "options.num-supernodes = 2\noptions.backend.init-args."
#define START	   "f.simulation.start_simulation(client_fn=c, num_clients=9, client_resources="
#define GPUS	   RESOURCES "num-cpus = 1\noptions.backend.client-resources.num-gpus = "

static void simulations_in_scripts_are_checked(void **state)
{
	static const struct {
		const char *text;
		size_t hits;
	} rows[] = {
		{SIMULATION "run_simulation(s, c, num_supernodes=9)\n", 1},
		{SIMULATION "run_simulation(s, c, 9, backend_config={'init_args': {}})\n", 1},
		{SIMULATION "run_simulation(s, c, 9, backend_config=b)\n", 1},
		{SIMULATION "run_simulation(s, c, 9, **kw)\n", 1},
		{SIMULATION "run_simulation(s, c, 9,\n backend_config={'client_resources': {}})\n",
		 1}, /* raybackend.py: empty ones are the default */
		{SIMULATION "run_simulation(s, c, 9, backend_config={'client_resources': r})\n", 1},
		{SIMULATION RUN "{'num_cpus': n}})\n", 1},
		{SIMULATION RUN "{'num_cpus': 4, 'num_gpus': float('nan')}})\n", 1},
		{SIMULATION RUN "{**r}})\n", 1},
		{SIMULATION RUN "None})\n", 1},
		{SIMULATION
		 "run_simulation(s, c, 9, 'ray', {'client_resources': {'num_cpus': 4}})\n",
		 0},
		{SIMULATION "run_simulation(s, c, 9, 'ray', {'init_args': {}})\n", 1},
		{SIMULATION "run_simulation(*all_of_it)\n", 1},
		{SIMULATION "run_simulation(s, c, 9,\n" /* run_simulation.py: _replace_keys() */
			    " backend_config={'client-resources': {'num-cpus': 4}})\n",
		 0},
		{SIMULATION "run_simulation(s, c, 9,\n"
			    " backend_config={'client_resources': {'num_cpus': 4}})\n",
		 0},
		{"import flwr\nx.run_simulation(9)\n", 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (hits_in("sim.py", rows[i].text, "FLWR-SIM-RESOURCES") != rows[i].hits)
			fail_msg("row %zu", i);
}

struct simulation_row {
	const char *file, *text;
	size_t hits;
};

/* raybackend.py divides by num_cpus, and cli/typing.py refuses a number that is not whole. */
static const struct simulation_row invalid_tables[] = {
	{"pyproject.toml", FEDERATION "options.num-supernodes = '20'\n", 1},
	{"pyproject.toml", FEDERATION "options.num-supernodes = 2.5\n", 1},
	{"pyproject.toml", FEDERATION "options.num-supernodes = 20\n", 0},
	{"pyproject.toml", FEDERATION "options.num-supernodes = 0\n", 1},
	{"pyproject.toml", FEDERATION "options.num_supernodes = 20\n", 1},
	{"pyproject.toml", FEDERATION "address = '1.2.3.4:9093'\n", 0},
	{"pyproject.toml", FEDERATION CPUS "0\n", 1},
	{"pyproject.toml", FEDERATION CPUS "0.0\n", 1},
	{"pyproject.toml", FEDERATION CPUS "-1\n", 1},
	{"pyproject.toml", FEDERATION CPUS "'2'\n", 1},
	{"pyproject.toml", FEDERATION CPUS "0e5\n", 1},
	{"pyproject.toml", FEDERATION CPUS "false\n", 1},
	{"pyproject.toml", FEDERATION CPUS "true\n", 0},
	{"pyproject.toml", FEDERATION CPUS "nan\n", 1},
	{"pyproject.toml", FEDERATION CPUS "+inf\n", 1},
	{"pyproject.toml", FEDERATION CPUS "+2\n", 0},
	{"pyproject.toml", FEDERATION CPUS "[2]\n", 1},
	{"pyproject.toml", FEDERATION CPUS "0x10\n", 0},
	{"pyproject.toml", FEDERATION CPUS "0.5\n", 1}, /* uint32 of SimulationConfig */
	{"pyproject.toml", FEDERATION GPUS "'1'\n", 1},
	{"pyproject.toml", FEDERATION GPUS "0.0\n", 0},
	{"pyproject.toml", FEDERATION GPUS "0.5\n", 0},
	{"pyproject.toml", FEDERATION GPUS "false\n", 0},
	{"pyproject.toml", FEDERATION GPUS "nan\n", 1},
	{"pyproject.toml", FEDERATION GPUS "inf\n", 1},
	{"pyproject.toml", FEDERATION GPUS "-0.5\n", 1},
	{"pyproject.toml", FEDERATION "options.num-supernodes = false\n", 1},
	{"pyproject.toml", FEDERATION "options.num-supernodes = true\n", 0},
	{"pyproject.toml", FEDERATION "options.num-supernodes = nan\n", 1},
	{"pyproject.toml", FEDERATION "options.num-supernodes = 4294967296\n", 1},
	{"pyproject.toml", FEDERATION "options = 20\n", 1},
	{"pyproject.toml", FEDERATION INIT "num-cpus = 8\n", 0},
	{"pyproject.toml", FEDERATION INIT "num-cpus = 0\n", 1},
	{"pyproject.toml", FEDERATION INIT "num-cpus = 8.0\n", 1},
	{"pyproject.toml", FEDERATION INIT "num-cpus = '8'\n", 1},
	{"pyproject.toml", FEDERATION INIT "num-gpus = 0\n", 0},
	{"pyproject.toml", FEDERATION INIT "num-gpus = -1\n", 1},
	{"pyproject.toml", FEDERATION INIT "num-gpus = 0.5\n", 1},
	{"pyproject.toml", "[[tool.flwr.federations.l]]\noptions.num-supernodes = 2\n", 1},
	{"pyproject.toml", "[[tool.flwr.federations]]\noptions.num-supernodes = 2\n", 1},
	{"pyproject.toml", "[tool.flwr.federations]\ndefault = 'l'\n", 0},
	{"config.toml", "[[superlink.a]]\noptions.num-supernodes = 2\n", 1},
	{"config.toml", "[[superlink]]\noptions.num-supernodes = 2\n", 1},
	{"config.toml",
	 "[superlink]\ndefault = 'a'\n[superlink.a]\n"
	 "options.num-supernodes = 2\n",
	 0},
	{"config.toml", "[superlink.a]\noptions.num-supernodes = '2'\n", 1},
	{"config.toml", "[superlink.a]\noptions.num-supernodes = 2\n", 0},
	{"config.toml", "[superlink]\nx = 1\n# options\n", 0},
};

static const struct simulation_row invalid_calls[] = {
	{"sim.py", SIMULATION RUN "{'num_cpus': 0}})\n", 1},
	{"sim.py", SIMULATION RUN "{'num_cpus': False}})\n", 1},
	{"sim.py", SIMULATION RUN "{'num_cpus': True}})\n", 0},
	{"sim.py", SIMULATION RUN "{'num_cpus': 1e999}})\n", 1},
	{"sim.py", SIMULATION RUN "{'num_cpus': None}})\n", 1},
	{"sim.py", SIMULATION RUN "{'num_cpus': 0b10}})\n", 0},
	{"sim.py", SIMULATION RUN "{'num_cpus': 1_0}})\n", 0},
	{"sim.py", SIMULATION RUN "{'num_cpus': 1_0.5}})\n", 0},
	{"sim.py", SIMULATION RUN "{'num_cpus': +1}})\n", 0},
	{"sim.py", SIMULATION RUN "{'memory': 2}})\n", 1},
	{"sim.py", SIMULATION RUN "4})\n", 1},
	{"sim.py", SIMULATION RUN "{}, 'init_args': {'num_cpus': 0}})\n", 1},
	{"sim.py", SIMULATION RUN "{}, 'init_args': {'num_gpus': 0}})\n", 0},
	{"sim.py", SIMULATION RUN "{'num-cpus': 0}})\n", 1},
	{"sim.py", SIMULATION "run_simulation(s, c, 9, 'ray', {'client_resources': 2})\n", 1},
	{"sim.py", SIMULATION "run_simulation(s, c)\n", 1},
	{"sim.py", SIMULATION "run_simulation(s, c, **kw)\n", 0},
	{"sim.py", SIMULATION "run_simulation(*s)\n", 0},
	{"sim.py", SIMULATION "run_simulation(s, c, False)\n", 1},
	{"sim.py", LEGACY START "{'num_cpus': 0})\n", 1},
	{"sim.py", LEGACY START "{'num_cpus': '1'})\n", 1},
	{"sim.py", LEGACY START "{'num_gpus': 1})\n", 0}, /* num_cpus is 1 then */
	{"sim.py", LEGACY START "{'num_cpus': 1})\n", 0},
	{"sim.py", SIMULATION RUN "{'num_cpus': '2'}})\n", 1},
	{"sim.py", SIMULATION RUN "{'num_cpus': n}})\n", 0},
	{"sim.py", SIMULATION RUN "{'num_gpus': 1}})\n", 1},
	{"sim.py", SIMULATION RUN "{**r, 'num_gpus': 1}})\n", 0},
	{"sim.py", SIMULATION RUN "{'num_cpus': 0.5, 'num_gpus': 0}})\n", 0},
	{"sim.py", SIMULATION "run_simulation(s, c, num_supernodes='9')\n", 1},
	{"sim.py", SIMULATION "run_simulation(s, c, '9')\n", 1},
	{"sim.py", SIMULATION "run_simulation(s, c, num_supernodes=n)\n", 0},
};

static void invalid_simulations_are_reported(void **state)
{
	const struct simulation_row *row;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(invalid_tables) + FLMEM_ARRAY_SIZE(invalid_calls);
	     i++) {
		row = i < FLMEM_ARRAY_SIZE(invalid_tables)
			      ? &invalid_tables[i]
			      : &invalid_calls[i - FLMEM_ARRAY_SIZE(invalid_tables)];
		if (hits_in(row->file, row->text, "FLWR-SIM-INVALID") != row->hits)
			fail_msg("row %zu: %s", i, row->text);
	}
}

static void keys_that_flower_ignores_are_reported(void **state)
{
	static const struct simulation_row rows[] = {
		{"pyproject.toml", FEDERATION RESOURCES "num_gpus = 1\n", 1},
		{"pyproject.toml", FEDERATION TABLE "{cpus = 1, num-gpus = 1}\n", 1},
		{"pyproject.toml", FEDERATION TABLE "{num-cpus = 1}\n", 0},
		{"pyproject.toml", FEDERATION TABLE "[1]\n", 0},
		{"pyproject.toml", FEDERATION INIT "num_cpus = 1\n", 0},
		{"config.toml", "[superlink.l]\n" RESOURCES "num_cpus = 1\n", 1},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (hits_in(rows[i].file, rows[i].text, "FLWR-SIM-KEY-IGNORED") != rows[i].hits)
			fail_msg("row %zu: %s", i, rows[i].text);
}

static void records_that_are_passed_on_are_reported(void **state)
{
	static const struct {
		const char *text;
		size_t hits;
	} rows[] = {
		{APP "r = list(map(ArrayRecord, states))\nclass R(ArrayRecord):\n  pass\n", 2},
		{SIMULATION "pool.submit(run_simulation, s, c, 9)\n", 1},
		{IMPORT "m = import_module('flwr.simulation')\nm.run_simulation(s, c, 9)\n", 1},
		{IMPORT "import_module('flwr' + x).f()\n", 1},
		{IMPORT "import_module('other')\nimport flwr\n", 0},
		{"exec('import flwr.app')\nimport flwr.app\neval('flwr')\neval('1')\n", 2},
		{"from \xef\xac\x82wr.simulation import run_simulation\nf(run_simulation)\n", 1},
		{"from f\xef\xbd\x8cwr.simulation import run_simulation\nf(run_simulation)\n", 1},
		{"import flwr\nexec(open('sim.py').read())\n", 1},
		{"__import__('flwr.simulation').simulation.run_simulation(s, c, 9)\n", 1},
		{"import flwr.simulation\ngetattr(flwr.simulation, name)(s, c, 9)\n", 1},
		{"import flwr as f\ngetattr(f, name)\nprint(f.__version__)\n", 1},
		{APP "a = cast(ArrayRecord, m['a'])\nx = field(default_factory=ArrayRecord)\n", 0},
		{APP "def f(r: ArrayRecord) -> ArrayRecord:\n"
		     "  return isinstance(r, ArrayRecord)\n",
		 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (hits_in("app.py", rows[i].text, "FLWR-PASSED-ON") != rows[i].hits)
			fail_msg("row %zu", i);
}

/* The functions are those of Flower before 1.13. */
static void deprecated_functions_are_reported(void **state)
{
	static const struct {
		const char *text;
		size_t simulations, servers;
	} rows[] = {
		{LEGACY "f.simulation.start_simulation(client_fn=c, num_clients=9)\n", 1, 0},
		{LEGACY "f.simulation.start_simulation(client_resources=None)\n", 1, 0},
		{LEGACY "f.simulation.start_simulation(client_resources={'num_gpus': 1})\n", 1, 0},
		{LEGACY "f.simulation.start_simulation(client_resources=r)\n", 1, 0},
		{LEGACY "f.simulation.start_simulation(**r)\n", 1, 0},
		{LEGACY "f.simulation.start_simulation(client_resources={'num_cpus': 4})\n", 0, 0},
		{LEGACY START "{'num_cpus': n})\n", 1, 0},
		{"from flwr.simulation import start_simulation as s\ns(num_clients=9)\n", 1, 0},
		{LEGACY "f.server.start_server(config=c)\n", 0, 1},
		{"from flwr.server import start_server\nstart_server()\n", 0, 1},
		{"import flwr\nx.start_server()\n", 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		FLMEM_AUTO(flmem_recommendations_clear) struct flmem_recommendations found = {0};
		const struct flmem_finding *last;
		struct tree tree;
		const char *path = tree.path;

		tree_init(&tree);
		tree_puts(&tree, "main.py", rows[i].text);
		assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
		assert_int_equal(flmem_recommendations_failures(&found), 0);
		if (findings_of(&found, "FLWR-SIM-LEGACY", &last) != rows[i].simulations ||
		    findings_of(&found, "FLWR-START-SERVER", &last) != rows[i].servers)
			fail_msg("row %zu", i);
		tree_clear(&tree);
	}
}

static void the_rule_fires_where_it_should(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(projects); i++) {
		FLMEM_AUTO(flmem_recommendations_clear) struct flmem_recommendations found = {0};
		const struct flmem_finding *last;
		struct tree tree;
		const char *path = tree.path;

		tree_init(&tree);
		tree_puts(&tree, "pyproject.toml", projects[i].text);
		assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
		assert_int_equal(flmem_recommendations_failures(&found), 0);
		if (findings_of(&found, "FLWR-SIM-RESOURCES", &last) != projects[i].hits)
			fail_msg("row %zu", i);
		if (findings_of(&found, "FLWR-SIM-ELSEWHERE", &last) != projects[i].elsewhere)
			fail_msg("row %zu", i);
		tree_clear(&tree);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_keep_their_places),
		cmocka_unit_test(tables_of_a_list_follow_each_other),
		cmocka_unit_test(what_is_none_is_refused_with_its_line),
		cmocka_unit_test(nesting_is_limited),
		cmocka_unit_test(records_that_keep_their_input_are_reported),
		cmocka_unit_test(deprecated_functions_are_reported),
		cmocka_unit_test(invalid_simulations_are_reported),
		cmocka_unit_test(keys_that_flower_ignores_are_reported),
		cmocka_unit_test(records_that_are_passed_on_are_reported),
		cmocka_unit_test(simulations_in_scripts_are_checked),
		cmocka_unit_test(the_rule_fires_where_it_should),
	};

	return cmocka_run_group_tests_name("toml", tests, NULL, NULL);
}
