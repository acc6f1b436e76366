/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles the life of a profile. `flmem profile run` prepares the file for the process that it
 * becomes by execve(). A process that executes another program begins the file again. A child of
 * fork() finds its control block cleared by the kernel; it begins its own file, or samples nothing.
 */

#include "preload/sampler/lifetime.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/profile_layout.h"
#include "preload/sampler/got.h"
#include "preload/sampler/hold.h"
#include "preload/sampler/hooks.h"
#include "preload/sampler/requests.h"
#include "preload/sampler/restricted.h"
#include "preload/sampler/sampler.h"

#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))
#define FIRST_PERIOD_MS	   100U
#define CLOSE_TRIES	   1000U /* milliseconds that calls inside the sampler have to end */

/* The kernel does not clear this in a child. */
struct sampler_life sampler_life;
static uint32_t epochs;

static uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec now = {0};

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t sampler_now_ms(void)
{
	uint64_t now = clock_read_ns(CLOCK_MONOTONIC_COARSE);

	return now > sampler_tables.start_ns ? (now - sampler_tables.start_ns) / 1000000 : 0;
}

/* Reads field 22 of /proc/self/stat. Field 2 has a name with any bytes, so its end is searched. */
static uint64_t read_own_start_time(void)
{
	char *text = sampler_life.text;
	int fd = sampler_open("/proc/self/stat", O_RDONLY);
	ssize_t length = fd < 0 ? 0 : sampler_read_file(fd, text, sizeof(sampler_life.text) - 1);
	uint64_t ticks = 0;
	char *at;

	if (fd >= 0)
		sampler_close(fd);
	text[length > 0 ? length : 0] = '\0';
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	for (at = at ? at + 1 : text; *at >= '0' && *at <= '9'; at++)
		ticks = ticks * 10 + (uint64_t)(*at - '0');
	return ticks;
}

/* Returns the inode of the own PID namespace; 0: not known. */
static uint32_t read_own_namespace(void)
{
	int fd = sampler_open("/proc/self/ns/pid", O_RDONLY);
	struct stat status = {0};

	if (fd < 0)
		return 0;
	if (syscall(SYS_fstat, fd, &status) < 0)
		status.st_ino = 0;
	sampler_close(fd);
	return (uint32_t)status.st_ino;
}

void sampler_header_own(struct flmem_profile_header *header)
{
	header->pid = sampler_process();
	header->pid_namespace = read_own_namespace();
}

void *sampler_map_memory(size_t size, int flags, int fd)
{
	/* mmap() is not used, because the sampler hooks it. */
	long at = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0L);

	return at == -1 ? NULL : (void *)at;
}

static uint32_t round_up_power(uint64_t value)
{
	uint32_t power = 64;

	while (power < value && power < (UINT32_C(1) << 30))
		power *= 2;
	return power;
}

static size_t place_index(struct sampler_index *index, uint64_t records, char *memory, size_t at)
{
	uint32_t slots = round_up_power(records + records / 2);

	index->mask = slots - 1;
	index->slots = memory ? (uint32_t *)(memory + at) : NULL;
	return at + slots * sizeof(uint32_t);
}

/* Divides the memory of the tables that are not in the file. With NULL it only counts the bytes. */
static size_t place_tables(struct sampler_tables *t, char *memory)
{
	const struct flmem_profile_section *s = t->header->section;
	uint32_t live = s[FLMEM_PROFILE_SECTION_LIVE].capacity;
	uint32_t slots = round_up_power(live + live / 2);
	size_t at = slots * sizeof(uint64_t);

	t->key_mask = slots - 1;
	t->keys = memory ? (uint64_t *)memory : NULL;
	t->places = memory ? (uint32_t *)(memory + at) : NULL;
	at += slots * sizeof(uint32_t);
	t->spare = memory ? (uint32_t *)(memory + at) : NULL;
	at += live * sizeof(uint32_t);
	at = place_index(&t->string_index, s[FLMEM_PROFILE_SECTION_STRINGS].capacity, memory, at);
	at = place_index(&t->frame_index, s[FLMEM_PROFILE_SECTION_FRAMES].capacity, memory, at);
	at = place_index(&t->node_index, s[FLMEM_PROFILE_SECTION_NODES].capacity, memory, at);
	at = place_index(&t->site_index, s[FLMEM_PROFILE_SECTION_SITES].capacity, memory, at);
	return place_index(&t->cell_index, s[FLMEM_PROFILE_SECTION_CELLS].capacity, memory, at);
}

