/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the functions that programs call. The fast path of an allocation is one subtraction from
 * a thread's count and a jump to the next allocator; that of a free is one load from the filter.
 */

#include "preload/sampler/hooks.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "preload/sampler/got.h"
#include "preload/sampler/sampler.h"

/*
 * In a process that is only prepared, no call gets here before flmem attaches and redirects the
 * entries of all objects: until then the sampler costs nothing.
 */
#ifdef SAMPLER_HIDES_HOOKS
#define EXPORT __attribute__((visibility("hidden")))
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define SLOW	     __attribute__((noinline, cold))
#define LIKELY(x)    __builtin_expect(!!(x), 1)
#define CALLER_FRAME ((const void *const *)__builtin_frame_address(0))

/*
 * Counts the bytes of an allocation. Returns true if the fast path suffices. A size that is refused
 * makes the count wrap around, and back again.
 */
static inline __attribute__((always_inline)) bool count_down(size_t size)
{
	bool passed =
		__builtin_sub_overflow(sampler_thread.remaining, size, &sampler_thread.remaining);

	return LIKELY(!passed);
}

/* Records the allocation if a sample is due. */
static SLOW void *sample_block(void *address, size_t size, const void *const *frame)
{
	if (!address)
		sampler_thread.remaining += size;
	else if (sampler_is_due(size))
		sampler_record(address, size, FLMEM_PROFILE_HEAP, frame);
	return address;
}

/* This is not a tail call, so that `frame` stays valid during the call. */
#define SAMPLED(address, size)                                                  \
	({                                                                      \
		void *sampled_ = sample_block((address), (size), CALLER_FRAME); \
		__asm__ volatile("" : "+r"(sampled_));                          \
		sampled_;                                                       \
	})

EXPORT void *malloc(size_t size)
{
	if (count_down(size))
		return sampler_next.malloc(size);
	return SAMPLED(sampler_next.malloc(size), size);
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes) || count_down(bytes))
		return sampler_next.calloc(count, size);
	return SAMPLED(sampler_next.calloc(count, size), bytes);
}

/*
 * Returns whether the block may be sampled, or may be one of the arena, whose pages are in the
 * filter, too.
 */
static inline __attribute__((always_inline)) bool is_special(const void *address)
{
	return !LIKELY(!sampler_may_be_sampled(address));
}

/* Forgets a block that is freed. Returns false for a block of the arena. */
static bool forget_block(void *address)
{
	struct flmem_profile_live live;

	if (sampler_arena_has(address))
		return false;
	if (sampler_forget(address, &live))
		sampler_forget_done(&live);
	return true;
}

static SLOW void free_special(void *address)
{
	if (forget_block(address))
		sampler_next.free(address);
}

EXPORT void free(void *address)
{
	if (is_special(address))
		free_special(address);
	else
		sampler_next.free(address);
}

static SLOW void free_unsized(void *address)
{
	if (sampler_next.program_free)
		sampler_next.program_free(address);
	else
		sampler_next.free(address);
}

EXPORT void free_sized(void *address, size_t size)
{
	if (is_special(address) && !forget_block(address))
		return;
	if (sampler_next.free_sized)
		sampler_next.free_sized(address, size);
	else
		free_unsized(address);
}

EXPORT void free_aligned_sized(void *address, size_t alignment, size_t size)
{
	if (is_special(address) && !forget_block(address))
		return;
	if (sampler_next.free_aligned_sized)
		sampler_next.free_aligned_sized(address, alignment, size);
	else
		free_unsized(address);
}

/*
 * Resizes a sampled block. The old one leaves the table first: another thread may get its address
 * at once.
 */
static SLOW void *resize_sampled(void *address, size_t size)
{
	struct flmem_profile_live live;
	bool sampled = sampler_forget(address, &live);
	void *new = sampler_next.realloc(address, size);
	int saved = errno;

	if (sampled && size && !new)
		sampler_forget_undo(address, &live);
	else if (sampled)
		sampler_forget_done(&live);
	errno = saved;
	return new;
}

static SLOW void *resize_special(void *address, size_t size)
{
	return sampler_arena_has(address) ? sampler_arena_resize(address, size)
					  : resize_sampled(address, size);
}

EXPORT void *realloc(void *address, size_t size)
{
	bool counted = count_down(size), special = is_special(address);
	void *new;

	if (LIKELY(counted && !special))
		return sampler_next.realloc(address, size);
	new = special ? resize_special(address, size) : sampler_next.realloc(address, size);
	return counted ? new : SAMPLED(new, size);
}

/*
 * reallocarray() is defined here because the C library's version would call realloc() above, and
 * count twice.
 */
EXPORT void *reallocarray(void *address, size_t count, size_t size)
{
	bool counted, special;
	size_t bytes;
	void *new;

	sampler_hooks_resolve();
	if (sampler_next.reallocarray)
		return sampler_next.reallocarray(address, count, size);
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	counted = count_down(bytes);
	special = is_special(address);
	if (LIKELY(counted && !special))
		return sampler_next.realloc(address, bytes);
	new = special ? resize_special(address, bytes) : sampler_next.realloc(address, bytes);
	return counted ? new : SAMPLED(new, bytes);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	void *address;

	sampler_hooks_resolve();
	address = sampler_next.memalign ? sampler_next.memalign(alignment, size) : NULL;
	return count_down(size) ? address : SAMPLED(address, size);
}

EXPORT int posix_memalign(void **ret_address, size_t alignment, size_t size)
{
	int rc;

	sampler_hooks_resolve();
	rc = sampler_next.posix_memalign(ret_address, alignment, size);
	if (!count_down(size))
		SAMPLED(rc ? NULL : *ret_address, size);
	return rc;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	void *address;

	sampler_hooks_resolve();
	address = sampler_next.aligned_alloc ? sampler_next.aligned_alloc(alignment, size) : NULL;
	return count_down(size) ? address : SAMPLED(address, size);
}

