/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests threads that must not be borrowed, each at the one moment at which only a check of the
 * stopped thread can show that.
 */
#include "borrowed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h> /* exists from glibc 2.35 on */
#endif

#define WORKERS	     3 /* on stacks that they made, and as many on their own */
#define ARENA_BYTES  ((size_t)1 << 20)
#define STACK_BYTES  ((size_t)32 << 10) /* at the upper end of an arena */
#define BELOW_BYTES  (ARENA_BYTES - STACK_BYTES)
#define BELOW_BLOCK  ((size_t)1 << 30)
#define PATTERN	     0xa5
#define TIMEOUT_US   500000U /* in the slow clock of this program */
#define SEQUENCES    40
#define FLAG_TRAP    0x100U
#define FLAG_REVERSE 0x400U

/* Reports of the child about itself. */
struct page {
	_Atomic uint64_t ready, rounds, handled;
	_Atomic uint64_t calls; /* number of calls that the chain has made */
	uint64_t called;	/* calls since the sequence began */
	uint64_t begun, broken; /* sequences, and those in which a call was made */
	_Atomic uint64_t flags; /* the flags with which a call was made, and more */
	_Atomic uint64_t mask;
	_Atomic pid_t made[WORKERS], own[WORKERS];
	_Atomic uintptr_t arenas[WORKERS];
};

static struct page *page;
static pid_t child;

#ifdef __x86_64__
/*
 * Called by chains: the function has the same address in the child, which is a copy of this test.
 */
__attribute__((noinline, no_sanitize("address", "undefined"))) static void note_call(void)
{
	page->called = 1;
	atomic_fetch_add(&page->calls, 1);
}

__attribute__((noinline, no_sanitize("address", "undefined"))) static void note_state(void)
{
	uint64_t mask = 0;

	atomic_store(&page->flags, __builtin_ia32_readeflags_u64());
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	atomic_store(&page->mask, mask);
	atomic_fetch_add(&page->calls, 1);
}

static void handle(int number)
{
	(void)number;
	atomic_fetch_add(&page->handled, 1);
}

/* Waits for signals, one round for each. */
static void wait_for_signals(void)
{
	atomic_fetch_add(&page->ready, 1);
	for (;;) {
		pause();
		atomic_fetch_add(&page->rounds, 1);
	}
}

static void be_waiting(void)
{
	const struct sigaction action = {.sa_handler = handle};

	sigaction(SIGUSR1, &action, NULL);
	wait_for_signals();
}

/* Makes its stack in an arena that other data fill up to it. */
static void *run_on_a_made_stack(void *data)
{
	size_t index = (size_t)(uintptr_t)data;
	/* The stack is below the thread's control block, where its own stack would be. */
	char *wanted = (char *)__builtin_thread_pointer() - (index + 1) * BELOW_BLOCK;
	unsigned char *arena = mmap(wanted - (uintptr_t)wanted % 4096, ARENA_BYTES,
				    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ucontext_t own, coroutine;

	if (arena == MAP_FAILED || (char *)arena > wanted || getcontext(&coroutine))
		_exit(2);
	memset(arena, PATTERN, BELOW_BYTES);
	atomic_store(&page->arenas[index], (uintptr_t)arena);
	atomic_store(&page->made[index], (pid_t)syscall(SYS_gettid));
	coroutine.uc_stack.ss_sp = arena + BELOW_BYTES;
	coroutine.uc_stack.ss_size = STACK_BYTES;
	coroutine.uc_link = NULL;
	makecontext(&coroutine, wait_for_signals, 0);
	swapcontext(&own, &coroutine);
	return NULL;
}

static void *run_on_own_stack(void *data)
{
	atomic_store(&page->own[(uintptr_t)data], (pid_t)syscall(SYS_gettid));
	wait_for_signals();
	return NULL;
}

static void be_coroutines(void)
{
	for (size_t i = 0; i < WORKERS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run_on_a_made_stack, (void *)i) ||
		    pthread_create(&thread, NULL, run_on_own_stack, (void *)i))
			_exit(2);
	}
	wait_for_signals();
}

