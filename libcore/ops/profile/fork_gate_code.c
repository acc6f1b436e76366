/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of the gate. It is copied into another process: it uses nothing but its own two pages
 * and the kernel, changes no register that a function must preserve, and not errno.
 *
 * A fork counts itself before it reads whether the gate is closed; flmem closes the gate before it
 * reads the count. So one of them sees the other. The count never drops below zero: in a child that
 * a signal handler forked in the middle of another fork, that other fork ends as well.
 *
 * The code uses no clock: a process may be stopped, or be in a time namespace. Each wait is a pause
 * of 0.1 ms, which takes 0.15 ms with the usual slack of timers. A fork that has waited for too
 * long opens the gate for all, but not a gate that was closed again meanwhile.
 */

#include "ops/profile/fork_gate.h"

#include <stddef.h>

_Static_assert(offsetof(struct flmem_fork_gate_data, forks) == 8 &&
		       offsetof(struct flmem_fork_gate_data, closed) == 12,
	       "the code has these offsets");

#define GATE_BEGINS                                                 \
	".pushsection .rodata\n"                                    \
	".balign 16\n"                                              \
	".globl flmem_fork_gate_prepare, flmem_fork_gate_parent\n"  \
	".globl flmem_fork_gate_child, flmem_fork_gate_end\n"       \
	".hidden flmem_fork_gate_prepare, flmem_fork_gate_parent\n" \
	".hidden flmem_fork_gate_child, flmem_fork_gate_end\n"      \
	".Lgate:\n"
#define GATE_ENDS                    \
	".balign 16\n"               \
	".Lpause: .quad 0, 100000\n" \
	"flmem_fork_gate_end:\n"     \
	".popsection\n"

#ifdef __x86_64__
__asm__(GATE_BEGINS ".set .Lforks, .Lgate + 4096 + 8\n"
		    ".set .Lclosed, .Lgate + 4096 + 12\n"
		    "flmem_fork_gate_prepare:\n"
		    "endbr64\n"
		    "movl $12000, %r8d\n"
		    "1: lock incl .Lforks(%rip)\n"
		    "movl .Lclosed(%rip), %r9d\n"
		    "testl %r9d, %r9d\n"
		    "jz 3f\n"
		    "decl %r8d\n"
		    "jz 2f\n"
		    "call .Lleave\n"
		    "leaq .Lpause(%rip), %rdi\n"
		    "xorl %esi, %esi\n"
		    "movl $35, %eax\n" /* nanosleep */
		    "syscall\n"
		    "jmp 1b\n"
		    "2: movl %r9d, %eax\n"
		    "xorl %ecx, %ecx\n"
		    "lock cmpxchgl %ecx, .Lclosed(%rip)\n"
		    "3: ret\n"
		    ".balign 16\n"
		    "flmem_fork_gate_parent:\n"
		    "endbr64\n"
		    ".Lleave:\n"
		    "movl .Lforks(%rip), %eax\n"
		    "4: testl %eax, %eax\n"
		    "jz 5f\n"
		    "leal -1(%rax), %ecx\n"
		    "lock cmpxchgl %ecx, .Lforks(%rip)\n"
		    "jnz 4b\n"
		    "5: ret\n"
		    ".balign 16\n"
		    "flmem_fork_gate_child:\n"
		    "endbr64\n"
		    "movl $0, .Lforks(%rip)\n"
		    "movl $0, .Lclosed(%rip)\n"
		    "ret\n" GATE_ENDS);
#elif defined(__aarch64__)
/*
 * The handlers use x9 and above, which are free across a call; x14 has the return address, which no
 * handler signs.
 */
__asm__(GATE_BEGINS ".set .Lforks, .Lgate + 65536 + 8\n"
		    "flmem_fork_gate_prepare:\n"
		    "hint #34\n" /* a landing pad (BTI) */
		    "mov w9, #12000\n"
		    "1: adr x10, .Lforks\n"
		    "11: ldaxr w11, [x10]\n"
		    "add w11, w11, #1\n"
		    "stlxr w12, w11, [x10]\n"
		    "cbnz w12, 11b\n"
		    "dmb ish\n"
		    "ldr w13, [x10, #4]\n"
		    "cbz w13, 3f\n"
		    "subs w9, w9, #1\n"
		    "b.eq 2f\n"
		    "mov x14, x30\n"
		    "bl .Lleave\n"
		    "mov x30, x14\n"
		    "adr x0, .Lpause\n"
		    "mov x1, #0\n"
		    "mov x8, #101\n" /* nanosleep */
		    "svc #0\n"
		    "b 1b\n"
		    "2: add x10, x10, #4\n"
		    "21: ldaxr w11, [x10]\n"
		    "cmp w11, w13\n"
		    "b.ne 3f\n"
		    "stlxr w12, wzr, [x10]\n"
		    "cbnz w12, 21b\n"
		    "3: clrex\n"
		    "ret\n"
		    ".balign 16\n"
		    "flmem_fork_gate_parent:\n"
		    "hint #34\n"
		    ".Lleave:\n"
		    "adr x10, .Lforks\n"
		    "4: ldaxr w11, [x10]\n"
		    "cbz w11, 5f\n"
		    "sub w11, w11, #1\n"
		    "stlxr w12, w11, [x10]\n"
		    "cbnz w12, 4b\n"
		    "5: clrex\n"
		    "ret\n"
		    ".balign 16\n"
		    "flmem_fork_gate_child:\n"
		    "hint #34\n"
		    "adr x10, .Lforks\n"
		    "str wzr, [x10]\n"
		    "str wzr, [x10, #4]\n"
		    "ret\n" GATE_ENDS);
#else
const unsigned char flmem_fork_gate_prepare[1], flmem_fork_gate_parent[1], flmem_fork_gate_child[1],
	flmem_fork_gate_end[1];
#endif
