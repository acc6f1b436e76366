/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_SAMPLER_H
#define FLMEM_PRELOAD_SAMPLER_SAMPLER_H

/*
 * Declares what the parts of the sampler share. All of it runs inside malloc() and free() of
 * another program, also in its signal handlers, so nothing here takes a lock, waits, or allocates:
 * tables are extended and searched with atomic operations, and what cannot be recorded is counted.
 */

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/address_space.h"
#include "preload/profile_format.h"
#include "preload/sampler/unwind.h"

/* Each thread has one, in static TLS: it is small, and never allocated on first use. */
struct sampler_thread {
	uint64_t remaining; /* bytes until the next check; wraps around below zero */
	uint64_t rest;	    /* bytes from that check to the next sample */
	uint64_t random;
	uint64_t interval; /* size of the part that has the next sample, in bytes */
	/* The bounds of the thread's stack if that is one mapping, which stays while it runs. */
	uintptr_t stack_low, stack_top;
	struct sampler_copies *lines; /* NULL: the memory that a sample reads stays mapped */
	/* Newest part of the thread's Python data stack, during a sample. */
	uintptr_t chunk, chunk_end;
	uint32_t epoch;	 /* profile that this state belongs to; 0: none */
	uint32_t record; /* index in the section of threads */
	uint32_t pid;
	uint8_t busy;	 /* not 0 while the thread is inside the sampler */
	uint8_t opened;	 /* the thread has called dlopen(): there may be new objects */
	uint8_t forking; /* calls of fork(), from the first handler of the sampler to the second */
	uint8_t walks;	 /* nesting depth of walks over the linker's list */
	/* How often the thread holds the profile: once more in each signal handler. */
	uint8_t holds;
	uint8_t ordered; /* this is a thread of flmem, which has evaluated its filters */
};

extern __thread struct sampler_thread sampler_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* On aarch64, code may sign its return addresses, in the bits above those of an address. */
#ifdef __aarch64__
#define SAMPLER_RETURN_BITS ((UINT64_C(1) << FLMEM_ADDRESS_BITS) - 1)
#else
#define SAMPLER_RETURN_BITS UINTPTR_MAX
#endif
#define SAMPLER_PAGES_OF_ITS_OWN __attribute__((aligned(FLMEM_PAGE_MAX)))

/* This is the smallest page size; the actual size is sampler_page_size(). */
#define SAMPLER_PAGE	    4096U
#define SAMPLER_FILTER_SIZE (1U << 20)
#define SAMPLER_EXACT_BITS  18U
#define SAMPLER_MAPPINGS    8192U
#define SAMPLER_PAGES	    4096U /* slots for pages that are known to be readable */
#define SAMPLER_CODES	    4096U /* slots for places in Python code whose frame is known */
#define SAMPLER_RETURNS	    4096U /* slots for return addresses whose frame is known */
#define SAMPLER_RULES	    4096U /* slots for instructions whose caller's frame can be found */
#define SAMPLER_WAYS	    4U	  /* slots of these two tables that may hold an address */
#define SAMPLER_RANGES	    512U  /* slots for ranges of code whose module is known */
#define SAMPLER_SCRATCHES   64U
#define SAMPLER_EVALUATIONS 16U	 /* known parts of the interpreter's evaluation function */
#define SAMPLER_NATIVES	    512U /* native frames of a mixed stack, at most */
#define SAMPLER_LINE	    256U /* bytes of memory in a copied line */
#define SAMPLER_LINES	    256U
#define SAMPLER_BLOCK	    1024U /* bytes of a block, in which other lines are read */
#define SAMPLER_LINE_WAYS   4U	  /* lines that have copies of the same addresses */
#define SAMPLER_SPAN_MAX    256U  /* bytes of a frame or a code object of Python that are read */

enum sampler_line {
	SAMPLER_LINE_STALE, /* the copy is of an earlier sample */
	SAMPLER_LINE_WANTED,
	SAMPLER_LINE_GATHERED, /* the line was requested, and is present */
	SAMPLER_LINE_AGAIN,    /* the line is present, since the last sample used it */
	SAMPLER_LINE_USED,     /* the line is present, and likely to be used by the next sample */
};

