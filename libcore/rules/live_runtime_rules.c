/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about live processes: releases and modes of the C library and of CPython. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "allocators/glibc/glibc_tunables.h"
#include "base/cleanup.h"
#include "rules/live_rules.h"

#define HUGE_MIN     (UINT64_C(64) << 20)
#define HUGE_PERCENT 20U /* percent of RSS */

/*
 * Largest block, in bytes, that thread caches hold by default; up to glibc 2.41 also the most
 * possible.
 */
#define TCACHE_DEFAULT 1032U

static const struct flmem_allocator_report *glibc_of(const struct flmem_process_report *process)
{
	const struct flmem_allocator_report *allocator = flmem_live_malloc(process);

	return allocator && allocator->kind == FLMEM_ALLOCATOR_GLIBC ? allocator : NULL;
}

/* Whether a release is `first` or later; false if it is not known. */
static bool is_since(const char *version, const struct flmem_version_number *first)
{
	struct flmem_version_number release;

	return version && !flmem_version_number_parse(version, &release, NULL) &&
	       flmem_version_number_compare(&release, first) >= 0;
}

/* Whether the process runs on aarch64: flmem reads only processes of its own architecture. */
static bool runs_on_aarch64(void)
{
#ifdef __aarch64__
	return true;
#else
	return false;
#endif
}

static bool glibc_thp(const struct flmem_process_report *process, struct flmem_live_remark *remark)
{
	const struct flmem_allocator_report *allocator = glibc_of(process);
	const char *tunables = flmem_live_setting(process, "GLIBC_TUNABLES");
	struct flmem_u64 huge = process->memory.thp_bytes, rss = process->memory.rss_bytes;
	char shown[FLMEM_TEXT_BYTES_MAX];

	if (!allocator || process->settings_unknown || huge.unknown || rss.unknown ||
	    huge.value < HUGE_MIN || huge.value < rss.value / 100 * HUGE_PERCENT ||
	    !flmem_glibc_asks_for_huge_pages(allocator->version, tunables, runs_on_aarch64()))
		return false;
	remark->path = "GLIBC_TUNABLES";
	flmem_live_put(remark->current, sizeof(remark->current), tunables ? tunables : "");
	snprintf(remark->proposed, sizeof(remark->proposed), "glibc.malloc.hugetlb=0");
	snprintf(remark->detail, sizeof(remark->detail), "%s in huge pages, glibc %.16s",
		 flmem_text_bytes(huge.value, shown, sizeof(shown)), allocator->version);
	return true;
}

/* glibc 2.42 raised the largest value of the tunable. */
static bool glibc_tcache(const struct flmem_process_report *process,
			 struct flmem_live_remark *remark)
{
	static const struct flmem_version_number first = FLMEM_VERSION_NUMBER(2, 42, 0);
	const struct flmem_allocator_report *allocator = glibc_of(process);
	const char *tunables = flmem_live_setting(process, "GLIBC_TUNABLES");
	uint64_t most;

	if (!allocator || !is_since(allocator->version, &first) ||
	    !flmem_glibc_tunable_find(tunables, "glibc.malloc.tcache_max=", 0, &most) ||
	    most <= TCACHE_DEFAULT)
		return false;
	remark->path = "GLIBC_TUNABLES";
	flmem_live_put(remark->current, sizeof(remark->current), tunables);
	snprintf(remark->detail, sizeof(remark->detail), "tcache_max is %" PRIu64, most);
	return true;
}

static bool cpython_gc(const struct flmem_process_report *process, struct flmem_live_remark *remark)
{
	static const struct flmem_version_number first = FLMEM_VERSION_NUMBER(3, 14, 0),
						 fixed = FLMEM_VERSION_NUMBER(3, 14, 5);
	const char *version = process->python.version;
	struct flmem_version_number release;

	if (!process->role || !version || flmem_version_number_parse(version, &release, NULL) ||
	    release.count < 3 || flmem_version_number_compare(&release, &first) < 0 ||
	    flmem_version_number_compare(&release, &fixed) >= 0)
		return false;
	remark->path = "python.version";
	flmem_live_put(remark->current, sizeof(remark->current), version);
	return true;
}

static bool python_mimalloc(const struct flmem_process_report *process,
			    struct flmem_live_remark *remark)
{
	const char *value = flmem_live_setting(process, "PYTHONMALLOC");

	if (!value || (strcmp(value, "mimalloc") != 0 && strcmp(value, "mimalloc_debug") != 0))
		return false;
	remark->path = "PYTHONMALLOC";
	flmem_live_put(remark->current, sizeof(remark->current), value);
	return true;
}

static const struct flmem_live_row live_runtime_rows[] = {
	{.rule = {.id = "LIVE-GLIBC-THP",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition =
			  "at least 64 MiB and a fifth of the memory in huge pages, and a glibc "
			  "that asks for them: 2.43 or later on AArch64, or "
			  "glibc.malloc.hugetlb=1 from 2.35 on",
		  .message = "glibc's malloc asks the kernel for huge pages, each of which is "
			     "resident as a whole once a part is used; start the process with "
			     "glibc.malloc.hugetlb=0 in GLIBC_TUNABLES",
		  .source = "glibc 2.43, malloc/malloc.c, and glibc bug 34081"},
	 .check = glibc_thp},
	{.rule = {.id = "LIVE-GLIBC-TCACHE",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "glibc 2.42 or later with glibc.malloc.tcache_max above 1032",
		  .message = "each thread keeps freed blocks of up to this size in its cache, from "
			     "which no trim returns them; remove the tunable",
		  .source = "glibc 2.42, NEWS and malloc/malloc.c"},
	 .check = glibc_tcache},
	{.rule = {.id = "LIVE-CPYTHON-GC",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a server, client or trainer with CPython 3.14.0 to 3.14.4",
		  .message = "the incremental garbage collector of these releases lets cycles "
			     "accumulate, with 2 to 5 times the memory in reports; use CPython "
			     "3.14.5 or later, or clean up every round",
		  .source = "CPython issue 142516; release notes of 3.14.5"},
	 .check = cpython_gc},
	{.rule = {.id = "LIVE-PYTHON-MIMALLOC",
		  .severity = FLMEM_SEVERITY_INFO,
		  .condition = "PYTHONMALLOC set to mimalloc",
		  .message = "Python's objects are in a mimalloc inside CPython, which flmem "
			     "neither reads nor trims; tensors remain in malloc",
		  .source = "CPython documentation, \"PYTHONMALLOC\""},
	 .check = python_mimalloc},
};

const struct flmem_live_table flmem_live_runtime_rules = {live_runtime_rows,
							  FLMEM_ARRAY_SIZE(live_runtime_rows)};
