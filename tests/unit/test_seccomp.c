/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "bpf_machine.h"
#include "proc/process.h"
#include "remote/seccomp/seccomp.h"
#include "remote/seccomp/seccomp_filter.h"

#define LOAD(field)	  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_LOW(n)	  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16 + 8 * (n))
#define LOAD_HIGH(n)	  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 20 + 8 * (n))
#define IF_EQUAL(k, y, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, y, n)
#define RETURN(k)	  BPF_STMT(BPF_RET | BPF_K, k)

#ifdef __aarch64__
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#define OWN_ARCH AUDIT_ARCH_X86_64
#endif

#define ALLOW SECCOMP_RET_ALLOW
#define KILL  SECCOMP_RET_KILL_PROCESS

#define MAY(name) (1U << FLMEM_FILTER_##name)

static unsigned actions_of(const struct sock_filter *program, size_t length,
			   const struct flmem_syscall *call)
{
	struct flmem_filter_outcome outcome;
	struct flmem_filter_input input;

	flmem_filter_input_set(&input, call);
	flmem_filter_run(program, length, &input, &outcome);
	return outcome.actions;
}

/* Kills for madvise(?, ?, MADV_DONTNEED), by both halves, as libseccomp writes it. */
static const struct sock_filter no_dontneed[] = {
	LOAD(arch),
	IF_EQUAL(OWN_ARCH, 1, 0),
	RETURN(KILL),
	LOAD(nr),
	IF_EQUAL(SYS_madvise, 0, 5),
	LOAD_HIGH(2),
	IF_EQUAL(0, 0, 3),
	LOAD_LOW(2),
	IF_EQUAL(MADV_DONTNEED, 0, 1),
	RETURN(KILL),
	RETURN(ALLOW),
};

#define NO_DONTNEED no_dontneed, FLMEM_ARRAY_SIZE(no_dontneed)

static void known_arguments_decide(void **state)
{
	const struct flmem_syscall other = {.number = SYS_getpid};
	const struct flmem_syscall free = {.number = SYS_madvise,
					   .args = {{0}, {0}, FLMEM_ARG_IS(MADV_FREE)}};
	const struct flmem_syscall dontneed = {.number = SYS_madvise,
					       .args = {{0}, {0}, FLMEM_ARG_IS(MADV_DONTNEED)}};

	(void)state;
	assert_int_equal(actions_of(NO_DONTNEED, &other), MAY(ALLOW));
	assert_int_equal(actions_of(NO_DONTNEED, &free), MAY(ALLOW));
	assert_int_equal(actions_of(NO_DONTNEED, &dontneed), MAY(KILL_PROCESS));
}

static void unknown_arguments_go_both_ways(void **state)
{
	const struct flmem_syscall any = {.number = SYS_madvise};
	const struct flmem_syscall half = {.number = SYS_madvise,
					   .args = {{0}, {0}, FLMEM_ARG_INT(MADV_DONTNEED)}};
	const struct flmem_syscall high = {
		.number = SYS_madvise,
		.args = {{0}, {0}, FLMEM_ARG_IS(MADV_DONTNEED | 1ULL << 32)}};

	(void)state;
	assert_int_equal(actions_of(NO_DONTNEED, &any), MAY(KILL_PROCESS) | MAY(ALLOW));
	assert_int_equal(actions_of(NO_DONTNEED, &half), MAY(KILL_PROCESS) | MAY(ALLOW));
	assert_int_equal(actions_of(NO_DONTNEED, &high), MAY(ALLOW));
}

/* The filter enforces W^X: it kills for mprotect() with PROT_EXEC. */
static void known_bits_decide(void **state)
{
	static const struct sock_filter program[] = {
		LOAD_LOW(2),	   BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
		RETURN(KILL),	   BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_EXEC | PROT_GROWSUP),
		IF_EQUAL(0, 0, 1), RETURN(ALLOW),
		RETURN(KILL),
	};
	const struct flmem_syscall call = {
		.number = SYS_mprotect,
		.args = {{0}, {0}, FLMEM_ARG_WITHIN(PROT_READ | PROT_WRITE)}};

	(void)state;
	assert_int_equal(actions_of(program, FLMEM_ARRAY_SIZE(program), &call), MAY(ALLOW));
}

