/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests refusals whose conditions no program can set up on request: the test changes the data that
 * were read.
 */
#include "borrowed.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "remote/checks/candidates.h"
#include "remote/checks/handlers.h"
#include "remote/checks/stopped_thread.h"
#include "remote/checks/thread_stack.h"
#include "remote/gadgets.h"

#define CALLS_BYTES ((size_t)1 << 20) /* more than is mapped of a main stack */
#define STACK_GAP   ((uint64_t)1 << 20)
#define STOP_US	    20000000U
#define OLD_WORDS   300 /* more than a search decodes */
#define CODE_BYTES  16U

#ifdef __x86_64__
struct page {
	_Atomic int tid; /* the thread in question, once it is about to wait */
};

static struct page *page;
static int bell[2];
static bool seems_outside; /* the thread seems to be outside of a system call */

int __real_flmem_task_read_wait(const struct flmem_process *process, pid_t tid,
				struct flmem_task_wait *ret_wait);
int __wrap_flmem_task_read_wait(const struct flmem_process *process, pid_t tid,
				struct flmem_task_wait *ret_wait);
int __wrap_flmem_task_read_wait(const struct flmem_process *process, pid_t tid,
				struct flmem_task_wait *ret_wait)
{
	int rc = __real_flmem_task_read_wait(process, tid, ret_wait);

	if (rc == 1 && seems_outside)
		ret_wait->number = -1;
	return rc;
}

static const int faults[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
static int fault = SIGSEGV; /* the signal that is sent */

static void block(void)
{
	char byte;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(faults); i++)
		signal(faults[i], SIG_DFL); /* without a return into the test */
	atomic_store(&page->tid, (int)gettid());
	(void)!read(bell[0], &byte, 1);
}

static void *be_worker(void *unused)
{
	block();
	return unused;
}

static void be_threaded(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, be_worker, NULL) == 0)
		pthread_join(thread, NULL);
}

static void skip_if_sanitised(void)
{
#if defined(__SANITIZE_ADDRESS__)
	print_message("SKIP: stacks look different under AddressSanitizer\n");
	skip();
#endif
}

__attribute__((noinline)) static void stay_inside(void)
{
	__asm__ volatile("");
}

/* Blocks with addresses of a function on its stack that follow no call. */
static void block_on_many_words(void)
{
	volatile uint64_t words[OLD_WORDS];

	for (size_t i = 0; i < OLD_WORDS; i++)
		words[i] = (uint64_t)(uintptr_t)stay_inside;
	block();
	words[0] = words[OLD_WORDS - 1];
}

static void block_on_few_words(void)
{
	volatile uint64_t words[16];

	for (size_t i = 0; i < 16; i++)
		words[i] = (uint64_t)(uintptr_t)stay_inside;
	block();
	words[0] = words[1];
}

struct scene {
	pid_t child;
	struct target target;
	struct flmem_guard *guard; /* too large for the stack that a child inherits */
	struct flmem_gadgets gadgets;
	struct flmem_candidate_needs needs;
	struct flmem_candidate row;
};

static void scene_open(struct scene *scene, void (*be)(void))
{
	*scene = (struct scene){.guard = calloc(1, sizeof(*scene->guard))};
	assert_non_null(scene->guard);
	atomic_store(&page->tid, 0);
	scene->child = child_start(be);
	assert_true(scene->child > 0);
	await_true(atomic_load(&page->tid));
	await_true(is_blocked_in(atomic_load(&page->tid), SYS_read));
	target_open(scene->child, &scene->target);
	expect_borrowed(flmem_gadgets_find(&scene->target.view, &scene->gadgets, NULL),
			&(struct flmem_error){0});
	scene->needs = (struct flmem_candidate_needs){.guard = scene->guard,
						      .gadgets = &scene->gadgets,
						      .only = atomic_load(&page->tid),
						      .deadline_us = UINT64_MAX};
}

static void scene_close(struct scene *scene)
{
	target_close(&scene->target);
	child_end(scene->child);
	free(scene->guard);
}

