/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/status.h"

#define FILTERS_MAX 64U

/* The calls of a chain itself, and those that allocators make to give memory back. */
static const struct {
	int number;
	const char *name;
} calls[] = {
	{SYS_rt_sigreturn, "rt_sigreturn"},
	{SYS_clock_gettime, "clock_gettime"},
	{SYS_nanosleep, "nanosleep"},
	{SYS_madvise, "madvise"},
	{SYS_munmap, "munmap"},
	{SYS_mmap, "mmap"},
	{SYS_mprotect, "mprotect"},
	{SYS_brk, "brk"},
	{SYS_futex, "futex"},
};

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#define OWN_ARCH 0
#endif

/* The harmless ones of them, made here: a filter that is shared would hit flmem instead. */
static void try_calls(void)
{
	struct timespec time = {0};

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
	time = (struct timespec){0};
	syscall(SYS_nanosleep, &time, NULL);
	syscall(SYS_madvise, NULL, 0, MADV_DONTNEED);
}

bool flmem_seccomp_is_harmless(const struct flmem_status *target, const struct flmem_status *self)
{
	if (target->seccomp_mode.unknown || !target->seccomp_mode.value)
		return true;
	if (target->seccomp_mode.value != SECCOMP_MODE_FILTER || target->seccomp_filters.unknown ||
	    self->seccomp_filters.unknown ||
	    target->seccomp_filters.value != self->seccomp_filters.value)
		return false;
	try_calls();
	return true;
}

/* Registers of the classic BPF machine (linux/filter.h; Documentation/networking/filter.rst). */
struct machine {
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
	const struct seccomp_data *data;
};

static bool load(struct machine *m, const struct sock_filter *i, uint32_t *target)
{
	switch (BPF_MODE(i->code)) {
	case BPF_IMM:
		*target = i->k;
		return true;
	case BPF_MEM:
		if (i->k >= BPF_MEMWORDS)
			return false;
		*target = m->memory[i->k];
		return true;
	case BPF_LEN:
		*target = sizeof(*m->data);
		return true;
	case BPF_ABS:
		if (BPF_SIZE(i->code) != BPF_W || i->k % 4 || i->k > sizeof(*m->data) - 4)
			return false;
		memcpy(target, (const char *)m->data + i->k, sizeof(*target));
		return true;
	default:
		return false;
	}
}

static bool compute(struct machine *m, const struct sock_filter *i)
{
	uint32_t value = BPF_SRC(i->code) == BPF_X ? m->x : i->k;

	switch (BPF_OP(i->code)) {
	case BPF_ADD:
		m->a += value;
		return true;
	case BPF_SUB:
		m->a -= value;
		return true;
	case BPF_MUL:
		m->a *= value;
		return true;
	case BPF_DIV:
		m->a = value ? m->a / value : 0;
		return value != 0;
	case BPF_AND:
		m->a &= value;
		return true;
	case BPF_OR:
		m->a |= value;
		return true;
	case BPF_XOR:
		m->a ^= value;
		return true;
	case BPF_LSH:
		m->a = value < 32 ? m->a << value : 0;
		return true;
	case BPF_RSH:
		m->a = value < 32 ? m->a >> value : 0;
		return true;
	case BPF_NEG:
		m->a = 0U - m->a;
		return true;
	default:
		return false;
	}
}

/* Sets how many instructions to skip. */
static bool jump(const struct machine *m, const struct sock_filter *i, size_t *ret_skip)
{
	uint32_t value = BPF_SRC(i->code) == BPF_X ? m->x : i->k;
	bool taken;

	switch (BPF_OP(i->code)) {
	case BPF_JA:
		*ret_skip = i->k;
		return true;
	case BPF_JEQ:
		taken = m->a == value;
		break;
	case BPF_JGT:
		taken = m->a > value;
		break;
	case BPF_JGE:
		taken = m->a >= value;
		break;
	case BPF_JSET:
		taken = m->a & value;
		break;
	default:
		return false;
	}
	*ret_skip = taken ? i->jt : i->jf;
	return true;
}

static bool step(struct machine *m, const struct sock_filter *i, size_t *ret_skip)
{
	*ret_skip = 0;
	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		return load(m, i, &m->a);
	case BPF_LDX:
		return load(m, i, &m->x);
	case BPF_ST:
	case BPF_STX:
		if (i->k >= BPF_MEMWORDS)
			return false;
		m->memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? m->a : m->x;
		return true;
	case BPF_ALU:
		return compute(m, i);
	case BPF_JMP:
		return jump(m, i, ret_skip);
	case BPF_MISC:
		if (BPF_MISCOP(i->code) == BPF_TAX)
			m->x = m->a;
		else
			m->a = m->x;
		return true;
	default:
		return false;
	}
}

uint32_t flmem_seccomp_run(const struct sock_filter *program, size_t length,
			   const struct seccomp_data *data)
{
	struct machine m = {.data = data};
	size_t skip;

	/* Jumps only go forward, so this ends. */
	for (size_t at = 0; at < length; at += skip + 1) {
		const struct sock_filter *i = &program[at];

		if (BPF_CLASS(i->code) == BPF_RET)
			return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
		if (!step(&m, i, &skip))
			break;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

static bool allows(uint32_t verdict)
{
	uint32_t action = verdict & SECCOMP_RET_ACTION_FULL;

	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

static int check_filter(const struct sock_filter *program, size_t length, struct flmem_error *err)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(calls); i++) {
		struct seccomp_data data = {.nr = calls[i].number, .arch = OWN_ARCH};

		if (!allows(flmem_seccomp_run(program, length, &data)))
			return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
					       "its seccomp filter does not allow %s, which giving "
					       "memory back needs",
					       calls[i].name);
	}
	return 0;
}

int flmem_seccomp_check_thread(pid_t tid, struct flmem_error *err)
{
	struct sock_filter program[BPF_MAXINSNS];
	int rc = 0;

	for (unsigned long index = 0; index < FILTERS_MAX && !rc; index++) {
		long length = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, NULL);

		if (length < 0 && errno == ENOENT && index > 0)
			return 0; /* behind the last one */
		if (length <= 0 || length > BPF_MAXINSNS ||
		    ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, program) != length)
			return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
					       "its seccomp filter cannot be read, and might kill "
					       "it for the calls that giving memory back needs; "
					       "run flmem as root on the host, or inside the same "
					       "container");
		rc = check_filter(program, (size_t)length, err);
	}
	return rc;
}
