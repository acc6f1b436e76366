/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

/*
 * Allocates known amounts: sampled MODE [NUMBER [wait|again]]. It prints a line "site NAME ADDRESS
 * ALLOCATED LIVE COUNT" for each function that allocates, then "ready".
 */

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "unseen_filter.h"

#define BLOCK	4000U
#define SMALL	200U
#define PAGE	4096U
#define KEPT(i) ((i) % 4 == 0) /* a quarter of the blocks stays */

#ifdef __clang__
#define NOT_IN __attribute__((noinline, optnone))
#else
#define NOT_IN __attribute__((noinline, noclone, noipa))
#endif

typedef void *(*allocate)(void);

static void *volatile sink;

static NOT_IN void *by_malloc(void)
{
	return malloc(BLOCK);
}

static NOT_IN void *by_small_malloc(void)
{
	return malloc(SMALL);
}

static NOT_IN void *by_calloc(void)
{
	return calloc(BLOCK / 8, 8);
}

static NOT_IN void *by_realloc(void)
{
	return realloc(NULL, BLOCK);
}

static NOT_IN void *by_reallocarray(void)
{
	return reallocarray(NULL, BLOCK / 8, 8);
}

static NOT_IN void *by_memalign(void)
{
	return memalign(64, BLOCK);
}

static NOT_IN void *by_posix_memalign(void)
{
	void *address = NULL;

	return posix_memalign(&address, 64, BLOCK) ? NULL : address;
}

static NOT_IN void *by_aligned_alloc(void)
{
	return aligned_alloc(32, BLOCK);
}

static NOT_IN void *by_valloc(void)
{
	return valloc(BLOCK);
}

static NOT_IN void *by_pvalloc(void)
{
	return pvalloc(BLOCK);
}

static NOT_IN void *by_mmap(void)
{
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Marks the end of the last function. */
static NOT_IN void *by_nothing(void)
{
	return sink;
}

static const struct {
	const char *name;
	allocate function;
	size_t size;
} functions[] = {
	{"malloc", by_malloc, BLOCK},
	{"small", by_small_malloc, SMALL},
	{"calloc", by_calloc, BLOCK},
	{"realloc", by_realloc, BLOCK},
	{"reallocarray", by_reallocarray, BLOCK},
	{"memalign", by_memalign, BLOCK},
	{"posix_memalign", by_posix_memalign, BLOCK},
	{"aligned_alloc", by_aligned_alloc, BLOCK},
	{"valloc", by_valloc, BLOCK},
	{"pvalloc", by_pvalloc, BLOCK},
	{"mmap", by_mmap, PAGE},
	{"end", by_nothing, 0},
};

#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static void print_site(const char *name, const void *at, size_t allocated, size_t live,
		       size_t count)
{
	printf("site %s %p %zu %zu %zu\n", name, at, allocated, live, count);
}

static void release(void *address, size_t size, allocate function)
{
	if (function == by_mmap)
		munmap(address, size);
	else
		free(address);
}

static void allocate_many(size_t row, size_t count)
{
	allocate function = functions[row].function;
	size_t size = functions[row].size, live = 0;

	for (size_t i = 0; i < count && size; i++) {
		void *address = function();

		if (!address)
			_exit(3);
		sink = address;
		if (KEPT(i))
			live += size;
		else
			release(address, size, function);
	}
	print_site(functions[row].name, (void *)(uintptr_t)function, size * count, live, count);
}

static void mode_functions(size_t count)
{
	const char *without = getenv("SAMPLED_WITHOUT"); /* functions that the allocator lacks */

	for (size_t i = 0; i < FUNCTIONS; i++)
		if (!without || strcmp(without, functions[i].name) != 0)
			allocate_many(i, count);
}