#ifdef RSEQ_SIG
/*
 * Runs always inside a restartable sequence except for the few instructions that begin it again
 * after an abort. The kernel aborts it whenever something else runs on its processor meanwhile. A
 * call in the middle that does not abort it breaks it: the sequence sees what the call has left.
 */
__attribute__((noinline, no_sanitize("address", "undefined"))) static void
run_sequences(struct rseq *area)
{
	__asm__ volatile(".pushsection __rseq_cs, \"aw\"\n"
			 ".balign 32\n"
			 "3: .long 0, 0\n"
			 ".quad 1f, 2f - 1f, 4f\n"
			 ".popsection\n"
			 "5: leaq 3b(%%rip), %%rax\n"
			 "movq %%rax, %[cs]\n"
			 "1: movq $0, %[called]\n"
			 "6: incq %[begun]\n"
			 "cmpq $0, %[called]\n"
			 "je 6b\n"
			 "incq %[broken]\n"
			 "movq $0, %[called]\n"
			 "jmp 6b\n"
			 "2:\n"
			 ".pushsection __rseq_failure, \"ax\"\n"
			 ".byte 0x0f, 0xb9, 0x3d\n"
			 ".long %c[signature]\n"
			 "4: jmp 5b\n"
			 ".popsection\n"
			 : [cs] "=m"(area->rseq_cs), [called] "+m"(page->called),
			   [begun] "+m"(page->begun), [broken] "+m"(page->broken)
			 : [signature] "i"(RSEQ_SIG)
			 : "rax", "cc", "memory");
}

static bool have_sequences(void)
{
	return __rseq_size > 0;
}

static void be_sequence(void)
{
	atomic_fetch_add(&page->ready, 1);
	if (have_sequences())
		run_sequences((struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset));
	wait_for_signals();
}
#else
static bool have_sequences(void)
{
	return false;
}

static void be_sequence(void)
{
	wait_for_signals();
}
#endif

/* Computes with the flag set that lets string instructions run backwards. */
static void be_reversed(void)
{
	atomic_fetch_add(&page->ready, 1);
	for (;;)
		__asm__ volatile("std\n"
				 "movl $100000, %%ecx\n"
				 "1: decl %%ecx\n"
				 "jnz 1b\n"
				 "cld\n"
				 :
				 :
				 : "rcx", "cc");
}

static int start(void (*be_child)(void), uint64_t ready)
{
	page = child_share(sizeof(*page));
	child = page ? child_start(be_child) : 0;
	for (int i = 0; child && page->ready < ready && i < 20000; i++)
		usleep(1000);
	return !child || page->ready < ready;
}

static int await_pause(pid_t tid)
{
	for (int i = 0; i < 20000; i++) {
		if (is_blocked_in(tid, SYS_pause))
			return 0;
		usleep(1000);
	}
	return 1;
}

static int start_waiting(void **state)
{
	(void)state;
	return start(be_waiting, 1) || await_pause(child);
}

static int start_coroutines(void **state)
{
	int rc = start(be_coroutines, 2 * WORKERS + 1);

	(void)state;
	for (size_t i = 0; i < WORKERS && !rc; i++)
		rc = await_pause(page->made[i]) || await_pause(page->own[i]);
	return rc;
}

static int start_sequence(void **state)
{
	(void)state;
	return start(be_sequence, 1);
}

static int start_reversed(void **state)
{
	(void)state;
	return start(be_reversed, 1);
}

static int end_child(void **state)
{
	(void)state;
	return child_close(child, page, sizeof(*page));
}

/*
 * Waits for its child by the interrupt of 32-bit programs, where number 7 is waitpid(); in a 64-bit
 * call it would be poll().
 */
static void be_odd(void)
{
	pid_t own = getpid();
	long rc = 7;

	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == own)
			pause();
		_exit(0);
	}
	atomic_fetch_add(&page->ready, 1);
	__asm__ volatile("int $0x80"
			 : "+a"(rc)
			 : "b"(-1L), "c"(0L), "d"(0L)
			 : "r8", "r9", "r10", "r11", "memory");
	atomic_fetch_add(&page->rounds, 1);
	for (;;)
		pause();
}

static int start_odd(void **state)
{
	(void)state;
	return start(be_odd, 1);
}