/* This has copies of memory that others may unmap. */
struct sampler_copies {
	uintptr_t at[SAMPLER_LINES];
	uint8_t state[SAMPLER_LINES]; /* enum sampler_line */
	uint8_t place[SAMPLER_LINES]; /* index in `bytes` of a line that is there */
	uint32_t place_count;
	uint32_t wanted_count;
	uint8_t wanted[SAMPLER_LINES];
	struct iovec from[SAMPLER_LINES];
	char bytes[SAMPLER_LINES + 1][SAMPLER_LINE]; /* the last one: used when no slot is free */
};

/* This is the hash of a str during a sample; 0: not known. */
struct sampler_file {
	uintptr_t file;
	uint64_t hash;
};

/* A native frame lies between its lower end and that of the next one. */
struct sampler_native {
	uintptr_t low;
	uintptr_t pc; /* address of the call */
	uint32_t frame;
	uint32_t code; /* enum sampler_code_of */
};

/* This is a call of the interpreter's evaluation function. */
struct sampler_call {
	uintptr_t at; /* an address in its C frame; 0: not known */
	uint32_t end; /* index after its Python frames, counted from the innermost one */
};

struct sampler_scratch {
	uint32_t used;
	uint32_t count;
	/* Searches for native frames and unwind rules: each asks the kernel often. */
	uint32_t searches;
	bool has_versions; /* the version identifies code, see has_versions() */
	bool is_blind;	   /* the list of mappings could not be read: results must not be cached */
	struct sampler_file file;
	uint32_t frames[FLMEM_PROFILE_DEPTH]; /* innermost first */
	/* This is the path of the last sample in the tree, outermost first. */
	uint32_t known_count;
	uint32_t known_frames[FLMEM_PROFILE_DEPTH], known_nodes[FLMEM_PROFILE_DEPTH];
	/* The calls are used to place native frames between Python frames. */
	bool wants_calls;
	bool is_python_whole; /* every frame of it was read */
	bool is_native_cut;
	uint32_t call_count, native_count;
	struct sampler_call calls[FLMEM_PROFILE_DEPTH];
	/* The last entry: where the stack ends. */
	struct sampler_native natives[SAMPLER_NATIVES + 1];
	uint32_t mixed[FLMEM_PROFILE_DEPTH];
	char text[2][FLMEM_PROFILE_STRING_MAX + 8];
	char maps[SAMPLER_PAGE + 8];
	char spans[2][SAMPLER_SPAN_MAX]; /* bytes of a Python frame, and of its code */
	struct sampler_copies lines;
};

struct sampler_code {
	uintptr_t code;
	uint64_t offset, name, file, lines;
	uint64_t content; /* differs if other code has the same addresses; 0: unknown */
	uint32_t first_line, frame;
	uint64_t check; /* hash of the other fields: threads write without a lock */
};

struct sampler_return {
	uintptr_t address;
	uint32_t frame, stale;
	uint64_t check;
};

struct sampler_known_rule {
	uintptr_t pc;
	struct sampler_rule rule;
	uint32_t stale;
	uint64_t check;
};

struct sampler_range {
	uintptr_t start, end;
	uintptr_t module;	/* where its file begins */
	uint64_t identity;	/* of the mapped file, see find_module_identity() */
	uint32_t record, stale; /* FLMEM_PROFILE_NONE: the code is not from a file */
	uint64_t time_ms;
	uint64_t check;
};

/* This is the state when a sample began; 0: its time does not count. */
struct sampler_pace {
	uint64_t begun_ns;
	uint32_t nodes;
	uint32_t searches; /* searches for unknown native frames during the sample */
};

struct sampler_mapping {
	uintptr_t start; /* 0: the entry is free */
	size_t length;
	/* The fields below are for a part that is being removed; it is counted as freed. */
	uint64_t removal; /* number of its removal; 0: no record */
	uintptr_t at;
	uint32_t round; /* round in which it was freed */
	struct flmem_profile_live live;
};

/* This is a range that is about to be unmapped or moved. */
struct sampler_removal {
	uintptr_t start;
	uint64_t number;
	uint32_t parts; /* number of parts of sampled mappings in it */
};

/*
 * State of the process that is sampled. The kernel clears it in a child of fork(), which is thereby
 * not active: no handler of fork() is needed, and none could run early enough in every program.
 */