/* Returns why the thread is rejected; NULL, and its row, if it is not. */
static const char *find(struct scene *scene)
{
	FLMEM_AUTO_CANDIDATES struct flmem_candidates found = {0};

	assert_int_equal(flmem_candidates_find(&scene->target.view, &scene->needs, &found), 0);
	assert_int_equal(found.threads, 1);
	assert_int_equal(found.running, 0);
	if (found.count)
		scene->row = found.rows[0];
	return found.rejected;
}

static const char *check_stack(const struct scene *scene)
{
	return flmem_stack_check(&scene->target.view, &scene->needs, &scene->row);
}

/* Returns the row of its stack in the mappings that were read. */
static struct flmem_map *find_stack(struct scene *scene)
{
	size_t i = 0;

	while (flmem_maps_find(&scene->target.maps, scene->row.at.sp) !=
	       &scene->target.maps.rows[i])
		i++;
	assert_true(i > 0);
	return &scene->target.maps.rows[i];
}

/* Returns the lowest used address; the main stack must grow for calls that need much. */
static uint64_t lowest_used(struct scene *scene)
{
	scene->needs.stack_bytes = CALLS_BYTES;
	return scene->row.at.sp - FLMEM_SCRATCH_MAX - CALLS_BYTES;
}

static void a_stack_does_not_grow_up_to_another_mapping(void **state)
{
	struct scene scene;
	struct flmem_map *below;
	uint64_t lowest;

	(void)state;
	skip_if_sanitised();
	scene_open(&scene, block);
	assert_null(find(&scene));
	lowest = lowest_used(&scene);
	below = find_stack(&scene) - 1;
	assert_null(check_stack(&scene));
	below->end = lowest - STACK_GAP;
	assert_string_equal(check_stack(&scene), "has too little space left on its stack");
	below->end = lowest - STACK_GAP - 1;
	assert_null(check_stack(&scene));
	scene_close(&scene);
}

static void a_stack_does_not_grow_above_its_limit(void **state)
{
	struct rlimit limit = {0, RLIM_INFINITY};
	struct scene scene;

	(void)state;
	skip_if_sanitised();
	scene_open(&scene, block);
	assert_null(find(&scene));
	assert_int_equal(prlimit(scene.child, RLIMIT_STACK, NULL, &limit), 0);
	limit.rlim_cur = find_stack(&scene)->end - lowest_used(&scene);
	assert_int_equal(prlimit(scene.child, RLIMIT_STACK, &limit, NULL), 0);
	assert_null(check_stack(&scene));
	limit.rlim_cur--;
	assert_int_equal(prlimit(scene.child, RLIMIT_STACK, &limit, NULL), 0);
	assert_string_equal(check_stack(&scene), "has too little space left on its stack");
	scene_close(&scene);
}

/* flmem could write to the stack, and the thread's first call would end the thread. */
static void a_stack_that_is_not_writable_is_refused(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, be_threaded);
	assert_null(find(&scene));
	find_stack(&scene)->flags &= ~(unsigned)FLMEM_MAP_WRITE;
	assert_string_equal(check_stack(&scene), "has no ordinary stack mapping");
	scene_close(&scene);
}

/* The thread seems to be in a page fault that takes long. */
static void a_thread_outside_a_call_is_refused(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, be_threaded);
	seems_outside = true;
	assert_string_equal(find(&scene), "is blocked outside a system call");
	seems_outside = false;
	assert_null(find(&scene));
	scene_close(&scene);
}

static void what_is_not_examined_in_time_is_refused(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, be_threaded);
	scene.needs.deadline_us = flmem_clock_us() - 1;
	assert_string_equal(find(&scene), "could not be examined in time");
	/*
	 * After that refusal, what a thread waits for must not be examined: there may be thousands
	 * of threads.
	 */
	seems_outside = true;
	assert_string_equal(find(&scene), "could not be examined in time");
	seems_outside = false;
	scene_close(&scene);
}

static const char *examine_words(void (*be)(void))
{
	uint64_t code = (uint64_t)(uintptr_t)stay_inside;
	struct scene scene;
	const char *rejected;

	scene_open(&scene, be);
	flmem_guard_add_code(scene.guard, code, code + CODE_BYTES);
	rejected = find(&scene);
	scene_close(&scene);
	return rejected;
}

