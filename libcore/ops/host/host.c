/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/host.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocators/installed.h"
#include "base/cleanup.h"
#include "elf/libc.h"
#include "ops/host/features.h"
#include "proc/host_facts.h"
#include "proc/interfaces.h"
#include "proc/limits/cgroup.h"
#include "proc/process.h"
#include "runtimes/cuda_runtime.h"
#include "runtimes/nvml.h"

static int report_no_memory(struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot store the host report");
}

static int copy_facts(const struct flmem_host_facts *facts, struct flmem_host_report *report,
		      struct flmem_error *err)
{
	report->kernel = strdup(facts->kernel);
	report->architecture = strdup(facts->architecture);
	if (facts->thp_mode[0])
		report->thp_mode = strdup(facts->thp_mode);
	if (!report->kernel || !report->architecture || (facts->thp_mode[0] && !report->thp_mode))
		return report_no_memory(err);
	report->page_bytes = FLMEM_KNOWN(facts->page_bytes);
	report->memory_total_bytes = facts->memory_total_bytes;
	report->memory_available_bytes = facts->memory_available_bytes;
	report->swap_total_bytes = facts->swap_total_bytes;
	report->swap_free_bytes = facts->swap_free_bytes;
	report->yama_level = facts->yama_level;
	return 0;
}

/*
 * Returns the gate that refuses ptrace. The test decides whether ptrace works; the settings only
 * give the reason of a refusal.
 */
static enum flmem_gate find_own_gate(const struct flmem_host_facts *facts,
				     const struct flmem_interface_result *ptrace)
{
	enum flmem_gate gate = flmem_gate_own(facts);

	if (ptrace->untried)
		return gate;
	if (!ptrace->error)
		return FLMEM_GATE_OPEN;
	if (ptrace->killed)
		return FLMEM_GATE_SECCOMP;
	if (gate != FLMEM_GATE_OPEN)
		return gate;
	return facts->seccomp_mode.value == 2 ? FLMEM_GATE_SECCOMP : FLMEM_GATE_SECURITY_MODULE;
}

static enum flmem_gate find_others_gate(const struct flmem_host_facts *facts, enum flmem_gate own)
{
	enum flmem_gate gate = flmem_gate_others(facts);
	int rc;

	if (gate != FLMEM_GATE_OPEN)
		return gate;
	if (own != FLMEM_GATE_OPEN)
		return own;
	rc = flmem_interfaces_other_user();
	if (rc == 0 || rc == -ESRCH)
		return FLMEM_GATE_OPEN;
	return facts->own_user_namespace ? FLMEM_GATE_USER_NAMESPACE : FLMEM_GATE_SECURITY_MODULE;
}

static struct flmem_permission describe_permission(const struct flmem_host_facts *facts,
						   enum flmem_gate gate)
{
	if (gate != FLMEM_GATE_OPEN)
		return (struct flmem_permission){
			.why = flmem_gate_why(gate),
			.remedy = flmem_gate_how(gate),
		};
	return (struct flmem_permission){
		.allowed = true,
		.why = facts->may_trace_any
			       ? "flmem holds CAP_SYS_PTRACE"
			       : "nothing prevents a user from tracing their processes",
	};
}

/*
 * Reads the limit of flmem's control group, which also applies to commands from the same shell or
 * container.
 */
static int read_cgroup(struct flmem_host_report *report, struct flmem_error *err)
{
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = NULL;
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	struct flmem_cgroup_limit limit;
	int rc = flmem_process_open(getpid(), &self, err);

	if (!rc)
		rc = flmem_cgroups_open(&cgroups, err);
	if (rc)
		return rc;
	flmem_cgroups_limit(cgroups, &self, &limit);
	report->cgroup_max_bytes = limit.max_bytes;
	report->cgroup_used_bytes = limit.used_bytes;
	return 0;
}

static int read_installed(struct flmem_host_report *report, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return flmem_installed_find(root, &report->installed, &report->installed_count, err);
}

/*
 * Finds the C library that programs of this machine use. It may differ from flmem's: flmem may be
 * built for another one, or statically.
 */
