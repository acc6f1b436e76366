/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_host.h"

#include <inttypes.h>
#include <string.h>

#include <flmem/text.h>

#include "print/print_format.h"

#define LABEL_COLUMN 12

static void print_label(const char *text, FILE *out)
{
	fprintf(out, "%-*s", LABEL_COLUMN, text);
}

/* Prints untrusted text, escaped. */
static void put_escaped(const char *text, FILE *out)
{
	char shown[512];

	fputs(flmem_text_escape(text, shown, sizeof(shown)), out);
}

static void print_system(const struct flmem_host_report *host, FILE *out)
{
	char page[FORMAT_MAX];

	print_label("system", out);
	fprintf(out, "Linux %s, %s, ", host->kernel, host->architecture);
	if (!host->libc)
		fputs("C library unknown", out);
	else
		fprintf(out, "%s %s", host->libc,
			host->libc_version ? host->libc_version : "of unknown version");
	fprintf(out, ", pages of %s\n", format_bytes_or(host->page_bytes, "?", page));
}

static void print_host_memory(const struct flmem_host_report *host, FILE *out)
{
	char total[FORMAT_MAX], available[FORMAT_MAX], swap[FORMAT_MAX], swap_free[FORMAT_MAX];

	print_label("memory", out);
	fprintf(out, "%s, %s available; ", format_bytes_or(host->memory_total_bytes, "?", total),
		format_bytes_or(host->memory_available_bytes, "?", available));
	if (!host->swap_total_bytes.unknown && !host->swap_total_bytes.value)
		fputs("no swap\n", out);
	else
		fprintf(out, "swap %s, %s free\n",
			format_bytes_or(host->swap_total_bytes, "?", swap),
			format_bytes_or(host->swap_free_bytes, "?", swap_free));
	print_label("huge pages", out);
	fprintf(out, "%s\n", host->thp_mode ? host->thp_mode : "none: not in this kernel");
}

static void print_cgroup(const struct flmem_host_report *host, FILE *out)
{
	char max[FORMAT_MAX], used[FORMAT_MAX];

	print_label("cgroup", out);
	if (host->cgroup_max_bytes.unknown)
		fputs(host->cgroup_max_bytes.unknown, out);
	else
		fprintf(out, "limit %s", format_bytes(host->cgroup_max_bytes.value, max));
	if (!host->cgroup_used_bytes.unknown)
		fprintf(out, ", %s used", format_bytes(host->cgroup_used_bytes.value, used));
	fputc('\n', out);
}

static void print_permission(const char *whose, const struct flmem_permission *permission,
			     FILE *out)
{
	print_label("", out);
	fprintf(out, "%s: %s (%s)\n", whose, permission->allowed ? "yes" : "no", permission->why);
	if (permission->remedy) {
		print_label("", out);
		fprintf(out, "  to allow it: %s\n", permission->remedy);
	}
}

static void print_trim_permission(const struct flmem_host_report *host, FILE *out)
{
	print_label("trim", out);
	if (host->yama_level < 0)
		fputs("this kernel has no Yama\n", out);
	else
		fprintf(out, "Yama level %d\n", host->yama_level);
	print_permission("processes of this user", &host->trim_own, out);
	print_permission("processes of others", &host->trim_others, out);
}

static void print_installed(const struct flmem_host_report *host, FILE *out)
{
	for (size_t i = 0; i < host->installed_count; i++) {
		print_label(i ? "" : "installed", out);
		fprintf(out, "%s  ", flmem_allocator_name(host->installed[i].kind));
		put_escaped(host->installed[i].path, out);
		fputc('\n', out);
	}
	if (host->installed_count)
		return;
	print_label("installed", out);
	fputs("no jemalloc, tcmalloc or mimalloc\n", out);
}

/* Prints MIG only where the GPU is partitioned: most cannot be. */
static void print_mig(const struct flmem_gpu *gpu, FILE *out)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	if (gpu->mig != FLMEM_MIG_ON)
		return;
	fputs(", MIG with ", out);
	if (gpu->mig_instances.unknown)
		fputs("an unknown number of instances", out);
	else
		fputs(flmem_text_counted(gpu->mig_instances.value, "instance", count,
					 sizeof(count)),
		      out);
}

static void print_host_cuda(const struct flmem_host_report *host, FILE *out)
{
	if (!host->cuda_runtime && !host->cuda_driver)
		return;
	print_label("cuda", out);
	if (host->cuda_runtime)
		fprintf(out, "runtime %s", host->cuda_runtime);
	else
		put_escaped(host->cuda_runtime_unknown, out);
	if (host->cuda_driver)
		fprintf(out, ", the driver supports up to %s", host->cuda_driver);
	fputc('\n', out);
}

static void print_gpus(const struct flmem_host_report *host, FILE *out)
{
	char total[FORMAT_MAX], used[FORMAT_MAX], left[FORMAT_MAX];

	if (host->gpu_unknown || !host->gpu_count) {
		print_label("gpu", out);
		put_escaped(host->gpu_unknown ? host->gpu_unknown : "the driver reports none", out);
		fputc('\n', out);
		return;
	}
	for (size_t i = 0; i < host->gpu_count; i++) {
		print_label(i ? "" : "gpu", out);
		put_escaped(host->gpus[i].name[0] ? host->gpus[i].name : "unnamed", out);
		fprintf(out, ", %s, %s used, %s free",
			format_bytes_or(host->gpus[i].total_bytes, "?", total),
			format_bytes_or(host->gpus[i].used_bytes, "?", used),
			format_bytes_or(host->gpus[i].free_bytes, "?", left));
		print_mig(&host->gpus[i], out);
		if (host->gpu_driver) {
			fputs(", driver ", out);
			put_escaped(host->gpu_driver, out);
		}
		fputc('\n', out);
	}
}

static void print_features(const struct flmem_host_report *host, FILE *out)
{
	int width = (int)strlen("feature");

	for (size_t i = 0; i < host->feature_count; i++)
		if ((int)strlen(host->features[i].name) > width)
			width = (int)strlen(host->features[i].name);
	fprintf(out, "\n%-*s  works  why\n", width, "feature");
	for (size_t i = 0; i < host->feature_count; i++) {
		const struct flmem_feature *feature = &host->features[i];

		fprintf(out, "%-*s  %-5s  ", width, feature->name, feature->works ? "yes" : "no");
		put_escaped(feature->why, out);
		fputc('\n', out);
	}
}

void print_host(const struct flmem_host_report *host, FILE *out)
{
	print_system(host, out);
	print_host_memory(host, out);
	print_cgroup(host, out);
	print_trim_permission(host, out);
	print_installed(host, out);
	print_gpus(host, out);
	print_host_cuda(host, out);
	print_features(host, out);
}
