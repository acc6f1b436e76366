/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the gate for forks in this process, made as in another one. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "flags.h"
#include "ops/profile/fork_gate.h"
#include "remote/chain.h"

typedef uint64_t libc_function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* Calls that are not made, as where a policy forbids executable memory. */
struct caller {
	bool refuses_code;
	unsigned made;
};

static struct flmem_target_inspection *self;
static struct flmem_fork_gate gate, second;
static bool is_preparing, is_released, has_forked;

/* While the gate waits for forks that had begun, the handler of one returns and that fork ends. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
	if (!read_flag(&is_preparing) || read_flag(&is_released))
		return (int)syscall(SYS_nanosleep, time, left);
	set_flag(&is_released);
	await_flag(&has_forked);
	return 0;
}

static struct flmem_fork_gate_data *data_of_gate(const struct flmem_fork_gate *one)
{
	return (void *)(uintptr_t)(one->address + FLMEM_FORK_GATE_PAGE);
}

static struct flmem_fork_gate_data *gate_data(void)
{
	return data_of_gate(&gate);
}

static uint32_t read_word(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static int make_calls(void *context, const struct flmem_cpython_function *function,
		      struct flmem_error *err)
{
	struct caller *caller = context;

	(void)err;
	for (size_t i = 0; i < function->chain->count; i++) {
		const struct flmem_call *call = &function->chain->calls[i];
		const uint64_t *args = call->args;
		libc_function *libc;

		memcpy(&libc, &call->function, sizeof(libc));
		if (!(caller->refuses_code && strcmp(call->name, "mmap") == 0 &&
		      (args[2] & PROT_EXEC)))
			libc(args[0], args[1], args[2], args[3], args[4], args[5]);
		caller->made++;
	}
	return 0;
}

static int make_gate(struct caller *caller)
{
	assert_int_equal(flmem_target_inspection_renew(self, NULL), 0);
	gate = (struct flmem_fork_gate){.target = self};
	return flmem_fork_gate_make(&gate, make_calls, caller, NULL);
}

static int open_self(void **state)
{
	(void)state;
	self = flmem_target_inspection_new(NULL);
	return self && !flmem_process_open(getpid(), &self->process, NULL) &&
			       !flmem_process_pin_memory(&self->process, NULL) &&
			       !flmem_target_inspection_read(self, NULL)
		       ? 0
		       : -1;
}

static int close_self(void **state)
{
	(void)state;
	flmem_target_inspection_free(self);
	return 0;
}

static void prepare_slowly(void)
{
	if (read_flag(&is_released))
		return;
	set_flag(&is_preparing);
	await_flag(&is_released);
}

static void *fork_once(void *unused)
{
	pid_t child = fork();
	int status = -1;

	(void)unused;
	if (child == 0)
		_exit(gate.address && (gate_data()->forks || gate_data()->closed));
	set_flag(&has_forked);
	waitpid(child, &status, 0);
	return (void *)(intptr_t)status;
}

static pthread_t start_fork(void)
{
	pthread_t thread;

	has_forked = false;
	assert_int_equal(pthread_create(&thread, NULL, fork_once, NULL), 0);
	return thread;
}

static void await_fork(pthread_t thread)
{
	void *status;

	assert_int_equal(pthread_join(thread, &status), 0);
	assert_null(status);
	assert_int_equal(gate_data()->forks, 0);
}

static void test_is_made_and_waits_for_handlers_that_run(void **state)
{
	struct caller caller = {0};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_atfork(prepare_slowly, NULL, NULL), 0);
	thread = start_fork();
	await_flag(&is_preparing);
	assert_int_equal(make_gate(&caller), 0);
	assert_true(read_flag(&has_forked));
	await_fork(thread);
	assert_int_equal(caller.made, 3);
	assert_memory_equal(
		(void *)(uintptr_t)gate.address, flmem_fork_gate_prepare,
		(size_t)((uintptr_t)flmem_fork_gate_end - (uintptr_t)flmem_fork_gate_prepare));
	assert_int_equal(gate_data()->registered, 1);
	await_fork(start_fork());
}

static void test_is_used_again(void **state)
{
	const uint64_t address = gate.address;
	struct caller caller = {0};

	(void)state;
	assert_int_equal(make_gate(&caller), 0);
	assert_int_equal(caller.made, 0);
	assert_int_equal(gate.address, address);
}

static void test_forks_wait_while_it_is_closed(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(flmem_fork_gate_close(&gate, NULL), 0);
	assert_int_equal(read_word(&gate_data()->closed), gate.number);
	thread = start_fork();
	flmem_clock_sleep_us(50000);
	assert_false(read_flag(&has_forked));
	flmem_fork_gate_open(&gate, false);
	assert_int_equal(read_word(&gate_data()->closed), gate.number);
	flmem_fork_gate_open(&gate, true);
	assert_int_equal(read_word(&gate_data()->closed), 0);
	await_fork(thread);
}

static void test_the_fork_that_has_waited_opens_it(void **state)
{
	(void)state;
	assert_int_equal(flmem_fork_gate_close(&gate, NULL), 0);
	await_fork(start_fork());
	assert_int_equal(read_word(&gate_data()->closed), 0);
	await_fork(start_fork());
}

/* A gate that another flmem has closed stays closed. */
static void test_opens_only_its_own_closing(void **state)
{
	(void)state;
	gate_data()->closed = gate.number + 2;
	flmem_fork_gate_open(&gate, true);
	assert_int_equal(read_word(&gate_data()->closed), gate.number + 2);
	gate_data()->closed = 0;
}

