/* SPDX-License-Identifier: Apache-2.0 */
#include "print_detect.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <flmem/text.h>

#include "format.h"

#define LABEL_COLUMN 12
#define TABLE_WIDTH  120 /* where the output is no terminal */
#define TEXT_MAX     512

/* Puts the text of a label, or blanks under it on further lines. */
static void label(const char *text, FILE *out)
{
	fprintf(out, "%-*s", LABEL_COLUMN, text);
}

/* Text that came from the target. */
static void put(const char *text, FILE *out)
{
	char shown[TEXT_MAX];

	fputs(flmem_text_escape(text, shown, sizeof(shown)), out);
}

static void print_framework(const struct flmem_process_report *report, FILE *out)
{
	const char *role = flmem_role_name(report->role);

	label("framework", out);
	if (!report->framework) {
		fputs("none that flmem knows\n", out);
		return;
	}
	fputs(flmem_framework_name(report->framework), out);
	if (report->part)
		fprintf(out, ", %s", report->part);
	if (role)
		fprintf(out, " (role %s)", role);
	if (report->site) {
		fputs(", site ", out);
		put(report->site, out);
	}
	fputc('\n', out);
}

static void put_part(struct flmem_u64 bytes, const char *what, FILE *out)
{
	char number[FORMAT_MAX];

	fprintf(out, ", %s %s", format_bytes_or(bytes, "?", number), what);
}

static void print_memory(const struct flmem_memory_report *memory, FILE *out)
{
	char number[FORMAT_MAX];

	label("memory", out);
	fprintf(out, "RSS %s", format_bytes_or(memory->rss_bytes, "?", number));
	put_part(memory->anon_bytes, "anonymous", out);
	put_part(memory->file_bytes, "of files", out);
	put_part(memory->shmem_bytes, "shared", out);
	put_part(memory->swap_bytes, "swapped out", out);
	fputc('\n', out);
	label("", out);
	if (memory->thp_bytes.unknown)
		fprintf(out, "huge pages unknown: %s\n", memory->thp_bytes.unknown);
	else
		fprintf(out, "%s in transparent huge pages\n",
			format_bytes(memory->thp_bytes.value, number));
}

static void print_limit(const struct flmem_limit_report *limit, FILE *out)
{
	char max[FORMAT_MAX], left[FORMAT_MAX];

	label("limit", out);
	if (limit->cgroup_max_bytes.unknown) {
		fprintf(out, "%s\n", limit->cgroup_max_bytes.unknown);
		return;
	}
	fprintf(out, "%s for its control group, ",
		format_bytes(limit->cgroup_max_bytes.value, max));
	if (limit->headroom_bytes.unknown)
		fprintf(out, "what is left is unknown: %s\n", limit->headroom_bytes.unknown);
	else
		fprintf(out, "%s left\n", format_bytes(limit->headroom_bytes.value, left));
}

static void print_allocator(const struct flmem_allocator_report *allocator, FILE *out)
{
	fputs(flmem_allocator_name(allocator->kind), out);
	if (allocator->version) {
		fputc(' ', out);
		put(allocator->version, out);
	}
	fprintf(out, ", %s", allocator->linkage == FLMEM_LINKAGE_STATIC ? "static" : "shared");
	if (allocator->prefix && allocator->prefix[0]) {
		fputs(", prefix ", out);
		put(allocator->prefix, out);
	}
	if (allocator->serves_malloc)
		fputs(", serves malloc", out);
	fputc('\n', out);
	label("", out);
	fputs("  in ", out);
	put(allocator->path, out);
	fprintf(out, " (%s)\n", allocator->evidence);
}

static void print_allocators(const struct flmem_process_report *report, FILE *out)
{
	label("allocators", out);
	if (report->allocators_unknown)
		fprintf(out, "unknown: %s\n", report->allocators_unknown);
	for (size_t i = 0; i < report->allocator_count; i++) {
		if (i)
			label("", out);
		print_allocator(&report->allocators[i], out);
	}
}