struct sampler_control {
	uint32_t active;
	uint32_t epoch;
	uint32_t process; /* PID of a child of fork(); a child of vfork() has that of its parent */
	/* Counts calls of dlclose(), and what else has unloaded a library. */
	uint32_t stale_modules;
	int64_t live_bytes;
	uint32_t live_samples;
	uint64_t spare_records;
	uint32_t mappings;
	uint32_t round_record;	/* record of the latest round */
	uint64_t round_missing; /* number plus one of a round whose record did not fit */
	uint64_t tick_ms;	/* time of the latest point of the timeline */
	uint32_t tick_busy;
	uint32_t memory_epoch;
	uint32_t thinned;
	uint32_t paced;		 /* doublings of the interval at present, see pace.c */
	uint64_t interval_bytes; /* as in the file, which another process may have changed */
	uint64_t pace_from_ns, pace_spent_ns, pace_used_ns;
	uint32_t range_next;
	uint32_t evaluation_next;
	struct sampler_code_range evaluation[SAMPLER_EVALUATIONS];
	/* Counts as in sampler_filter, by the hash of an address. */
	uint8_t exact[1U << SAMPLER_EXACT_BITS];
	struct sampler_scratch scratch[SAMPLER_SCRATCHES];
	struct sampler_mapping mapping[SAMPLER_MAPPINGS];
	uint64_t page[SAMPLER_PAGES];
	struct sampler_code code[SAMPLER_CODES];
	struct sampler_return returns[SAMPLER_RETURNS];
	struct sampler_range range[SAMPLER_RANGES];
	struct sampler_known_rule rule[SAMPLER_RULES];
} SAMPLER_PAGES_OF_ITS_OWN;

/* This is a hash table of records: each slot has a record's number plus one. */
struct sampler_index {
	uint32_t *slots;
	uint32_t mask;
};

struct sampler_tables {
	struct flmem_profile_header *header;
	struct flmem_profile_string_block *strings;
	struct flmem_profile_frame *frames;
	struct flmem_profile_node *nodes;
	struct flmem_profile_site *sites;
	struct flmem_profile_cell *cells;
	struct flmem_profile_live *live;
	struct flmem_profile_round *rounds;
	struct flmem_profile_moment *timeline;
	struct flmem_profile_thread *threads;
	struct flmem_profile_module *modules;
	struct sampler_index string_index, frame_index, node_index, site_index, cell_index;
	uint64_t *keys;	  /* addresses of live samples */
	uint32_t *places; /* their records in `live` */
	uint32_t *spare;  /* stack of records given back: each has the next one plus one */
	uint32_t key_mask;
	uint64_t start_ns;   /* monotonic clock at the start */
	uintptr_t last_page; /* address of the last page of the mapped file */
	/* The value as the file was created: others may write into the file, even by mistake. */
	uint64_t start_realtime_ms;
	uint32_t capacity[FLMEM_PROFILE_SECTION_SLOTS];
	size_t memory_size; /* bytes of the tables from `keys` on */
};

extern struct sampler_control sampler_control __attribute__((visibility("hidden")));
extern struct sampler_tables sampler_tables __attribute__((visibility("hidden")));
/*
 * This counts the samples that begin in each page; a full count is never reduced. The kernel clears
 * it in a child, too.
 */
extern uint8_t sampler_filter[SAMPLER_FILTER_SIZE] __attribute__((visibility("hidden")));

#define HIDDEN __attribute__((visibility("hidden")))

static inline uintptr_t sampler_page_size(void)
{
	return SAMPLER_PAGE == FLMEM_PAGE_MAX ? SAMPLER_PAGE : getauxval(AT_PAGESZ);
}

/* Returns the beginning of the page that has the address. */
static inline uintptr_t sampler_page_of(uintptr_t address)
{
	return address & ~(sampler_page_size() - 1);
}

static inline uintptr_t sampler_return_address(uintptr_t saved)
{
	return saved & SAMPLER_RETURN_BITS;
}

/*
 * restricted.c: not 0 when the program has restricted what its threads may ask of the kernel, or is
 * about to. It is not cleared in a child, which inherits the restriction. No new sample is taken,
 * and one that is being taken ends without another call.
 */
extern uint32_t sampler_quiet HIDDEN;

static inline bool sampler_is_quiet(void)
{
	return __atomic_load_n(&sampler_quiet, __ATOMIC_SEQ_CST) != 0;
}