static void test_another_one_is_made_while_it_is_in_use(void **state)
{
	const struct flmem_fork_gate first = gate;
	struct caller caller = {0};

	(void)state;
	gate_data()->closed = 1;
	assert_int_equal(make_gate(&caller), 0);
	assert_true(gate.address != first.address);
	assert_int_equal(caller.made, 3);
	await_fork(start_fork());
	second = gate;
	gate = first;
	assert_int_equal(read_word(&gate_data()->closed), 0);
}

static void *end_counted_fork(void *unused)
{
	(void)unused;
	while (!read_word(&gate_data()->closed))
		sched_yield();
	flmem_clock_sleep_us(50000);
	set_flag(&has_forked);
	__atomic_store_n(&gate_data()->forks, 0, __ATOMIC_SEQ_CST);
	return NULL;
}

static void test_waits_for_forks_on_their_way(void **state)
{
	pthread_t thread;

	(void)state;
	has_forked = false;
	gate_data()->forks = 1;
	assert_int_equal(pthread_create(&thread, NULL, end_counted_fork, NULL), 0);
	assert_int_equal(flmem_fork_gate_close(&gate, NULL), 0);
	assert_true(read_flag(&has_forked));
	assert_int_equal(pthread_join(thread, NULL), 0);
	flmem_fork_gate_open(&gate, true);
}

static void test_a_fork_that_takes_long_is_refused(void **state)
{
	struct flmem_error err;

	(void)state;
	gate_data()->forks = 1;
	assert_int_equal(flmem_fork_gate_close(&gate, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "in a fork"));
	assert_int_equal(read_word(&gate_data()->closed), 0);
	gate_data()->forks = 0;
}

/* Returns 1 if the handler leaves all registers that a function has to keep. */
int keeps_registers(uint64_t handler);
__asm__(".text\n"
	"keeps_registers:\n"
	"pushq %rbx\n"
	"pushq %rbp\n"
	"pushq %r12\n"
	"pushq %r13\n"
	"pushq %r14\n"
	"pushq %r15\n"
	"subq $8, %rsp\n"
	"movl $101, %ebx\n"
	"movl $102, %ebp\n"
	"movl $112, %r12d\n"
	"movl $113, %r13d\n"
	"movl $114, %r14d\n"
	"movq %rsp, %r15\n"
	"call *%rdi\n"
	"xorl %eax, %eax\n"
	"cmpq %rsp, %r15\n"
	"jne 1f\n"
	"cmpq $101, %rbx\n"
	"jne 1f\n"
	"cmpq $102, %rbp\n"
	"jne 1f\n"
	"cmpq $112, %r12\n"
	"jne 1f\n"
	"cmpq $113, %r13\n"
	"jne 1f\n"
	"cmpq $114, %r14\n"
	"jne 1f\n"
	"movl $1, %eax\n"
	"1: addq $8, %rsp\n"
	"popq %r15\n"
	"popq %r14\n"
	"popq %r13\n"
	"popq %r12\n"
	"popq %rbp\n"
	"popq %rbx\n"
	"ret\n");

static uint64_t place_handler(const unsigned char *handler)
{
	return gate.address + ((uintptr_t)handler - (uintptr_t)flmem_fork_gate_prepare);
}

static void test_keeps_registers_and_counts(void **state)
{
	(void)state;
	gate_data()->closed = 1; /* until it has waited for too long */
	assert_true(keeps_registers(place_handler(flmem_fork_gate_prepare)));
	assert_int_equal(gate_data()->closed, 0);
	assert_int_equal(gate_data()->forks, 1);
	assert_true(keeps_registers(place_handler(flmem_fork_gate_prepare)));
	assert_int_equal(gate_data()->forks, 2);
	assert_true(keeps_registers(place_handler(flmem_fork_gate_parent)));
	assert_int_equal(gate_data()->forks, 1);
	gate_data()->closed = 1;
	assert_true(keeps_registers(place_handler(flmem_fork_gate_child)));
	assert_int_equal(gate_data()->closed, 0);
	assert_int_equal(gate_data()->forks, 0);
	assert_true(keeps_registers(place_handler(flmem_fork_gate_parent)));
	assert_int_equal(gate_data()->forks, 0);
}

