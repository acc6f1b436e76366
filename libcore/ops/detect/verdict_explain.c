/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect/verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "base/text/version_number.h"
#include "ops/detect/memory_classes.h"
#include "runtimes/cpython_call.h"

#define SENTENCES_MAX 24
#define BECAUSE_MAX   5 /* number of sentences that fit on one screen */
#define ADVICE_MAX    5
#define ARENAS_MANY   4U /* smallest number of arenas for which a limit is advised */

struct sentence {
	char *text;
	uint64_t weight; /* number of bytes that the sentence describes */
};

/* The input of the sentences, and the sentences and commands so far. */
struct explanation {
	const struct flmem_process_report *report;
	const struct flmem_verdict *verdict;
	const struct flmem_memory_classes *classes;
	uint64_t worth;
	struct sentence sentences[SENTENCES_MAX];
	size_t count;
	struct flmem_advice advice[ADVICE_MAX];
	size_t advice_count;
	bool failed;
};

/* A size as text, for as long as the full expression lives. */
#define SIZE(bytes) flmem_text_bytes(bytes, (char[FLMEM_TEXT_BYTES_MAX]){0}, FLMEM_TEXT_BYTES_MAX)

static void add_sentence(struct explanation *explanation, uint64_t weight, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void add_sentence(struct explanation *explanation, uint64_t weight, const char *format, ...)
{
	char *text = NULL;
	va_list arguments;

	if (explanation->count == SENTENCES_MAX)
		return;
	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	if (text)
		explanation->sentences[explanation->count++] = (struct sentence){text, weight};
	else
		explanation->failed = true;
}

static void add_verdict_advice(struct explanation *explanation, const char *purpose,
			       const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add_verdict_advice(struct explanation *explanation, const char *purpose,
			       const char *format, ...)
{
	struct flmem_advice advice = {0};
	va_list arguments;

	if (explanation->advice_count == ADVICE_MAX)
		return;
	va_start(arguments, format);
	if (vasprintf(&advice.command, format, arguments) < 0)
		advice.command = NULL;
	va_end(arguments);
	advice.purpose = strdup(purpose);
	if (!advice.command || !advice.purpose)
		explanation->failed = true;
	explanation->advice[explanation->advice_count++] = advice;
}

static bool is_worth_sentence(const struct explanation *explanation, struct flmem_u64 bytes)
{
	return !bytes.unknown && bytes.value >= explanation->worth;
}

static uint64_t class_bytes(const struct explanation *explanation, enum flmem_memory_class which)
{
	return explanation->classes->bytes[which];
}

static void explain_retained(struct explanation *explanation,
			     const struct flmem_allocator_report *allocator)
{
	const struct flmem_heap_report *heap = &allocator->heap;
	char arenas[48] = "";

	if (!is_worth_sentence(explanation, heap->trimmable_bytes))
		return;
	if (!heap->arenas.unknown && heap->arenas.value > 1)
		snprintf(arenas, sizeof(arenas), " in %" PRIu64 " arenas", heap->arenas.value);
	add_sentence(explanation, heap->trimmable_bytes.value,
		     "%s keeps %s of free memory resident%s; trim would release %s of it",
		     flmem_allocator_name(allocator->kind),
		     SIZE(heap->free_resident_bytes.unknown ? heap->trimmable_bytes.value
							    : heap->free_resident_bytes.value),
		     arenas, SIZE(heap->trimmable_bytes.value));
}

static void explain_decaying(struct explanation *explanation,
			     const struct flmem_allocator_report *allocator)
{
	struct flmem_u64 decaying = allocator->heap.decaying_bytes;

	if (is_worth_sentence(explanation, decaying))
		add_sentence(
			explanation, decaying.value / 2,
			"a background thread of %s releases %s of that when its decay time is over",
			flmem_allocator_name(allocator->kind), SIZE(decaying.value));
}

static void explain_pinned(struct explanation *explanation,
			   const struct flmem_allocator_report *allocator)
{
	struct flmem_u64 pinned = allocator->heap.pinned_bytes;

	if (is_worth_sentence(explanation, pinned))
		add_sentence(
			explanation, pinned.value,
			"%s of free memory in %s cannot be released: blocks in use share its "
			"pages, or "
			"it lies at the end of an arena, which only a free() of the program can "
			"shorten",
			SIZE(pinned.value), flmem_allocator_name(allocator->kind));
}

static void explain_cached(struct explanation *explanation,
			   const struct flmem_allocator_report *allocator)
{
	struct flmem_u64 cached = allocator->heap.cached_bytes;

	if (is_worth_sentence(explanation, cached))
		add_sentence(explanation, cached.value,
			     "%s holds %s of freed memory in caches for the next allocations",
			     flmem_allocator_name(allocator->kind), SIZE(cached.value));
}

/* Explains why freed memory stays resident, if much of it does. */
static void explain_tuning(struct explanation *explanation,
			   const struct flmem_allocator_report *allocator)
{
	const struct flmem_heap_report *heap = &allocator->heap;

	if (!is_worth_sentence(explanation, heap->free_resident_bytes))
		return;
	if (!heap->threshold_raised.unknown && heap->threshold_raised.value &&
	    !heap->mmap_threshold_bytes.unknown)
		add_sentence(
			explanation, heap->free_resident_bytes.value / 2,
			"freeing a large block has raised glibc's mmap threshold to %s: smaller "
			"tensors no longer get their own mapping, which would be released as soon "
			"as "
			"they are freed",
			SIZE(heap->mmap_threshold_bytes.value));
	if (!heap->arenas.unknown && heap->arenas.value > ARENAS_MANY && !heap->arena_max.unknown &&
	    !heap->arena_max.value)
		add_sentence(explanation, heap->free_resident_bytes.value / 2,
			     "%s has %" PRIu64 " arenas because their number is not limited; each "
			     "keeps its own free memory",
			     flmem_allocator_name(allocator->kind), heap->arenas.value);
}

static void explain_allocators(struct explanation *explanation)
{
	for (size_t i = 0; i < explanation->report->allocator_count; i++) {
		const struct flmem_allocator_report *allocator =
			&explanation->report->allocators[i];

		explain_retained(explanation, allocator);
		explain_decaying(explanation, allocator);
		explain_pinned(explanation, allocator);
		explain_cached(explanation, allocator);
		explain_tuning(explanation, allocator);
	}
}

static void explain_live(struct explanation *explanation)
{
	const struct flmem_process_report *report = explanation->report;
	uint64_t live = class_bytes(explanation, FLMEM_MEMORY_LIVE);

	if (live < explanation->worth)
		return;
	if (report->heap.in_use_bytes.unknown)
		add_sentence(explanation, live, "the program holds %s", SIZE(live));
	else if (report->heap.in_use_bytes.value > live)
		add_sentence(explanation, live,
			     "the program holds %s; its blocks from malloc have %s, of which not "
			     "all may be resident; only its growth over time shows whether that "
			     "is a leak",
			     SIZE(live), SIZE(report->heap.in_use_bytes.value));
	else
		add_sentence(explanation, live,
			     "the program holds %s, %s of it in blocks from malloc; only its "
			     "growth over "
			     "time shows whether that is a leak",
			     SIZE(live), SIZE(report->heap.in_use_bytes.value));
}

static void explain_python(struct explanation *explanation)
{
	const struct flmem_process_report *report = explanation->report;
	uint64_t arenas = report->python.arenas_bytes.value;
	char count[FLMEM_TEXT_COUNTED_MAX];

	if (!is_worth_sentence(explanation, report->python.arenas_bytes) ||
	    report->python.used_bytes.unknown)
		return;
	add_sentence(explanation, arenas,
		     "CPython keeps %s in %s, %.0f %% full; only an arena without any object is "
		     "released",
		     SIZE(arenas),
		     flmem_text_counted(report->python.arenas.value, "arena", count, sizeof(count)),
		     (double)report->python.used_bytes.value / (double)arenas * 100);
}

static bool may_use_gpu(const struct flmem_process_report *report)
{
	return report->cuda.used_bytes.unknown || report->cuda.used_bytes.value;
}

/*
 * Returns true if shared memory without a name may be page-locked memory for the GPU, which cannot
 * be distinguished from outside.
 */
static bool may_hide_page_locked(const struct explanation *explanation)
{
	return explanation->report->cuda.pinned_bytes.unknown && may_use_gpu(explanation->report) &&
	       flmem_nameless_bytes(explanation->report) >= explanation->worth;
}

static void explain_page_locked(struct explanation *explanation)
{
	const struct flmem_cuda_report *cuda = &explanation->report->cuda;
	uint64_t nameless = flmem_nameless_bytes(explanation->report);
	struct flmem_u64 all = cuda->pinned_bytes;

	if (is_worth_sentence(explanation, all) && cuda->pinned_active_bytes.unknown)
		add_sentence(explanation, all.value,
			     "PyTorch keeps %s of page-locked host memory for the GPU; how much of "
			     "it tensors use is unknown",
			     SIZE(all.value));
	else if (is_worth_sentence(explanation, all))
		add_sentence(explanation, all.value,
			     "PyTorch keeps %s of page-locked host memory for the GPU, and no "
			     "tensor uses "
			     "%s of it",
			     SIZE(all.value), SIZE(flmem_page_locked_of(explanation->report).idle));
	else if (may_hide_page_locked(explanation))
		add_sentence(
			explanation, nameless,
			"%s of the shared memory has no name and may be page-locked host memory of "
			"CUDA; only PyTorch itself can report that",
			SIZE(nameless));
}

/* Names the largest file of a kind: " (64 MiB of it is /dev/shm/x)", or "" if all are small. */
static void name_largest(const struct explanation *explanation, bool files, uint64_t total,
			 struct flmem_buf *name)
{
	const struct flmem_process_report *report = explanation->report;

	for (size_t i = 0; i < report->backing_count; i++) {
		const struct flmem_backing_report *backing = &report->backings[i];

		if ((backing->kind == FLMEM_BACKING_FILE) != files)
			continue;
		/* PyTorch's page-locked memory is in other classes. */
		if (backing->kind == FLMEM_BACKING_SHARED_ANONYMOUS &&
		    is_worth_sentence(explanation, report->cuda.pinned_bytes) &&
		    !report->cuda.pinned_active_bytes.unknown)
			continue;
		if (backing->resident_bytes < explanation->worth)
			return;
		if (backing->resident_bytes >= total - total / 10)
			flmem_buf_printf(name, " (%.200s)", backing->name);
		else
			flmem_buf_printf(name, " (%s of it is %.200s)",
					 SIZE(backing->resident_bytes), backing->name);
		return;
	}
}

static void explain_shared_and_files(struct explanation *explanation)
{
	uint64_t shared = class_bytes(explanation, FLMEM_MEMORY_SHARED);
	uint64_t file = class_bytes(explanation, FLMEM_MEMORY_FILE);
	FLMEM_AUTO_BUF struct flmem_buf memory_name = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf file_name = FLMEM_BUF_INIT;

	name_largest(explanation, false, shared, &memory_name);
	name_largest(explanation, true, file, &file_name);
	if (shared >= explanation->worth)
		add_sentence(explanation, shared,
			     "%s is shared memory%s, outside of every allocator; each process that "
			     "maps it "
			     "counts it",
			     SIZE(shared), memory_name.data);
	if (file >= explanation->worth)
		add_sentence(explanation, file,
			     "%s is pages of files%s; the kernel drops them under memory pressure",
			     SIZE(file), file_name.data);
}

/* Returns why a part may belong to another class. */
static const char *find_error_cause(const struct explanation *explanation)
{
	const struct flmem_process_report *report = explanation->report;

	for (size_t i = 0; i < report->allocator_count; i++) {
		const struct flmem_heap_report *heap = &report->allocators[i].heap;

		if (heap->error_bytes.unknown && !heap->resident_bytes.unknown &&
		    flmem_u64_or(report->memory.drift_bytes, 0) <
			    explanation->classes->error_bytes / 2)
			return heap->error_bytes.unknown;
	}
	return "the heap was sampled, or it changed while it was read";
}

static void explain_uncertain(struct explanation *explanation)
{
	const struct flmem_process_report *report = explanation->report;
	uint64_t unknown = class_bytes(explanation, FLMEM_MEMORY_UNKNOWN);

	if (unknown >= explanation->worth)
		add_sentence(explanation, unknown,
			     "%s of anonymous memory could not be classified: %s", SIZE(unknown),
			     report->denied_why ? "its memory could not be read"
						: flmem_verdict_reason(report));
	if (explanation->classes->error_bytes >= explanation->worth)
		add_sentence(explanation, explanation->classes->error_bytes,
			     "up to %s may belong to another class: %s",
			     SIZE(explanation->classes->error_bytes),
			     find_error_cause(explanation));
	if (is_worth_sentence(explanation, report->memory.thp_bytes) &&
	    class_bytes(explanation, FLMEM_MEMORY_RETAINED) >= explanation->worth)
		add_sentence(explanation, class_bytes(explanation, FLMEM_MEMORY_RETAINED) / 4,
			     "%s lies in transparent huge pages: after a trim RSS falls at once, "
			     "but the "
			     "memory becomes free only when the kernel splits those pages",
			     SIZE(report->memory.thp_bytes.value));
	if (is_worth_sentence(explanation, report->memory.madv_free_bytes))
		add_sentence(explanation, report->memory.madv_free_bytes.value,
			     "%s is free and released with MADV_FREE: the kernel reclaims it under "
			     "memory pressure, and RSS counts it until then",
			     SIZE(report->memory.madv_free_bytes.value));
	if (is_worth_sentence(explanation, report->memory.swap_bytes))
		add_sentence(explanation, report->memory.swap_bytes.value,
			     "another %s is swapped out; RSS does not count it",
			     SIZE(report->memory.swap_bytes.value));
	if (is_worth_sentence(explanation, report->memory.hugetlb_bytes))
		add_sentence(explanation, report->memory.hugetlb_bytes.value,
			     "another %s is in huge pages of hugetlbfs; RSS does not count it",
			     SIZE(report->memory.hugetlb_bytes.value));
}

/*
 * Returns the role for `flmem env`; NULL for a process whose role is unknown: it may be a server.
 */
static const char *role_for_settings(enum flmem_role role)
{
	if (role == FLMEM_ROLE_NONE)
		return NULL;
	if (flmem_role_is_server(role))
		return flmem_role_name(FLMEM_ROLE_SERVER);
	return flmem_role_name(role == FLMEM_ROLE_TRAINER ? role : FLMEM_ROLE_CLIENT);
}

static bool has_queryable_allocator(const struct flmem_process_report *report)
{
	for (size_t i = 0; i < report->allocator_count; i++)
		if (report->allocators[i].answers &&
		    report->allocators[i].heap.resident_bytes.unknown)
			return true;
	return false;
}

/* Advises a dry run of a trim, unless the trim would be refused; the dry run checks the rest. */
static void advise_trim(struct explanation *explanation, uint64_t returned)
{
	const struct flmem_process_report *report = explanation->report;
	FLMEM_AUTO_BUF struct flmem_buf purpose = FLMEM_BUF_INIT;
	int pid = (int)report->pid;

	if (report->trim_refused)
		add_sentence(explanation, UINT64_MAX, "a trim would be refused now: %s",
			     report->trim_refused);
	if (report->trim_refused_code == FLMEM_EUNSAFE)
		add_verdict_advice(explanation, "checks again whether a trim is safe",
				   "flmem trim --dry-run --pid %d", pid);
	if (report->trim_refused)
		return;
	flmem_buf_printf(&purpose, "releases about %s", SIZE(returned));
	if (report->trim_is_filtered)
		add_verdict_advice(explanation, "checks whether its seccomp filters allow a trim",
				   "flmem trim --dry-run --pid %d", pid);
	else
		add_verdict_advice(explanation, purpose.data, "flmem trim --pid %d", pid);
}

/* Advises commands that release memory. */
static void advise_release(struct explanation *explanation)
{
	const struct flmem_process_report *report = explanation->report;
	uint64_t returned = class_bytes(explanation, FLMEM_MEMORY_RETAINED);
	int pid = (int)report->pid;

	/* Include memory that would be released later anyway. */
	if (is_worth_sentence(explanation, report->heap.decaying_bytes))
		returned += report->heap.decaying_bytes.value;
	if (returned >= explanation->worth)
		advise_trim(explanation, returned);
	if (report->python.version && (is_worth_sentence(explanation, report->cuda.used_bytes) ||
				       flmem_page_locked_of(report).idle >= explanation->worth))
		add_verdict_advice(explanation, "empties PyTorch's GPU caches",
				   "flmem trim --cuda --pid %d", pid);
}

static bool is_attachable_python(const char *version)
{
	struct flmem_version_number number;

	if (!version || flmem_version_number_parse(version, &number, NULL) < 0)
		return false;
	return flmem_cpython_runs_code(number.parts[0], number.parts[1]);
}

/* Advises to attach a profiler. Attaching is refused where a trim with Python code is. */
static void advise_profile(struct explanation *explanation)
{
	const struct flmem_process_report *report = explanation->report;

	if (explanation->verdict->kind != FLMEM_VERDICT_LIVE)
		return;
	if (report->sampled_into)
		add_verdict_advice(explanation, "it is sampled already: which code's memory grows",
				   "flmem profile leaks %s", report->sampled_into);
	else if (is_attachable_python(report->python.version) && !report->trim_refused &&
		 !report->trim_is_filtered)
		add_verdict_advice(explanation, "samples which code allocates what it holds",
				   "flmem profile attach --pid %d --output FILE", (int)report->pid);
}

/*
 * Returns true if live memory is the largest class, also below half of RSS: only its growth shows
 * whether it is a leak.
 */
static bool is_mostly_live(const struct explanation *explanation)
{
	enum flmem_verdict_kind kind = explanation->verdict->kind;

	for (size_t i = 0; i < FLMEM_MEMORY_CLASS_COUNT; i++)
		if (explanation->verdict->classes.bytes[i] >
		    class_bytes(explanation, FLMEM_MEMORY_LIVE))
			return false;
	return kind == FLMEM_VERDICT_LIVE || kind == FLMEM_VERDICT_MIXED;
}

static void advise_commands(struct explanation *explanation)
{
	const struct flmem_process_report *report = explanation->report;
	uint64_t idle = class_bytes(explanation, FLMEM_MEMORY_RETAINED) +
			class_bytes(explanation, FLMEM_MEMORY_FRAGMENTED);
	const char *role = role_for_settings(report->role);
	int pid = (int)report->pid;

	if (report->denied_why) {
		/* If root is refused, sudo does not help. */
		if (geteuid())
			add_verdict_advice(explanation, "reads its memory as root",
					   "sudo flmem detect --pid %d", pid);
		return;
	}
	advise_release(explanation);
	if (class_bytes(explanation, FLMEM_MEMORY_UNKNOWN) >= explanation->worth &&
	    has_queryable_allocator(report))
		add_verdict_advice(explanation, "queries the allocator itself",
				   "flmem detect --ask-runtime --pid %d", pid);
	else if (report->python.version && !report->query.tried &&
		 may_hide_page_locked(explanation))
		add_verdict_advice(explanation, "queries PyTorch",
				   "flmem detect --ask-runtime --pid %d", pid);
	if (is_mostly_live(explanation))
		add_verdict_advice(explanation, "shows whether it grows", "flmem watch --pid %d",
				   pid);
	advise_profile(explanation);
	if (report->python.version && !report->trim_refused &&
	    (explanation->verdict->kind == FLMEM_VERDICT_LIVE ||
	     explanation->verdict->kind == FLMEM_VERDICT_RUNTIME))
		add_verdict_advice(explanation, "collects Python's garbage, then trims",
				   "flmem trim --gc --pid %d", pid);
	if (idle < explanation->worth)
		return;
	if (role)
		add_verdict_advice(explanation, "settings for the next run",
				   "flmem env --role %s --explain", role);
	else
		add_verdict_advice(explanation, "settings for the next run, by role",
				   "flmem env --help");
}

static int compare_weights(const void *a, const void *b)
{
	uint64_t first = ((const struct sentence *)a)->weight;
	uint64_t second = ((const struct sentence *)b)->weight;

	return (first < second) - (first > second);
}

/* Moves the sentences with the largest weights and all advice to the verdict. */
static bool move_to_verdict(struct explanation *explanation, struct flmem_verdict *verdict)
{
	size_t count = explanation->count < BECAUSE_MAX ? explanation->count : BECAUSE_MAX;
	char **because = calloc(BECAUSE_MAX, sizeof(*because));
	struct flmem_advice *next = calloc(ADVICE_MAX, sizeof(*next));

	if (!because || !next || explanation->failed) {
		free(because);
		free(next);
		return false;
	}
	qsort(explanation->sentences, explanation->count, sizeof(explanation->sentences[0]),
	      compare_weights);
	for (size_t i = 0; i < count; i++)
		because[i] = FLMEM_TAKE(explanation->sentences[i].text);
	memcpy(next, explanation->advice, sizeof(explanation->advice));
	verdict->reasons = because;
	verdict->reason_count = count;
	verdict->next = next;
	verdict->next_count = explanation->advice_count;
	explanation->advice_count = 0;
	return true;
}

static void clear_explanation(const struct explanation *explanation)
{
	for (size_t i = 0; i < explanation->count; i++)
		free(explanation->sentences[i].text);
	for (size_t i = 0; i < explanation->advice_count; i++) {
		free(explanation->advice[i].command);
		free(explanation->advice[i].purpose);
	}
}

int flmem_verdict_explain(const struct flmem_process_report *report, struct flmem_verdict *verdict,
			  struct flmem_error *err)
{
	FLMEM_AUTO(clear_explanation)
	struct explanation explanation = {
		.report = report,
		.verdict = verdict,
		.classes = &verdict->classes,
		.worth = flmem_verdict_worth(report),
	};

	if (verdict->classes.unknown)
		return 0;
	explain_allocators(&explanation);
	explain_live(&explanation);
	explain_python(&explanation);
	explain_page_locked(&explanation);
	explain_shared_and_files(&explanation);
	explain_uncertain(&explanation);
	advise_commands(&explanation);
	if (!move_to_verdict(&explanation, verdict))
		return flmem_error_nomem(err, "cannot store the report");
	return 0;
}
