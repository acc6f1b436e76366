/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/seccomp/seccomp_filter.h"

#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#define OWN_ARCH 0
#endif

/* The time that parts of a run take, in that of an instruction without them. */
#define STORING_STEPS	   8U  /* an instruction of a program that stores words */
#define UNREACHED_PER_STEP 16U /* instructions that are not reached */

#define WORD_OF(field) (offsetof(struct seccomp_data, field) / sizeof(uint32_t))

_Static_assert(sizeof(struct seccomp_data) == 64, "sixteen words");

static struct flmem_filter_word known_word(uint32_t value)
{
	return (struct flmem_filter_word){.value = value};
}

static const struct flmem_filter_word seccomp_filter_unknown = {.open = UINT32_MAX};

static bool is_known_word(struct flmem_filter_word w)
{
	return !w.open;
}

static struct flmem_filter_word masked_word(uint32_t value, uint32_t open)
{
	return (struct flmem_filter_word){.value = value & ~open, .open = open};
}

/* Returns a value that is one of the two. */
static struct flmem_filter_word join_words(struct flmem_filter_word a, struct flmem_filter_word b)
{
	return masked_word(a.value, a.open | b.open | (a.value ^ b.value));
}

/* The registers of the classic BPF machine at an instruction, over all paths to it. */
struct bpf_registers {
	bool reached;
	struct flmem_filter_word a, x;
};

struct bpf_memory {
	struct flmem_filter_word words[BPF_MEMWORDS];
};

struct filter_run {
	const struct sock_filter *program;
	size_t length;
	const struct flmem_filter_input *input;
	struct bpf_registers *at;  /* registers at each instruction */
	struct bpf_memory *memory; /* the same; NULL: the program uses none, as most */
	struct flmem_filter_outcome *outcome;
};

void flmem_filter_input_any(struct flmem_filter_input *input, uint32_t numbers)
{
	for (size_t i = 0; i < FLMEM_FILTER_WORDS; i++)
		input->words[i] = seccomp_filter_unknown;
	input->words[WORD_OF(nr)] = masked_word(0, numbers - 1);
	input->words[WORD_OF(arch)] = known_word(OWN_ARCH);
}

void flmem_filter_input_set(struct flmem_filter_input *input, const struct flmem_syscall *call)
{
	flmem_filter_input_any(input, 1);
	input->words[WORD_OF(nr)] = known_word((uint32_t)call->number);
	for (size_t i = 0; i < FLMEM_SYSCALL_ARGS; i++) {
		const struct flmem_syscall_arg *arg = &call->args[i];
		struct flmem_filter_word *low = &input->words[WORD_OF(args) + 2 * i];

		low[0] = masked_word((uint32_t)arg->value, ~(uint32_t)arg->known);
		low[1] = masked_word((uint32_t)(arg->value >> 32), ~(uint32_t)(arg->known >> 32));
	}
}

static enum flmem_filter_action action_of(uint32_t verdict)
{
	static const uint32_t values[] = {
#define ACTION_VALUE(name, value) [FLMEM_FILTER_##name] = (value),
		FLMEM_FILTER_ACTIONS(ACTION_VALUE)
#undef ACTION_VALUE
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(values); i++)
		if (values[i] == (verdict & SECCOMP_RET_ACTION_FULL))
			return (enum flmem_filter_action)i;
	return FLMEM_FILTER_KILL_PROCESS; /* the kernel's action for an unknown verdict */
}

void flmem_filter_outcome_add(struct flmem_filter_outcome *outcome, uint32_t verdict)
{
	enum flmem_filter_action action = action_of(verdict);
	unsigned error = verdict & SECCOMP_RET_DATA;

	if (action == FLMEM_FILTER_ERRNO) {
		if ((outcome->actions >> FLMEM_FILTER_ERRNO & 1U) && outcome->error != error)
			outcome->errors_differ = true;
		outcome->error = error;
	}
	outcome->actions |= 1U << action;
}

static void add_kill(struct filter_run *run)
{
	flmem_filter_outcome_add(run->outcome, SECCOMP_RET_KILL_PROCESS);
}

static void add_return(struct filter_run *run, struct flmem_filter_word value)
{
	if (is_known_word(value)) {
		flmem_filter_outcome_add(run->outcome, value.value);
		return;
	}
	run->outcome->actions = (2U << FLMEM_FILTER_ALLOW) - 1;
	run->outcome->errors_differ = true;
}

static void push_memory(struct bpf_memory *to, const struct bpf_memory *from, bool joins)
{
	for (size_t i = 0; i < BPF_MEMWORDS; i++)
		to->words[i] = joins ? join_words(to->words[i], from->words[i]) : from->words[i];
}

/*
 * Adds a path to an instruction. If several paths lead to it, its registers may have the values of
 * any of them.
 */
