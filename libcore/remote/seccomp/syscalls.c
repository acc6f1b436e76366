/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/seccomp/syscalls.h"

#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"

/*
 * rt_sigreturn has the arguments that the call before it left in the registers. The kernel makes
 * restart_syscall when a thread that was stopped in a wait with a relative timeout is released
 * without having been borrowed (kernel/signal.c, arch/x86/kernel/signal.c).
 */
static const struct flmem_syscall chain_rows[] = {
	{SYS_rt_sigreturn, "rt_sigreturn", 0, {{0}}},
	{SYS_clock_gettime, "clock_gettime", 0, {FLMEM_ARG_IS(CLOCK_MONOTONIC)}},
	{SYS_nanosleep, "nanosleep", 0, {{0}, FLMEM_ARG_IS(0)}},
	{SYS_restart_syscall, "restart_syscall", 0, {{0}}},
#ifdef __aarch64__ /* remote/call_return_aarch64.c */
	{SYS_rt_sigaction, "rt_sigaction", FLMEM_FAILURE_FINE, {{0}, FLMEM_ARG_IS(0)}},
#endif
};

const struct flmem_syscall_table flmem_syscalls_chain = {
	.maker = "every borrowed thread",
	.rows = chain_rows,
	.count = FLMEM_ARRAY_SIZE(chain_rows),
};

const struct flmem_syscall_table flmem_syscalls_unknown = {
	.maker = "a function whose system calls flmem does not know",
	.runs_program_code = true,
};

void flmem_syscall_list_add(struct flmem_syscall_list *list,
			    const struct flmem_syscall_table *table)
{
	if (!table)
		table = &flmem_syscalls_unknown;
	for (size_t i = 0; i < list->count; i++)
		if (list->tables[i] == table)
			return;
	if (list->count < FLMEM_SYSCALL_TABLES)
		list->tables[list->count++] = table;
	else /* replaces the last table, which becomes part of the unknown calls */
		list->tables[list->count - 1] = &flmem_syscalls_unknown;
}
