/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "ops/detect/memory_classes.h"
#include "ops/detect/verdict.h"

#define MIB (UINT64_C(1) << 20)

static const char why[] = "for a reason";

/* A process with one glibc heap; a value that a test does not set is 0. */
struct sample {
	uint64_t file, shared, anon;
	uint64_t in_use, trimmable, pinned, cached, error;
	uint64_t python_used, python_free;
};

static struct flmem_process_report make(const struct sample *s,
					struct flmem_allocator_report *allocator)
{
	uint64_t resident = s->in_use + s->trimmable + s->pinned + s->cached;

	*allocator = (struct flmem_allocator_report){
		.kind = FLMEM_ALLOCATOR_GLIBC,
		.serves_malloc = true,
		.heap = {
			.resident_bytes = FLMEM_KNOWN(resident),
			.in_use_bytes = FLMEM_KNOWN(s->in_use),
			.free_resident_bytes = FLMEM_KNOWN(s->trimmable + s->pinned),
			.trimmable_bytes = FLMEM_KNOWN(s->trimmable),
			.pinned_bytes = FLMEM_KNOWN(s->pinned),
			.cached_bytes = FLMEM_KNOWN(s->cached),
			.error_bytes = FLMEM_KNOWN(s->error),
			.arenas = FLMEM_KNOWN(1),
			.method = "walked",
		}};
	return (struct flmem_process_report){
		.pid = 4711,
		.memory = {.rss_bytes = FLMEM_KNOWN(s->file + s->shared + s->anon),
			   .anon_bytes = FLMEM_KNOWN(s->anon),
			   .file_bytes = FLMEM_KNOWN(s->file),
			   .shmem_bytes = FLMEM_KNOWN(s->shared)},
		.heap = allocator->heap,
		.allocators = allocator,
		.allocator_count = 1,
		.python.arenas = FLMEM_KNOWN(1),
		.python.arenas_bytes = FLMEM_KNOWN(s->python_used + s->python_free),
		.python.used_bytes = FLMEM_KNOWN(s->python_used),
		.python.free_bytes = FLMEM_KNOWN(s->python_free),
	};
}

static uint64_t sum(const struct flmem_memory_classes *classes)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < FLMEM_MEMORY_CLASS_COUNT; i++)
		bytes += classes->bytes[i];
	return bytes;
}

static struct flmem_verdict judge(const struct sample *sample)
{
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(sample, &allocator);
	struct flmem_verdict verdict;

	flmem_verdict_judge(&report, &verdict);
	assert_null(verdict.classes.unknown);
	assert_int_equal(sum(&verdict.classes), report.memory.rss_bytes.value);
	return verdict;
}

static void the_class_with_half_of_rss_is_the_verdict(void **state)
{
	static const struct {
		struct sample sample;
		enum flmem_verdict_kind kind;
	} rows[] = {
		{{.file = 50, .shared = 100, .anon = 750, .in_use = 200, .trimmable = 500},
		 FLMEM_VERDICT_RETAINED},
		{{.file = 50, .anon = 950, .in_use = 200}, FLMEM_VERDICT_LIVE},
		{{.anon = 100, .pinned = 60, .in_use = 40}, FLMEM_VERDICT_FRAGMENTED},
		{{.anon = 100, .cached = 60, .in_use = 40}, FLMEM_VERDICT_CACHED},
		{{.anon = 100, .python_free = 55, .in_use = 30}, FLMEM_VERDICT_RUNTIME},
		{{.file = 300, .shared = 250, .anon = 450}, FLMEM_VERDICT_SHARED_OR_FILE},
		{{.file = 300, .anon = 700, .in_use = 350, .trimmable = 300}, FLMEM_VERDICT_MIXED},
		{{.anon = 100, .trimmable = 50, .in_use = 50}, FLMEM_VERDICT_LIVE},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_verdict verdict = judge(&rows[i].sample);

		assert_string_equal(flmem_verdict_name(verdict.kind),
				    flmem_verdict_name(rows[i].kind));
		assert_int_equal(verdict.confidence_percent, 100);
		assert_int_equal(verdict.classes.error_bytes, 0);
	}
}

static void what_no_allocator_owns_is_live(void **state)
{
	const struct sample sample = {.anon = 1000,
				      .in_use = 100,
				      .trimmable = 50,
				      .cached = 7,
				      .python_used = 60,
				      .python_free = 20};
	struct flmem_verdict verdict = judge(&sample);

	(void)state;
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_LIVE], 1000 - 50 - 7 - 20);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_RUNTIME], 20);
}