static void push_filter_path(struct filter_run *run, size_t index, const struct bpf_registers *from)
{
	struct bpf_registers *to = index < run->length ? &run->at[index] : NULL;

	if (!to) {
		add_kill(run);
		return;
	}
	if (run->memory)
		push_memory(&run->memory[index], &run->memory[from - run->at], to->reached);
	if (!to->reached) {
		*to = *from;
	} else {
		to->a = join_words(to->a, from->a);
		to->x = join_words(to->x, from->x);
	}
}

static struct flmem_filter_word shift_word(struct flmem_filter_word a, struct flmem_filter_word by,
					   bool left)
{
	uint32_t n = by.value & 31U; /* as the processor does it (kernel/bpf/core.c) */

	if (!is_known_word(by))
		return seccomp_filter_unknown;
	return left ? masked_word(a.value << n, a.open << n)
		    : masked_word(a.value >> n, a.open >> n);
}

/* Computes a result; carries between bits are computed for known numbers only. */
static struct flmem_filter_word compute_numbers(unsigned operation, struct flmem_filter_word a,
						struct flmem_filter_word b)
{
	if (!is_known_word(a) || !is_known_word(b))
		return seccomp_filter_unknown;
	switch (operation) {
	case BPF_ADD:
		return known_word(a.value + b.value);
	case BPF_SUB:
		return known_word(a.value - b.value);
	case BPF_MUL:
		return known_word(a.value * b.value);
	default:
		return known_word(a.value / b.value);
	}
}

static struct flmem_filter_word compute_bits(unsigned operation, struct flmem_filter_word a,
					     struct flmem_filter_word b)
{
	uint32_t open = a.open | b.open;

	switch (operation) {
	case BPF_AND: /* a known 0 on either side decides the bit */
		return masked_word(a.value & b.value,
				   open & (a.value | a.open) & (b.value | b.open));
	case BPF_OR: /* a known 1 on either side decides the bit */
		return masked_word(a.value | b.value, open & ~(a.value | b.value));
	default:
		return masked_word(a.value ^ b.value, open);
	}
}

static bool execute_alu(struct filter_run *run, struct bpf_registers *r,
			const struct sock_filter *i)
{
	struct flmem_filter_word b = BPF_SRC(i->code) == BPF_X ? r->x : known_word(i->k);

	switch (BPF_OP(i->code)) {
	case BPF_DIV:
		/* A division by X = 0 ends the program with 0 (net/core/filter.c). */
		if (!b.value)
			flmem_filter_outcome_add(run->outcome, 0);
		if (!b.value && is_known_word(b))
			return false;
		/* fallthrough */
	case BPF_ADD:
	case BPF_SUB:
	case BPF_MUL:
		r->a = compute_numbers(BPF_OP(i->code), r->a, b);
		return true;
	case BPF_LSH:
	case BPF_RSH:
		r->a = shift_word(r->a, b, BPF_OP(i->code) == BPF_LSH);
		return true;
	case BPF_NEG:
		r->a = compute_numbers(BPF_SUB, known_word(0), r->a);
		return true;
	default:
		r->a = compute_bits(BPF_OP(i->code), r->a, b);
		return true;
	}
}

/* Determines which branches a comparison may take. */
static void follow_comparison(unsigned operation, struct flmem_filter_word a,
			      struct flmem_filter_word b, bool *ret_yes, bool *ret_no)
{
	uint32_t a_most = a.value | a.open, b_most = b.value | b.open;

	switch (operation) {
	case BPF_JEQ:
		*ret_yes = !((a.value ^ b.value) & ~(a.open | b.open));
		*ret_no = a.open || b.open || a.value != b.value;
		break;
	case BPF_JGT:
		*ret_yes = a_most > b.value;
		*ret_no = a.value <= b_most;
		break;
	case BPF_JGE:
		*ret_yes = a_most >= b.value;
		*ret_no = a.value < b_most;
		break;
	default: /* BPF_JSET */
		*ret_yes = a_most & b_most;
		*ret_no = !(a.value & b.value);
		break;
	}
}

static void follow_jump(struct filter_run *run, size_t index, const struct bpf_registers *r)
{
	const struct sock_filter *i = &run->program[index];
	bool yes, no;

	if (BPF_OP(i->code) == BPF_JA) {
		push_filter_path(run, index + 1 + i->k, r);
		return;
	}
	follow_comparison(BPF_OP(i->code), r->a,
			  BPF_SRC(i->code) == BPF_X ? r->x : known_word(i->k), &yes, &no);
	if (yes)
		push_filter_path(run, index + 1 + i->jt, r);
	if (no)
		push_filter_path(run, index + 1 + i->jf, r);
}

