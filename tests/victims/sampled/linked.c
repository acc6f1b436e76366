/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates in code without unwind tables, whose frame pointer leads to a forged frame: its return
 * address is in code of the program, but the instruction before it is not a call.
 */
#include <stdlib.h>

#ifdef __x86_64__
void *allocate_in_false_frame(void);

__asm__(".text\n"
	".skip 16, 0x90\n"
	"behind_no_call:\n"
	"nop\n"
	".type allocate_in_false_frame, @function\n"
	"allocate_in_false_frame:\n"
	"pushq %rbp\n"
	"subq $32, %rsp\n"
	"leaq behind_no_call(%rip), %rax\n"
	"movq %rax, 24(%rsp)\n"
	"movq $0, 16(%rsp)\n"
	"leaq 16(%rsp), %rbp\n"
	"movl $123457, %edi\n"
	"call malloc@PLT\n"
	"addq $32, %rsp\n"
	"popq %rbp\n"
	"ret\n"
	".size allocate_in_false_frame, . - allocate_in_false_frame\n");
#else
static void *allocate_in_false_frame(void)
{
	return malloc(123457);
}
#endif

int main(void)
{
	return allocate_in_false_frame() ? 0 : 3;
}