static void parts_that_are_more_than_the_whole_lower_the_confidence(void **state)
{
	const struct sample sample = {.anon = 1000, .in_use = 600, .trimmable = 600};
	struct flmem_verdict verdict = judge(&sample);

	(void)state;
	assert_int_equal(verdict.classes.error_bytes, 200);
	assert_int_equal(verdict.kind, FLMEM_VERDICT_RETAINED);
	/* 600 - 200 is less than half: the doubt could change the verdict. */
	assert_int_equal(verdict.confidence_percent, 50);
}

static void an_error_counts_as_doubt(void **state)
{
	const struct sample sure = {.anon = 1000, .trimmable = 800, .error = 100};
	const struct sample unsure = {.anon = 1000, .trimmable = 550, .in_use = 450, .error = 60};

	(void)state;
	assert_int_equal(judge(&sure).confidence_percent, 90);
	assert_string_equal(flmem_confidence_word(90), "high");
	assert_int_equal(judge(&unsure).confidence_percent, 50);
	assert_string_equal(flmem_confidence_word(50), "low");
	assert_string_equal(flmem_confidence_word(89), "medium");
}

static void a_process_at_work_is_judged_with_doubt(void **state)
{
	const struct sample sample = {.anon = 1000, .in_use = 200, .trimmable = 800};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&sample, &allocator);
	struct flmem_verdict verdict;

	(void)state;
	report.memory.drift_bytes = FLMEM_KNOWN(70);
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(verdict.kind, FLMEM_VERDICT_RETAINED);
	assert_int_equal(verdict.confidence_percent, 93);
}

/* The memory is neither in use nor in the allocator's books, and no trim returns it. */
static void what_is_left_to_the_kernel_is_cached(void **state)
{
	const struct sample sample = {.anon = 1000, .in_use = 200, .trimmable = 100};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&sample, &allocator);
	struct flmem_verdict verdict;

	(void)state;
	report.memory.madv_free_bytes = FLMEM_KNOWN(600);
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(verdict.kind, FLMEM_VERDICT_CACHED);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_CACHED], 600);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_LIVE], 300);
	assert_int_equal(verdict.confidence_percent, 100);
	/* This holds also where the allocator was not queried. */
	allocator.heap = FLMEM_HEAP_UNKNOWN(why);
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_CACHED], 600);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_UNKNOWN], 400);
}

/* jemalloc was not queried: the anonymous memory may be anything. */
static void an_unknown_heap_leaves_no_verdict_where_it_matters(void **state)
{
	const struct sample sample = {.file = 100, .anon = 900};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&sample, &allocator);
	struct flmem_verdict verdict;

	(void)state;
	allocator.heap = FLMEM_HEAP_UNKNOWN(why);
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(verdict.kind, FLMEM_VERDICT_NONE);
	assert_string_equal(verdict.unknown, why);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_UNKNOWN], 900);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_FILE], 100);

	report.memory.file_bytes.value = report.memory.rss_bytes.value = 2000;
	report.memory.rss_bytes.value += 900;
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(verdict.kind, FLMEM_VERDICT_SHARED_OR_FILE);
	assert_int_equal(verdict.confidence_percent, 69);
}

static void an_unknown_part_of_a_heap_is_not_called_live(void **state)
{
	const struct sample sample = {.anon = 1000, .in_use = 300, .trimmable = 600, .cached = 50};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&sample, &allocator);
	struct flmem_verdict verdict;

	(void)state;
	allocator.heap.cached_bytes = FLMEM_UNKNOWN(why);
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_UNKNOWN], 50);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_LIVE], 350);
	assert_int_equal(verdict.kind, FLMEM_VERDICT_RETAINED);
	assert_int_equal(verdict.confidence_percent, 95);
}

static void a_process_that_may_not_be_read_still_shows_files(void **state)
{
	struct flmem_process_report report = {
		.memory = {.rss_bytes = FLMEM_KNOWN(100),
			   .anon_bytes = FLMEM_KNOWN(60),
			   .file_bytes = FLMEM_KNOWN(40),
			   .shmem_bytes = FLMEM_KNOWN(0)},
		.allocators_unknown = why,
		.python.used_bytes = FLMEM_UNKNOWN(why),
		.python.free_bytes = FLMEM_UNKNOWN(why),
	};
	struct flmem_verdict verdict;

	(void)state;
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(verdict.kind, FLMEM_VERDICT_NONE);
	assert_string_equal(verdict.unknown, why);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_UNKNOWN], 60);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_FILE], 40);
}