EXPORT void *valloc(size_t size)
{
	void *address;

	sampler_hooks_resolve();
	address = sampler_next.valloc ? sampler_next.valloc(size) : NULL;
	return count_down(size) ? address : SAMPLED(address, size);
}

EXPORT void *pvalloc(size_t size)
{
	void *address;

	sampler_hooks_resolve();
	address = sampler_next.pvalloc ? sampler_next.pvalloc(size) : NULL;
	return count_down(size) ? address : SAMPLED(address, size);
}

/*
 * Returns whether the allocator itself made the call: the blocks that it returns include its own
 * mappings.
 */
static bool is_allocators_own(const void *caller)
{
	return (uintptr_t)caller >= sampler_next.owner_start &&
	       (uintptr_t)caller < sampler_next.owner_end;
}

static void sample_mapping(void *at, size_t length, const void *const *frame)
{
	int saved = errno;

	if (!count_down(length) && sampler_is_due(length))
		sampler_record(at, length, FLMEM_PROFILE_MAPPING, frame);
	errno = saved;
}

/*
 * Returns whether a mapping counts: it is memory private to the process, and not only address
 * space.
 */
static bool is_counted_mapping(int access, int flags)
{
	return (flags & MAP_ANONYMOUS) && (access & PROT_WRITE);
}

static void remove_replaced(uintptr_t at, size_t length)
{
	int saved = errno;

	if (sampler_is_active() && sampler_control.mappings)
		sampler_mapping_removed(at, length);
	errno = saved;
}

static inline __attribute__((always_inline)) void *
count_mapping(void *result, size_t length, int access, int flags, const void *const *frame)
{
	if (result == MAP_FAILED)
		return result;
	if (flags & MAP_FIXED)
		remove_replaced((uintptr_t)result, length);
	if (is_counted_mapping(access, flags) && !is_allocators_own(frame[1]))
		sample_mapping(result, length, frame);
	return result;
}

EXPORT void *mmap(void *at, size_t length, int access, int flags, int fd, off_t offset)
{
	return count_mapping(sampler_next.mmap(at, length, access, flags, fd, offset), length,
			     access, flags, CALLER_FRAME);
}

/*
 * mmap64() passes calls on separately: a library may have its own function for the one name and not
 * for the other.
 */
EXPORT void *mmap64(void *at, size_t length, int access, int flags, int fd, off_t offset)
{
	return count_mapping(sampler_next.mmap64(at, length, access, flags, fd, offset), length,
			     access, flags, CALLER_FRAME);
}

static SLOW int unmap_sampled(void *at, size_t length, const struct sampler_removal *removal)
{
	int rc = sampler_next.munmap(at, length), saved = errno;

	sampler_mapping_came(removal, (uintptr_t)at, rc ? SIZE_MAX : 0);
	errno = saved;
	return rc;
}

EXPORT int munmap(void *at, size_t length)
{
	int saved = errno;
	struct sampler_removal removal = sampler_mapping_leaves((uintptr_t)at, length);

	errno = saved;
	return removal.parts ? unmap_sampled(at, length, &removal)
			     : sampler_next.munmap(at, length);
}

/*
 * Samples the part that mremap() added. It is a separate allocation, whether the mapping was
 * sampled or not.
 */
static void sample_growth(uintptr_t at, size_t length, uint32_t kind, const void *const *frame)
{
	if (!is_allocators_own(frame[1]) && !count_down(length) && sampler_is_due(length))
		sampler_record((const void *)at, length, kind, frame);
}

EXPORT void *mremap(void *at, size_t old_length, size_t length, int flags, ...)
{
	int saved = errno;
	struct sampler_removal removal = sampler_mapping_leaves((uintptr_t)at, old_length);
	void *target = NULL, *result;
	va_list rest;

	if (flags & MREMAP_FIXED) {
		va_start(rest, flags);
		target = va_arg(rest, void *);
		va_end(rest);
	}
	errno = saved;
	result = sampler_next.mremap(at, old_length, length, flags, target);
	saved = errno;
	if (result != MAP_FAILED && (flags & MREMAP_FIXED))
		remove_replaced((uintptr_t)result, length);
	if (removal.parts && result == MAP_FAILED)
		sampler_mapping_came(&removal, removal.start, SIZE_MAX);
	else if (removal.parts)
		sampler_mapping_came(&removal, (uintptr_t)result,
				     length < old_length ? length : old_length);
	if (result != MAP_FAILED && old_length && length > old_length)
		sample_growth((uintptr_t)result + old_length, length - old_length,
			      removal.parts ? FLMEM_PROFILE_MAPPING : SAMPLER_GROWN, CALLER_FRAME);
	errno = saved;
	return result;
}

static void forget_modules(void)
{
	__atomic_fetch_add(&sampler_control.stale_modules, 1, __ATOMIC_RELAXED);
	sampler_memory_refresh();
}

/*
 * After dlclose() what is known of the addresses is stale, since another library may be loaded
 * there. The same holds for what destructors of the library and other threads found out meanwhile.
 */
EXPORT int dlclose(void *handle)
{
	int rc;

	forget_modules();
	rc = sampler_next.dlclose(handle);
	forget_modules();
	return rc;
}

/*
 * These are names that no other library can have, for the entries that are redirected to the hooks.
 */
#define SAMPLER_ROW(name)                         \
	__asm__(".globl sampler_own_" #name "\n"  \
		".hidden sampler_own_" #name "\n" \
		".set sampler_own_" #name ", " #name "\n");
SAMPLER_HOOKS(SAMPLER_ROW)
#undef SAMPLER_ROW
