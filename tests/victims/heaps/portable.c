/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start code of a program that also runs on older C libraries than that of this machine: the usual
 * one needs __libc_start_main of 2.34.
 */
#include <stdlib.h>

int main(int argc, char **argv);
void begin(long *stack);

__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n"
	"\tcall begin\n\thlt\n");

void begin(long *stack)
{
	exit(main((int)stack[0], (char **)(stack + 1)));
}