/* True for instructions that the kernel accepts (seccomp_check_filter, bpf_check_classic). */
static bool is_valid_instruction(const struct sock_filter *i)
{
	switch (i->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return i->k % 4 == 0 && i->k < sizeof(struct seccomp_data);
	case BPF_LD | BPF_MEM:
	case BPF_LDX | BPF_MEM:
	case BPF_ST:
	case BPF_STX:
		return i->k < BPF_MEMWORDS;
	case BPF_ALU | BPF_DIV | BPF_K:
		return i->k != 0;
	case BPF_ALU | BPF_LSH | BPF_K:
	case BPF_ALU | BPF_RSH | BPF_K:
		return i->k < 32;
	case BPF_LD | BPF_IMM:
	case BPF_LDX | BPF_IMM:
	case BPF_LD | BPF_W | BPF_LEN:
	case BPF_LDX | BPF_W | BPF_LEN:
	case BPF_RET | BPF_K:
	case BPF_RET | BPF_A:
	case BPF_MISC | BPF_TAX:
	case BPF_MISC | BPF_TXA:
	case BPF_ALU | BPF_NEG:
	case BPF_ALU | BPF_DIV | BPF_X:
	case BPF_ALU | BPF_LSH | BPF_X:
	case BPF_ALU | BPF_RSH | BPF_X:
	case BPF_JMP | BPF_JA:
		return true;
	default:
		break;
	}
	switch (i->code & ~(unsigned)BPF_X) {
	case BPF_ALU | BPF_ADD:
	case BPF_ALU | BPF_SUB:
	case BPF_ALU | BPF_MUL:
	case BPF_ALU | BPF_AND:
	case BPF_ALU | BPF_OR:
	case BPF_ALU | BPF_XOR:
	case BPF_JMP | BPF_JEQ:
	case BPF_JMP | BPF_JGT:
	case BPF_JMP | BPF_JGE:
	case BPF_JMP | BPF_JSET:
		return true;
	default:
		return false;
	}
}

static struct flmem_filter_word
load_word(const struct filter_run *run, const struct bpf_registers *r, const struct sock_filter *i)
{
	switch (BPF_MODE(i->code)) {
	case BPF_IMM:
		return known_word(i->k);
	case BPF_MEM:
		return run->memory[r - run->at].words[i->k];
	case BPF_LEN:
		return known_word(sizeof(struct seccomp_data));
	default:
		return run->input->words[i->k / sizeof(uint32_t)];
	}
}

/* Executes an instruction that neither jumps nor returns; false if the program ends in it. */
static bool execute_instruction(struct filter_run *run, struct bpf_registers *r,
				const struct sock_filter *i)
{
	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		r->a = load_word(run, r, i);
		return true;
	case BPF_LDX:
		r->x = load_word(run, r, i);
		return true;
	case BPF_ST:
		run->memory[r - run->at].words[i->k] = r->a;
		return true;
	case BPF_STX:
		run->memory[r - run->at].words[i->k] = r->x;
		return true;
	case BPF_ALU:
		return execute_alu(run, r, i);
	default:
		if (BPF_MISCOP(i->code) == BPF_TAX)
			r->x = r->a;
		else
			r->a = r->x;
		return true;
	}
}

static void follow_instruction(struct filter_run *run, size_t index)
{
	const struct sock_filter *i = &run->program[index];
	struct bpf_registers *r = &run->at[index];

	if (!is_valid_instruction(i))
		add_kill(run);
	else if (BPF_CLASS(i->code) == BPF_RET)
		add_return(run, BPF_RVAL(i->code) == BPF_A ? r->a : known_word(i->k));
	else if (BPF_CLASS(i->code) == BPF_JMP)
		follow_jump(run, index, r);
	else if (execute_instruction(run, r, i))
		push_filter_path(run, index + 1, r);
}

static bool uses_memory(const struct sock_filter *program, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (BPF_CLASS(program[i].code) == BPF_ST || BPF_CLASS(program[i].code) == BPF_STX ||
		    (BPF_CLASS(program[i].code) <= BPF_LDX && BPF_MODE(program[i].code) == BPF_MEM))
			return true;
	return false;
}

void flmem_filter_run(const struct sock_filter *program, size_t length,
		      const struct flmem_filter_input *input,
		      struct flmem_filter_outcome *ret_outcome)
{
	struct flmem_filter_outcome outcome = {0};
	FLMEM_AUTO_FREE struct bpf_registers *at = calloc(length + 1, sizeof(*at));
	const bool stores = uses_memory(program, length);
	FLMEM_AUTO_FREE struct bpf_memory *memory =
		stores ? calloc(length + 1, sizeof(*memory)) : NULL;
	struct filter_run run = {program, length, input, at, memory, &outcome};

	if (!at || (stores && !memory) || !length || length > BPF_MAXINSNS) {
		add_kill(&run);
		*ret_outcome = outcome;
		return;
	}
	at[0].reached = true;
	/* Jumps only go forward: all paths to an instruction are known before it is processed. */
	for (size_t i = 0; i < length; i++)
		if (at[i].reached) {
			follow_instruction(&run, i);
			outcome.steps += stores ? STORING_STEPS : 1;
		}
	outcome.steps += (unsigned)length / UNREACHED_PER_STEP + 1;
	*ret_outcome = outcome;
}