static void without_counters_there_is_nothing_to_sort(void **state)
{
	struct flmem_process_report report = {.allocators_unknown = "denied"};
	struct flmem_verdict verdict;

	(void)state;
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(verdict.kind, FLMEM_VERDICT_NONE);
	assert_non_null(verdict.unknown);
	assert_int_equal(sum(&verdict.classes), 0);

	report.memory.rss_bytes = FLMEM_KNOWN(100);
	report.memory.anon_bytes = FLMEM_UNKNOWN(why);
	flmem_verdict_judge(&report, &verdict);
	assert_string_equal(verdict.unknown, why);
	assert_int_equal(verdict.classes.bytes[FLMEM_MEMORY_UNKNOWN], 100);

	report.memory.rss_bytes = FLMEM_UNKNOWN(why);
	flmem_verdict_judge(&report, &verdict);
	assert_string_equal(verdict.classes.unknown, why);
	assert_int_equal(flmem_verdict_explain(&report, &verdict, NULL), 0);
	assert_int_equal(verdict.reason_count, 0);
}

static void impossible_figures_do_not_overflow(void **state)
{
	const struct sample sample = {.anon = 1000};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&sample, &allocator);
	struct flmem_verdict verdict;

	(void)state;
	allocator.heap.trimmable_bytes = FLMEM_KNOWN(UINT64_MAX);
	allocator.heap.in_use_bytes = FLMEM_KNOWN(UINT64_MAX);
	allocator.heap.metadata_bytes = FLMEM_KNOWN(UINT64_MAX);
	allocator.heap.error_bytes = FLMEM_KNOWN(UINT64_MAX);
	report.python.used_bytes = FLMEM_KNOWN(UINT64_MAX);
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(sum(&verdict.classes), 1000);
	assert_int_equal(verdict.classes.error_bytes, UINT64_MAX);
	assert_int_equal(verdict.confidence_percent, 0);
}

static void the_sum_of_heaps_knows_what_all_of_them_know(void **state)
{
	const struct sample first = {.in_use = 10, .trimmable = 5}, second = {.in_use = 7};
	struct flmem_allocator_report allocators[2];
	struct flmem_heap_report heap;

	(void)state;
	make(&first, &allocators[0]);
	make(&second, &allocators[1]);
	heap = flmem_heap_sum(allocators, 2, why);
	assert_int_equal(heap.in_use_bytes.value, 17);
	assert_int_equal(heap.arenas.value, 2);
	assert_null(heap.method);
	assert_non_null(heap.arena_max.unknown);
	allocators[1].heap.in_use_bytes = FLMEM_UNKNOWN(why);
	heap = flmem_heap_sum(allocators, 2, "no");
	assert_string_equal(heap.in_use_bytes.unknown, why);
	assert_int_equal(heap.trimmable_bytes.value, 5);
	heap = flmem_heap_sum(NULL, 0, why);
	assert_string_equal(heap.trimmable_bytes.unknown, why);
	heap = flmem_heap_sum(allocators, 1, why);
	assert_string_equal(heap.method, "walked");
	assert_null(heap.arena_max.unknown);
}

static bool says(const struct flmem_verdict *verdict, const char *text)
{
	for (size_t i = 0; i < verdict->reason_count; i++)
		if (strstr(verdict->reasons[i], text))
			return true;
	return false;
}

static bool advises(const struct flmem_verdict *verdict, const char *command)
{
	for (size_t i = 0; i < verdict->next_count; i++)
		if (strcmp(verdict->next[i].command, command) == 0)
			return true;
	return false;
}

static void explain(struct flmem_process_report *report, struct flmem_verdict *verdict)
{
	flmem_verdict_judge(report, verdict);
	assert_int_equal(flmem_verdict_explain(report, verdict, NULL), 0);
}

/* Makes a process with a GPU, 300 MiB of nameless shared memory, 256 MiB of it PyTorch's. */
static struct flmem_process_report make_gpu_user(struct flmem_allocator_report *allocator,
						 struct flmem_backing_report *nameless)
{
	const struct sample sample = {
		.file = 50 * MIB, .shared = 310 * MIB, .anon = 100 * MIB, .in_use = 80 * MIB};
	struct flmem_process_report report = make(&sample, allocator);