/* Blocks that grow and shrink, and parts of mappings. */
static NOT_IN void mode_changes(size_t count)
{
	char *block = malloc(1000), *map;
	(void)count;

	block = realloc(block, 3000);
	block = realloc(block, 2000);
	sink = block;
	if (realloc(block, SIZE_MAX / 4)) /* this fails, and the block stays */
		_exit(3);
	map = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(map, 4 * PAGE);		   /* the front */
	munmap(map + 12 * PAGE, 4 * PAGE); /* the back */
	map = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	map = mremap(map, 8 * PAGE, 32 * PAGE, MREMAP_MAYMOVE);
	map = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Half of the mapping is replaced: that memory is counted once. */
	sink = mmap(map + 2 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	/* Inaccessible, so it is not counted. */
	sink = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	map = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(map + 4 * PAGE, 4 * PAGE); /* a hole */
	munmap(map, 4 * PAGE);
	munmap(map + 12 * PAGE, 4 * PAGE);
	map = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sink = mremap(map, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE); /* the rest stays */
	print_site("changes", (void *)(uintptr_t)mode_changes,
		   1000 + 3000 + 2000 + (16 + 8 + 24 + 8 + 4 + 16 + 8 + 2) * PAGE,
		   2000 + (8 + 32 + 8 + 4 + 6 + 4) * PAGE, 0);
	print_site("end", (void *)(uintptr_t)print_site, 0, 0, 0);
}

static void *run_short_thread(void *context)
{
	void *blocks[16];

	for (size_t i = 0; i < 16; i++)
		blocks[i] = by_malloc();
	for (size_t i = 0; i < 16; i++)
		free(blocks[i]);
	return context;
}

/* Allocates gigabytes in a moment: `count` thousand blocks, which are freed again. */
static void mode_storm(size_t count)
{
	for (size_t i = 0; i < count * 1000; i++)
		free(by_malloc());
	print_site("malloc", (void *)(uintptr_t)by_malloc, count * 1000 * BLOCK, 0, count * 1000);
	print_site("end", (void *)(uintptr_t)by_realloc, 0, 0, 0);
}

/* Allocates a megabyte every 10 ms, for about a second. */
static void mode_calm(size_t count)
{
	for (size_t i = 0; i < count * 1000; i++)
		free(by_malloc());
	for (size_t i = 0; i < 100; i++) {
		usleep(10000);
		for (size_t j = 0; j < 250; j++)
			free(by_calloc());
	}
	print_site("malloc", (void *)(uintptr_t)by_malloc, count * 1000 * BLOCK, 0, count * 1000);
	print_site("calloc", (void *)(uintptr_t)by_calloc, 25000 * BLOCK, 0, 25000);
	print_site("end", (void *)(uintptr_t)by_realloc, 0, 0, 0);
}

/* Up to 64 threads run at once; all end. */
static void mode_threads(size_t count)
{
	pthread_t threads[64];
	size_t started = 0;

	while (started < count) {
		size_t now = 0;

		while (now < 64 && started < count &&
		       pthread_create(&threads[now], NULL, run_short_thread, NULL) == 0)
			now++, started++;
		if (!now)
			_exit(3);
		while (now)
			pthread_join(threads[--now], NULL);
	}
	print_site("malloc", (void *)(uintptr_t)by_malloc, count * 16 * BLOCK, 0, count * 16);
	print_site("end", (void *)(uintptr_t)by_small_malloc, 0, 0, 0);
}

/* Blocks that one thread allocates and another one frees. */
struct hand_over {
	void *volatile slots[1024];
	size_t count;
};

static void *run_consumer(void *context)
{
	struct hand_over *hand = context;

	for (size_t i = 0; i < hand->count; i++) {
		void *volatile *slot = &hand->slots[i % 1024];
		void *block;

		while (!(block = __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL)))
			sched_yield();
		free(block);
	}
	return NULL;
}

static void mode_crossing(size_t count)
{
	static struct hand_over hand;
	pthread_t consumer;

	hand.count = count;
	if (pthread_create(&consumer, NULL, run_consumer, &hand))
		_exit(3);
	for (size_t i = 0; i < count; i++) {
		void *block = by_malloc();

		while (__atomic_load_n(&hand.slots[i % 1024], __ATOMIC_ACQUIRE))
			sched_yield();
		__atomic_store_n(&hand.slots[i % 1024], block, __ATOMIC_RELEASE);
	}
	pthread_join(consumer, NULL);
	print_site("malloc", (void *)(uintptr_t)by_malloc, count * BLOCK, 0, count);
	print_site("end", (void *)(uintptr_t)by_small_malloc, 0, 0, 0);
}