static void place_sections(struct sampler_tables *t)
{
	char *file = (char *)t->header;
	const struct flmem_profile_section *s = t->header->section;

	t->strings = (void *)(file + s[FLMEM_PROFILE_SECTION_STRINGS].offset);
	t->frames = (void *)(file + s[FLMEM_PROFILE_SECTION_FRAMES].offset);
	t->nodes = (void *)(file + s[FLMEM_PROFILE_SECTION_NODES].offset);
	t->sites = (void *)(file + s[FLMEM_PROFILE_SECTION_SITES].offset);
	t->cells = (void *)(file + s[FLMEM_PROFILE_SECTION_CELLS].offset);
	t->live = (void *)(file + s[FLMEM_PROFILE_SECTION_LIVE].offset);
	t->rounds = (void *)(file + s[FLMEM_PROFILE_SECTION_ROUNDS].offset);
	t->timeline = (void *)(file + s[FLMEM_PROFILE_SECTION_TIMELINE].offset);
	t->threads = (void *)(file + s[FLMEM_PROFILE_SECTION_THREADS].offset);
	t->modules = (void *)(file + s[FLMEM_PROFILE_SECTION_MODULES].offset);
	for (unsigned i = 0; i < FLMEM_PROFILE_SECTION_SLOTS; i++)
		t->capacity[i] = s[i].capacity;
}

/* Makes the kernel clear the memory in a child (since 4.14), whatever way the child begins. */
static bool clear_in_children(void *memory, size_t size)
{
	return madvise(memory, size, MADV_WIPEONFORK) == 0;
}

/* Clears the filter in children except the arena's pages, whose blocks a child may free. */
static bool clear_filter_in_children(void)
{
	size_t first = sampler_filter_slot((uintptr_t)sampler_arena);
	size_t last = sampler_filter_slot((uintptr_t)sampler_arena + SAMPLER_ARENA_SIZE - 1);

	for (size_t at = 0; at < sizeof(sampler_filter); at += FLMEM_PAGE_MAX) {
		size_t end = at + FLMEM_PAGE_MAX;
		bool has_arena =
			first <= last ? first < end && last >= at : first < end || last >= at;

		if (!has_arena && !clear_in_children(sampler_filter + at, FLMEM_PAGE_MAX))
			return false;
	}
	return true;
}

/* Makes the tables outside of the file. Returns NULL, or why that failed. */
static const char *make_tables(struct sampler_tables *t)
{
	size_t size = place_tables(t, NULL);
	char *memory = sampler_map_memory(size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);

	if (!memory)
		return "the program had no memory for the tables of the sampler: its memory is "
		       "limited (ulimit -v, -l); give it a smaller --limit";
	if (!clear_in_children(memory, size) ||
	    !clear_in_children(&sampler_control, sizeof(sampler_control)) ||
	    !clear_in_children(&sampler_shown, sizeof(sampler_shown)) ||
	    !clear_filter_in_children()) {
		syscall(SYS_munmap, memory, size);
		return "the kernel cannot clear memory in children (MADV_WIPEONFORK, Linux 4.14): "
		       "they would write into this profile";
	}
	place_tables(t, memory);
	place_sections(t);
	t->memory_size = size;
	return NULL;
}

void sampler_stop(void)
{
	sampler_life.dormant = 1;
	__atomic_store_n(&sampler_control.active, 0, __ATOMIC_RELEASE);
}

static void begin_header(struct flmem_profile_header *header)
{
	ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", header->program,
				 sizeof(header->program) - 1);

	header->program[length > 0 ? length : 0] = '\0';
	sampler_header_own(header);
	header->parent_pid = (uint32_t)syscall(SYS_getppid);
	header->start_time_ticks = read_own_start_time();
	header->start_realtime_ms = clock_read_ns(CLOCK_REALTIME) / 1000000;
	sampler_tables.start_realtime_ms = header->start_realtime_ms;
	header->start_boottime_ms = clock_read_ns(CLOCK_BOOTTIME) / 1000000;
	header->timeline_period_ms = FIRST_PERIOD_MS;
	header->flags |= FLMEM_PROFILE_STRATIFIED;
	header->paced = 0;
	header->section[FLMEM_PROFILE_SECTION_NODES].used = 1; /* record 0 is the root */
	header->peak_epoch = 1;
	memcpy(header->allocator, sampler_life.inherited.allocator, sizeof(header->allocator));
	header->python_state = sampler_life.inherited.python_state;
	header->python_version = sampler_life.inherited.python_version;
	memcpy(header->build, sampler_life.inherited.build, sizeof(header->build));
}

