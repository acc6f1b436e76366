/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPF_MACHINE_H
#define BPF_MACHINE_H

/*
 * A plain interpreter of seccomp filters, for one call whose data are all known. The library's
 * evaluator is compared with it; it shares no code with it.
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
		m->a = m->a / value;
		return true;
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
		m->a <<= value & 31U;
		return true;
	case BPF_RSH:
		m->a >>= value & 31U;
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

/* Instructions of classic BPF that Documentation/userspace-api/seccomp_filter.rst allows. */
static bool is_known_code(unsigned code)
{
	static const unsigned codes[] = {
		BPF_LD | BPF_W | BPF_ABS,
		BPF_LD | BPF_W | BPF_LEN,
		BPF_LDX | BPF_W | BPF_LEN,
		BPF_RET | BPF_K,
		BPF_RET | BPF_A,
		BPF_ALU | BPF_ADD | BPF_K,
		BPF_ALU | BPF_ADD | BPF_X,
		BPF_ALU | BPF_SUB | BPF_K,
		BPF_ALU | BPF_SUB | BPF_X,
		BPF_ALU | BPF_MUL | BPF_K,
		BPF_ALU | BPF_MUL | BPF_X,
		BPF_ALU | BPF_DIV | BPF_K,
		BPF_ALU | BPF_DIV | BPF_X,
		BPF_ALU | BPF_AND | BPF_K,
		BPF_ALU | BPF_AND | BPF_X,
		BPF_ALU | BPF_OR | BPF_K,
		BPF_ALU | BPF_OR | BPF_X,
		BPF_ALU | BPF_XOR | BPF_K,
		BPF_ALU | BPF_XOR | BPF_X,
		BPF_ALU | BPF_LSH | BPF_K,
		BPF_ALU | BPF_LSH | BPF_X,
		BPF_ALU | BPF_RSH | BPF_K,
		BPF_ALU | BPF_RSH | BPF_X,
		BPF_ALU | BPF_NEG,
		BPF_LD | BPF_IMM,
		BPF_LDX | BPF_IMM,
		BPF_MISC | BPF_TAX,
		BPF_MISC | BPF_TXA,
		BPF_LD | BPF_MEM,
		BPF_LDX | BPF_MEM,
		BPF_ST,
		BPF_STX,
		BPF_JMP | BPF_JA,
		BPF_JMP | BPF_JEQ | BPF_K,
		BPF_JMP | BPF_JEQ | BPF_X,
		BPF_JMP | BPF_JGE | BPF_K,
		BPF_JMP | BPF_JGE | BPF_X,
		BPF_JMP | BPF_JGT | BPF_K,
		BPF_JMP | BPF_JGT | BPF_X,
		BPF_JMP | BPF_JSET | BPF_K,
		BPF_JMP | BPF_JSET | BPF_X,
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i] == code)
			return true;
	return false;
}

static bool is_bad_constant(const struct sock_filter *i)
{
	switch (i->code) {
	case BPF_ALU | BPF_DIV | BPF_K:
		return !i->k;
	case BPF_ALU | BPF_LSH | BPF_K:
	case BPF_ALU | BPF_RSH | BPF_K:
		return i->k > 31;
	default:
		return false;
	}
}

/*
 * Runs a filter. Returns SECCOMP_RET_*; SECCOMP_RET_KILL_PROCESS for a program that is not
 * well-formed.
 */
static uint32_t bpf_run(const struct sock_filter *program, size_t length,
			const struct seccomp_data *data)
{
	struct machine m = {.data = data};
	size_t skip;

	/* Jumps only go forward, so this ends. */
	if (length > BPF_MAXINSNS)
		return SECCOMP_RET_KILL_PROCESS;
	for (size_t at = 0; at < length; at += skip + 1) {
		const struct sock_filter *i = &program[at];

		if (!is_known_code(i->code))
			break;
		if (BPF_CLASS(i->code) == BPF_RET)
			return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
		/* The kernel ends the program with 0 (bpf_convert_filter). */
		if (i->code == (BPF_ALU | BPF_DIV | BPF_X) && !m.x)
			return SECCOMP_RET_KILL_THREAD;
		if (is_bad_constant(i))
			break;
		if (!step(&m, i, &skip))
			break;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

#endif
