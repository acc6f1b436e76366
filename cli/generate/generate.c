/* SPDX-License-Identifier: Apache-2.0 */
#include "generate/generate.h"

#include <errno.h>
#include <string.h>

void generate_each_command(void (*print)(const struct cmd *cmd, FILE *out), FILE *out)
{
	for (const struct cmd *const *c = cmd_table; *c; c++) {
		print(*c, out);
		for (const struct cmd *const *v = (*c)->verbs; v && *v; v++)
			print(*v, out);
	}
}

bool generate_has_verbs(void)
{
	for (const struct cmd *const *c = cmd_table; *c; c++)
		if ((*c)->verbs)
			return true;
	return false;
}

void generate_each_option(const struct cmd *cmd,
			  void (*print)(const struct cmd *cmd, const struct opt *o, FILE *out),
			  FILE *out)
{
	for (const struct opt *o = cmd->options; o->name; o++)
		print(cmd, o, out);
	print(cmd, &opt_help, out);
}

void generate_escaped(const char *text, const char *special, FILE *out)
{
	for (; *text; text++) {
		if (strchr(special, *text))
			fputc('\\', out);
		fputc(*text, out);
	}
}

enum opt_complete generate_completes(const struct opt *o)
{
	return o->kind == OPT_PID || o->kind == OPT_PIDS ? OPT_COMPLETE_PID : o->complete;
}

bool generate_repeats(const struct opt *o)
{
	return o->kind == OPT_PIDS || o->kind == OPT_TEXTS;
}

static int report_emit_failure(const char *directory, const char *name)
{
	fprintf(stderr, "flmem-gen: cannot write '%s/%s': %s\n", directory, name, strerror(errno));
	return 1;
}

static FILE *open_generated_file(const char *directory, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return fopen(path, "we");
}

static int write_file(const char *directory, const char *name, void (*print)(FILE *out))
{
	FILE *out = open_generated_file(directory, name);

	if (out)
		print(out);
	return out && fclose(out) == 0 ? 0 : report_emit_failure(directory, name);
}

static int write_man_page(const char *directory, const struct cmd *cmd)
{
	char name[CMD_NAME_MAX], path[128];
	int failed = 0;
	FILE *out;

	cmd_join_name(cmd, '-', name, sizeof(name));
	snprintf(path, sizeof(path), "docs/man/flmem-%s.1", name);
	out = open_generated_file(directory, path);
	if (out)
		generate_man_command(cmd, out);
	if (!out || fclose(out) != 0)
		failed = report_emit_failure(directory, path);
	for (const struct cmd *const *v = cmd->verbs; v && *v; v++)
		failed |= write_man_page(directory, *v);
	return failed;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*print)(FILE *out);
	} files[] = {
		{"completions/flmem.bash", generate_bash},   {"completions/_flmem", generate_zsh},
		{"completions/flmem.fish", generate_fish},   {"docs/options.md", generate_markdown},
		{"docs/man/flmem.1", generate_man_overview}, {"docs/rules.md", generate_rules},
		{"docs/metrics.md", generate_metrics},
	};
	int failed = 0;

	if (argc != 2) {
		fputs("usage: flmem-gen DIRECTORY (holding completions/ and docs/man/)\n", stderr);
		return 2;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		failed |= write_file(argv[1], files[i].name, files[i].print);
	for (const struct cmd *const *c = cmd_table; *c; c++)
		failed |= write_man_page(argv[1], *c);
	return failed;
}