/* The child frees inherited blocks, and allocates others. */
static void mode_fork(size_t count)
{
	void *inherited = by_small_malloc();
	pid_t child;
	int status;

	allocate_many(0, count);
	child = fork();
	if (child == 0) {
		free(inherited);
		for (size_t i = 0; i < count; i++)
			sink = by_calloc();
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		_exit(3);
	print_site("end", (void *)(uintptr_t)by_small_malloc, 0, 0, 0);
	printf("child %d\n", (int)child);
}

static volatile sig_atomic_t handled;
static _Atomic size_t allocated; /* counted by the thread that gets the signals */

static void handle_signal(int signal)
{
	void *at = by_mmap();

	(void)signal;
	if (at)
		munmap(at, PAGE);
	handled++;
}

struct bombard {
	pthread_t target;
	size_t count;
};

static void *run_bombardment(void *context)
{
	struct bombard *bombard = context;

	/*
	 * A signal that follows at once finds the thread at the place of the last one; one that
	 * always follows an allocation may find it between two.
	 */
	for (size_t sent = 1; sent <= bombard->count; sent++) {
		size_t before = allocated;

		while ((size_t)handled < sent - 1 || allocated == before)
			sched_yield();
		for (volatile size_t spun = 0; spun < sent * 37 % 2048; spun++)
			continue;
		pthread_kill(bombard->target, SIGUSR1);
	}
	return NULL;
}

/* A handler that allocates interrupts allocations. */
static void mode_signals(size_t count)
{
	struct sigaction action = {.sa_handler = handle_signal, .sa_flags = SA_RESTART};
	struct bombard bombard = {pthread_self(), count};
	pthread_t sender;

	sigaction(SIGUSR1, &action, NULL);
	if (pthread_create(&sender, NULL, run_bombardment, &bombard))
		_exit(3);
	while ((size_t)handled < count) {
		free(by_malloc());
		allocated++;
	}
	pthread_join(sender, NULL);
	printf("handled %d\n", (int)handled);
}

static volatile pid_t inside_tid;

static void handle_gettid(int signal, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;

	(void)info;
	handle_signal(signal);
#ifdef __x86_64__
	interrupted->uc_mcontext.gregs[REG_RAX] = inside_tid;
#else
	interrupted->uc_mcontext.regs[0] = (unsigned long long)inside_tid;
#endif
}

/* The first sample of a thread queries its number: each time, the handler allocates there. */
static void *run_inside(void *context)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	(void)context;
	inside_tid = (pid_t)syscall(SYS_gettid);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) != 0 || set_filter_unseen(&program) != 0)
		_exit(3);
	free(by_malloc());
	return NULL;
}

static void mode_inside(size_t count)
{
	struct sigaction action = {.sa_sigaction = handle_gettid, .sa_flags = SA_SIGINFO};

	sigaction(SIGSYS, &action, NULL);
	for (size_t i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run_inside, NULL))
			_exit(3);
		pthread_join(thread, NULL);
	}
	printf("handled %d\n", (int)handled);
}

static void mode_dlopen(size_t count)
{
	const char *const paths[] = {getenv("SAMPLED_ONE"), getenv("SAMPLED_TWO")};

	for (size_t i = 0; i < count; i++) {
		void *library = dlopen(paths[i % 2], RTLD_NOW);
		void *(*function)(size_t);

		if (!library)
			_exit(3);
		*(void **)&function = dlsym(library, "library_allocate");
		sink = function(BLOCK);
		dlclose(library);
	}
	printf("loaded %zu\n", count);
}

static NOT_IN void *inner(void)
{
	void *address = malloc(BLOCK);

	sink = address;
	return address;
}

