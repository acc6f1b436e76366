/* SPDX-License-Identifier: Apache-2.0 */
#include "emit.h"

#include <errno.h>
#include <string.h>

void emit_each_option(const struct cmd *cmd,
		      void (*print)(const struct cmd *cmd, const struct opt *o, FILE *out),
		      FILE *out)
{
	for (const struct opt *o = cmd->options; o->name; o++)
		print(cmd, o, out);
	print(cmd, &opt_help, out);
}

void emit_marked(const char *text, const char *special, const char *mark, FILE *out)
{
	for (; *text; text++) {
		if (strchr(special, *text))
			fputs(mark, out);
		fputc(*text, out);
	}
}

enum opt_complete emit_completes(const struct opt *o)
{
	return o->kind == OPT_PID || o->kind == OPT_PIDS ? OPT_COMPLETE_PID : o->complete;
}

bool emit_repeats(const struct opt *o)
{
	return o->kind == OPT_PIDS || o->kind == OPT_TEXTS;
}

static int write_file(const char *directory, const char *name, void (*print)(FILE *out),
		      const struct cmd *cmd)
{
	char path[4096];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	out = fopen(path, "we");
	if (!out) {
		fprintf(stderr, "flmem-gen: cannot write '%s': %s\n", path, strerror(errno));
		return 1;
	}
	if (cmd)
		emit_man_command(cmd, out);
	else
		print(out);
	if (fclose(out) == 0)
		return 0;
	fprintf(stderr, "flmem-gen: cannot write '%s': %s\n", path, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*print)(FILE *out);
	} files[] = {
		{"completions/flmem.bash", emit_bash},	 {"completions/_flmem", emit_zsh},
		{"completions/flmem.fish", emit_fish},	 {"docs/options.md", emit_markdown},
		{"docs/man/flmem.1", emit_man_overview}, {"docs/rules.md", emit_rules},
		{"docs/metrics.md", emit_metrics},
	};
	int failed = 0;

	if (argc != 2) {
		fputs("usage: flmem-gen DIRECTORY (holding completions/ and docs/man/)\n", stderr);
		return 2;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		failed |= write_file(argv[1], files[i].name, files[i].print, NULL);
	for (const struct cmd *const *c = cmd_table; *c; c++) {
		char name[128];

		snprintf(name, sizeof(name), "docs/man/flmem-%s.1", (*c)->name);
		failed |= write_file(argv[1], name, NULL, *c);
	}
	return failed;
}