static void begin_sampling(void)
{
	struct sampler_control *control = &sampler_control;

	begin_header(sampler_tables.header);
	control->round_record = FLMEM_PROFILE_NONE;
	sampler_pace_start(sampler_life.header.interval_bytes);
	control->epoch = ++epochs;
	sampler_life.owner = sampler_process();
	__atomic_store_n(&sampler_tables.header->phase, FLMEM_PROFILE_RUNNING, __ATOMIC_RELEASE);
	__atomic_store_n(&control->active, 1, __ATOMIC_RELEASE);
	sampler_timeline_tick(0, true);
	/* From now on another thread may end the profile, and unmap what this one has used. */
	sampler_show_sampling();
}

/* Maps the file and makes its tables. Returns NULL, or why that failed. */
static const char *map_profile(int fd, uint64_t size)
{
	struct sampler_tables tables = {.start_ns = clock_read_ns(CLOCK_MONOTONIC)};
	const char *why;

	tables.header = sampler_map_memory(size, MAP_SHARED, fd);
	if (!tables.header)
		return "the program could not map its profile: its memory is limited (ulimit -v, "
		       "-l); give it a smaller --limit";
	/* Reading ahead would fill memory with pages that are never used. */
	madvise(tables.header, size, MADV_RANDOM);
	why = make_tables(&tables);
	if (why) {
		syscall(SYS_munmap, tables.header, size);
		return why;
	}
	tables.last_page = (uintptr_t)tables.header + (size - 1) / SAMPLER_PAGE * SAMPLER_PAGE;
	sampler_tables = tables;
	return NULL;
}

/* Clears the records of the program before in this process, whose addresses mean nothing now. */
static void clear_profile(void)
{
	struct flmem_profile_header *header = sampler_tables.header;
	const uint64_t lost = header->dropped[FLMEM_PROFILE_DROP_CHILDREN];

	for (unsigned i = 0; i < FLMEM_PROFILE_SECTION_SLOTS; i++) {
		const struct flmem_profile_section *own = &sampler_life.header.section[i];
		uint32_t *there = &header->section[i].used;
		uint32_t used = *there < own->capacity ? *there : own->capacity;

		memset((char *)header + own->offset, 0, (size_t)used * own->record_size);
		*there = 0;
	}
	memset(&header->totals, 0, sizeof(header->totals));
	memset(header->dropped, 0, sizeof(header->dropped));
	header->dropped[FLMEM_PROFILE_DROP_CHILDREN] = lost;
	header->update_begin = header->update_end = 0;
	header->lost_bytes = header->peak_ms = header->end_ms = header->last_ms = 0;
	header->cells_full_round = FLMEM_PROFILE_NONE;
	header->exec_count++;
	header->flags &= ~(uint32_t)FLMEM_PROFILE_LATE; /* sampled from its first instruction on */
}

/* Accepts only what flmem itself would write: offsets are used without further checks. */
static bool is_own_profile(struct flmem_profile_header *header, int fd)
{
	struct flmem_profile_section *section = sampler_life.section;
	const uint32_t sections = header->sections;
	struct stat status;

	if (memcmp(header->magic, FLMEM_PROFILE_MAGIC, sizeof(header->magic)) != 0 ||
	    header->version != FLMEM_PROFILE_VERSION || header->order != FLMEM_PROFILE_ORDER ||
	    header->file_size < FLMEM_PROFILE_LIMIT_MIN ||
	    header->file_size > FLMEM_PROFILE_LIMIT_MAX || !header->interval_bytes ||
	    header->interval_bytes > FLMEM_PROFILE_INTERVAL_MAX ||
	    syscall(SYS_fstat, fd, &status) < 0 || !S_ISREG(status.st_mode) ||
	    status.st_uid != (uid_t)syscall(SYS_geteuid) ||
	    (uint64_t)status.st_size != header->file_size)
		return false;
	memcpy(section, header->section, sizeof(header->section));
	flmem_profile_divide(header, header->file_size);
	for (unsigned i = 0; i < header->sections; i++)
		if (section[i].offset != header->section[i].offset ||
		    section[i].capacity != header->section[i].capacity ||
		    section[i].record_size != header->section[i].record_size)
			return false;
	return header->sections == sections;
}

/* Compares more than the PID: containers that share a folder have equal ones, in one tick too. */
static bool is_this_process(const struct flmem_profile_header *header)
{
	const uint32_t namespace = read_own_namespace();

	if (header->pid != sampler_process() ||
	    (namespace && header->pid_namespace && header->pid_namespace != namespace))
		return false;
	return header->phase == FLMEM_PROFILE_PREPARED ||
	       header->start_time_ticks == read_own_start_time();
}

