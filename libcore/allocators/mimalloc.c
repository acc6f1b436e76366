/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/arm_code.h"
#include "allocators/call_plan.h"
#include "allocators/heap_figures.h"
#include "allocators/module_search.h"
#include "allocators/release_calls.h"
#include "base/cleanup.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define CODE_BYTES	16U
#define COMMIT_ARGUMENT 5 /* index of the committed size among mi_process_info()'s arguments */

static const char mimalloc_no_answer[] = "this mimalloc does not report it";

/*
 * Returns the number that `mov $imm32,%eax; ret` returns, with or without a leading endbr64; -1 for
 * other code.
 */
static int64_t decode_x86_constant(const unsigned char code[CODE_BYTES])
{
	static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint32_t value;

	if (memcmp(code, endbr64, sizeof(endbr64)) == 0)
		code += sizeof(endbr64);
	if (code[0] != 0xb8 || code[5] != 0xc3)
		return -1;
	memcpy(&value, code + 1, sizeof(value));
	return value;
}

/*
 * Returns the number that `mov w0, #imm16; ret` returns, with or without a leading bti (Arm ARM,
 * MOVZ and HINT encodings); -1 for other code.
 */
static int64_t decode_arm_constant(const unsigned char code[CODE_BYTES])
{
	uint32_t words[3];

	memcpy(words, code, sizeof(words));
	if (words[0] == 0xd503245f) {
		words[0] = words[1];
		words[1] = words[2];
	}
	if ((words[0] & 0xffe0001f) != 0x52800000 || words[1] != 0xd65f03c0)
		return -1;
	return words[0] >> 5 & 0xffff;
}

/*
 * mi_version() only returns MI_MALLOC_VERSION, 209 for 2.0.9 and 20401 for 2.4.1 (mimalloc.h); no
 * other part of a build holds that number.
 */
static void read_mimalloc_version(const struct flmem_module *module, struct flmem_allocator *found)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	unsigned char code[CODE_BYTES];
	struct flmem_symbol symbol;
	int64_t number = -1;

	if (!image || !flmem_image_find_any(image, "mi_version", &symbol) ||
	    !flmem_image_read_address(image, symbol.value, code, sizeof(code)))
		return;
	if (flmem_image_machine(image) == EM_X86_64)
		number = decode_x86_constant(code);
	else if (flmem_image_machine(image) == EM_AARCH64)
		number = decode_arm_constant(code);
	if (number >= 100 && number < 1000)
		snprintf(found->version, sizeof(found->version), "%d.%d.%d", (int)(number / 100),
			 (int)(number / 10 % 10), (int)(number % 10));
	else if (number >= 10000 && number < 1000000)
		snprintf(found->version, sizeof(found->version), "%d.%d.%d", (int)(number / 10000),
			 (int)(number / 100 % 100), (int)(number % 100));
}

static bool recognise_mimalloc(const struct flmem_view *view, const struct flmem_module *module,
			       struct flmem_allocator *ret_found)
{
	struct flmem_allocator found = {0};

	(void)view;
	if (flmem_module_defines(module, "mi_malloc") &&
	    flmem_module_defines(module, "mi_collect")) {
		found.prefix = "";
		found.evidence = "it defines mi_malloc and mi_collect";
		read_mimalloc_version(module, &found);
	} else if (flmem_module_markers(module) & FLMEM_MARKER_MIMALLOC) {
		found.evidence = "it holds mimalloc's messages; its symbols are stripped";
	} else {
		return false;
	}
	*ret_found = found;
	return true;
}

/* Collects the borrowed thread's heap and the memory of ended threads (mimalloc.h). */
static int plan_mimalloc_trim(const struct flmem_view *view, const struct flmem_allocator *found,
			      const unsigned char *answers, struct flmem_chain *chain,
			      struct flmem_error *err)
{
	(void)view, (void)answers;
	return flmem_call_plan_call(found, "mi_collect", true, chain, err);
}

/*
 * Returns the virtual address of the variable that `mov %rdi,variable(%rip)` writes, the first
 * instruction at `at`, with or without a leading endbr64; 0 for other code.
 */
static uint64_t decode_x86_store(const unsigned char code[CODE_BYTES], uint64_t at)
{
	static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa},
				   store[] = {0x48, 0x89, 0x3d};
	int32_t distance;

	if (memcmp(code, endbr64, sizeof(endbr64)) == 0) {
		code += sizeof(endbr64);
		at += sizeof(endbr64);
	}
	if (memcmp(code, store, sizeof(store)) != 0)
		return 0;
	memcpy(&distance, code + sizeof(store), sizeof(distance));
	return at + sizeof(store) + sizeof(distance) + (uint64_t)(int64_t)distance;
}

/*
 * The function that mi_collect() calls is in a static variable, `deferred_free` in src/page.c,
 * which mi_register_deferred_free() sets first.
 */
