/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_detect.h"

#include <inttypes.h>
#include <string.h>

#include <flmem/text.h>

#include "print/layout.h"
#include "print/print_format.h"
#include "print/print_verdict.h"

#define TABLE_WIDTH 120 /* columns if the output is not a terminal */
#define COMMAND_MAX 200 /* bytes; this fills three lines */

static void print_framework(const struct flmem_process_report *report, FILE *out)
{
	const char *role = flmem_role_name(report->role);

	if (!report->framework)
		return;
	layout_label("framework", out);
	fputs(flmem_framework_name(report->framework), out);
	if (report->part)
		fprintf(out, ", %s", report->part);
	if (role)
		fprintf(out, " (role %s)", role);
	if (report->site) {
		fputs(", site ", out);
		layout_put(report->site, out);
	}
	fputc('\n', out);
}

static void print_process_memory(const struct flmem_memory_report *memory, FILE *out)
{
	char rss[FORMAT_MAX], swapped[FORMAT_MAX], huge[FORMAT_MAX];

	layout_label("memory", out);
	fprintf(out, "RSS %s, %s swapped out, %s in transparent huge pages\n",
		format_bytes_or(memory->rss_bytes, "?", rss),
		format_bytes_or(memory->swap_bytes, "?", swapped),
		format_bytes_or(memory->thp_bytes, "?", huge));
}

/* Prints a limit of ulimit. Returns true if there is such a limit. */
static bool print_ulimit(const char *label, const char *what, struct flmem_u64 max_bytes,
			 struct flmem_u64 left_bytes, FILE *out)
{
	char max[FORMAT_MAX], left[FORMAT_MAX];

	if (max_bytes.unknown)
		return false;
	layout_label(label, out);
	fprintf(out, "%s for its %s, %s left\n", format_bytes(max_bytes.value, max), what,
		format_bytes_or(left_bytes, "?", left));
	return true;
}

static void print_limit(const struct flmem_limit_report *limit, FILE *out)
{
	char max[FORMAT_MAX], left[FORMAT_MAX];
	bool any =
		print_ulimit("limit", "address space (ulimit -v)", limit->address_space_max_bytes,
			     limit->address_space_left_bytes, out);

	any |= print_ulimit(any ? "" : "limit", "data (ulimit -d)", limit->data_max_bytes,
			    limit->data_left_bytes, out);
	layout_label(any ? "" : "limit", out);
	if (limit->cgroup_max_bytes.unknown) {
		fprintf(out, "%s%s\n", any ? "of its control group: " : "",
			limit->cgroup_max_bytes.unknown);
		return;
	}
	fprintf(out, "%s for its control group, ",
		format_bytes(limit->cgroup_max_bytes.value, max));
	if (limit->headroom_bytes.unknown)
		fprintf(out, "headroom unknown: %s\n", limit->headroom_bytes.unknown);
	else
		fprintf(out, "%s left\n", format_bytes(limit->headroom_bytes.value, left));
}

static void print_unknown(const char *label, const char *why, FILE *out)
{
	char line[LAYOUT_TEXT_MAX];

	snprintf(line, sizeof(line), "unknown: %s", why);
	layout_wrap(label, line, out);
}

static void print_allocator(const struct flmem_allocator_report *allocator, const char *label,
			    FILE *out)
{
	char line[LAYOUT_TEXT_MAX];

	snprintf(line, sizeof(line), "%s%s%s, %s%s%s%s, %s", flmem_allocator_name(allocator->kind),
		 allocator->version ? " " : "", allocator->version ? allocator->version : "",
		 allocator->linkage == FLMEM_LINKAGE_STATIC ? "static" : "shared",
		 allocator->prefix && allocator->prefix[0] ? ", prefix " : "",
		 allocator->prefix ? allocator->prefix : "",
		 allocator->serves_malloc ? ", serves malloc" : "", allocator->path);
	layout_wrap(label, line, out);
}

static void print_allocators(const struct flmem_process_report *report, FILE *out)
{
	if (report->allocators_unknown)
		print_unknown("allocators", report->allocators_unknown, out);
	for (size_t i = 0; i < report->allocator_count; i++)
		print_allocator(&report->allocators[i], i ? "" : "allocators", out);
}

/* Describes figures of arenas as far as they are known; they follow the version. */
static void describe_arenas(const struct flmem_python_report *python, char *out, size_t size)
{
	char number[FORMAT_MAX], full[32] = "", count[FLMEM_TEXT_COUNTED_MAX];
	uint64_t bytes = python->arenas_bytes.value;

	out[0] = '\0';
	if (python->arenas.unknown)
		return;
	if (!python->used_bytes.unknown && bytes)
		snprintf(full, sizeof(full), ", %.0f %% full",
			 (double)python->used_bytes.value / (double)bytes * 100);
	snprintf(out, size, ", %s in %s%s", format_bytes(bytes, number),
		 flmem_text_counted(python->arenas.value, "arena", count, sizeof(count)), full);
}

static void describe_state(const struct flmem_python_report *python, char *out, size_t size)
{
	out[0] = '\0';
	if (!python->finalizing.unknown && python->finalizing.value)
		snprintf(out, size, ", ending");
	else if (python->gil_holder)
		snprintf(out, size, ", GIL held by thread %d", (int)python->gil_holder);
	else if (!python->gil_held.unknown)
		snprintf(out, size, ", GIL %s", python->gil_held.value ? "held" : "free");
}