bool sampler_read_header(int fd)
{
	struct flmem_profile_header *header = &sampler_life.header;

	return syscall(SYS_pread64, fd, header, sizeof(*header), 0L) == (ssize_t)sizeof(*header) &&
	       is_own_profile(header, fd);
}

bool sampler_may_write(uint64_t bytes)
{
	struct rlimit most;

	return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur >= bytes;
}

/* Writes the refusal for readers. If that fails, the file says that no program has started. */
static void note_refusal(int fd, const char *why)
{
	struct flmem_profile_header *header = &sampler_life.header, *there;

	sampler_copy_text(header->refusal, sizeof(header->refusal), why);
	header->phase = FLMEM_PROFILE_REFUSED;
	if (sampler_may_write(sizeof(*header)) &&
	    syscall(SYS_pwrite64, fd, header, sizeof(*header), 0L) == (ssize_t)sizeof(*header))
		return;
	there = sampler_map_memory(sizeof(*there), MAP_SHARED, fd);
	if (!there)
		return;
	memcpy(there, header, sizeof(*there));
	syscall(SYS_munmap, there, sizeof(*there));
}

int sampler_begin_file(int fd, const char **ret_why)
{
	const struct flmem_profile_header *header = &sampler_life.header;
	const char *why = NULL;
	int error = 0;

	if (!sampler_read_header(fd) || !is_this_process(header)) {
		error = EEXIST;
	} else if ((why = map_profile(fd, header->file_size))) {
		error = ENOMEM;
		note_refusal(fd, why);
	}
	if (error) {
		sampler_life.dormant = 1;
		*ret_why = why;
		return error;
	}
	if (header->phase != FLMEM_PROFILE_PREPARED)
		clear_profile();
	begin_sampling();
	sampler_life.began = 1;
	return 0;
}

/* These signals are blocked: a handler that forks would leave two processes in the middle of it. */
#define BLOCKED                                                                                \
	~(SIGNAL_BIT(SIGSYS) | SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) | \
	  SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGTRAP)) /* these would end the process instead */