static NOT_IN void *middle(void)
{
	void *address = inner();

	sink = address;
	return address;
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static NOT_IN size_t deepen(size_t depth)
{
	if (!depth)
		sink = malloc(BLOCK);
	return depth ? deepen(depth - 1) + 1 : 0;
}

static void mode_deep(size_t depth)
{
	printf("deep %zu\n", deepen(depth));
}

static size_t coroutine_depth;
static ucontext_t coroutine, caller;

static void run_coroutine(void)
{
	mode_deep(coroutine_depth);
	swapcontext(&coroutine, &caller);
}

/* The same on a stack of its own. */
static void mode_coroutine(size_t depth)
{
	const size_t size = (size_t)1 << 20;

	coroutine_depth = depth;
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	coroutine.uc_stack.ss_size = size;
	makecontext(&coroutine, run_coroutine, 0);
	swapcontext(&caller, &coroutine);
}

static NOT_IN void *outer(void)
{
	void *address = middle();

	sink = address;
	return address;
}

static void mode_stack(size_t count)
{
	for (size_t i = 0; i < count; i++)
		outer();
	print_site("inner", (void *)(uintptr_t)inner, 0, 0, 0);
	print_site("middle", (void *)(uintptr_t)middle, 0, 0, 0);
	print_site("outer", (void *)(uintptr_t)outer, 0, 0, 0);
	print_site("end", (void *)(uintptr_t)mode_stack, 0, 0, 0);
}

/* Runs rounds 1 to `count`: in each a block is kept and four are freed. */
static void mode_rounds(size_t count)
{
	void (*announce)(uint32_t);

	*(void **)&announce = dlsym(RTLD_DEFAULT, "flmem_sampler_round_set");
	for (size_t round = 1; round <= count && announce; round++) {
		void *blocks[4];

		announce((uint32_t)round);
		sink = by_malloc();
		for (size_t i = 0; i < 4; i++)
			blocks[i] = by_malloc();
		for (size_t i = 0; i < 4; i++)
			free(blocks[i]);
	}
	print_site("malloc", (void *)(uintptr_t)by_malloc, count * 5 * BLOCK, count * BLOCK,
		   count * 5);
	print_site("end", (void *)(uintptr_t)by_small_malloc, 0, 0, 0);
}

/* Makes so many mappings at once, of which none stays. */
static void mode_mappings(size_t count)
{
	void **maps = calloc(count, sizeof(*maps));

	for (size_t i = 0; maps && i < count; i++)
		maps[i] = by_mmap();
	for (size_t i = 0; maps && i < count; i++)
		if (!maps[i] || munmap(maps[i], PAGE))
			_exit(3);
	free(maps);
	printf("unmapped %zu\n", count);
}

/* Allocates a hundred blocks, all of which are freed before fifty others are kept. */
static void mode_peak(size_t count)
{
	static void *blocks[1024];

	(void)count;
	for (size_t i = 0; i < 100; i++)
		blocks[i] = by_malloc();
	for (size_t i = 0; i < 100; i++)
		free(blocks[i]);
	for (size_t i = 0; i < 50; i++)
		sink = by_calloc();
	print_site("malloc", (void *)(uintptr_t)by_malloc, 100 * BLOCK, 0, 100);
	print_site("small", (void *)(uintptr_t)by_small_malloc, 0, 0, 0);
	print_site("calloc", (void *)(uintptr_t)by_calloc, 50 * BLOCK, 50 * BLOCK, 50);
	print_site("end", (void *)(uintptr_t)by_realloc, 0, 0, 0);
}

static const struct {
	const char *name;
	void (*run)(size_t);
} modes[] = {
	{"functions", mode_functions}, {"changes", mode_changes}, {"threads", mode_threads},
	{"crossing", mode_crossing},   {"fork", mode_fork},	  {"signals", mode_signals},
	{"dlopen", mode_dlopen},       {"stack", mode_stack},	  {"rounds", mode_rounds},
	{"peak", mode_peak},	       {"inside", mode_inside},	  {"storm", mode_storm},
	{"calm", mode_calm},	       {"deep", mode_deep},	  {"mappings", mode_mappings},
	{"coroutine", mode_coroutine},
};

int main(int argc, char **argv)
{
	static char output[1 << 16]; /* not from malloc(), which would count it */
	size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	setvbuf(stdout, output, _IOFBF, sizeof(output));
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(argv[1], modes[i].name) == 0)
			modes[i].run(count);
	puts("ready");
	fflush(stdout);
	if (argc > 3 && strcmp(argv[3], "wait") == 0)
		pause();
	if (argc > 3 && strcmp(argv[3], "again") == 0)
		execl("/proc/self/exe", argv[0], "functions", "100", (char *)NULL);
	return 0;
}
