/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets the sampler know that new objects were loaded.
 *
 * An object that is linked with the start files of the C library (crti.o) calls __gmon_start__()
 * when it begins, before its constructors, if some object defines it: with gprof the program, here
 * the sampler.
 *
 * dlopen() and dlsym() act by the object that calls them: its search path, its place in the scope.
 * So they are entered with the caller's own return address, and what there is to do for objects
 * without those start files is done before the next call of one of them: a program that opens a
 * library mostly asks for a function of it before it can call any.
 */

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "preload/sampler/got.h"
#include "preload/sampler/hooks.h"
#include "preload/sampler/requests.h"
#include "preload/sampler/restricted.h"

/*
 * The calls of new objects lead to a preloaded sampler by themselves, except where RTLD_DEEPBIND
 * makes the linker search the C library before it.
 */
void *sampler_before_dlopen(const char *path, int mode)
{
	int saved = errno;

	(void)path;
	/* A constructor that ran before those of the sampler may call this. */
	sampler_hooks_resolve();
	sampler_got_catch_up();
	sampler_thread.opened = !sampler_can_interpose() || mode & RTLD_DEEPBIND;
	errno = saved;
	return NULL;
}

/* The dynamic linker uses this name; programs do not call it by themselves. */
void __gmon_start__(void) __attribute__((visibility("default")));

void __gmon_start__(void)
{
	int saved = errno;

	if (!sampler_can_interpose() || sampler_thread.opened)
		sampler_got_object_begins();
	errno = saved;
}

/* Finds a function of the program by which it may restrict itself: ctypes looks them up. */
static void *find_watched(void *handle, const char *name)
{
	void *(*look_up)(void *, const char *), *found;

	if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !sampler_is_active() ||
	    (strcmp(name, "prctl") != 0 && strcmp(name, "syscall") != 0))
		return NULL;
	memcpy(&look_up, &sampler_next_dlsym, sizeof(look_up));
	found = look_up(handle, name);
	return sampler_watched_function(found);
}

void *sampler_before_dlsym(void *handle, const char *name)
{
	int saved = errno;
	void *own;

	sampler_got_catch_up();
	own = find_watched(handle, name);
	errno = saved;
	return own;
}

/*
 * Both functions have two arguments. The function called before them may answer in their place. The
 * stack is aligned at the call as the ABI requires.
 */
#ifdef __x86_64__
#define TRAMPOLINE(name)                                   \
	__asm__(".text\n"                                  \
		".globl sampler_own_" #name "\n"           \
		".hidden sampler_own_" #name "\n"          \
		".type sampler_own_" #name ", @function\n" \
		"sampler_own_" #name ":\n"                 \
		".cfi_startproc\n"                         \
		"endbr64\n"                                \
		"pushq %rdi\n"                             \
		".cfi_adjust_cfa_offset 8\n"               \
		"pushq %rsi\n"                             \
		".cfi_adjust_cfa_offset 8\n"               \
		"subq $8, %rsp\n"                          \
		".cfi_adjust_cfa_offset 8\n"               \
		"call sampler_before_" #name "\n"          \
		"addq $8, %rsp\n"                          \
		".cfi_adjust_cfa_offset -8\n"              \
		"popq %rsi\n"                              \
		".cfi_adjust_cfa_offset -8\n"              \
		"popq %rdi\n"                              \
		".cfi_adjust_cfa_offset -8\n"              \
		"testq %rax, %rax\n"                       \
		"jne 1f\n"                                 \
		"jmp *sampler_next_" #name "(%rip)\n"      \
		"1:\n"                                     \
		"ret\n"                                    \
		".cfi_endproc\n"                           \
		".size sampler_own_" #name ", . - sampler_own_" #name "\n")
#else
/* The return address is in a register, and a branch preserves it. */
#define TRAMPOLINE(name)                                          \
	__asm__(".text\n"                                         \
		".globl sampler_own_" #name "\n"                  \
		".hidden sampler_own_" #name "\n"                 \
		".type sampler_own_" #name ", %function\n"        \
		"sampler_own_" #name ":\n"                        \
		".cfi_startproc\n"                                \
		"stp x0, x1, [sp, #-32]!\n"                       \
		"str x30, [sp, #16]\n"                            \
		"bl sampler_before_" #name "\n"                   \
		"mov x17, x0\n"                                   \
		"ldr x30, [sp, #16]\n"                            \
		"ldp x0, x1, [sp], #32\n"                         \
		"cbnz x17, 1f\n"                                  \
		"adrp x16, sampler_next_" #name "\n"              \
		"ldr x16, [x16, #:lo12:sampler_next_" #name "]\n" \
		"br x16\n"                                        \
		"1:\n"                                            \
		"mov x0, x17\n"                                   \
		"ret\n"                                           \
		".cfi_endproc\n"                                  \
		".size sampler_own_" #name ", . - sampler_own_" #name "\n")
#endif

TRAMPOLINE(dlopen);
TRAMPOLINE(dlsym);

#ifndef SAMPLER_HIDES_HOOKS
__asm__(".globl dlopen\n"
	".set dlopen, sampler_own_dlopen\n");
#endif
