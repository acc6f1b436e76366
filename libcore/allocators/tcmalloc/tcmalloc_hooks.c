/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/tcmalloc/tcmalloc_hooks.h"

#include <elf.h>
#include <string.h>

#include "allocators/arm_code.h"
#include "allocators/call_plan.h"
#include "allocators/tcmalloc/tcmalloc_state.h"
#include "base/cleanup.h"

#define CODE_BYTES    64U
#define ENDBR64_BYTES 4U
/* The functions of a class follow two words in its table (Itanium C++ ABI, 2.5.2). */
#define TABLE_HEAD 16U

/*
 * gperftools returns memory while the program frees, unless the rate is 0 (TCMALLOC_RELEASE_RATE,
 * SetMemoryReleaseRate()). True also if the rate cannot be read.
 */
static bool may_keep_all_memory(const struct flmem_view *view, const struct flmem_allocator *found)
{
	static const char rate_name[] = "_ZN62FLAG__namespace_do_not_use_directly_use_DECLARE_"
					"double_instead27FLAGS_tcmalloc_release_rateE";
	uint64_t at;
	double rate;

	return found->variant != FLMEM_TCMALLOC_GPERFTOOLS ||
	       !flmem_module_symbol_any(found->module, rate_name, &at) ||
	       flmem_process_read_memory(view->process, at, &rate, sizeof(rate)) || !(rate > 0);
}

/* An instruction that uses a variable, within `most` bytes from the start of its function. */
struct variable_use {
	/* The instruction's first bytes; the offset of the variable follows. */
	unsigned char x86_64[3];
	size_t most;
	enum flmem_arm_use aarch64;
};

static const struct variable_use load = {
	{0x48, 0x8b, 0x05}, /* mov variable(%rip), %rax */
	ENDBR64_BYTES,
	FLMEM_ARM_LOAD,
};

/* Classes whose objects gperftools creates itself, by the symbols of their virtual tables. */
static const char *const system_allocators[] = {
	"_ZTV15SbrkSysAllocator",    "_ZTV15MmapSysAllocator",	 "_ZTV19DefaultSysAllocator",
	"_ZTV19HugetlbSysAllocator", "_ZTV16DevMemSysAllocator", NULL,
};
static const char *const extensions[] = {
	"_ZTV15MallocExtension",
	"_ZTV22TCMallocImplementation",
	"_ZTV24DebugMallocImplementation",
	NULL,
};

/*
 * True only for a shared gperftools: where it is built into the program, the module holds the
 * functions of both.
 */
static bool is_library_function(const struct flmem_view *view, const struct flmem_allocator *found,
				uint64_t address)
{
	return found->linkage == FLMEM_LINKAGE_SHARED &&
	       flmem_modules_find(view->modules, address) == found->module;
}

/*
 * Reports whether the class is one of gperftools: by its module, or, for gperftools built into a
 * program, by the names of its classes.
 */
static bool is_own_class(const struct flmem_view *view, const struct flmem_allocator *found,
			 uint64_t functions, const char *const *names)
{
	uint64_t table;

	if (found->linkage == FLMEM_LINKAGE_SHARED)
		return is_library_function(view, found, functions);
	for (; *names; names++)
		if (flmem_module_symbol_any(found->module, *names, &table) &&
		    functions == table + TABLE_HEAD)
			return true;
	return false;
}

enum tcmalloc_owner {
	TCMALLOC_OWNER_ITSELF,
	TCMALLOC_OWNER_PROGRAM,
	TCMALLOC_OWNER_UNREAD,
};

/*
 * Determines the class of the object that the pointer at this address points to: the first word of
 * the object is the address of its class's virtual table. The pointer is NULL until the first use.
 */
static enum tcmalloc_owner owner_of_object(const struct flmem_view *view,
					   const struct flmem_allocator *found, uint64_t at,
					   const char *const *names)
{
	uint64_t object, functions;

	if (flmem_process_read_memory(view->process, at, &object, sizeof(object)) ||
	    (object &&
	     flmem_process_read_memory(view->process, object, &functions, sizeof(functions))))
		return TCMALLOC_OWNER_UNREAD;
	return object && !is_own_class(view, found, functions, names) ? TCMALLOC_OWNER_PROGRAM
								      : TCMALLOC_OWNER_ITSELF;
}

static int check_object_owner(const struct flmem_view *view, const struct flmem_allocator *found,
			      enum tcmalloc_owner owner, const char *hook, struct flmem_error *err)
{
	switch (owner) {
	case TCMALLOC_OWNER_ITSELF:
		return 0;
	case TCMALLOC_OWNER_PROGRAM:
		return flmem_call_plan_refuse_hook(view, found, hook, err);
	case TCMALLOC_OWNER_UNREAD:
		break;
	}
	return flmem_call_plan_refuse_unread(view, found, hook, err);
}

static bool find_x86_variable(const unsigned char *code, uint64_t at,
			      const struct variable_use *use, uint64_t *ret_address)
{
	int32_t distance;

	for (size_t i = 0; i <= use->most; i++) {
		if (memcmp(code + i, use->x86_64, sizeof(use->x86_64)) != 0)
			continue;
		memcpy(&distance, code + i + 3, sizeof(distance));
		*ret_address = at + i + 7 + (uint64_t)(int64_t)distance;
		return true;
	}
	return false;
}