static void where_a_call_is_made_is_unknown(void **state)
{
	static const struct sock_filter program[] = {
		LOAD(instruction_pointer),
		IF_EQUAL(0, 0, 1),
		RETURN(KILL),
		RETURN(ALLOW),
	};
	const struct flmem_syscall call = {.number = SYS_brk};

	(void)state;
	assert_int_equal(actions_of(program, FLMEM_ARRAY_SIZE(program), &call),
			 MAY(KILL_PROCESS) | MAY(ALLOW));
}

static void any_call_is_one_of_this_architecture(void **state)
{
	static const struct sock_filter x32[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
		RETURN(KILL),
		IF_EQUAL(SYS_swapon, 0, 1),
		RETURN(SECCOMP_RET_TRAP),
		RETURN(ALLOW),
	};
	struct flmem_filter_outcome outcome;
	struct flmem_filter_input input;

	(void)state;
	flmem_filter_input_any(&input, 512);
	flmem_filter_run(x32, FLMEM_ARRAY_SIZE(x32), &input, &outcome);
	assert_int_equal(outcome.actions, MAY(TRAP) | MAY(ALLOW));
	flmem_filter_run(NO_DONTNEED, &input, &outcome);
	assert_int_equal(outcome.actions, MAY(KILL_PROCESS) | MAY(ALLOW));
}

static void errors_are_distinguished(void **state)
{
	static const struct sock_filter program[] = {
		LOAD_LOW(0),
		IF_EQUAL(1, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
	};
	const struct flmem_syscall one = {.number = 1, .args = {FLMEM_ARG_IS(1)}};
	const struct flmem_syscall any = {.number = 1};
	struct flmem_filter_outcome outcome;
	struct flmem_filter_input input;

	(void)state;
	flmem_filter_input_set(&input, &one);
	flmem_filter_run(program, FLMEM_ARRAY_SIZE(program), &input, &outcome);
	assert_int_equal(outcome.actions, MAY(ERRNO));
	assert_int_equal(outcome.error, ENOSYS);
	assert_false(outcome.errors_differ);
	flmem_filter_input_set(&input, &any);
	flmem_filter_run(program, FLMEM_ARRAY_SIZE(program), &input, &outcome);
	assert_true(outcome.errors_differ);
}

static void an_unknown_result_may_be_anything(void **state)
{
	static const struct sock_filter program[] = {
		LOAD_LOW(0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	const struct flmem_syscall call = {.number = 1};

	(void)state;
	assert_int_equal(actions_of(program, FLMEM_ARRAY_SIZE(program), &call),
			 (2U << FLMEM_FILTER_ALLOW) - 1);
}

/* A division by a value that may be 0 ends the program with 0, which kills the thread. */
static void divisions_by_zero_kill(void **state)
{
	static const struct sock_filter program[] = {
		LOAD_LOW(0),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0),
		RETURN(ALLOW),
	};
	const struct flmem_syscall zero = {.number = 1, .args = {FLMEM_ARG_IS(0)}};
	const struct flmem_syscall two = {.number = 1, .args = {FLMEM_ARG_IS(2)}};
	const struct flmem_syscall odd = {.number = 1, .args = {{1, 1}}};
	const struct flmem_syscall any = {.number = 1};
	const size_t length = FLMEM_ARRAY_SIZE(program);

	(void)state;
	assert_int_equal(actions_of(program, length, &zero), MAY(KILL_THREAD));
	assert_int_equal(actions_of(program, length, &two), MAY(ALLOW));
	assert_int_equal(actions_of(program, length, &odd), MAY(ALLOW));
	assert_int_equal(actions_of(program, length, &any), MAY(KILL_THREAD) | MAY(ALLOW));
}

static void malformed_programs_count_as_killing(void **state)
{
	static const struct sock_filter rows[][2] = {
		{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), RETURN(ALLOW)},
		{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), RETURN(ALLOW)},
		{BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0), RETURN(ALLOW)},
		{BPF_STMT(BPF_LD | BPF_MEM, 16), RETURN(ALLOW)},
		{BPF_STMT(BPF_ST, 99), RETURN(ALLOW)},
		{BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), RETURN(ALLOW)},
		{BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 32), RETURN(ALLOW)},
		{BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 2), RETURN(ALLOW)},
		{BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff), RETURN(ALLOW)},
		{BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0), RETURN(ALLOW)},
		{BPF_STMT(BPF_MISC | BPF_TAX, 0), BPF_STMT(BPF_MISC | BPF_TXA, 0)},
	};
	const struct flmem_syscall call = {.number = 0};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		assert_int_equal(actions_of(rows[i], 2, &call), MAY(KILL_PROCESS));
	assert_int_equal(actions_of(rows[0], 0, &call), MAY(KILL_PROCESS));
}