static void a_stack_full_of_an_allocator_s_addresses_is_refused(void **state)
{
	(void)state;
	skip_if_sanitised();
	assert_null(examine_words(block_on_few_words));
	assert_string_equal(examine_words(block_on_many_words), "is inside the allocator");
}

enum signalled {
	BY_NOBODY,
	PROCESS_SIGNALLED,
	THREAD_SIGNALLED,
	THREAD_FAULTED
};

/* Sends a signal; an unhandled one is ignored, except by a thread that is traced. */
static void send_signal(const struct scene *scene, enum signalled how)
{
	if (how == PROCESS_SIGNALLED)
		kill(scene->child, SIGURG);
	else if (how == THREAD_SIGNALLED)
		syscall(SYS_tgkill, scene->child, scene->row.tid, SIGURG);
	else if (how == THREAD_FAULTED)
		syscall(SYS_tgkill, scene->child, scene->row.tid, fault);
}

/* Waits: a thread that leaves a stop may be shown as blocked, with its signals still pending. */
static bool is_back(int status_fd, pid_t tid)
{
	struct flmem_status status;

	assert_int_equal(flmem_status_read_open(status_fd, &status), 0);
	return !status.sig_pending.value && !status.shared_pending.value &&
	       is_blocked_in(tid, SYS_read);
}

static bool computes; /* how the next thread is borrowed */

/* Tries the stopped thread of `scene` as one of `owner`. */
static bool is_accepted_in(struct scene *scene, const struct scene *owner, enum signalled how)
{
	const struct flmem_borrow_options options = {
		.timeout_us = STOP_US,
		.computing = computes ? scene->row.tid : 0,
	};
	FLMEM_AUTO_FREE struct flmem_borrow_state *borrow = calloc(1, sizeof(*borrow));
	FLMEM_AUTO_CLOSE int status_fd =
		flmem_status_open_thread(&scene->target.process, scene->row.tid);
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	struct flmem_candidate row = scene->row;
	struct flmem_status status;

	assert_non_null(borrow);
	borrow->view = &owner->target.view;
	borrow->options = &options;
	borrow->gadgets = owner->gadgets;
	/*
	 * Waits after an earlier stop: a thread on its way back would be refused for another
	 * reason.
	 */
	await_true(is_back(status_fd, row.tid));
	if (flmem_tracee_seize(&tracee, row.tid, scene->child) ||
	    flmem_tracee_stop(&tracee, STOP_US) != FLMEM_TRACEE_STOPPED) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	send_signal(scene, how);
	assert_int_equal(flmem_status_read_open(status_fd, &status), 0);
	row.sleeps = status.voluntary_switches.value - 1;
	return flmem_stopped_thread_check(borrow, &row, status_fd, &status);
}

/* The number seems reused: the other process has the same memory, so only its number differs. */
static void a_thread_of_another_process_is_refused(void **state)
{
	struct scene one, other;

	(void)state;
	scene_open(&one, block);
	assert_null(find(&one));
	scene_open(&other, block);
	assert_null(find(&other));
	assert_int_equal(one.row.at.sp, other.row.at.sp);
	assert_true(is_accepted_in(&one, &one, BY_NOBODY));
	assert_false(is_accepted_in(&one, &other, BY_NOBODY));
	scene_close(&one);
	scene_close(&other);
}

/* The signal would be handled when the calls have ended, and by no other thread. */
static void a_thread_that_was_sent_a_signal_is_refused(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene, block);
	assert_null(find(&scene));
	assert_true(is_accepted_in(&scene, &scene, BY_NOBODY));
	assert_false(is_accepted_in(&scene, &scene, PROCESS_SIGNALLED));
	assert_false(is_accepted_in(&scene, &scene, THREAD_SIGNALLED));
	assert_true(is_accepted_in(&scene, &scene, BY_NOBODY));
	scene_close(&scene);
}

static void *be_other(void *unused)
{
	pause();
	return unused;
}

/*
 * The first thread, beside another one that takes no signal; the first one would handle it before
 * it is checked.
 */
static void be_first(void)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, be_other, NULL))
		return;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	block();
}