static bool find_deferred_free(const struct flmem_module *module, uint64_t *ret_address)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	unsigned char code[2 * CODE_BYTES];
	struct flmem_symbol symbol;
	uint64_t variable = 0;

	if (!image || !flmem_image_find_any(image, "mi_register_deferred_free", &symbol) ||
	    !flmem_image_read_address(image, symbol.value, code, sizeof(code)))
		return false;
	if (flmem_image_machine(image) == EM_X86_64)
		variable = decode_x86_store(code, symbol.value);
	else if (flmem_image_machine(image) == EM_AARCH64)
		(void)flmem_arm_code_variable(code, sizeof(code), symbol.value, FLMEM_ARM_STORE,
					      &variable);
	return variable && flmem_module_address(module, variable, ret_address);
}

/*
 * mimalloc's options (purge_delay and others) are in a static array, and no call stores one in
 * memory.
 */
static int check_mimalloc_hooks(const struct flmem_view *view, const struct flmem_allocator *found,
				struct flmem_error *err)
{
	static const char hook[] = "a function (mi_register_deferred_free)";
	uint64_t address, function;

	if (flmem_call_plan_has_registered(view))
		return flmem_call_plan_refuse_registered(
			view, "its mimalloc may be set to keep freed memory", err);
	if (!find_deferred_free(found->module, &address))
		return 0;
	if (flmem_process_read_memory(view->process, address, &function, sizeof(function)))
		return flmem_call_plan_refuse_unread(view, found, hook, err);
	return function ? flmem_call_plan_refuse_hook(view, found, hook, err) : 0;
}

/*
 * mi_process_info() of mimalloc 1.7 and later takes eight pointers to numbers and skips those that
 * are NULL (mimalloc.h). The sixth is for the committed size; on Linux its resident size is the
 * same number, and the others come from the kernel.
 */
static uint64_t plan_mimalloc_state(const struct flmem_view *view,
				    const struct flmem_allocator *found, const unsigned char *query,
				    struct flmem_chain *chain)
{
	uint64_t function, answers;
	struct flmem_call *call;

	(void)view, (void)query;
	if (flmem_call_plan_function(found, "mi_process_info", &function, NULL))
		return 0;
	answers = flmem_call_plan_answers(chain, 1);
	call = flmem_chain_add(chain, "mi_process_info", function);
	call->args[COMMIT_ARGUMENT] = answers;
	call->data_args = 1U << COMMIT_ARGUMENT;
	return answers;
}

static void take_mimalloc_state(const struct flmem_allocator *found, const unsigned char *answers,
				struct flmem_heap_report *ret_heap)
{
	struct flmem_heap_report heap = FLMEM_HEAP_UNKNOWN(found->ops->unreadable_reason);

	heap.method = "queried";
	flmem_heap_add_figure(&heap, "commit",
			      flmem_call_plan_answer(answers, 0, mimalloc_no_answer));
	*ret_heap = heap;
}

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* linux/prctl.h, since 5.17 */
#endif

/*
 * mi_collect(true) of 1.x to 3.x: segments or pages of the arenas are unmapped, decommitted or
 * reset (src/prim/unix/prim.c). 2.0 was observed to call munmap only.
 */
static const struct flmem_syscall mimalloc_call_rows[] = {
	FLMEM_CALL_MADVISE(MADV_DONTNEED),
	FLMEM_CALL_MADVISE(MADV_FREE),
	FLMEM_CALL_HINT(MADV_HUGEPAGE),
	FLMEM_CALL_MUNMAP,
	FLMEM_CALL_MMAP,
	FLMEM_CALL_MPROTECT,
	FLMEM_CALLS_LOCK,
	FLMEM_CALL_CLOCK,
	FLMEM_CALL_PLAIN(sched_yield),
	FLMEM_CALL_FINE(getrandom),
	FLMEM_CALL_FINE(getrusage),
	{SYS_prctl, "prctl", FLMEM_FAILURE_FINE, {FLMEM_ARG_IS(PR_SET_VMA)}},
};

static const struct flmem_syscall_table mimalloc_call_table = {
	.maker = "mi_collect",
	.rows = mimalloc_call_rows,
	.count = FLMEM_ARRAY_SIZE(mimalloc_call_rows),
};

static const struct flmem_syscall_table *list_mimalloc_syscalls(const struct flmem_allocator *found)
{
	(void)found;
	return &mimalloc_call_table;
}

const struct flmem_allocator_ops flmem_allocator_mimalloc = {
	.kind = FLMEM_ALLOCATOR_MIMALLOC,
	.files = {"mimalloc"},
	.recognise = recognise_mimalloc,
	.plan_trim = plan_mimalloc_trim,
	.check_hooks = check_mimalloc_hooks,
	.syscalls = list_mimalloc_syscalls,
	.plan_state = plan_mimalloc_state,
	.take_state = take_mimalloc_state,
	.unreadable_reason =
		"mimalloc reports only its total committed memory; it prints the state of its "
		"heaps only as text, per thread",
	.caveat = "mimalloc releases memory of the borrowed thread and of ended threads, not of "
		  "the heaps of other threads",
};