static uint32_t random_word(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(*seed >> 33);
}

#define STEPS 24

/* Makes straight and branching code that the kernel accepts; A ends up as an errno. */
static size_t make_program(uint64_t *seed, uint32_t number, struct sock_filter *program)
{
	/* Some of the names stand for 0. NOLINTBEGIN(misc-redundant-expression) */
	static const uint16_t operations[] = {
		BPF_ALU | BPF_ADD | BPF_K,  BPF_ALU | BPF_SUB | BPF_X, BPF_ALU | BPF_MUL | BPF_K,
		BPF_ALU | BPF_DIV | BPF_K,  BPF_ALU | BPF_AND | BPF_X, BPF_ALU | BPF_OR | BPF_K,
		BPF_ALU | BPF_XOR | BPF_X,  BPF_ALU | BPF_NEG,	       BPF_ALU | BPF_LSH | BPF_X,
		BPF_ALU | BPF_RSH | BPF_X,  BPF_MISC | BPF_TAX,	       BPF_MISC | BPF_TXA,
		BPF_JMP | BPF_JEQ | BPF_X,  BPF_JMP | BPF_JGT | BPF_K, BPF_JMP | BPF_JGE | BPF_X,
		BPF_JMP | BPF_JSET | BPF_K, BPF_LDX | BPF_IMM,	       BPF_LDX | BPF_W | BPF_LEN,
		BPF_LD | BPF_W | BPF_ABS,   BPF_LD | BPF_W | BPF_ABS,  BPF_STX,
		BPF_LDX | BPF_MEM,
	};
	/* NOLINTEND(misc-redundant-expression) */
	size_t n = 0;

	program[n++] = (struct sock_filter)LOAD(nr);
	program[n++] = (struct sock_filter)IF_EQUAL(number, 1, 0);
	program[n++] = (struct sock_filter)RETURN(ALLOW);
	program[n++] = (struct sock_filter)BPF_STMT(BPF_STX, 7);
	for (size_t i = 0; i < STEPS; i++) {
		struct sock_filter *step = &program[n++];
		uint32_t k = random_word(seed) >> (random_word(seed) % 31);

		*step = (struct sock_filter){
			.code = operations[random_word(seed) % FLMEM_ARRAY_SIZE(operations)],
			.k = k ? k : 1};
		if (BPF_MODE(step->code) == BPF_ABS && BPF_CLASS(step->code) == BPF_LD)
			step->k = 16 + 4 * (k % 12);
		if (step->code == BPF_STX || step->code == (BPF_LDX | BPF_MEM))
			step->k = 7;
		if (BPF_CLASS(step->code) == BPF_JMP) {
			step->jt = (uint8_t)(random_word(seed) % (STEPS - i));
			step->jf = (uint8_t)(random_word(seed) % (STEPS - i));
		}
	}
	program[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x7ff);
	program[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO);
	program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
	return n;
}

#define PROGRAMS 40
#define NUMBER	 1000U /* the number of no system call */