/* Makes one try, with one call. */
static int borrow(const struct target *target, void (*function)(void),
		  struct flmem_borrow_options options, struct flmem_error *err)
{
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	int rc;

	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)function);
	options.single_pass = true;
	options.timeout_us = TIMEOUT_US;
	rc = flmem_borrow_run(&target->view, &chain, &options, &result, err);
	if (!rc)
		assert_true(result.complete);
	else
		assert_false(result.started);
	if (rc == FLMEM_EPERM || rc == FLMEM_EUNSUPPORTED)
		expect_borrowed(rc, err);
	return rc;
}

static void expect_pattern(const struct target *target, uintptr_t arena)
{
	static unsigned char seen[BELOW_BYTES];

	assert_int_equal(flmem_process_read_memory(&target->process, arena, seen, sizeof(seen)), 0);
	for (size_t i = 0; i < sizeof(seen); i++)
		assert_int_equal(seen[i], PATTERN);
}

static void a_stack_that_the_program_made_is_left_alone(void **state)
{
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	target_open(child, &target);
	for (size_t i = 0; i < WORKERS; i++) {
		const struct flmem_borrow_options made = {.only = page->made[i]};
		const struct flmem_borrow_options own = {.only = page->own[i]};

		/* The earlier call must have an effect, or this test shows nothing. */
		expect_borrowed(borrow(&target, note_call, own, &err), &err);
		assert_int_equal(page->calls, i + 1);
		assert_int_equal(borrow(&target, note_call, made, &err), FLMEM_EUNSAFE);
		assert_non_null(strstr(err.message, "stack"));
		assert_int_equal(page->calls, i + 1);
		expect_pattern(&target, page->arenas[i]);
	}
	target_close(&target);
}

static void a_restartable_sequence_is_not_broken(void **state)
{
	const struct flmem_borrow_options options = {.computing = child};
	struct flmem_error err = {0};
	struct target target;
	size_t refused = 0;
	uint64_t begun;

	(void)state;
	if (!have_sequences()) {
		print_message("SKIP: restartable sequences are not registered here\n");
		skip();
	}
	target_open(child, &target);
	for (size_t i = 0; i < SEQUENCES; i++)
		refused += borrow(&target, note_call, options, &err) == FLMEM_EUNSAFE &&
			   strstr(err.message, "restartable sequence");
	target_close(&target);
	begun = page->begun;
	await_true(*(volatile uint64_t *)&page->begun > begun);
	assert_int_equal(page->broken, 0);
	assert_true(refused > 0);
}

/* An action between the plan and the stop: the filter is called before the thread is stopped. */
struct between {
	void (*act)(void);
	size_t asked;
};

static bool accepts(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
		    const char **ret_reason)
{
	struct between *between = context;

	(void)candidate;
	(void)ret_reason;
	if (!pointer && !between->asked++)
		between->act();
	return true;
}

static int borrow_after(void (*act)(void), struct flmem_error *err)
{
	struct between between = {.act = act};
	const struct flmem_candidate_filter filter = {accepts, &between};
	const struct flmem_borrow_options options = {.filter = &filter};
	struct target target;
	int rc;

	target_open(child, &target);
	rc = borrow(&target, note_call, options, err);
	target_close(&target);
	assert_int_equal(between.asked, 1);
	return rc;
}

static void do_nothing(void)
{
}

/*
 * Overwrites the function, as if another library were mapped at its place: it must not be called.
 */
static void overwrite_function(void)
{
	static const unsigned char ud2[] = {0x0f, 0x0b};
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)child);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(fd, ud2, sizeof(ud2), (off_t)(uintptr_t)note_call), sizeof(ud2));
	close(fd);
}

static char state_of_child(void)
{
	char text[512], path[32];
	const char *at;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return 0;
	text[length] = '\0';
	at = strrchr(text, ')');
	return at && at[1] ? at[2] : '\0';
}

static void stop_child(void)
{
	kill(child, SIGSTOP);
	await_true(state_of_child() == 'T');
}

/* A signal just before the thread is back in pause() does not end pause(), in any program. */
static void expect_progress(void)
{
	uint64_t before = page->rounds;

	/* After SIGCONT the thread is still in the call that was stopped, until it runs. */
	await_true(state_of_child() == 'S');
	assert_int_equal(await_pause(child), 0);
	kill(child, SIGUSR1);
	await_true(page->rounds > before);
	assert_true(page->handled <= page->rounds);
}