/*
 * A timer may send a signal at each stop; in a process with another thread, that one could handle
 * it.
 */
static void a_computing_thread_that_was_sent_a_signal_is_refused_beside_others(void **state)
{
	static void (*const be[])(void) = {block, be_first};
	struct scene scene;

	(void)state;
	for (size_t threaded = 0; threaded < FLMEM_ARRAY_SIZE(be); threaded++) {
		scene_open(&scene, be[threaded]);
		assert_null(find(&scene));
		computes = true;
		assert_true(is_accepted_in(&scene, &scene, BY_NOBODY));
		assert_true(is_accepted_in(&scene, &scene, THREAD_SIGNALLED));
		assert_int_equal(is_accepted_in(&scene, &scene, PROCESS_SIGNALLED), !threaded);
		assert_false(is_accepted_in(&scene, &scene, THREAD_FAULTED));
		computes = false;
		scene_close(&scene);
	}
}

/* The signal ends the process, so there is one for each. */
static void every_fault_is_left_to_its_handler(void **state)
{
	struct scene scene;

	(void)state;
	computes = true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(faults); i++) {
		scene_open(&scene, block);
		assert_null(find(&scene));
		fault = faults[i];
		assert_false(is_accepted_in(&scene, &scene, THREAD_FAULTED));
		scene_close(&scene);
	}
	computes = false;
}

/*
 * No memory checker may instrument it: it runs on another stack, with the data of another thread.
 */
__attribute__((no_sanitize("address", "undefined"))) static int wait_for_good(void *unused)
{
	(void)unused;
	for (;;)
		syscall(SYS_pause);
	return 0;
}

/* More threads than are listed. */
static void be_many(void)
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
	const size_t each = 8192;
	char *stacks = mmap(NULL, each * FLMEM_TASKS_MAX, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 1; i <= FLMEM_TASKS_MAX; i++)
		if (stacks == MAP_FAILED ||
		    clone(wait_for_good, stacks + each * i, flags, NULL) < 0)
			_exit(2);
	block();
}

static void threads_that_are_not_listed_may_handle_signals(void **state)
{
	struct rlimit limit, none;
	struct scene scene;
	int next;

	(void)state;
	scene_open(&scene, block);
	assert_int_equal(flmem_handlers_find(&scene.target.view, &scene.gadgets, 0, UINT64_MAX), 0);
	/* flmem itself has no free descriptor. */
	next = dup(STDIN_FILENO);
	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){(rlim_t)next, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(flmem_handlers_find(&scene.target.view, &scene.gadgets, 0, UINT64_MAX),
			 FLMEM_HANDLERS_UNREAD);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	scene_close(&scene);
	scene_open(&scene, be_many);
	assert_int_equal(flmem_handlers_find(&scene.target.view, &scene.gadgets, 0, UINT64_MAX),
			 FLMEM_HANDLERS_UNREAD);
	scene_close(&scene);
}

static int open_page(void **state)
{
	(void)state;
	page = child_share(sizeof(*page));
	return !page || pipe(bell);
}

static int close_page(void **state)
{
	(void)state;
	pipe_close(bell);
	return munmap(page, sizeof(*page));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stack_does_not_grow_up_to_another_mapping),
		cmocka_unit_test(a_stack_does_not_grow_above_its_limit),
		cmocka_unit_test(a_stack_that_is_not_writable_is_refused),
		cmocka_unit_test(a_thread_outside_a_call_is_refused),
		cmocka_unit_test(what_is_not_examined_in_time_is_refused),
		cmocka_unit_test(a_stack_full_of_an_allocator_s_addresses_is_refused),
		cmocka_unit_test(a_thread_of_another_process_is_refused),
		cmocka_unit_test(a_thread_that_was_sent_a_signal_is_refused),
		cmocka_unit_test(
			a_computing_thread_that_was_sent_a_signal_is_refused_beside_others),
		cmocka_unit_test(every_fault_is_left_to_its_handler),
		cmocka_unit_test(threads_that_are_not_listed_may_handle_signals),
	};

	return cmocka_run_group_tests_name("candidate_limits", tests, open_page, close_page);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