struct trial {
	struct sock_filter code[STEPS + 8];
	size_t length;
	struct flmem_syscall call;
	int error; /* the error with which the kernel answered */
};

static void try_in_child(struct trial *trial)
{
	struct sock_fprog program = {.len = (unsigned short)trial->length, .filter = trial->code};
	const struct flmem_syscall_arg *a = trial->call.args;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		trial->error = -errno;
		return;
	}
	errno = 0;
	syscall(trial->call.number, a[0].value, a[1].value, a[2].value, a[3].value, a[4].value,
		a[5].value);
	trial->error = errno;
}

static void fill_trial(struct trial *trial, uint32_t index, uint64_t *seed)
{
	trial->call.number = NUMBER + index;
	trial->length = make_program(seed, NUMBER + index, trial->code);
	for (size_t i = 0; i < FLMEM_SYSCALL_ARGS; i++) {
		uint64_t value = random_word(seed);

		value |= (uint64_t)random_word(seed) << (index % 2 ? 32 : 0);
		trial->call.args[i] = (struct flmem_syscall_arg)FLMEM_ARG_IS(value);
	}
}

static void check_trial(const struct trial *trial)
{
	struct flmem_filter_outcome outcome;
	struct flmem_filter_input input;

	assert_true(trial->error >= 0);
	flmem_filter_input_set(&input, &trial->call);
	flmem_filter_run(trial->code, trial->length, &input, &outcome);
	assert_int_equal(outcome.actions, MAY(ERRNO));
	assert_false(outcome.errors_differ);
	assert_int_equal(outcome.error, trial->error);
}

/* The kernel runs the random programs as well; 0 as an errno is a success. */
static void the_kernel_agrees(void **state)
{
	struct trial *trials = mmap(NULL, PROGRAMS * sizeof(*trials), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t seed = 11;
	int status;
	pid_t child;

	(void)state;
	assert_ptr_not_equal(trials, MAP_FAILED);
	for (uint32_t i = 0; i < PROGRAMS; i++)
		fill_trial(&trials[i], i, &seed);
	child = fork();
	if (child == 0) {
		for (size_t i = 0; i < PROGRAMS; i++)
			try_in_child(&trials[i]);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	for (size_t i = 0; i < PROGRAMS; i++)
		check_trial(&trials[i]);
	munmap(trials, PROGRAMS * sizeof(*trials));
}

static uint32_t concrete(const struct trial *trial, const struct flmem_filter_input *input,
			 uint64_t *seed)
{
	struct seccomp_data data;
	uint32_t words[FLMEM_FILTER_WORDS];

	for (size_t i = 0; i < FLMEM_FILTER_WORDS; i++)
		words[i] = input->words[i].value | (input->words[i].open & random_word(seed) << 1);
	memcpy(&data, words, sizeof(data));
	return bpf_run(trial->code, trial->length, &data);
}

/* Whatever the unknown bits are, the outcome is among the possible ones. */
static void nothing_that_comes_is_missed(void **state)
{
	uint64_t seed = 12;

	(void)state;
	for (uint32_t i = 0; i < 2000; i++) {
		struct flmem_filter_outcome outcome, one = {0};
		struct flmem_filter_input input;
		struct trial trial;

		fill_trial(&trial, i, &seed);
		for (size_t k = 0; k < FLMEM_SYSCALL_ARGS; k++)
			trial.call.args[k].known = (uint64_t)random_word(&seed) << (i % 33);
		/* Each way has its own verdict: the action bits are computed as well. */
		trial.code[trial.length - 3].k = 0x7fffffff;
		trial.code[trial.length - 2].k = 0;
		flmem_filter_input_set(&input, &trial.call);
		flmem_filter_run(trial.code, trial.length, &input, &outcome);
		flmem_filter_outcome_add(&one, concrete(&trial, &input, &seed));
		assert_int_equal(outcome.actions & one.actions, one.actions);
		if (one.actions == MAY(ERRNO) && !outcome.errors_differ)
			assert_int_equal(outcome.error, one.error);
	}
}

/* Starts a child under `count` filters that allow all, and one more program. */
static pid_t start_child(const struct sock_filter *code, size_t length, int count)
{
	static const struct sock_filter all[] = {RETURN(ALLOW)};
	int ends[2], failed = 0;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		struct sock_fprog program = {1, (struct sock_filter *)(uintptr_t)all};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		for (int i = 0; i < count; i++)
			failed |= prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
		program = (struct sock_fprog){(unsigned short)length,
					      (struct sock_filter *)(uintptr_t)code};
		failed |= length && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
		if (write(ends[1], &failed, sizeof(failed)) != sizeof(failed))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ends[0], &failed, sizeof(failed)), sizeof(failed));
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(failed, 0);
	return child;
}

