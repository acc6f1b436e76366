/* SPDX-License-Identifier: Apache-2.0 */
/* Searches scripts, units, container files and tasks: all findings lie in the text. */
#include "frameworks/launch/launch_search.h"
#include "fuzz.h"

static void check(enum flmem_syntax syntax, const char *file, const uint8_t *data, size_t size)
{
	static struct flmem_launches launches;
	struct flmem_rule_input input = {.file = file};
	struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_append(&text, data, size);
	if (!flmem_document_read(syntax, &text, &input.document, NULL)) {
		flmem_launches_read(&input, &launches);
		for (size_t i = 0; i < launches.variable_count; i++)
			if (launches.variables[i].place.end > size ||
			    launches.variables[i].place.end < launches.variables[i].place.start ||
			    launches.variables[i].launch >= (int)launches.launch_count)
				abort();
		for (size_t i = 0; i < launches.launch_count; i++)
			if (launches.launches[i].place.end > size)
				abort();
	}
	flmem_document_clear(&input.document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check(FLMEM_SYNTAX_PLAIN, "x.sh", data, size);
	check(FLMEM_SYNTAX_PLAIN, "x.service", data, size);
	check(FLMEM_SYNTAX_YAML, "x.yaml", data, size);
	check(FLMEM_SYNTAX_HOCON, "tasks.json", data, size);
	check(FLMEM_SYNTAX_TOML, "pyproject.toml", data, size);
	return 0;
}
