/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect/memory_classes.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

/* The heap report fields that are summed over the allocators. */
static const size_t summed[] = {
	offsetof(struct flmem_heap_report, resident_bytes),
	offsetof(struct flmem_heap_report, in_use_bytes),
	offsetof(struct flmem_heap_report, cached_bytes),
	offsetof(struct flmem_heap_report, free_resident_bytes),
	offsetof(struct flmem_heap_report, trimmable_bytes),
	offsetof(struct flmem_heap_report, decaying_bytes),
	offsetof(struct flmem_heap_report, pinned_bytes),
	offsetof(struct flmem_heap_report, metadata_bytes),
	offsetof(struct flmem_heap_report, mmapped_bytes),
	offsetof(struct flmem_heap_report, free_bytes),
	offsetof(struct flmem_heap_report, arenas),
	offsetof(struct flmem_heap_report, error_bytes),
};

static const char of_each[] = "the value differs between its allocators";

static struct flmem_u64 *heap_field(struct flmem_heap_report *heap, size_t offset)
{
	return (struct flmem_u64 *)(void *)((char *)heap + offset);
}

static void add_known(struct flmem_u64 *sum, struct flmem_u64 value)
{
	if (sum->unknown)
		return;
	if (value.unknown)
		*sum = value;
	else if (__builtin_add_overflow(sum->value, value.value, &sum->value))
		*sum = FLMEM_UNKNOWN("the heap figures of its allocators overflow a size");
}

struct flmem_heap_report flmem_heap_sum(const struct flmem_allocator_report *allocators,
					size_t count, const char *why_none)
{
	struct flmem_heap_report sum = FLMEM_HEAP_UNKNOWN(why_none);

	if (!count)
		return sum;
	sum = allocators[0].heap;
	for (size_t i = 1; i < count; i++) {
		struct flmem_heap_report heap = allocators[i].heap;

		for (size_t k = 0; k < FLMEM_ARRAY_SIZE(summed); k++)
			add_known(heap_field(&sum, summed[k]), *heap_field(&heap, summed[k]));
		sum.method = NULL;
	}
	if (count > 1) {
		sum.trim_threshold_bytes = FLMEM_UNKNOWN(of_each);
		sum.mmap_threshold_bytes = FLMEM_UNKNOWN(of_each);
		sum.arena_max = FLMEM_UNKNOWN(of_each);
		sum.threshold_raised = FLMEM_UNKNOWN(of_each);
		sum.arena_list = (struct flmem_arena_list){.unknown = of_each};
	}
	return sum;
}

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t remaining_or_0(uint64_t from, uint64_t bytes)
{
	return from > bytes ? from - bytes : 0;
}

/* Anonymous memory while it is divided among the classes. */
struct class_shares {
	struct flmem_memory_classes *classes;
	uint64_t left;
	bool open; /* an allocator holds an unknown part of the rest */
};

/* Moves bytes from the rest to a class; bytes that exceed the rest are an error in the figures. */
static void move_to_class(struct class_shares *share, enum flmem_memory_class which, uint64_t bytes)
{
	uint64_t taken = bytes < share->left ? bytes : share->left;

	share->classes->bytes[which] += taken;
	share->left -= taken;
	share->classes->error_bytes = add_saturating(share->classes->error_bytes, bytes - taken);
}

static uint64_t heap_held_bytes(const struct flmem_heap_report *heap)
{
	return add_saturating(flmem_u64_or(heap->in_use_bytes, 0),
			      flmem_u64_or(heap->metadata_bytes, 0));
}

/* Classifies the free parts of one heap, and the part that could not be read. */
static void classify_heap(struct class_shares *share, const struct flmem_heap_report *heap)
{
	const struct flmem_u64 stays = {
		.value = remaining_or_0(heap->trimmable_bytes.value,
					flmem_u64_or(heap->decaying_bytes, 0)),
		.unknown = heap->trimmable_bytes.unknown,
	};
	const struct {
		struct flmem_u64 bytes;
		enum flmem_memory_class which;
	} parts[] = {
		{stays, FLMEM_MEMORY_RETAINED},
		{FLMEM_KNOWN(flmem_u64_or(heap->decaying_bytes, 0)), FLMEM_MEMORY_CACHED},
		{heap->pinned_bytes, FLMEM_MEMORY_FRAGMENTED},
		{heap->cached_bytes, FLMEM_MEMORY_CACHED},
	};
	uint64_t sorted = heap_held_bytes(heap);
	bool whole = true;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(parts); i++) {
		move_to_class(share, parts[i].which, flmem_u64_or(parts[i].bytes, 0));
		sorted = add_saturating(sorted, flmem_u64_or(parts[i].bytes, 0));
		whole = whole && !parts[i].bytes.unknown;
	}
	if (heap->resident_bytes.unknown)
		share->open = true;
	else if (!whole)
		move_to_class(share, FLMEM_MEMORY_UNKNOWN,
			      remaining_or_0(heap->resident_bytes.value, sorted));
	share->classes->error_bytes =
		add_saturating(share->classes->error_bytes, flmem_u64_or(heap->error_bytes, 0));
}