static bool find_libc(struct flmem_libc *ret_libc)
{
	static const char *const programs[] = {"/bin/sh", "/usr/bin/env", "/usr/bin/python3",
					       "/proc/self/exe"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(programs); i++)
		if (!flmem_libc_of_program(programs[i], ret_libc, NULL))
			return true;
	return false;
}

static int copy_libc(const struct flmem_libc *libc, struct flmem_host_report *report,
		     struct flmem_error *err)
{
	report->libc = strdup(flmem_allocator_name(libc->kind));
	if (libc->version[0])
		report->libc_version = strdup(libc->version);
	if (!report->libc || (libc->version[0] && !report->libc_version))
		return report_no_memory(err);
	return 0;
}

static int read_gpus(struct flmem_host_report *report, struct flmem_error *err)
{
	FLMEM_AUTO_NVML struct flmem_nvml *nvml = NULL;
	struct flmem_error why = {0};

	if (flmem_nvml_open(&nvml, &why)) {
		report->gpu_unknown = strdup(why.message);
		return report->gpu_unknown ? 0 : report_no_memory(err);
	}
	report->gpu_driver = flmem_nvml_driver(nvml);
	report->cuda_driver = flmem_nvml_cuda(nvml);
	return flmem_nvml_gpus(nvml, &report->gpus, &report->gpu_count, err);
}

static int read_cuda_runtime(struct flmem_host_report *report, struct flmem_error *err)
{
	struct flmem_error why = {0};

	if (!flmem_cuda_runtime_version(&report->cuda_runtime, &why))
		return 0;
	report->cuda_runtime_unknown = strdup(why.message);
	return report->cuda_runtime_unknown ? 0 : report_no_memory(err);
}

static int read_trim(const struct flmem_host_facts *facts, const struct flmem_libc *libc,
		     struct flmem_host_report *report, struct flmem_error *err)
{
	struct flmem_interface_result interfaces[FLMEM_INTERFACE_COUNT];
	struct flmem_platform platform = {
		.facts = facts, .libc = libc, .report = report, .interfaces = interfaces};
	int rc = flmem_interfaces_probe(interfaces, err);

	if (rc)
		return rc;
	platform.own_gate = find_own_gate(facts, &interfaces[FLMEM_INTERFACE_PTRACE]);
	report->trim_own = describe_permission(facts, platform.own_gate);
	report->trim_others =
		describe_permission(facts, find_others_gate(facts, platform.own_gate));
	return flmem_features_read(&platform, &report->features, &report->feature_count, err);
}

static int read_report(struct flmem_host_report *report, struct flmem_error *err)
{
	struct flmem_host_facts facts;
	struct flmem_libc libc;
	bool libc_known = find_libc(&libc);
	int rc = flmem_host_facts_read(&facts, err);

	if (!rc)
		rc = copy_facts(&facts, report, err);
	if (!rc)
		rc = read_cgroup(report, err);
	if (!rc && libc_known)
		rc = copy_libc(&libc, report, err);
	if (!rc)
		rc = read_installed(report, err);
	if (!rc)
		rc = read_gpus(report, err);
	if (!rc)
		rc = read_cuda_runtime(report, err);
	return rc ? rc : read_trim(&facts, libc_known ? &libc : NULL, report, err);
}

int flmem_host_read(struct flmem_host_report *ret_report, struct flmem_error *err)
{
	struct flmem_host_report report = {0};
	int rc = read_report(&report, err);

	if (rc)
		flmem_host_report_clear(&report);
	else
		*ret_report = report;
	return rc;
}

void flmem_host_report_clear(struct flmem_host_report *report)
{
	free(report->libc);
	free(report->libc_version);
	free(report->kernel);
	free(report->architecture);
	free(report->thp_mode);
	flmem_installed_free(report->installed, report->installed_count);
	free(report->gpu_driver);
	free(report->gpu_unknown);
	free(report->cuda_driver);
	free(report->cuda_runtime);
	free(report->cuda_runtime_unknown);
	for (size_t i = 0; i < report->gpu_count; i++)
		free(report->gpus[i].name);
	free(report->gpus);
	flmem_features_free(report->features, report->feature_count);
	*report = (struct flmem_host_report){0};
}
