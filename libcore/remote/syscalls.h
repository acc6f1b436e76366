/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SYSCALLS_H
#define FLMEM_REMOTE_SYSCALLS_H

/*
 * The system calls that a target makes on behalf of flmem, as constant tables: one for the chain,
 * one for each allocator, one for Python. remote/seccomp.c runs a target's filters over them. A row
 * that is never made costs nothing but a refusal too many; a call without a row may kill a target.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define FLMEM_SYSCALL_ARGS 6

/* What is known of an argument register: the bits that are set in `known` are those of `value`. */
struct flmem_syscall_arg {
	uint64_t value, known;
};

/* An argument without a row is not known at all. */
#define FLMEM_ARG_IS(number)         \
	{                            \
		(number), UINT64_MAX \
	}

/* An int that may be negative: the upper half of the register is not defined (x86-64 psABI). */
#define FLMEM_ARG_INT(number)                  \
	{                                      \
		(uint32_t)(number), UINT32_MAX \
	}

/* No other bits than these are set, such as PROT_READ | PROT_WRITE. */
#define FLMEM_ARG_WITHIN(bits)       \
	{                            \
		0, ~(uint64_t)(bits) \
	}

/* What becomes of its caller when a filter makes the call fail instead of the kernel. */
enum flmem_syscall_failure {
	FLMEM_FAILURE_REFUSED,	   /* not known to be harmless, or nothing would be released */
	FLMEM_FAILURE_ENOSYS_FINE, /* the caller has another way for older kernels */
	FLMEM_FAILURE_FINE,	   /* the caller does without */
};

struct flmem_syscall {
	long number;
	const char *name;
	enum flmem_syscall_failure failure;
	struct flmem_syscall_arg args[FLMEM_SYSCALL_ARGS];
};

/* A call whose arguments do not matter, or are not known. */
#define FLMEM_CALL_PLAIN(name)                            \
	{                                                 \
		SYS_##name, #name, FLMEM_FAILURE_REFUSED, \
		{                                         \
			{                                 \
				0                         \
			}                                 \
		}                                         \
	}

/* The calls of one function or of one piece of code. */
struct flmem_syscall_table {
	const char *maker; /* for messages: "malloc_trim" */
	const struct flmem_syscall *rows;
	size_t count;
	/*
	 * Code of the program runs as well: whatever call with whatever arguments may be made. Then
	 * nothing may be reachable that ends or stops the thread; a call that fails is the
	 * program's own business.
	 */
	bool runs_program_code;
};

#define FLMEM_SYSCALL_TABLES 20

struct flmem_syscall_list {
	const struct flmem_syscall_table *tables[FLMEM_SYSCALL_TABLES];
	size_t count;
};

/*
 * Appends a table once. NULL, or one too many, stands for calls that nobody has listed: the list
 * then counts as one that runs code of the program.
 */
void flmem_syscall_list_add(struct flmem_syscall_list *list,
			    const struct flmem_syscall_table *table);

/* What stands for calls that are not known. */
extern const struct flmem_syscall_table flmem_syscalls_unknown;

/* What every chain makes besides its calls (remote/borrow.c). */
extern const struct flmem_syscall_table flmem_syscalls_chain;

#endif