/* Checks two pages that are nearly a gate: another one would be made, which the caller refuses. */
static void expect_no_gate(int access, size_t changed_at, size_t changed_data)
{
	unsigned char *pages = mmap(NULL, 2U * FLMEM_FORK_GATE_PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *data = pages + FLMEM_FORK_GATE_PAGE;
	struct caller caller = {.refuses_code = true};
	const struct flmem_fork_gate first = gate;

	assert_ptr_not_equal(pages, MAP_FAILED);
	memcpy(pages, (void *)(uintptr_t)gate.address, FLMEM_FORK_GATE_PAGE);
	memcpy(data, gate_data(), sizeof(*gate_data()));
	pages[changed_at] ^= 1;
	data[changed_data] ^= 1;
	assert_int_equal(mprotect(pages, FLMEM_FORK_GATE_PAGE, access), 0);
	data_of_gate(&first)->closed = data_of_gate(&second)->closed = 1;
	assert_int_equal(make_gate(&caller), FLMEM_EUNSUPPORTED);
	data_of_gate(&first)->closed = data_of_gate(&second)->closed = 0;
	gate = first;
	munmap(pages, 2U * FLMEM_FORK_GATE_PAGE);
}

static void test_what_is_nearly_a_gate_is_none(void **state)
{
	const size_t code_end = FLMEM_FORK_GATE_PAGE - 1; /* nothing of a gate is there */
	const size_t data_end = sizeof(struct flmem_fork_gate_data);
	const size_t magic = offsetof(struct flmem_fork_gate_data, magic);
	const size_t registered = offsetof(struct flmem_fork_gate_data, registered);

	(void)state;
	expect_no_gate(PROT_READ, code_end, data_end);
	expect_no_gate(PROT_READ | PROT_WRITE | PROT_EXEC, 0, data_end);
	expect_no_gate(PROT_READ | PROT_EXEC, 0, data_end);
	expect_no_gate(PROT_READ | PROT_EXEC, code_end, magic);
	expect_no_gate(PROT_READ | PROT_EXEC, code_end, registered);
}

#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer takes most of the addresses */
#define FILLERS	   4096U
#define FILLER_MAX ((size_t)1 << 46)
#define FILLER_MIN ((size_t)1 << 29)

/* Fills the address space, so that no gap of a GiB is left. */
static size_t fill_addresses(struct iovec *fillers)
{
	size_t count = 0;

	for (size_t size = FILLER_MAX; size >= FILLER_MIN && count < FILLERS; size /= 2) {
		void *filler = mmap(NULL, size, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (filler == MAP_FAILED)
			continue;
		fillers[count++] = (struct iovec){filler, size};
		size *= 2;
	}
	return count;
}

/* The pages of the gate would be beside those of the program, which may grow or be moved there. */
static void test_is_refused_without_a_gap(void **state)
{
	struct iovec *fillers = calloc(FILLERS, sizeof(*fillers));
	struct caller caller = {0};
	const struct flmem_fork_gate first = gate;
	size_t count;
	int rc;

	(void)state;
	assert_non_null(fillers);
	data_of_gate(&first)->closed = data_of_gate(&second)->closed = 1;
	count = fill_addresses(fillers);
	rc = make_gate(&caller);
	for (size_t i = 0; i < count; i++)
		munmap(fillers[i].iov_base, fillers[i].iov_len);
	data_of_gate(&first)->closed = data_of_gate(&second)->closed = 0;
	gate = first;
	free(fillers);
	assert_true(count < FILLERS);
	assert_int_equal(rc, FLMEM_EUNSUPPORTED);
	assert_int_equal(caller.made, 0);
}
#endif

/* A policy seems to forbid code in memory: nothing stays mapped. */
static void test_is_refused_without_code(void **state)
{
	struct caller caller = {.refuses_code = true};
	const struct flmem_fork_gate first = gate;
	struct flmem_error err;

	(void)state;
	/* Makes the next call create another gate. */
	data_of_gate(&first)->registered = data_of_gate(&second)->registered = 0;
	assert_int_equal(flmem_target_inspection_renew(self, NULL), 0);
	assert_int_equal(flmem_fork_gate_make(&gate, make_calls, &caller, &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "a policy"));
	assert_int_equal(caller.made, 3); /* the last one is munmap() */
	assert_int_equal(flmem_target_inspection_renew(self, NULL), 0);
	assert_null(flmem_maps_find(&self->maps, gate.address));
	assert_null(flmem_maps_find(&self->maps, gate.address + FLMEM_FORK_GATE_PAGE));
	gate = first;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_is_made_and_waits_for_handlers_that_run),
		cmocka_unit_test(test_is_used_again),
		cmocka_unit_test(test_forks_wait_while_it_is_closed),
		cmocka_unit_test(test_the_fork_that_has_waited_opens_it),
		cmocka_unit_test(test_opens_only_its_own_closing),
		cmocka_unit_test(test_another_one_is_made_while_it_is_in_use),
		cmocka_unit_test(test_waits_for_forks_on_their_way),
		cmocka_unit_test(test_a_fork_that_takes_long_is_refused),
		cmocka_unit_test(test_keeps_registers_and_counts),
		cmocka_unit_test(test_what_is_nearly_a_gate_is_none),
#ifndef __SANITIZE_ADDRESS__
		cmocka_unit_test(test_is_refused_without_a_gap),
#endif
		cmocka_unit_test(test_is_refused_without_code),
	};

	return cmocka_run_group_tests(tests, open_self, close_self);
}