/* Replaces syscall() of the C library, which the sampler hooks and programs may replace. */
HIDDEN long sampler_kernel_enter(long number, ...);
HIDDEN long sampler_kernel_deny(void);
#define syscall(...)                                                           \
	(sampler_is_quiet() && !sampler_thread.ordered ? sampler_kernel_deny() \
						       : sampler_kernel_enter(__VA_ARGS__))

static inline bool sampler_is_active(void)
{
	return __atomic_load_n(&sampler_control.active, __ATOMIC_ACQUIRE) != 0 &&
	       !sampler_is_quiet();
}

static inline uint32_t sampler_filter_slot(uintptr_t address)
{
	return (uint32_t)(address / SAMPLER_PAGE) & (SAMPLER_FILTER_SIZE - 1);
}

static inline bool sampler_may_be_sampled(const void *address)
{
	return __atomic_load_n(&sampler_filter[sampler_filter_slot((uintptr_t)address)],
			       __ATOMIC_RELAXED) != 0;
}

static inline uint64_t sampler_hash(uint64_t a, uint64_t b)
{
	uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b;

	x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	x = (x ^ (x >> 29)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 32);
}

/* Copies text, cut where it does not fit. `out` is always terminated. */
static inline void sampler_copy_text(char *out, size_t size, const char *text)
{
	size_t i = 0;

	for (; i + 1 < size && text[i]; i++)
		out[i] = text[i];
	out[i] = '\0';
}