static const struct flmem_syscall dontneed_row[] = {
	{SYS_madvise, "madvise", FLMEM_FAILURE_REFUSED, {{0}, {0}, FLMEM_ARG_IS(MADV_DONTNEED)}},
};
static const struct flmem_syscall_table dontneed_table = {"a test", dontneed_row, 1, false};

/* Returns the code of the check; the check must not harm the child. */
static int check_child(const struct sock_filter *code, size_t length, int count,
		       const struct flmem_seccomp_calls *calls, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	pid_t child = start_child(code, length, count);
	int rc = 0, status;

	*err = (struct flmem_error){0};
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	for (int i = 0; i < 10 && (!i || strstr(err->message, "not be stopped")); i++)
		rc = flmem_seccomp_check_running(&process, child, calls, err);
	assert_int_equal(waitpid(child, &status, WNOHANG), 0);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return rc;
}

static void require_sight(void)
{
	if (geteuid() != 0 || prctl(PR_GET_SECCOMP) != 0) {
		print_message("SKIP: only root without a filter of its own is shown filters\n");
		skip();
	}
}

static void every_filter_counts(void **state)
{
	struct flmem_syscall_list list = {0};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_sight();
	assert_int_equal(check_child(NO_DONTNEED, 3, &calls, &err), 0);
	flmem_syscall_list_add(&list, &dontneed_table);
	assert_int_equal(check_child(NULL, 0, 3, &calls, &err), 0);
	assert_int_equal(check_child(NO_DONTNEED, 0, &calls, &err), FLMEM_EUNSUPPORTED);
	assert_int_equal(check_child(NO_DONTNEED, 3, &calls, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "would kill the process for madvise(?, ?, 4, ...)"));
	assert_non_null(strstr(err.message, "a test makes"));
}

static void more_filters_than_are_read_are_refused(void **state)
{
	struct flmem_syscall_list list = {0};
	struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_sight();
	flmem_syscall_list_add(&list, &dontneed_table);
	assert_int_equal(check_child(NO_DONTNEED, 64, &calls, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "cannot be read"));
	calls.assume = true;
	assert_int_equal(check_child(NO_DONTNEED, 64, &calls, &err), 0);
}

static void calls_without_a_list_may_be_any(void **state)
{
	const struct flmem_seccomp_calls unlisted = {.repeated = {.number = -1}};
	const struct flmem_seccomp_calls assumed = {.repeated = {.number = -1}, .assume = true};
	struct flmem_error err;

	(void)state;
	require_sight();
	assert_int_equal(check_child(NULL, 0, 1, &unlisted, &err), 0);
	assert_int_equal(check_child(NO_DONTNEED, 0, &unlisted, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "could kill the process for system call "));
	assert_non_null(strstr(err.message, "--assume-seccomp"));
	assert_int_equal(check_child(NO_DONTNEED, 0, &assumed, &err), 0);
}

