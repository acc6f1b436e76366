/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SECCOMP_SYSCALLS_H
#define FLMEM_REMOTE_SECCOMP_SYSCALLS_H

/*
 * The system calls that a target makes on behalf of flmem, as constant tables: one for the chain,
 * one for each allocator, one for Python. remote/seccomp/seccomp.c evaluates the filters of a
 * target for them. A row for a call that is never made costs at most a needless refusal; a call
 * without a row may kill a target.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define FLMEM_SYSCALL_ARGS 6

/* What is known of an argument register: the bits set in `known` have their value in `value`. */
struct flmem_syscall_arg {
	uint64_t value, known;
};

/* Initialisers of arguments; one without an initialiser is unknown. */
#define FLMEM_ARG_IS(number)         \
	{                            \
		(number), UINT64_MAX \
	}

/*
 * Argument of type int that may be negative: the upper half of the register is not defined (x86-64
 * psABI).
 */
#define FLMEM_ARG_INT(number)                  \
	{                                      \
		(uint32_t)(number), UINT32_MAX \
	}

/* Argument in which only these bits may be set, such as PROT_READ | PROT_WRITE. */
#define FLMEM_ARG_WITHIN(bits)       \
	{                            \
		0, ~(uint64_t)(bits) \
	}

/* Effect on the caller if a filter makes the call fail. */
enum flmem_syscall_failure {
	FLMEM_FAILURE_REFUSED,	   /* harm is possible, or nothing would be released */
	FLMEM_FAILURE_ENOSYS_FINE, /* the caller has a fallback for older kernels */
	FLMEM_FAILURE_FINE,	   /* the caller works without the call */
};

struct flmem_syscall {
	long number;
	const char *name;
	enum flmem_syscall_failure failure;
	struct flmem_syscall_arg args[FLMEM_SYSCALL_ARGS];
};

#define FLMEM_CALL_ROW(number, text, failure) \
	{                                     \
		number, text, failure,        \
		{                             \
			{                     \
				0             \
			}                     \
		}                             \
	}
/*
 * Rows for calls with arguments that do not matter or are unknown. Number and name are made here:
 * older versions of musl define names like pread64, which a further macro would replace.
 */
#define FLMEM_CALL_PLAIN(name) FLMEM_CALL_ROW(SYS_##name, #name, FLMEM_FAILURE_REFUSED)
#define FLMEM_CALL_FINE(name)  FLMEM_CALL_ROW(SYS_##name, #name, FLMEM_FAILURE_FINE)

/* The calls of one function or of one piece of code. */
struct flmem_syscall_table {
	const char *maker; /* name for messages: "malloc_trim" */
	const struct flmem_syscall *rows;
	size_t count;
	/*
	 * Code of the program runs as well, which may make any call with any arguments. Then the
	 * filter must have no result that ends or stops the thread; a call that fails is up to the
	 * program.
	 */
	bool runs_program_code;
};

#define FLMEM_SYSCALL_TABLES 20

struct flmem_syscall_list {
	const struct flmem_syscall_table *tables[FLMEM_SYSCALL_TABLES];
	size_t count;
};

/*
 * Appends a table if it is not in the list. NULL, or one table too many, means unlisted calls: the
 * list then counts as one that runs code of the program.
 */
void flmem_syscall_list_add(struct flmem_syscall_list *list,
			    const struct flmem_syscall_table *table);

/* The table for unknown calls. */
extern const struct flmem_syscall_table flmem_syscalls_unknown;

/* The calls that every chain makes in addition to its own (remote/borrow.c). */
extern const struct flmem_syscall_table flmem_syscalls_chain;

#endif
