/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect/verdict.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "ops/detect/memory_classes.h"

#define SENTENCES_MAX 24
#define BECAUSE_MAX   5 /* what one screen has room for */
#define ADVICE_MAX    4
#define ARENAS_MANY   4U /* fewer need no limit */

struct sentence {
	char *text;
	uint64_t weight; /* bytes that it is about */
};

/* What the sentences are made from, and what has been said. */
struct speech {
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

static void say(struct speech *speech, uint64_t weight, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void say(struct speech *speech, uint64_t weight, const char *format, ...)
{
	char *text = NULL;
	va_list arguments;

	if (speech->count == SENTENCES_MAX)
		return;
	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	if (text)
		speech->sentences[speech->count++] = (struct sentence){text, weight};
	else
		speech->failed = true;
}

static void advise(struct speech *speech, const char *purpose, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void advise(struct speech *speech, const char *purpose, const char *format, ...)
{
	struct flmem_advice advice = {0};
	va_list arguments;

	if (speech->advice_count == ADVICE_MAX)
		return;
	va_start(arguments, format);
	if (vasprintf(&advice.command, format, arguments) < 0)
		advice.command = NULL;
	va_end(arguments);
	advice.purpose = strdup(purpose);
	if (!advice.command || !advice.purpose)
		speech->failed = true;
	speech->advice[speech->advice_count++] = advice;
}

static bool is_worth(const struct speech *speech, struct flmem_u64 bytes)
{
	return !bytes.unknown && bytes.value >= speech->worth;
}

static uint64_t of_class(const struct speech *speech, enum flmem_memory_class which)
{
	return speech->classes->bytes[which];
}

static void tell_retained(struct speech *speech, const struct flmem_allocator_report *allocator)
{
	const struct flmem_heap_report *heap = &allocator->heap;
	char arenas[48] = "";

	if (!is_worth(speech, heap->trimmable_bytes))
		return;
	if (!heap->arenas.unknown && heap->arenas.value > 1)
		snprintf(arenas, sizeof(arenas), " in %" PRIu64 " arenas", heap->arenas.value);
	say(speech, heap->trimmable_bytes.value,
	    "%s keeps %s of free memory resident%s; trim would return %s of it",
	    flmem_allocator_name(allocator->kind),
	    SIZE(heap->free_resident_bytes.unknown ? heap->trimmable_bytes.value
						   : heap->free_resident_bytes.value),
	    arenas, SIZE(heap->trimmable_bytes.value));
}

static void tell_decaying(struct speech *speech, const struct flmem_allocator_report *allocator)
{
	struct flmem_u64 decaying = allocator->heap.decaying_bytes;

	if (is_worth(speech, decaying))
		say(speech, decaying.value / 2,
		    "a background thread of %s returns %s of that by itself when its decay time is "
		    "over",
		    flmem_allocator_name(allocator->kind), SIZE(decaying.value));
}

static void tell_pinned(struct speech *speech, const struct flmem_allocator_report *allocator)
{
	struct flmem_u64 pinned = allocator->heap.pinned_bytes;

	if (is_worth(speech, pinned))
		say(speech, pinned.value,
		    "%s of what %s has free cannot be returned: blocks in use share its pages, or "
		    "it is the end of an arena that only a free() of the program shortens",
		    SIZE(pinned.value), flmem_allocator_name(allocator->kind));
}

static void tell_cached(struct speech *speech, const struct flmem_allocator_report *allocator)
{
	struct flmem_u64 cached = allocator->heap.cached_bytes;

	if (is_worth(speech, cached))
		say(speech, cached.value,
		    "%s holds %s of freed memory in caches, for the next allocations",
		    flmem_allocator_name(allocator->kind), SIZE(cached.value));
}

/* Why freed memory stays where it is; only of interest where much does. */
static void tell_tuning(struct speech *speech, const struct flmem_allocator_report *allocator)
{
	const struct flmem_heap_report *heap = &allocator->heap;

	if (!is_worth(speech, heap->free_resident_bytes))
		return;
	if (!heap->threshold_raised.unknown && heap->threshold_raised.value &&
	    !heap->mmap_threshold_bytes.unknown)
		say(speech, heap->free_resident_bytes.value / 2,
		    "freeing a large block has raised glibc's mmap threshold to %s: tensors below "
		    "that no longer get a mapping of their own, which goes back when they are "
		    "freed",
		    SIZE(heap->mmap_threshold_bytes.value));
	if (!heap->arenas.unknown && heap->arenas.value > ARENAS_MANY && !heap->arena_max.unknown &&
	    !heap->arena_max.value)
		say(speech, heap->free_resident_bytes.value / 2,
		    "%s has %" PRIu64
		    " arenas, as their number is not limited, and each keeps free "
		    "memory of its own",
		    flmem_allocator_name(allocator->kind), heap->arenas.value);
}

static void tell_allocators(struct speech *speech)
{
	for (size_t i = 0; i < speech->report->allocator_count; i++) {
		const struct flmem_allocator_report *allocator = &speech->report->allocators[i];

		tell_retained(speech, allocator);
		tell_decaying(speech, allocator);
		tell_pinned(speech, allocator);
		tell_cached(speech, allocator);
		tell_tuning(speech, allocator);
	}
}

static void tell_live(struct speech *speech)
{
	const struct flmem_process_report *report = speech->report;
	uint64_t live = of_class(speech, FLMEM_MEMORY_LIVE);

	if (live < speech->worth)
		return;
	if (report->heap.in_use_bytes.unknown)
		say(speech, live, "the program holds %s", SIZE(live));
	else
		say(speech, live,
		    "the program holds %s, %s of it in blocks from malloc; whether that is a leak "
		    "only its growth can tell",
		    SIZE(live), SIZE(report->heap.in_use_bytes.value));
}

static void tell_python(struct speech *speech)
{
	const struct flmem_process_report *report = speech->report;
	uint64_t arenas = report->python.arenas_bytes.value;

	if (!is_worth(speech, report->python.arenas_bytes) || report->python.used_bytes.unknown)
		return;
	say(speech, arenas,
	    "CPython keeps %s in %" PRIu64
	    " arenas of its own, %.0f %% full; only an arena without "
	    "any object goes back",
	    SIZE(arenas), report->python.arenas.value,
	    (double)report->python.used_bytes.value / (double)arenas * 100);
}

static bool may_use_gpu(const struct flmem_process_report *report)
{
	return report->cuda.used_bytes.unknown || report->cuda.used_bytes.value;
}

/* Nobody knows of its nameless shared memory whether it is page-locked for the GPU. */
static bool hides_page_locked(const struct speech *speech)
{
	return speech->report->cuda.pinned_bytes.unknown && may_use_gpu(speech->report) &&
	       flmem_nameless_bytes(speech->report) >= speech->worth;
}

static void tell_page_locked(struct speech *speech)
{
	const struct flmem_cuda_report *cuda = &speech->report->cuda;
	uint64_t nameless = flmem_nameless_bytes(speech->report);
	struct flmem_u64 all = cuda->pinned_bytes;

	if (is_worth(speech, all))
		say(speech, all.value,
		    "PyTorch keeps %s of page-locked host memory for the GPU, and no tensor uses "
		    "%s of it",
		    SIZE(all.value), SIZE(flmem_page_locked_of(speech->report).idle));
	else if (hides_page_locked(speech))
		say(speech, nameless,
		    "%s of the shared memory has no name, as page-locked host memory of CUDA has "
		    "none; only PyTorch can tell whether it is that",
		    SIZE(nameless));
}

/* " (64 MiB of it is /dev/shm/x)": the largest file of a kind, or "" when none is worth a word. */
static void name_largest(const struct speech *speech, bool files, uint64_t total,
			 struct flmem_buf *name)
{
	const struct flmem_process_report *report = speech->report;

	for (size_t i = 0; i < report->backing_count; i++) {
		const struct flmem_backing_report *backing = &report->backings[i];

		if ((backing->kind == FLMEM_BACKING_FILE) != files)
			continue;
		/* What of it is PyTorch's is in other classes. */
		if (backing->kind == FLMEM_BACKING_SHARED_ANONYMOUS &&
		    is_worth(speech, report->cuda.pinned_bytes))
			continue;
		if (backing->resident_bytes < speech->worth)
			return;
		if (backing->resident_bytes >= total - total / 10)
			flmem_buf_printf(name, " (%.200s)", backing->name);
		else
			flmem_buf_printf(name, " (%s of it is %.200s)",
					 SIZE(backing->resident_bytes), backing->name);
		return;
	}
}

static void tell_foreign(struct speech *speech)
{
	uint64_t shared = of_class(speech, FLMEM_MEMORY_SHARED);
	uint64_t file = of_class(speech, FLMEM_MEMORY_FILE);
	FLMEM_AUTO_BUF struct flmem_buf memory_name = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf file_name = FLMEM_BUF_INIT;

	name_largest(speech, false, shared, &memory_name);
	name_largest(speech, true, file, &file_name);
	if (shared >= speech->worth)
		say(speech, shared,
		    "%s is shared memory%s, which no allocator holds; each process that maps it "
		    "counts it",
		    SIZE(shared), memory_name.data);
	if (file >= speech->worth)
		say(speech, file,
		    "%s is pages of files%s; the kernel drops them when memory is short",
		    SIZE(file), file_name.data);
}

static void tell_doubts(struct speech *speech)
{
	const struct flmem_process_report *report = speech->report;
	uint64_t unknown = of_class(speech, FLMEM_MEMORY_UNKNOWN);

	if (unknown >= speech->worth)
		say(speech, unknown, "%s of anonymous memory could not be told apart: %s",
		    SIZE(unknown), flmem_verdict_reason(report));
	if (speech->classes->error_bytes >= speech->worth)
		say(speech, speech->classes->error_bytes,
		    "up to %s may lie in another class: the figures are from a sample, or the "
		    "process was at work while it was read",
		    SIZE(speech->classes->error_bytes));
	if (is_worth(speech, report->memory.thp_bytes) &&
	    of_class(speech, FLMEM_MEMORY_RETAINED) >= speech->worth)
		say(speech, of_class(speech, FLMEM_MEMORY_RETAINED) / 4,
		    "%s lies in transparent huge pages: after a trim RSS falls at once, but the "
		    "kernel "
		    "has the memory only when it splits those pages",
		    SIZE(report->memory.thp_bytes.value));
	if (is_worth(speech, report->memory.lazy_bytes))
		say(speech, report->memory.lazy_bytes.value,
		    "%s is free and marked for the kernel, which takes it when memory is short; "
		    "until then RSS counts it",
		    SIZE(report->memory.lazy_bytes.value));
	if (is_worth(speech, report->memory.swap_bytes))
		say(speech, report->memory.swap_bytes.value,
		    "%s more is swapped out, which RSS does not count",
		    SIZE(report->memory.swap_bytes.value));
}

/* The role to ask settings for; the next start of a process of unknown role is like a client's. */
static const char *role_for_settings(enum flmem_role role)
{
	if (flmem_role_is_server(role))
		return flmem_role_name(FLMEM_ROLE_SERVER);
	return flmem_role_name(role == FLMEM_ROLE_TRAINER ? role : FLMEM_ROLE_CLIENT);
}

static bool can_be_asked(const struct flmem_process_report *report)
{
	for (size_t i = 0; i < report->allocator_count; i++)
		if (report->allocators[i].answers &&
		    report->allocators[i].heap.resident_bytes.unknown)
			return true;
	return false;
}

/* What brings memory back. */
static void advise_release(struct speech *speech)
{
	const struct flmem_process_report *report = speech->report;
	uint64_t returned = of_class(speech, FLMEM_MEMORY_RETAINED);
	FLMEM_AUTO_BUF struct flmem_buf purpose = FLMEM_BUF_INIT;
	int pid = (int)report->pid;

	/* Also what would go by itself later. */
	if (is_worth(speech, report->heap.decaying_bytes))
		returned += report->heap.decaying_bytes.value;
	flmem_buf_printf(&purpose, "returns about %s", SIZE(returned));
	if (returned >= speech->worth)
		advise(speech, purpose.data, "flmem trim --pid %d", pid);
	if (report->python.version && (is_worth(speech, report->cuda.used_bytes) ||
				       flmem_page_locked_of(report).idle >= speech->worth))
		advise(speech, "empties PyTorch's caches for the GPU", "flmem trim --cuda --pid %d",
		       pid);
}

static void advise_all(struct speech *speech)
{
	const struct flmem_process_report *report = speech->report;
	uint64_t idle =
		of_class(speech, FLMEM_MEMORY_RETAINED) + of_class(speech, FLMEM_MEMORY_FRAGMENTED);
	int pid = (int)report->pid;

	if (report->denied_why) {
		advise(speech, "may read its memory", "sudo flmem detect --pid %d", pid);
		return;
	}
	advise_release(speech);
	if (of_class(speech, FLMEM_MEMORY_UNKNOWN) >= speech->worth && can_be_asked(report))
		advise(speech, "lets the allocator itself tell",
		       "flmem detect --ask-runtime --pid %d", pid);
	else if (report->python.version && !report->asked.tried && hides_page_locked(speech))
		advise(speech, "lets PyTorch tell", "flmem detect --ask-runtime --pid %d", pid);
	if (speech->verdict->kind == FLMEM_VERDICT_LIVE)
		advise(speech, "tells whether it grows", "flmem watch --pid %d", pid);
	if (report->python.version && (speech->verdict->kind == FLMEM_VERDICT_LIVE ||
				       speech->verdict->kind == FLMEM_VERDICT_RUNTIME))
		advise(speech, "collects Python's garbage, then trims", "flmem trim --gc --pid %d",
		       pid);
	if (idle >= speech->worth)
		advise(speech, "settings for the next run", "flmem env --role %s --explain",
		       role_for_settings(report->role));
}

static int by_weight(const void *a, const void *b)
{
	uint64_t first = ((const struct sentence *)a)->weight;
	uint64_t second = ((const struct sentence *)b)->weight;

	return (first < second) - (first > second);
}

/* Hands the weightiest sentences and all advice to the verdict. */
static bool hand_over(struct speech *speech, struct flmem_verdict *verdict)
{
	size_t count = speech->count < BECAUSE_MAX ? speech->count : BECAUSE_MAX;
	char **because = calloc(BECAUSE_MAX, sizeof(*because));
	struct flmem_advice *next = calloc(ADVICE_MAX, sizeof(*next));

	if (!because || !next || speech->failed) {
		free(because);
		free(next);
		return false;
	}
	qsort(speech->sentences, speech->count, sizeof(speech->sentences[0]), by_weight);
	for (size_t i = 0; i < count; i++)
		because[i] = FLMEM_TAKE(speech->sentences[i].text);
	memcpy(next, speech->advice, sizeof(speech->advice));
	verdict->because = because;
	verdict->because_count = count;
	verdict->next = next;
	verdict->next_count = speech->advice_count;
	speech->advice_count = 0;
	return true;
}

static void end_speech(const struct speech *speech)
{
	for (size_t i = 0; i < speech->count; i++)
		free(speech->sentences[i].text);
	for (size_t i = 0; i < speech->advice_count; i++) {
		free(speech->advice[i].command);
		free(speech->advice[i].purpose);
	}
}

int flmem_verdict_explain(const struct flmem_process_report *report, struct flmem_verdict *verdict,
			  struct flmem_error *err)
{
	FLMEM_AUTO(end_speech)
	struct speech speech = {
		.report = report,
		.verdict = verdict,
		.classes = &verdict->classes,
		.worth = flmem_verdict_worth(report),
	};

	if (verdict->classes.unknown)
		return 0;
	tell_allocators(&speech);
	tell_live(&speech);
	tell_python(&speech);
	tell_page_locked(&speech);
	tell_foreign(&speech);
	tell_doubts(&speech);
	advise_all(&speech);
	if (!hand_over(&speech, verdict))
		return flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot hold the report");
	return 0;
}
