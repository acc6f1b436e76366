/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_STATUS_H
#define FLMEM_PROC_STATUS_H

/*
 * Reads /proc/PID/status, the cheapest way to read a process's state (5 us, no page table walk).
 * Which lines it has depends on the kernel, its configuration and the process (a zombie has no
 * memory lines), so every number may be unknown.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/value.h>

struct flmem_process;

/* Four IDs of one kind; `known` is false if the line is missing. */
struct flmem_ids {
	bool known;
	uint32_t real, effective, saved, fs;
};

/* The longest name: kernel threads show up to 64 bytes, programs 15 (fs/proc/array.c). */
#define FLMEM_STATUS_NAME_MAX 65

struct flmem_status {
	char name[FLMEM_STATUS_NAME_MAX]; /* as the kernel escapes it; untrusted text */
	char state;			  /* R, S, D, T, t, Z, X, I; never 0 */
	struct flmem_u64 tgid;
	struct flmem_u64 parent;
	struct flmem_u64 tracer; /* PID of the tracer; 0: not traced */
	struct flmem_ids uid;
	struct flmem_ids gid;
	/* PID as the process itself knows it, in the innermost namespace. */
	struct flmem_u64 ns_pid;
	struct flmem_u64 size_bytes; /* VmSize, which RLIMIT_AS limits */
	struct flmem_u64 data_bytes; /* VmData, which RLIMIT_DATA limits */
	struct flmem_u64 rss_bytes;  /* VmRSS */
	struct flmem_u64 peak_bytes; /* VmHWM */
	struct flmem_u64 anon_bytes;
	struct flmem_u64 file_bytes;
	struct flmem_u64 shmem_bytes;
	struct flmem_u64 swap_bytes;
	struct flmem_u64 locked_bytes; /* mapped and locked: mlock(2) */
	struct flmem_u64 pinned_bytes; /* pinned for devices, by drivers that count it */
	struct flmem_u64 hugetlb_bytes;
	struct flmem_u64 threads;
	struct flmem_u64 seccomp_mode;	  /* 0 none, 1 strict, 2 filter */
	struct flmem_u64 seccomp_filters; /* number of filters */
	struct flmem_u64 no_new_privs;
	struct flmem_u64 cap_effective;	 /* mask of effective capabilities */
	struct flmem_u64 sig_pending;	 /* mask of signals pending for the thread alone */
	struct flmem_u64 shared_pending; /* mask of signals pending for any thread of the process */
	struct flmem_u64 sig_blocked;	 /* masks of signals, of the main thread */
	struct flmem_u64 sig_ignored;
	struct flmem_u64 sig_caught;
	struct flmem_u64 voluntary_switches; /* changes of the thread from running to waiting */
	struct flmem_u64 involuntary_switches;
	struct flmem_u64 thp_enabled;  /* 0: switched off by prctl or the exec'd program */
	struct flmem_u64 core_dumping; /* 1: a signal has ended it, its core is being written */
	bool shadow_stack;	       /* x86_Thread_features names shstk */
};

/* Returns true if the process is stopped, by a signal or by a tracer. */
static inline bool flmem_status_is_stopped(const struct flmem_status *status)
{
	return status->state == 'T' || status->state == 't';
}

static inline bool flmem_status_is_dumping(const struct flmem_status *status)
{
	return !status->core_dumping.unknown && status->core_dumping.value;
}

/* Reads and parses the status; FLMEM_ENOPROC if the process has exited. */
int flmem_status_read(const struct flmem_process *process, struct flmem_status *ret_status,
		      struct flmem_error *err);

/*
 * Reads the status of one thread, whose seccomp, tracer and masks may differ. Returns 0 or -errno.
 */
int flmem_status_read_thread(const struct flmem_process *process, pid_t tid,
			     struct flmem_status *ret_status);

/* Reads the status of any process or thread by its number in /proc, which may have been reused. */
int flmem_status_read_number(pid_t number, struct flmem_status *ret_status);

/*
 * The two steps of flmem_status_read_thread(), for callers that must read quickly: opening the file
 * of a thread (returns the descriptor or -errno), and reading its current content (-ESRCH: the
 * thread has ended).
 */
int flmem_status_open_thread(const struct flmem_process *process, pid_t tid);
int flmem_status_read_open(int fd, struct flmem_status *ret_status);

/* Parses the text of a status file; FLMEM_EFAILED if it names no state. */
int flmem_status_parse(const char *text, struct flmem_status *ret_status, struct flmem_error *err);

#endif