bool sampler_turn_take(void)
{
	const uint32_t own = sampler_process();
	const uint64_t blocked = BLOCKED;
	uint64_t mask = 0;
	uint32_t busy;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &mask, sizeof(mask));
	busy = __atomic_load_n(&sampler_life.busy, __ATOMIC_RELAXED);
	if (busy != own && __atomic_compare_exchange_n(&sampler_life.busy, &busy, own, false,
						       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		sampler_life.mask = mask;
		return true;
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	return false;
}

void sampler_turn_give(void)
{
	const uint64_t mask = sampler_life.mask;

	__atomic_store_n(&sampler_life.busy, 0, __ATOMIC_RELEASE);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

/* Finds out what a child's file needs and only a thread outside of malloc() can determine. */
static void prepare_inherited(const struct flmem_profile_header *header)
{
	struct flmem_profile_header *inherited = &sampler_life.inherited;

	memcpy(inherited->magic, header->magic, sizeof(header->magic));
	inherited->version = header->version;
	inherited->header_size = header->header_size;
	inherited->order = header->order;
	inherited->flags = header->flags;
	inherited->interval_bytes = header->interval_bytes;
	flmem_profile_divide(inherited, header->file_size);
	sampler_copy_text(inherited->build, sizeof(inherited->build), FLMEM_VERSION);
	sampler_hooks_owner(inherited->allocator, sizeof(inherited->allocator));
	sampler_python_find(inherited);
}

static void begin_from_environment(const char *path)
{
	const char *why;
	int fd;

	memcpy(sampler_life.path, path, strlen(path) + 1);
	sampler_copy_text(sampler_shown.state.path, sizeof(sampler_shown.state.path), path);
	fd = sampler_open_first();
	if (fd < 0)
		return;
	if (sampler_read_header(fd)) {
		prepare_inherited(&sampler_life.header);
		sampler_walk_prepare();
		if (is_this_process(&sampler_life.header))
			sampler_begin_file(fd, &why);
		else if (sampler_life.header.flags & FLMEM_PROFILE_FOLLOW)
			sampler_begin_child_file();
	}
	sampler_close(fd);
}

/*
 * Returns whether this is the main thread of a preloaded sampler. `profile attach` loads it in
 * another thread, with no guard between forks and walks before sampler_walk_prepare().
 */
static bool is_preloaded(void)
{
	return sampler_is_first_thread() && sampler_is_interposed();
}

__attribute__((constructor)) static void begin_profile(void)
{
	const char *path = getenv(FLMEM_PROFILE_VARIABLE);

	if (!sampler_can_interpose() || sampler_begins_quiet() || !is_preloaded())
		return;
	sampler_hooks_resolve();
	sampler_show_identity();
	if (!path || strlen(path) >= sizeof(sampler_life.path) || !sampler_turn_take())
		return;
	begin_from_environment(path);
	sampler_turn_give();
	sampler_thread.remaining = 0;
}

static void end_header(struct flmem_profile_header *header)
{
	sampler_timeline_tick(sampler_now_ms(), true);
	header->end_ms = sampler_now_ms();
	__atomic_store_n(&header->phase, FLMEM_PROFILE_ENDED, __ATOMIC_RELEASE);
}

/* Ends the profile with the program. Another thread may detach it now, and unmap the file. */
__attribute__((destructor)) static void end_profile(void)
{
	if (!sampler_hold())
		return;
	if (sampler_file_is_whole())
		end_header(sampler_tables.header);
	sampler_release();
}

/* Resets the state, as if nothing had been sampled, and returns the memory to the kernel. */
static void clear_control(void)
{
	if (madvise(&sampler_control, sizeof(sampler_control), MADV_DONTNEED) != 0)
		memset(&sampler_control, 0, sizeof(sampler_control));
	if (madvise(sampler_filter, sizeof(sampler_filter), MADV_DONTNEED) != 0)
		memset(sampler_filter, 0, sizeof(sampler_filter));
}

/*
 * Unmaps the file without access to it: another process may have cut or changed it. The header goes
 * first: in a child forked in between, the addresses may later have something else.
 */
static void unmap_profile(void)
{
	const struct sampler_tables old = sampler_tables;

	__atomic_store_n(&sampler_tables.header, NULL, __ATOMIC_SEQ_CST);
	syscall(SYS_munmap, old.keys, old.memory_size);
	syscall(SYS_munmap, old.header, old.last_page - (uintptr_t)old.header + SAMPLER_PAGE);
}

static const char *open_profile(int fd, const char *path)
{
	const char *why = NULL;

	if (!sampler_read_header(fd) || sampler_life.header.phase != FLMEM_PROFILE_PREPARED)
		return "the profile is not one that was prepared for the process";
	memcpy(sampler_life.path, path, strlen(path) + 1);
	/* A call that did not end in time kept the last profile; now no call uses it. */
	if (sampler_tables.header)
		unmap_profile();
	clear_control();
	prepare_inherited(&sampler_life.header);
	if (sampler_life.inherited.python_state == FLMEM_PROFILE_PYTHON_FREE_THREADED)
		return "its Python is free-threaded, which the sampler does not support";
	sampler_life.dormant = 1; /* children sample nothing */
	sampler_filters_are_known();
	if (sampler_begin_file(fd, &why) == 0)
		return NULL;
	return why ? why : "the profile belongs to another process";
}

const char *sampler_profile_open(const char *path)
{
	const char *why;
	int fd;

	if (strlen(path) >= sizeof(sampler_life.path))
		return "the path of the profile is too long";
	if (!sampler_turn_take())
		return "a thread of the process is just beginning a profile";
	fd = sampler_open_profile(AT_FDCWD, path, 0);
	why = fd < 0 ? "the process cannot open the profile" : open_profile(fd, path);
	if (fd >= 0)
		sampler_close(fd);
	sampler_turn_give();
	return why;
}

bool sampler_profile_close(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	bool whole = sampler_control.active && sampler_file_is_whole();

	sampler_stop();
	for (unsigned i = 0; __atomic_load_n(&sampler_shown.state.inside, __ATOMIC_SEQ_CST); i++) {
		if (i == CLOSE_TRIES)
			return false;
		nanosleep(&pause, NULL);
	}
	if (!sampler_tables.header)
		return true;
	if (whole)
		end_header(sampler_tables.header);
	unmap_profile();
	return true;
}

/* Writes the number of bypassing calls. The file is unmapped already, and may be another one. */
void sampler_profile_note_unseen(uint64_t unseen)
{
	const struct flmem_profile_header *header = &sampler_life.header;
	const long at = offsetof(struct flmem_profile_header, dropped) +
			FLMEM_PROFILE_DROP_UNSEEN * sizeof(unseen);
	int fd;

	if (!unseen || !sampler_turn_take())
		return;
	fd = sampler_open_profile(AT_FDCWD, sampler_life.path, 0);
	if (fd >= 0) {
		if (sampler_read_header(fd) && header->pid == sampler_process() &&
		    header->start_realtime_ms == sampler_tables.start_realtime_ms &&
		    sampler_may_write(sizeof(*header)))
			syscall(SYS_pwrite64, fd, &unseen, sizeof(unseen), at);
		sampler_close(fd);
	}
	sampler_turn_give();
}