/* Parses an address of /proc/self/maps and moves *text behind it. */
static inline uintptr_t sampler_read_hex(const char **text)
{
	uintptr_t value = 0;

	for (;; (*text)++) {
		char c = **text;

		if (c >= '0' && c <= '9')
			value = value * 16 + (uintptr_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + (uintptr_t)(c - 'a' + 10);
		else
			return value;
	}
}

/*
 * Opens a file by a direct system call. open(), read() and close() are cancellation points:
 * malloc() is none, and its callers hold locks.
 */
static inline int sampler_open_in(int directory, const char *name, int flags)
{
	return (int)syscall(SYS_openat, directory, name, flags | O_CLOEXEC, 0600);
}

static inline int sampler_open(const char *path, int flags)
{
	return sampler_open_in(AT_FDCWD, path, flags);
}

static inline ssize_t sampler_read_file(int fd, void *out, size_t size)
{
	return syscall(SYS_read, fd, out, size);
}

static inline void sampler_unlink(int directory, const char *path)
{
	syscall(SYS_unlinkat, directory, path, 0);
}

static inline uint32_t sampler_process(void)
{
	return (uint32_t)syscall(SYS_getpid);
}

/*
 * Returns whether this is the main thread, in which constructors of preloaded libraries run;
 * `profile attach` loads the sampler in another one.
 */
static inline bool sampler_is_first_thread(void)
{
	return (uint32_t)syscall(SYS_gettid) == sampler_process();
}

static inline bool sampler_protect(uintptr_t memory, size_t size, int access)
{
	return syscall(SYS_mprotect, memory, size, access) == 0;
}

static inline void sampler_close(int fd)
{
	syscall(SYS_close, fd);
}

/* Returns how many records may exist, whatever the file claims. */
static inline uint32_t sampler_section_used(unsigned section)
{
	uint32_t used =
		__atomic_load_n(&sampler_tables.header->section[section].used, __ATOMIC_RELAXED);
	uint32_t capacity = sampler_tables.capacity[section];

	return used < capacity ? used : capacity;
}

/* lifetime.c: stops sampling permanently: the file can no longer be written. */
HIDDEN void sampler_stop(void);
HIDDEN uint64_t sampler_now_ms(void);

/*
 * child_profile.c: returns whether this may be a child that must begin a profile. It does not call
 * the kernel.
 */
HIDDEN bool sampler_child_may_begin(void);
HIDDEN void sampler_child_begin(void);
/* Called in a child first: drops data that were about to enter the parent's profile. */
HIDDEN void sampler_child_settle(void);

/* pace.c: the bytes between samples of a profile that begins, or now; the others time a sample. */
HIDDEN void sampler_pace_start(uint64_t interval_bytes);
HIDDEN uint64_t sampler_pace_interval(void);
HIDDEN struct sampler_pace sampler_pace_begin(void);
HIDDEN void sampler_pace_end(const struct sampler_pace *pace);

/*
 * arithmetic.c: draws the distance to the next point. `end` is how far the last sampled block
 * reached from the start of the part in which it had its point. Returns the bytes from there to the
 * next point; the parts from the next one on have `next` bytes each. For the first point of a
 * thread all are 0 but `next`.
 */
HIDDEN uint64_t sampler_draw_gap(uint64_t *random, uint64_t end, uint64_t interval, uint64_t next);
/* Returns the place of the last drawn point in its part. */
HIDDEN uint64_t sampler_last_point(uint64_t random, uint64_t interval);
/* Returns the number of live samples at which the interval is doubled once more. */
HIDDEN uint32_t sampler_live_limit(uint32_t slots, uint32_t steps);
/* Computes what a sampled allocation stands for: bytes, and allocations in units of COUNT_UNIT. */
HIDDEN void sampler_weigh(uint64_t size, uint64_t end, uint64_t interval, uint64_t *ret_bytes,
			  uint64_t *ret_count);

/* safe_reads.c: reads memory. Returns false where not all of it can be read. */
HIDDEN bool sampler_read(uintptr_t address, void *out, size_t length);
/* Does the same within a sample, by way of `lines` of the thread. */
HIDDEN bool sampler_read_often(uintptr_t address, void *out, size_t length);
/* Returns where the bytes are, or a copy of them in `room`; NULL: they cannot be read. */
HIDDEN const char *sampler_see(uintptr_t address, char *room, size_t length);
/*
 * Returns whether an address is possible: half of the address space is the kernel's, and the first
 * page is never mapped in programs.
 */
HIDDEN bool sampler_can_be(uintptr_t address, size_t length);
/* Copies to `out`, without a gap. Returns the number of bytes up to the first unreadable part. */
HIDDEN size_t sampler_copy(void *out, const struct iovec *from, size_t count, size_t length);

/* copied_lines.c: these two enclose a sample that reads memory which may be unmapped. */
HIDDEN void sampler_copies_begin(struct sampler_copies *lines);
HIDDEN void sampler_copies_end(void);
/*
 * Requests a copy. sampler_copies_fetch() copies everything requested since then by one call. Both
 * do nothing in a sample that reads in place.
 */
HIDDEN void sampler_copies_want(uintptr_t address, size_t length);
HIDDEN void sampler_copies_fetch(void);
HIDDEN bool sampler_copies_have(uintptr_t address);
HIDDEN bool sampler_lines_read(struct sampler_copies *lines, uintptr_t address, void *out,
			       size_t length);
/* Returns whether the stack from `address` to `stack_top` is the thread's, in one piece. */
HIDDEN bool sampler_stack_is_own(uintptr_t address, struct sampler_scratch *scratch);
/* Determines the bounds of the thread's stack, if they are not far from the known part. */
HIDDEN void sampler_stack_note(uintptr_t address, struct sampler_scratch *scratch);
/* Returns false where a sample could overflow the small stack that a signal handler runs on. */
HIDDEN bool sampler_stack_has_room(void);
/* Sets the range of the interpreter module's data, which stays while threads run in it. */
HIDDEN void sampler_data_set(uintptr_t start, uintptr_t end);
HIDDEN bool sampler_data_has(uintptr_t address);
HIDDEN void sampler_memory_refresh(void);
/*
 * Returns whether the file can still be written. Another process may have truncated it: a write
 * after its end would kill the program. Or it may have replaced the content, which is not trusted.
 */
HIDDEN bool sampler_file_is_whole(void);

/* tables.c: these return numbers of records, FLMEM_PROFILE_NONE where the section is full. */
HIDDEN uint32_t sampler_string_find(const char *bytes, size_t length);
HIDDEN uint32_t sampler_frame_find(const struct flmem_profile_frame *frame);
HIDDEN uint32_t sampler_node_find(uint32_t parent, uint32_t frame);
HIDDEN uint32_t sampler_site_find(uint32_t node, uint32_t kind);
HIDDEN uint32_t sampler_cell_find(uint32_t site, uint32_t round);
HIDDEN uint32_t sampler_section_add(unsigned section);
HIDDEN void sampler_drop(enum flmem_profile_drop drop);

/* round_records.c: these return the record of the current round, and that of this thread. */
HIDDEN uint32_t sampler_round_find(uint64_t now_ms);
HIDDEN uint32_t sampler_thread_find(uint64_t now_ms);

/* live_blocks.c: a sampled allocation leaves the table before its memory is freed. */
HIDDEN bool sampler_live_add(uintptr_t address, const struct flmem_profile_live *live);
/* Returns false for most blocks that are not sampled. The profile need not be held. */
HIDDEN bool sampler_live_may_have(uintptr_t address);
HIDDEN bool sampler_live_has(uintptr_t address);
HIDDEN bool sampler_live_take(uintptr_t address, struct flmem_profile_live *ret_live);

/* totals.c: these add an allocation, and a free, to all totals that it belongs to. */
HIDDEN void sampler_count_allocated(const struct flmem_profile_live *live, uint64_t now_ms);
HIDDEN void sampler_count_freed(const struct flmem_profile_live *live, uint64_t bytes,
				uint64_t count, uint64_t now_ms);
/* Undoes a free that was counted in the same round. */
HIDDEN void sampler_count_returned(const struct flmem_profile_live *live, uint32_t round,
				   uint64_t now_ms);
/* Adds a point to the timeline if its period has passed, or `at_once`. */
HIDDEN void sampler_timeline_tick(uint64_t now_ms, bool at_once);

/* stack.c: returns the node of the calling stack; `frame` is that of the hook. */
HIDDEN uint32_t sampler_stack_capture(struct sampler_scratch *scratch, const void *const *frame);
/* mapped_file.c: returns false, too, where the list of mappings cannot be read. */
HIDDEN bool sampler_is_memory(struct sampler_scratch *scratch, uintptr_t address);
HIDDEN uint32_t sampler_module_find(struct sampler_scratch *scratch, uintptr_t address);
/* unwind.c: returns how to unwind the frame whose code is at `pc`. */
HIDDEN struct sampler_rule sampler_rule_find(struct sampler_scratch *scratch, uintptr_t pc);
/* Finds the code of the function at `pc`, or of a part of it. */
HIDDEN bool sampler_code_range_find(struct sampler_scratch *scratch, uintptr_t pc,
				    struct sampler_code_range *ret_range);

/* python_frames.c: finds the interpreter; adds the Python frames of this thread to a stack. */
HIDDEN void sampler_python_find(struct flmem_profile_header *header);
HIDDEN void sampler_python_walk(struct sampler_scratch *scratch);

/* This is a kind for sampler_record() alone: a part that mremap() added, of memory or of a file. */
#define SAMPLER_GROWN 2U

/*
 * record.c: the hooks call these where the fast path does not decide. Where a sample is due, the
 * profile is held until it is recorded.
 */
HIDDEN bool sampler_is_due(size_t size);
HIDDEN void sampler_record(const void *address, size_t size, uint32_t kind,
			   const void *const *frame);
/*
 * Takes the record of an address that is about to be freed. It is held until one of the next two is
 * called; its state is the number of the profile.
 */
HIDDEN bool sampler_forget(const void *address, struct flmem_profile_live *ret_live);
HIDDEN void sampler_forget_done(const struct flmem_profile_live *live);
HIDDEN void sampler_forget_undo(const void *address, const struct flmem_profile_live *live);
/* Counts a part of a mapping that was freed in `round` as live again, perhaps elsewhere. */
HIDDEN void sampler_return(uintptr_t address, const struct flmem_profile_live *live,
			   uint32_t round);
/*
 * Returns false in a child that began its own profile in the handler of a signal that interrupted
 * this: the sample is its parent's.
 */
HIDDEN bool sampler_is_in_profile(const struct flmem_profile_live *live);

/* mappings.c: returns false where the list is full, so that its end would not be seen. */
HIDDEN bool sampler_mapping_add(uintptr_t start, size_t length);
/* Removes a range permanently: another object is there. */
HIDDEN void sampler_mapping_removed(uintptr_t start, size_t length);
/* Comes before the call that removes it: another thread may get the same range at once. */
HIDDEN struct sampler_removal sampler_mapping_leaves(uintptr_t start, size_t length);
/* Stores the new start, the old one after a failed call; a length of 0 means it is gone. */
HIDDEN void sampler_mapping_came(const struct sampler_removal *removal, uintptr_t start,
				 size_t length);

#endif