static uint64_t program_held_bytes(const struct flmem_process_report *report)
{
	uint64_t held = flmem_u64_or(report->python.used_bytes, 0);

	for (size_t i = 0; i < report->allocator_count; i++)
		held = add_saturating(held, heap_held_bytes(&report->allocators[i].heap));
	return held;
}

static bool is_registered(const struct flmem_setting_report *setting)
{
	return strcmp(setting->source, "environment") == 0 &&
	       (strcmp(setting->name, "PYTORCH_ALLOC_CONF") == 0 ||
		strcmp(setting->name, "PYTORCH_CUDA_ALLOC_CONF") == 0) &&
	       strstr(setting->value, "pinned_use_cuda_host_register:True");
}

struct flmem_page_locked flmem_page_locked_of(const struct flmem_process_report *report)
{
	const struct flmem_cuda_report *cuda = &report->cuda;
	struct flmem_page_locked memory = {0};

	if (cuda->pinned_bytes.unknown || cuda->pinned_active_bytes.unknown)
		return memory;
	memory.idle = remaining_or_0(cuda->pinned_bytes.value, cuda->pinned_active_bytes.value);
	memory.given = cuda->pinned_bytes.value - memory.idle;
	for (size_t i = 0; i < report->setting_count; i++)
		memory.of_malloc = memory.of_malloc || is_registered(&report->settings[i]);
	return memory;
}

uint64_t flmem_nameless_bytes(const struct flmem_process_report *report)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < report->backing_count; i++)
		if (report->backings[i].kind == FLMEM_BACKING_SHARED_ANONYMOUS)
			bytes = add_saturating(bytes, report->backings[i].resident_bytes);
	return bytes;
}

/*
 * cudaHostAlloc maps page-locked memory shared and anonymous, so the kernel counts it as shared
 * memory. If less shared memory is resident than PyTorch reports, the difference lies elsewhere.
 */
static void classify_page_locked(const struct flmem_process_report *report,
				 const struct flmem_page_locked *memory,
				 struct class_shares *anonymous)
{
	struct class_shares share = {.classes = anonymous->classes,
				     .left = flmem_nameless_bytes(report)};
	uint64_t *shared = &share.classes->bytes[FLMEM_MEMORY_SHARED];

	if (memory->of_malloc) {
		move_to_class(anonymous, FLMEM_MEMORY_RUNTIME, memory->idle);
		return;
	}
	if (share.left > *shared)
		share.left = *shared;
	*shared -= share.left;
	move_to_class(&share, FLMEM_MEMORY_RUNTIME, memory->idle);
	move_to_class(&share, FLMEM_MEMORY_LIVE, memory->given);
	move_to_class(&share, FLMEM_MEMORY_SHARED, share.left);
}

static void classify_anonymous(const struct flmem_process_report *report,
			       struct class_shares *share)
{
	const struct flmem_page_locked locked = flmem_page_locked_of(report);
	uint64_t held = program_held_bytes(report);

	for (size_t i = 0; i < report->allocator_count; i++)
		classify_heap(share, &report->allocators[i].heap);
	move_to_class(share, FLMEM_MEMORY_CACHED, flmem_u64_or(report->memory.madv_free_bytes, 0));
	share->classes->error_bytes = add_saturating(share->classes->error_bytes,
						     flmem_u64_or(report->python.error_bytes, 0));
	move_to_class(share, FLMEM_MEMORY_RUNTIME, flmem_u64_or(report->python.free_bytes, 0));
	classify_page_locked(report, &locked, share);
	if (locked.of_malloc)
		held = remaining_or_0(held, locked.idle);
	if (report->allocators_unknown)
		share->open = true;
	/* Count stacks, data segments and the program's own mappings as live. */
	if (!share->open && held < share->left)
		held = share->left;
	move_to_class(share, FLMEM_MEMORY_LIVE, held);
	move_to_class(share, FLMEM_MEMORY_UNKNOWN, share->left);
}

void flmem_memory_classify(const struct flmem_process_report *report,
			   struct flmem_memory_classes *ret_classes)
{
	const struct flmem_memory_report *memory = &report->memory;
	struct flmem_memory_classes classes = {0};
	struct class_shares share = {.classes = &classes};

	if (memory->rss_bytes.unknown) {
		classes.unknown = memory->rss_bytes.unknown;
	} else if (memory->anon_bytes.unknown || memory->file_bytes.unknown ||
		   memory->shmem_bytes.unknown) {
		/* All memory is unknown: before Linux 4.5, the kernel reports only the sum. */
		classes.bytes[FLMEM_MEMORY_UNKNOWN] = memory->rss_bytes.value;
	} else {
		classes.bytes[FLMEM_MEMORY_FILE] = memory->file_bytes.value;
		classes.bytes[FLMEM_MEMORY_SHARED] = memory->shmem_bytes.value;
		share.left = memory->anon_bytes.value;
		classes.error_bytes = flmem_u64_or(memory->drift_bytes, 0);
		classify_anonymous(report, &share);
	}
	*ret_classes = classes;
}