	*nameless = (struct flmem_backing_report){FLMEM_BACKING_SHARED_ANONYMOUS,
						  (char[]){"/dev/zero (deleted)"}, 300 * MIB,
						  300 * MIB};
	report.backings = nameless;
	report.backing_count = 1;
	report.python.version = (char[]){"3.11"};
	report.cuda.used_bytes = FLMEM_KNOWN(900 * MIB);
	report.cuda.pinned_bytes = FLMEM_KNOWN(256 * MIB);
	report.cuda.pinned_active_bytes = FLMEM_KNOWN(64 * MIB);
	return report;
}

static void assert_classes(const struct flmem_memory_classes *classes, uint64_t live,
			   uint64_t runtime, uint64_t shared, uint64_t error)
{
	assert_int_equal(sum(classes), 460 * MIB);
	assert_int_equal(classes->bytes[FLMEM_MEMORY_LIVE], live * MIB);
	assert_int_equal(classes->bytes[FLMEM_MEMORY_RUNTIME], runtime * MIB);
	assert_int_equal(classes->bytes[FLMEM_MEMORY_SHARED], shared * MIB);
	assert_int_equal(classes->error_bytes, error * MIB);
}

static void page_locked_memory_is_pytorchs(void **state)
{
	struct flmem_allocator_report allocator;
	struct flmem_backing_report nameless;
	struct flmem_process_report report = make_gpu_user(&allocator, &nameless);
	FLMEM_AUTO(flmem_verdict_clear) struct flmem_verdict verdict = {0};

	(void)state;
	explain(&report, &verdict);
	assert_classes(&verdict.classes, 164, 192, 54, 0);
	assert_true(says(&verdict, "PyTorch keeps 256 MiB of page-locked host memory for the GPU, "
				   "and no tensor uses 192 MiB of it"));
	assert_true(says(&verdict, "54 MiB is shared memory, outside"));
	assert_true(advises(&verdict, "flmem trim --cuda --pid 4711"));
}

static void page_locked_memory_that_is_not_seen_is_doubt(void **state)
{
	struct flmem_allocator_report allocator;
	struct flmem_backing_report nameless;
	struct flmem_process_report report = make_gpu_user(&allocator, &nameless);
	struct flmem_verdict verdict;

	(void)state;
	nameless.resident_bytes = 200 * MIB;
	flmem_verdict_judge(&report, &verdict);
	assert_classes(&verdict.classes, 108, 192, 110, 56);
	nameless.resident_bytes = 1000 * MIB;
	flmem_verdict_judge(&report, &verdict);
	assert_classes(&verdict.classes, 164, 192, 54, 0);
	report.cuda.pinned_active_bytes = FLMEM_UNKNOWN(why);
	flmem_verdict_judge(&report, &verdict);
	assert_classes(&verdict.classes, 100, 0, 310, 0);
	report.cuda.pinned_active_bytes = FLMEM_KNOWN(UINT64_MAX);
	flmem_verdict_judge(&report, &verdict);
	assert_classes(&verdict.classes, 356, 0, 54, 0);
	report.cuda.pinned_bytes = FLMEM_KNOWN(400 * MIB); /* more than is shared */
	flmem_verdict_judge(&report, &verdict);
	assert_classes(&verdict.classes, 410, 0, 0, 90);
}

static void registered_blocks_of_malloc_are_anonymous(void **state)
{
	struct flmem_setting_report setting = {
		(char[]){"PYTORCH_CUDA_ALLOC_CONF"},
		(char[]){"expandable_segments:True,pinned_use_cuda_host_register:True"},
		"environment",
		NULL,
	};
	struct flmem_allocator_report allocator;
	struct flmem_backing_report nameless;
	struct flmem_process_report report = make_gpu_user(&allocator, &nameless);
	struct flmem_verdict verdict;

	(void)state;
	report.settings = &setting;
	report.setting_count = 1;
	report.cuda.pinned_bytes = FLMEM_KNOWN(70 * MIB);
	report.cuda.pinned_active_bytes = FLMEM_KNOWN(30 * MIB);
	flmem_verdict_judge(&report, &verdict);
	assert_classes(&verdict.classes, 60, 40, 310, 0);
}

