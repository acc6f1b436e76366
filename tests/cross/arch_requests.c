/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which requests of ptrace a stop on aarch64 takes, with a simulated thread. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "proc/process.h"
#include "remote/arch.h"

#include "checked.h"

#define TID	     7
#define PC	     0x2000U
#define SVC	     0xd4000001U
#define RET	     0xd65f03c0U
#define PRSTATUS     1
#define FPREGS	     2
#define VECTOR_BYTES 528

/* The instructions before PC and at it; `first` is the first readable address. */
static uint32_t codes[2];
static uint64_t first;
static unsigned peeks, sets, masks;

int flmem_process_read_memory(const struct flmem_process *process, uint64_t address, void *out,
			      size_t length)
{
	(void)process, (void)address, (void)out, (void)length;
	return -EFAULT;
}

static long peek(uint64_t address)
{
	long word = 0;

	peeks++;
	if (address < first) {
		errno = EIO;
		return -1;
	}
	memcpy(&word, codes + (address - (PC - 4)) / 4, address == PC ? 4 : 8);
	return word;
}

static long get_regset(int set, struct iovec *io)
{
	sets++;
	memset(io->iov_base, 0, io->iov_len);
	if (set == PRSTATUS) {
		((uint64_t *)io->iov_base)[32] = PC;
		return 0;
	}
	if (set == FPREGS) {
		io->iov_len = VECTOR_BYTES;
		return 0;
	}
	if (set == 0x401) /* the thread pointer */
		return 0;
	errno = EINVAL;
	return -1;
}

/* Takes the place of the C library's. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	uint64_t tid, address;
	void *data;

	va_start(arguments, request);
	tid = (uint64_t)va_arg(arguments, int);
	address = va_arg(arguments, uint64_t);
	data = va_arg(arguments, void *);
	va_end(arguments);
	CHECK(tid == TID);
	errno = 0;
	if (request == PTRACE_PEEKTEXT)
		return peek(address);
	if (request == PTRACE_GETREGSET)
		return get_regset((int)address, data);
	CHECK(request == PTRACE_GETSIGMASK);
	masks++;
	return 0;
}

static void check_code(uint32_t before, uint32_t at, uint64_t readable, unsigned requests)
{
	struct flmem_thread_state state;

	codes[0] = before;
	codes[1] = at;
	first = readable;
	peeks = 0;
	CHECK(flmem_arch_read_registers(TID, &state) == 0);
	CHECK(state.after_svc == (before == SVC && readable < PC));
	CHECK(state.at_svc == (at == SVC));
	CHECK(peeks == requests);
}

int main(void)
{
	struct flmem_thread_state state = {0};

	check_code(RET, SVC, 0, 1);
	check_code(SVC, RET, 0, 1);
	check_code(SVC, SVC, 0, 1);
	check_code(RET, RET, 0, 1);
	/* nothing is mapped before the instruction */
	check_code(SVC, SVC, PC, 2);
	check_code(SVC, SVC, PC, 2);

	/* each state is read once in a stop */
	sets = 0;
	CHECK(flmem_arch_refuses(TID) == NULL);
	CHECK(sets == 8);
	CHECK(flmem_arch_read_rest(TID, &state) == 0);
	CHECK(sets == 9 && masks == 1);
	CHECK(state.xstate_length == VECTOR_BYTES && !state.has_access_rights);
	if (!failures)
		printf("aarch64: a stop takes the requests that it needs\n");
	return failures > 0;
}