static void print_python(const struct flmem_python_report *python, FILE *out)
{
	char arenas[96], state[64], line[LAYOUT_TEXT_MAX];

	describe_arenas(python, arenas, sizeof(arenas));
	describe_state(python, state, sizeof(state));
	if (python->version)
		snprintf(line, sizeof(line), "CPython %s%s%s",
			 python->version[0] ? python->version : "of unknown version", arenas,
			 state);
	else if (python->unknown)
		snprintf(line, sizeof(line), "unknown: %s", python->unknown);
	else
		snprintf(line, sizeof(line), "none");
	layout_wrap("python", line, out);
}

/* Adds the pools of the libraries that keep any memory. */
static void append_cuda_pools(const struct flmem_cuda_report *cuda, char *line, size_t size)
{
	const struct {
		const char *keeper;
		struct flmem_u64 kept;
	} pools[] = {
		{"CuPy keeps", cuda->cupy_bytes},
		{"RMM keeps", cuda->rmm_bytes},
		{"CUDA's own pools keep", cuda->pool_bytes},
	};
	char kept[FORMAT_MAX];

	for (size_t i = 0; i < sizeof(pools) / sizeof(*pools); i++) {
		size_t length = strlen(line);

		if (!pools[i].kept.unknown && pools[i].kept.value)
			snprintf(line + length, size - length, "; %s %s", pools[i].keeper,
				 format_bytes(pools[i].kept.value, kept));
	}
}

static void print_cuda(const struct flmem_cuda_report *cuda, FILE *out)
{
	char used[FORMAT_MAX], reserved[FORMAT_MAX], allocated[FORMAT_MAX], pinned[FORMAT_MAX];
	char line[512];
	int length;

	if (!cuda->used_bytes.unknown && !cuda->used_bytes.value)
		return;
	length = snprintf(line, sizeof(line), "%s",
			  cuda->used_bytes.unknown ? cuda->used_bytes.unknown
						   : format_bytes(cuda->used_bytes.value, used));
	if (!cuda->reserved_bytes.unknown)
		snprintf(line + length, sizeof(line) - (size_t)length,
			 "; PyTorch has reserved %s, %s of it in tensors, and pinned %s of host "
			 "memory",
			 format_bytes(cuda->reserved_bytes.value, reserved),
			 format_bytes_or(cuda->allocated_bytes, "?", allocated),
			 format_bytes_or(cuda->pinned_bytes, "an unknown part", pinned));
	append_cuda_pools(cuda, line, sizeof(line));
	layout_wrap("cuda", line, out);
}

static void print_settings(const struct flmem_process_report *report, FILE *out)
{
	if (report->settings_unknown)
		print_unknown("settings", report->settings_unknown, out);
	else if (report->setting_count)
		layout_label("settings", out);
	for (size_t i = 0; i < report->setting_count; i++) {
		const struct flmem_setting_report *setting = &report->settings[i];

		if (i)
			layout_label("", out);
		layout_put(setting->name, out);
		fputc('=', out);
		layout_put(setting->value, out);
		fprintf(out, " (%s%s%s)\n", setting->source, setting->note ? "; " : "",
			setting->note ? setting->note : "");
	}
}

/* Prints the command line. A long one is cut; JSON has it in full. */
static void print_process_command(const struct flmem_process_report *report, FILE *out)
{
	char command[COMMAND_MAX], line[COMMAND_MAX + 16];

	snprintf(line, sizeof(line), "%d  %s", (int)report->pid,
		 flmem_text_escape(report->command, command, sizeof(command)));
	layout_wrap("process", line, out);
}

/*
 * Prints one process. If access is denied, the reason is printed once, for all parts. Absent parts
 * (framework, settings, GPU) have no line.
 */
static void print_process(const struct flmem_process_report *report, FILE *out)
{
	print_process_command(report, out);
	print_framework(report, out);
	print_process_memory(&report->memory, out);
	print_limit(&report->limit, out);
	print_allocators(report, out);
	if (!report->denied_why) {
		print_python(&report->python, out);
		print_cuda(&report->cuda, out);
		print_settings(report, out);
	}
	print_verdict(report, out);
}

/*
 * Writes the allocator that serves malloc, or the only one; "?" if it is unknown, "+" if there are
 * more.
 */
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

/* Returns the columns left for the command line. */
static size_t command_width(FILE *out, int used)
{
	int width = layout_width(out, TABLE_WIDTH);

	return width > used + 16 ? (size_t)(width - used) : 16;
}

static void print_row(const struct flmem_process_report *report, FILE *out)
{
	char rss[FORMAT_MAX], allocator[64], command[LAYOUT_TEXT_MAX];
	const char *verdict = flmem_verdict_name(report->verdict.kind);
	const char *role = flmem_role_name(report->role);
	size_t width;
	int used;

	main_allocator(report, allocator, sizeof(allocator));
	used = fprintf(out, "%8d  %-16s %10s  %-14s  %-20s %-9s ", (int)report->pid,
		       role		   ? role
		       : report->framework ? flmem_framework_name(report->framework)
					   : "-",
		       format_bytes_or(report->memory.rss_bytes, "?", rss), verdict ? verdict : "-",
		       allocator, report->python.version ? report->python.version : "-");
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
		fprintf(out, "%8s  %-16s %10s  %-14s  %-20s %-9s %s\n", "PID", "ROLE", "RSS",
			"VERDICT", "ALLOCATOR", "PYTHON", "COMMAND");
	for (size_t i = 0; i < report->process_count; i++)
		print_row(&report->processes[i], out);
}