static void page_locked_memory_of_which_the_use_is_unknown(void **state)
{
	struct flmem_allocator_report allocator;
	struct flmem_backing_report nameless;
	struct flmem_process_report report = make_gpu_user(&allocator, &nameless);
	FLMEM_AUTO(flmem_verdict_clear) struct flmem_verdict verdict = {0};

	(void)state;
	report.cuda.pinned_active_bytes = FLMEM_UNKNOWN(why);
	explain(&report, &verdict);
	assert_true(says(&verdict, "PyTorch keeps 256 MiB of page-locked host memory for the GPU; "
				   "how much of it tensors use is unknown"));
}

static void nameless_memory_beside_a_gpu_is_asked_about(void **state)
{
	struct flmem_allocator_report allocator;
	struct flmem_backing_report nameless;
	struct flmem_process_report report = make_gpu_user(&allocator, &nameless);
	FLMEM_AUTO(flmem_verdict_clear) struct flmem_verdict verdict = {0};

	(void)state;
	report.cuda.pinned_bytes = report.cuda.pinned_active_bytes = FLMEM_UNKNOWN(why);
	explain(&report, &verdict);
	assert_true(
		says(&verdict, "300 MiB of the shared memory has no name and may be page-locked"));
	assert_true(advises(&verdict, "flmem detect --ask-runtime --pid 4711"));
}

static void retained_memory_is_explained_and_trim_advised(void **state)
{
	const struct sample sample = {.file = 50 * MIB,
				      .shared = 100 * MIB,
				      .anon = 750 * MIB,
				      .in_use = 200 * MIB,
				      .trimmable = 500 * MIB,
				      .pinned = 30 * MIB};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&sample, &allocator);
	struct flmem_backing_report backings[] = {
		{FLMEM_BACKING_FILE, (char[]){"/lib/libtorch.so"}, 90 * MIB, 10 * MIB},
		{FLMEM_BACKING_TMPFS, (char[]){"/dev/shm/x"}, 90 * MIB, 64 * MIB},
	};
	FLMEM_AUTO(flmem_verdict_clear) struct flmem_verdict verdict = {0};

	(void)state;
	report.backings = backings;
	report.backing_count = FLMEM_ARRAY_SIZE(backings);
	report.role = FLMEM_ROLE_SERVER_JOB;
	allocator.heap.arenas = FLMEM_KNOWN(9);
	allocator.heap.threshold_raised = FLMEM_KNOWN(1);
	allocator.heap.mmap_threshold_bytes = FLMEM_KNOWN(32 * MIB);
	explain(&report, &verdict);
	assert_string_equal(verdict.reasons[0],
			    "glibc keeps 530 MiB of free memory resident in 9 arenas; trim would "
			    "release 500 MiB of it");
	assert_true(says(&verdict, "mmap threshold to 32 MiB"));
	assert_true(says(&verdict, "9 arenas because their number is not limited"));
	assert_true(says(&verdict, "100 MiB is shared memory (64 MiB of it is /dev/shm/x)"));
	assert_true(advises(&verdict, "flmem trim --pid 4711"));
	assert_true(advises(&verdict, "flmem env --role server --explain"));
	assert_false(says(&verdict, "CPython"));
}

static void live_memory_is_to_be_watched(void **state)
{
	const struct sample sample = {.file = 50 * MIB, .anon = 950 * MIB, .in_use = 900 * MIB};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&sample, &allocator);
	FLMEM_AUTO(flmem_verdict_clear)
	struct flmem_verdict native = {0}, python = {0}, older = {0}, sampled = {0};

	(void)state;
	explain(&report, &native);
	assert_true(says(&native, "only its growth over time shows whether that is a leak"));
	assert_true(advises(&native, "flmem watch --pid 4711"));
	assert_false(advises(&native, "flmem trim --gc --pid 4711"));
	assert_false(advises(&native, "flmem profile attach --pid 4711 --output FILE"));
	report.python.version = (char[]){"3.11"};
	report.cuda.used_bytes = FLMEM_KNOWN(2000 * MIB);
	explain(&report, &python);
	report.python.version = (char[]){"3.7"};
	explain(&report, &older);
	assert_false(advises(&older, "flmem profile attach --pid 4711 --output FILE"));
	assert_true(advises(&python, "flmem trim --gc --pid 4711"));
	assert_true(advises(&python, "flmem profile attach --pid 4711 --output FILE"));
	assert_true(advises(&python, "flmem trim --cuda --pid 4711"));
	report.python.version = (char[]){"3.11"};
	report.sampled_into = (char[]){"/srv/client.prof"};
	explain(&report, &sampled);
	assert_true(advises(&sampled, "flmem profile leaks /srv/client.prof"));
	assert_false(advises(&sampled, "flmem profile attach --pid 4711 --output FILE"));
}