static void the_moment_between_plan_and_stop_is_met(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	expect_borrowed(borrow_after(do_nothing, &err), &err);
	assert_int_equal(page->calls, 1);
	expect_progress();
}

static void a_process_that_is_stopped_is_not_even_seized(void **state)
{
	const struct flmem_borrow_options options = {0};
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	target_open(child, &target);
	stop_child();
	assert_int_equal(borrow(&target, note_call, options, &err), FLMEM_EUNSAFE);
	target_close(&target);
	assert_non_null(strstr(err.message, "is stopped"));
	kill(child, SIGCONT);
	expect_progress();
}

/* "7 ...": in waitpid() of 32-bit programs; "34 ...": in pause(), this kernel has none. */
static void a_call_of_32_bit_programs_is_left_alone(void **state)
{
	const struct flmem_borrow_options options = {0};
	struct flmem_task_wait at = {.number = -1};
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	target_open(child, &target);
	await_true(flmem_task_read_wait(&target.process, child, &at) == 1 &&
		   (at.number == 7 || at.number == SYS_pause));
	if (page->rounds || at.number == SYS_pause) {
		print_message("SKIP: this kernel does not run 32-bit programs\n");
		skip();
	}
	assert_int_equal(borrow(&target, note_call, options, &err), FLMEM_EUNSAFE);
	target_close(&target);
	assert_non_null(strstr(err.message, "by an unusual instruction"));
	assert_int_equal(page->calls, 0);
	assert_int_equal(page->rounds, 0);
}

static void code_that_has_changed_meanwhile_is_not_called(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(borrow_after(overwrite_function, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "could not be prepared"));
	assert_int_equal(page->calls, 0);
	assert_int_equal(kill(child, 0), 0);
	expect_progress();
}

static void a_process_that_was_stopped_meanwhile_stays_so(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(borrow_after(stop_child, &err), FLMEM_EUNSAFE);
	assert_int_equal(page->calls, 0);
	await_true(state_of_child() == 'T');
	kill(child, SIGCONT);
	expect_progress();
}

static void calls_begin_with_clean_flags_and_all_signals_blocked(void **state)
{
	const struct flmem_borrow_options options = {.computing = child};
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	target_open(child, &target);
	for (int i = 0; i < 2000 && !page->calls; i++)
		if (borrow(&target, note_state, options, &err))
			usleep(1000);
	target_close(&target);
	assert_int_equal(page->calls, 1);
	assert_int_equal(page->flags & (FLAG_TRAP | FLAG_REVERSE), 0);
	for (int number = 1; number <= 64; number++) {
		bool raised = number == SIGILL || number == SIGTRAP || number == SIGBUS ||
			      number == SIGFPE || number == SIGSEGV ||
			      number == 33; /* glibc's own signal: setuid() waits for all threads */
		bool never = number == SIGKILL || number == SIGSTOP;

		assert_int_equal(page->mask >> (number - 1) & 1U, !raised && !never);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_stack_that_the_program_made_is_left_alone,
						start_coroutines, end_child),
		cmocka_unit_test_setup_teardown(a_restartable_sequence_is_not_broken,
						start_sequence, end_child),
		cmocka_unit_test_setup_teardown(the_moment_between_plan_and_stop_is_met,
						start_waiting, end_child),
		cmocka_unit_test_setup_teardown(a_process_that_is_stopped_is_not_even_seized,
						start_waiting, end_child),
		cmocka_unit_test_setup_teardown(a_call_of_32_bit_programs_is_left_alone, start_odd,
						end_child),
		cmocka_unit_test_setup_teardown(code_that_has_changed_meanwhile_is_not_called,
						start_waiting, end_child),
		cmocka_unit_test_setup_teardown(a_process_that_was_stopped_meanwhile_stays_so,
						start_waiting, end_child),
		cmocka_unit_test_setup_teardown(
			calls_begin_with_clean_flags_and_all_signals_blocked, start_reversed,
			end_child),
	};

	return cmocka_run_group_tests_name("borrow_refused", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