static void the_interrupted_call_counts_with_its_arguments(void **state)
{
	struct flmem_syscall_list list = {0};
	struct flmem_seccomp_calls calls = {
		.list = &list,
		.repeated = {.number = SYS_madvise,
			     .name = "madvise",
			     .args = {{0}, {0}, FLMEM_ARG_IS(MADV_FREE)}}};
	struct flmem_error err;

	(void)state;
	require_sight();
	assert_int_equal(check_child(NO_DONTNEED, 0, &calls, &err), 0);
	calls.repeated.args[2].value = MADV_DONTNEED;
	assert_int_equal(check_child(NO_DONTNEED, 0, &calls, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "the thread itself makes"));
}

static void a_failure_is_fine_where_the_table_says_so(void **state)
{
	static const struct sock_filter program[] = {
		LOAD(nr),
		IF_EQUAL(435, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
		IF_EQUAL(334, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
		RETURN(ALLOW),
	};
	struct flmem_syscall rows[] = {{435, "clone3", FLMEM_FAILURE_ENOSYS_FINE, {{0}}},
				       {334, "rseq", FLMEM_FAILURE_FINE, {{0}}}};
	const struct flmem_syscall_table table = {"a test", rows, 2, false};
	struct flmem_syscall_list list = {.tables = {&table}, .count = 1};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_sight();
	assert_int_equal(check_child(program, FLMEM_ARRAY_SIZE(program), 0, &calls, &err), 0);
	rows[1].failure = FLMEM_FAILURE_ENOSYS_FINE;
	assert_int_equal(check_child(program, FLMEM_ARRAY_SIZE(program), 0, &calls, &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "would return an error for rseq"));
	rows[1].failure = FLMEM_FAILURE_FINE;
	rows[0].failure = FLMEM_FAILURE_REFUSED;
	assert_int_equal(check_child(program, FLMEM_ARRAY_SIZE(program), 0, &calls, &err),
			 FLMEM_EUNSUPPORTED);
}

/* There is one table more than room: its content must not be lost. */
static void a_list_that_is_full_becomes_unknown(void **state)
{
	struct flmem_syscall_table tables[FLMEM_SYSCALL_TABLES + 1] = {{0}};
	struct flmem_syscall_list list = {0};

	(void)state;
	for (size_t i = 0; i < FLMEM_SYSCALL_TABLES; i++)
		flmem_syscall_list_add(&list, &tables[i]);
	flmem_syscall_list_add(&list, &tables[0]);
	assert_int_equal(list.count, FLMEM_SYSCALL_TABLES);
	assert_ptr_equal(list.tables[FLMEM_SYSCALL_TABLES - 1], &tables[FLMEM_SYSCALL_TABLES - 1]);
	flmem_syscall_list_add(&list, &tables[FLMEM_SYSCALL_TABLES]);
	assert_ptr_equal(list.tables[FLMEM_SYSCALL_TABLES - 1], &flmem_syscalls_unknown);
	list.count = 0;
	flmem_syscall_list_add(&list, NULL);
	assert_ptr_equal(list.tables[0], &flmem_syscalls_unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_arguments_decide),
		cmocka_unit_test(unknown_arguments_go_both_ways),
		cmocka_unit_test(known_bits_decide),
		cmocka_unit_test(where_a_call_is_made_is_unknown),
		cmocka_unit_test(any_call_is_one_of_this_architecture),
		cmocka_unit_test(errors_are_distinguished),
		cmocka_unit_test(an_unknown_result_may_be_anything),
		cmocka_unit_test(divisions_by_zero_kill),
		cmocka_unit_test(malformed_programs_count_as_killing),
		cmocka_unit_test(the_kernel_agrees),
		cmocka_unit_test(nothing_that_comes_is_missed),
		cmocka_unit_test(every_filter_counts),
		cmocka_unit_test(more_filters_than_are_read_are_refused),
		cmocka_unit_test(calls_without_a_list_may_be_any),
		cmocka_unit_test(the_interrupted_call_counts_with_its_arguments),
		cmocka_unit_test(a_failure_is_fine_where_the_table_says_so),
		cmocka_unit_test(a_list_that_is_full_becomes_unknown),
	};

	return cmocka_run_group_tests_name("seccomp", tests, NULL, NULL);
}