/* The held memory is the largest part, if not half: only a watch shows whether it is a leak. */
static void mixed_memory_that_is_mostly_live_is_to_be_watched(void **state)
{
	const struct sample held = {.file = 480 * MIB, .anon = 520 * MIB, .pinned = 30 * MIB};
	const struct sample idle = {.file = 300 * MIB, .anon = 700 * MIB, .trimmable = 400 * MIB};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&held, &allocator);
	FLMEM_AUTO(flmem_verdict_clear) struct flmem_verdict live = {0}, retained = {0};

	(void)state;
	explain(&report, &live);
	assert_int_equal(live.kind, FLMEM_VERDICT_MIXED);
	assert_true(advises(&live, "flmem watch --pid 4711"));
	report = make(&idle, &allocator);
	explain(&report, &retained);
	assert_int_equal(retained.kind, FLMEM_VERDICT_MIXED);
	assert_false(advises(&retained, "flmem watch --pid 4711"));
}

static void little_is_not_worth_a_word(void **state)
{
	const struct sample sample = {.file = 900 * MIB, .anon = 20 * MIB, .trimmable = 10 * MIB};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&sample, &allocator);
	FLMEM_AUTO(flmem_verdict_clear) struct flmem_verdict verdict = {0};

	(void)state;
	explain(&report, &verdict);
	assert_int_equal(verdict.reason_count, 1);
	assert_int_equal(verdict.next_count, 0);
}

static void an_allocator_that_answers_is_to_be_asked(void **state)
{
	const struct sample sample = {.anon = 200 * MIB};
	struct flmem_allocator_report allocator;
	struct flmem_process_report report = make(&sample, &allocator);
	FLMEM_AUTO(flmem_verdict_clear) struct flmem_verdict mute = {0}, talking = {0};

	(void)state;
	allocator.heap = FLMEM_HEAP_UNKNOWN(why);
	explain(&report, &mute);
	assert_int_equal(mute.next_count, 0);
	assert_true(says(&mute, why));
	allocator.answers = true;
	explain(&report, &talking);
	assert_true(advises(&talking, "flmem detect --ask-runtime --pid 4711"));
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_class_with_half_of_rss_is_the_verdict),
		cmocka_unit_test(what_no_allocator_owns_is_live),
		cmocka_unit_test(parts_that_are_more_than_the_whole_lower_the_confidence),
		cmocka_unit_test(an_error_counts_as_doubt),
		cmocka_unit_test(a_process_at_work_is_judged_with_doubt),
		cmocka_unit_test(what_is_left_to_the_kernel_is_cached),
		cmocka_unit_test(an_unknown_heap_leaves_no_verdict_where_it_matters),
		cmocka_unit_test(an_unknown_part_of_a_heap_is_not_called_live),
		cmocka_unit_test(a_process_that_may_not_be_read_still_shows_files),
		cmocka_unit_test(without_counters_there_is_nothing_to_sort),
		cmocka_unit_test(impossible_figures_do_not_overflow),
		cmocka_unit_test(the_sum_of_heaps_knows_what_all_of_them_know),
		cmocka_unit_test(page_locked_memory_is_pytorchs),
		cmocka_unit_test(page_locked_memory_that_is_not_seen_is_doubt),
		cmocka_unit_test(registered_blocks_of_malloc_are_anonymous),
		cmocka_unit_test(page_locked_memory_of_which_the_use_is_unknown),
		cmocka_unit_test(nameless_memory_beside_a_gpu_is_asked_about),
		cmocka_unit_test(retained_memory_is_explained_and_trim_advised),
		cmocka_unit_test(live_memory_is_to_be_watched),
		cmocka_unit_test(mixed_memory_that_is_mostly_live_is_to_be_watched),
		cmocka_unit_test(little_is_not_worth_a_word),
		cmocka_unit_test(an_allocator_that_answers_is_to_be_asked),
	};

	return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
