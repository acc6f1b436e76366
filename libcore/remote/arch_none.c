/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/arch.h"

#if !defined(__x86_64__) && !defined(__aarch64__)

#include <elf.h>
#include <errno.h>

#include "proc/task.h"

/* Processors without code to borrow a thread: every use is refused in advance. */

bool flmem_arch_supported(void)
{
	return false;
}

uint16_t flmem_arch_machine(void)
{
	return EM_NONE;
}

const struct flmem_arch_code flmem_arch_restorer = {NULL, 0};
const struct flmem_arch_code flmem_arch_syscall = {NULL, 0};

bool flmem_arch_is_call_site(const struct flmem_process *process, uint64_t pc)
{
	(void)process, (void)pc;
	return false;
}

bool flmem_arch_is_breakpoint(const struct flmem_process *process, uint64_t address,
			      uint64_t *ret_start)
{
	(void)process;
	*ret_start = address;
	return false;
}

int flmem_arch_read_registers(pid_t tid, struct flmem_thread_state *state)
{
	(void)tid, (void)state;
	return -ENOSYS;
}

int flmem_arch_read_rest(pid_t tid, struct flmem_thread_state *state)
{
	(void)tid, (void)state;
	return -ENOSYS;
}

void flmem_arch_read_call(const struct flmem_thread_state *state, struct flmem_task_wait *ret_at)
{
	(void)state;
	*ret_at = (struct flmem_task_wait){.number = -1};
}

bool flmem_arch_has_returned(const struct flmem_thread_state *state,
			     const struct flmem_task_wait *at)
{
	(void)state;
	(void)at;
	return true;
}

bool flmem_arch_gave_eintr(const struct flmem_thread_state *state)
{
	(void)state;
	return false;
}

bool flmem_arch_interrupted_in(const struct flmem_thread_state *state,
			       const struct flmem_task_wait *at)
{
	(void)state, (void)at;
	return false;
}

const bool flmem_arch_forgets_wait = false;

bool flmem_arch_in_program(const struct flmem_thread_state *state)
{
	(void)state;
	return false;
}

const char *flmem_arch_refuses(pid_t tid)
{
	(void)tid;
	return "runs on a processor for which flmem has no code";
}

int flmem_arch_make_resumable(pid_t tid, struct flmem_thread_state *state)
{
	(void)tid, (void)state;
	return -ENOSYS;
}

void flmem_arch_finish_call(struct flmem_thread_state *state)
{
	(void)state;
}

int flmem_arch_build(const struct flmem_thread_state *state, const struct flmem_chain *chain,
		     uint64_t restorer, struct flmem_scratch *scratch, struct flmem_error *err)
{
	(void)state, (void)chain, (void)restorer, (void)scratch;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "flmem cannot borrow threads on this processor architecture");
}

bool flmem_arch_is_chain_mask(uint64_t mask)
{
	(void)mask;
	return false;
}

int flmem_arch_arm(pid_t tid, const struct flmem_thread_state *state,
		   const struct flmem_scratch *scratch, uint64_t restorer)
{
	(void)tid, (void)state, (void)scratch, (void)restorer;
	return -ENOSYS;
}

bool flmem_arch_is_in_call(const struct flmem_thread_state *state, const struct flmem_chain *chain,
			   size_t index, const struct flmem_scratch *scratch,
			   const struct flmem_gadgets *gadgets)
{
	(void)state, (void)chain, (void)index, (void)scratch, (void)gadgets;
	return false;
}

int flmem_arch_restore(pid_t tid, const struct flmem_thread_state *state)
{
	(void)tid, (void)state;
	return -ENOSYS;
}

uint64_t flmem_arch_sp(const struct flmem_thread_state *state)
{
	(void)state;
	return 0;
}

uint64_t flmem_arch_pc(const struct flmem_thread_state *state)
{
	(void)state;
	return 0;
}

uint64_t flmem_arch_link(const struct flmem_thread_state *state)
{
	(void)state;
	return 0;
}

uint64_t flmem_arch_plain_address(uint64_t word)
{
	return word;
}

bool flmem_arch_is_thread(uint64_t pointer, uint64_t pthread)
{
	(void)pointer, (void)pthread;
	return false;
}

uint64_t flmem_arch_thread_pointer(const struct flmem_thread_state *state)
{
	(void)state;
	return 0;
}

bool flmem_arch_has_thread_block(const struct flmem_process *process,
				 const struct flmem_thread_state *state)
{
	(void)process, (void)state;
	return false;
}

const bool flmem_arch_frame_has_restorer = true;

bool flmem_arch_is_signal_frame(const uint64_t *words, size_t count, uint64_t *ret_mask)
{
	(void)words, (void)count, (void)ret_mask;
	return false;
}

#endif