/*
 * Finds the run-time address of the variable that a function uses in this way. False for other
 * code.
 */
static bool find_variable(const struct flmem_allocator *found, const char *function,
			  const struct variable_use *use, uint64_t *ret_address)
{
	struct flmem_image *image = flmem_module_image(found->module, NULL);
	unsigned char code[CODE_BYTES + 8];
	struct flmem_symbol symbol;
	uint64_t value;
	bool is_arm;

	if (!image || !flmem_image_find_any(image, function, &symbol) ||
	    !flmem_image_read_address(image, symbol.value, code, sizeof(code)))
		return false;
	is_arm = flmem_image_machine(image) == EM_AARCH64;
	if (!is_arm && flmem_image_machine(image) != EM_X86_64)
		return false;
	return (is_arm ? flmem_arm_code_variable(code, sizeof(code), symbol.value, use->aarch64,
						 &value)
		       : find_x86_variable(code, symbol.value, use, &value)) &&
	       flmem_module_address(found->module, value, ret_address);
}

/*
 * Every call goes through the object that MallocExtension::instance() returns, which a program may
 * replace by one of its own class (MallocExtension::Register()).
 */
static enum tcmalloc_owner owner_of_extension(const struct flmem_view *view,
					      const struct flmem_allocator *found)
{
	uint64_t at;

	return find_variable(found, "_ZN15MallocExtension8instanceEv", &load, &at)
		       ? owner_of_object(view, found, at, extensions)
		       : TCMALLOC_OWNER_ITSELF;
}

/*
 * Memory for new metadata comes from an object of the program if it has set one
 * (MallocExtension::SetSystemAllocator(), tc_get_sysalloc_override(); src/system-alloc.cc).
 */
static enum tcmalloc_owner owner_of_system_allocator(const struct flmem_view *view,
						     const struct flmem_allocator *found)
{
	uint64_t at;

	return flmem_module_symbol_any(found->module, "tcmalloc_sys_alloc", &at)
		       ? owner_of_object(view, found, at, system_allocators)
		       : TCMALLOC_OWNER_ITSELF;
}

int flmem_tcmalloc_check_hooks(const struct flmem_view *view, const struct flmem_allocator *found,
			       struct flmem_error *err)
{
	int rc;

	if (flmem_call_plan_has_registered(view) && may_keep_all_memory(view, found))
		return flmem_call_plan_refuse_registered(
			view,
			"its tcmalloc may be set to keep freed memory (TCMALLOC_RELEASE_RATE)",
			err);
	if (found->variant != FLMEM_TCMALLOC_GPERFTOOLS)
		return 0;
	rc = check_object_owner(view, found, owner_of_extension(view, found),
				"an extension (MallocExtension::Register)", err);
	return rc ? rc
		  : check_object_owner(view, found, owner_of_system_allocator(view, found),
				       "a system allocator (SysAllocator)", err);
}

/* HookList of src/malloc_hook-inl.h: seven functions and the one of MallocHook::SetNewHook(). */
struct hook_list {
	int64_t end;
	uint64_t functions[8];
};

static enum tcmalloc_owner owner_of_list(const struct flmem_view *view,
					 const struct flmem_allocator *found, uint64_t at)
{
	struct hook_list list;

	if (flmem_process_read_memory(view->process, at, &list, sizeof(list)))
		return TCMALLOC_OWNER_UNREAD;
	for (size_t i = 0; list.end && i < FLMEM_ARRAY_SIZE(list.functions); i++)
		if (list.functions[i] && !is_library_function(view, found, list.functions[i]))
			return TCMALLOC_OWNER_PROGRAM;
	return TCMALLOC_OWNER_ITSELF;
}

/* Finds the address of a list by its symbol, or from the code of a function that uses it. */
static bool find_hook_list(const struct flmem_allocator *found, bool frees, uint64_t *ret_address)
{
	static const struct variable_use take = {
		{0x48, 0x8d, 0x3d}, /* lea variable(%rip), %rdi */
		CODE_BYTES,
		FLMEM_ARM_ARGUMENT,
	};

	if (frees)
		return flmem_module_symbol_any(found->module, "_ZN4base8internal13delete_hooks_E",
					       ret_address) ||
		       find_variable(found, "tc_free", &load, ret_address);
	return flmem_module_symbol_any(found->module, "_ZN4base8internal10new_hooks_E",
				       ret_address) ||
	       find_variable(found, "MallocHook_AddNewHook", &take, ret_address);
}

int flmem_tcmalloc_check_malloc_hooks(const struct flmem_view *view,
				      const struct flmem_allocator *found, struct flmem_error *err)
{
	uint64_t at;
	int rc = 0;

	for (int frees = 0; frees < 2 && !rc && found->variant == FLMEM_TCMALLOC_GPERFTOOLS;
	     frees++)
		if (find_hook_list(found, frees, &at))
			rc = check_object_owner(
				view, found, owner_of_list(view, found, at),
				frees ? "MallocHook_AddDeleteHook" : "MallocHook_AddNewHook", err);
	return rc;
}
