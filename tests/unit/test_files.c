/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which files have rules by their names, and the kind that the content then decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/cleanup.h"
#include "frameworks/appfl/appfl_rules.h"
#include "frameworks/files.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_search.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

struct name_case {
	const char *path;
	bool found;
	const struct flmem_input_kind *kind; /* NULL: the content decides */
	enum flmem_syntax syntax;
};

static const struct name_case names[] = {
	{"job/meta.json", true, &flmem_nvflare_meta_file, FLMEM_SYNTAX_JSON},
	{"meta.conf", true, &flmem_nvflare_meta_file, FLMEM_SYNTAX_HOCON},
	{"a/config/config_fed_server.yml", true, &flmem_nvflare_server_file, FLMEM_SYNTAX_YAML},
	{"a/config/config_fed_client.yaml", true, &flmem_nvflare_client_file, FLMEM_SYNTAX_YAML},
	{"meta.json.default", true, &flmem_nvflare_meta_file, FLMEM_SYNTAX_JSON},
	{"config_fed_server.json.default", true, &flmem_nvflare_server_file, FLMEM_SYNTAX_JSON},
	{"config_fed_client.conf.default", true, &flmem_nvflare_client_file, FLMEM_SYNTAX_HOCON},
	{"config_fed_server.yml.default", true, &flmem_nvflare_server_file, FLMEM_SYNTAX_YAML},
	{"config_fed_client.yaml.default", true, &flmem_nvflare_client_file, FLMEM_SYNTAX_YAML},
	{"config_fed_client.toml.default", false, NULL, 0},
	{"meta.py", true, NULL, FLMEM_SYNTAX_PYTHON},
	{"x.yaml", true, NULL, FLMEM_SYNTAX_YAML},
	{"start.sh", true, NULL, FLMEM_SYNTAX_PLAIN},
	{"Dockerfile", true, NULL, FLMEM_SYNTAX_PLAIN},
	{"Dockerfile.yml", true, NULL, FLMEM_SYNTAX_PLAIN},
	{"my.dockerfile", true, NULL, FLMEM_SYNTAX_PLAIN},
	{"a/pyproject.toml", true, NULL, FLMEM_SYNTAX_TOML},
	{"meta.x.json", true, NULL, FLMEM_SYNTAX_JSON},
	{"metadata.json", true, NULL, FLMEM_SYNTAX_JSON},
	{"other.toml", true, NULL, FLMEM_SYNTAX_TOML},
	{"job.pyw", true, NULL, FLMEM_SYNTAX_PYTHON},
	{"README.md", true, NULL, FLMEM_SYNTAX_MARKDOWN},
	{"job.py.j2", true, NULL, FLMEM_SYNTAX_PLAIN},
	{"a.txt", false, NULL, 0},
	{"meta", false, NULL, 0},
	{"config_fed_server", false, NULL, 0},
	{"myDockerfile", false, NULL, 0},
};

static void names_decide_or_leave_it_to_the_content(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		struct flmem_found_file file = {0};

		if (flmem_file_name_find(names[i].path, &file) != names[i].found)
			fail_msg("%s", names[i].path);
		if (names[i].found && file.syntax != names[i].syntax)
			fail_msg("%s: syntax %d", names[i].path, (int)file.syntax);
		assert_ptr_equal(file.kind, names[i].kind);
		assert_true(!file.kind == !file.framework);
	}
}

static const struct flmem_input_kind *kind_of(const char *path, const char *content)
{
	struct flmem_found_file file = {.path = (char *)(uintptr_t)path};
	struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_input_kind *kind;

	assert_true(flmem_file_name_find(path, &file));
	flmem_buf_puts(&text, content);
	assert_int_equal(flmem_document_read(file.syntax, &text, &document, NULL), 0);
	kind = flmem_file_recognise(&file, &document);
	flmem_document_clear(&document);
	return kind;
}

static void the_content_decides_between_frameworks(void **state)
{
	static const char starts[] = "services:\n  a:\n    command: python3 -m "
				     "nvflare.private.fed.app.server.server_train\n";
	static const char both[] = "server_configs:\n  a: 1\nservices:\n  a:\n    command: python3 "
				   "-m nvflare.private.fed.app.server.server_train\n";

	(void)state;
	assert_ptr_equal(kind_of("a.yaml", starts), &flmem_launch_file);
	assert_ptr_equal(kind_of("a.yml", "server_configs:\n  a: 1\n"), &flmem_appfl_server_file);
	assert_ptr_equal(
		kind_of("a.yml", "client_id: x\ncomm_configs:\n  grpc_configs:\n    a: 1\n"),
		&flmem_appfl_client_file);
	/* A key that identifies a file outranks words in it. */
	assert_ptr_equal(kind_of("a.yaml", both), &flmem_appfl_server_file);
	assert_null(kind_of("a.yaml", "a: 1\n"));
	assert_null(kind_of("a.py", "import torch\n"));
	assert_ptr_equal(kind_of("a.py", "import nvflare\n"), &flmem_nvflare_python_file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_decide_or_leave_it_to_the_content),
		cmocka_unit_test(the_content_decides_between_frameworks),
	};

	return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