static void print_runtimes(const struct flmem_process_report *report, FILE *out)
{
	char number[FORMAT_MAX];

	label("python", out);
	if (report->python_version)
		fprintf(out, "CPython %s\n",
			report->python_version[0] ? report->python_version : "of unknown version");
	else if (report->python_unknown)
		fprintf(out, "unknown: %s\n", report->python_unknown);
	else
		fputs("none\n", out);
	label("cuda", out);
	if (report->cuda_used_bytes.unknown)
		fprintf(out, "unknown: %s\n", report->cuda_used_bytes.unknown);
	else
		fprintf(out, "%s\n",
			report->cuda_used_bytes.value
				? format_bytes(report->cuda_used_bytes.value, number)
				: "not used");
}

static void print_settings(const struct flmem_process_report *report, FILE *out)
{
	label("settings", out);
	if (report->settings_unknown)
		fprintf(out, "unknown: %s\n", report->settings_unknown);
	else if (!report->setting_count)
		fputs("none\n", out);
	for (size_t i = 0; i < report->setting_count; i++) {
		if (i)
			label("", out);
		put(report->settings[i].name, out);
		fputc('=', out);
		put(report->settings[i].value, out);
		fprintf(out, " (%s)\n", report->settings[i].source);
	}
}

static void print_process(const struct flmem_process_report *report, FILE *out)
{
	label("process", out);
	fprintf(out, "%d  ", (int)report->pid);
	put(report->command, out);
	fputc('\n', out);
	print_framework(report, out);
	print_memory(&report->memory, out);
	print_limit(&report->limit, out);
	print_allocators(report, out);
	print_runtimes(report, out);
	print_settings(report, out);
	label("verdict", out);
	fprintf(out, "none: %s\n", report->verdict_unknown);
}

/* The allocator that malloc reaches, or the only one; "?" when unknown, "+" when there are more. */
static void main_allocator(const struct flmem_process_report *report, char *out, size_t size)
{
	const struct flmem_allocator_report *chosen = NULL;
	char version[24] = "";

	for (size_t i = 0; i < report->allocator_count; i++)
		if (!chosen || report->allocators[i].serves_malloc)
			chosen = &report->allocators[i];
	if (!chosen) {
		snprintf(out, size, "?");
		return;
	}
	if (chosen->version)
		flmem_text_escape(chosen->version, version, sizeof(version));
	snprintf(out, size, "%s %.*s%s", flmem_allocator_name(chosen->kind),
		 (int)strcspn(version, "-"), version, report->allocator_count > 1 ? " +" : "");
}

/* Columns left for the command line. */
static size_t command_width(FILE *out, int used)
{
	struct winsize window = {0};
	int width = TABLE_WIDTH;

	if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &window) == 0 && window.ws_col)
		width = window.ws_col;
	return width > used + 16 ? (size_t)(width - used) : 16;
}

static void print_row(const struct flmem_process_report *report, FILE *out)
{
	char rss[FORMAT_MAX], allocator[64], command[TEXT_MAX];
	const char *role = flmem_role_name(report->role);
	size_t width;
	int used;

	main_allocator(report, allocator, sizeof(allocator));
	used = fprintf(out, "%8d  %-16s %10s  %-20s %-9s ", (int)report->pid,
		       role		   ? role
		       : report->framework ? flmem_framework_name(report->framework)
					   : "-",
		       format_bytes_or(report->memory.rss_bytes, "?", rss), allocator,
		       report->python_version ? report->python_version : "-");
	width = command_width(out, used);
	flmem_text_escape(report->command, command,
			  width + 1 < sizeof(command) ? width + 1 : sizeof(command));
	fprintf(out, "%s\n", command);
}

void print_detect(const struct flmem_detect_report *report, FILE *out)
{
	if (report->process_count == 1) {
		print_process(&report->processes[0], out);
		return;
	}
	if (report->process_count)
		fprintf(out, "%8s  %-16s %10s  %-20s %-9s %s\n", "PID", "ROLE", "RSS", "ALLOCATOR",
			"PYTHON", "COMMAND");
	for (size_t i = 0; i < report->process_count; i++)
		print_row(&report->processes[i], out);
}
