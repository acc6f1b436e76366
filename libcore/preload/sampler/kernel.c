/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the system calls of the sampler. It does not use syscall() of the C library, which the
 * sampler hooks, and makes no call at all once the program has restricted itself.
 */
#include <errno.h>

#include "preload/sampler/sampler.h"

uint32_t sampler_quiet;

/* sampler_kernel_enter() calls this with the error in a register. */
long sampler_kernel_fail(long error);

long sampler_kernel_fail(long error)
{
	errno = (int)-error;
	return -1;
}

long sampler_kernel_deny(void)
{
	errno = EPERM;
	return -1;
}

#ifdef __x86_64__
__asm__(".text\n"
	".globl sampler_kernel_enter\n"
	".hidden sampler_kernel_enter\n"
	".type sampler_kernel_enter, @function\n"
	"sampler_kernel_enter:\n"
	".cfi_startproc\n"
	"endbr64\n"
	"movq %rdi, %rax\n"
	"movq %rsi, %rdi\n"
	"movq %rdx, %rsi\n"
	"movq %rcx, %rdx\n"
	"movq %r8, %r10\n"
	"movq %r9, %r8\n"
	"movq 8(%rsp), %r9\n"
	"syscall\n"
	"cmpq $-4095, %rax\n"
	"jae 1f\n"
	"ret\n"
	"1:\n"
	"movq %rax, %rdi\n"
	"jmp sampler_kernel_fail\n"
	".cfi_endproc\n"
	".size sampler_kernel_enter, . - sampler_kernel_enter\n");
#else
__asm__(".text\n"
	".globl sampler_kernel_enter\n"
	".hidden sampler_kernel_enter\n"
	".type sampler_kernel_enter, %function\n"
	"sampler_kernel_enter:\n"
	".cfi_startproc\n"
	"mov x8, x0\n"
	"mov x0, x1\n"
	"mov x1, x2\n"
	"mov x2, x3\n"
	"mov x3, x4\n"
	"mov x4, x5\n"
	"mov x5, x6\n"
	"svc #0\n"
	"cmn x0, #4095\n"
	"b.cs 1f\n"
	"ret\n"
	"1:\n"
	"b sampler_kernel_fail\n"
	".cfi_endproc\n"
	".size sampler_kernel_enter, . - sampler_kernel_enter\n");
#endif
