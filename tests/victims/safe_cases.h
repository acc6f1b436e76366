/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SAFE_CASES_H
#define SAFE_CASES_H

/*
 * The system calls in which a thread waits, as a table: how to get blocked in each, what ends the
 * wait, and which result is right. The part that ends the wait runs in a helper process.
 */

#include <linux/aio_abi.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "safe_probe.h"

#define CASE_LIMIT_MS 40 /* the calls that end by themselves do so after this time */
/* The calls with a timeout that are woken before it have this one. */
#define CASE_PATIENCE_MS 100000

/* State of a case, shared between the victim and its helper. */
struct site {
	int read_fd;
	int write_fd;
	int wait_fd; /* epoll or listening socket */
	int ipc;     /* System V identifier */
	pid_t victim;
	pid_t child;
	_Atomic uint32_t futex;
	_Atomic uint64_t handled; /* signals that the victim's handler has counted */
	uint64_t handled_before;
	struct timespec limit;
	struct pollfd poll;
	fd_set fds;
	struct epoll_event event;
	struct sembuf semaphore;
	sigset_t mask;
	struct {
		sigset_t *set;
		size_t size;
	} mask_argument; /* the sixth argument of pselect6 */
	siginfo_t info;
	int status;
	struct iovec vector;
	struct mmsghdr message;
	off_t offset;
	aio_context_t aio;
	struct iocb request;
	struct io_event completion;
	const struct timespec *constant; /* in read-only memory */
	char buffer[512];
};

struct wait_case {
	const char *name;
	bool timed; /* must last CASE_LIMIT_MS at least */
	void (*open)(struct site *site);
	void (*arm)(struct site *site, struct probe *probe);
	bool (*right)(struct site *site, int64_t result);
	void (*wake)(struct site *site);  /* ends the wait; NULL: it ends by itself */
	void (*close)(struct site *site); /* releases objects that outlive processes, or NULL */
};

/* Tables end in a row without a name. */
extern const struct wait_case wait_cases_fd[];
extern const struct wait_case wait_cases_process[];
extern const struct wait_case wait_cases_timed[];
extern const struct wait_case wait_cases_send[];
extern const struct wait_case wait_cases_connect[];
extern const struct wait_case wait_cases_rare[];
extern const struct wait_case wait_cases_constant[];
extern const struct wait_case wait_cases_whole[];

struct wait_table {
	/*
	 * "borrowed": a thread may be borrowed from these calls. "timed": they have a timeout that
	 * cannot be read from outside. "left": no thread is borrowed from them, but one that has
	 * moved on may be stopped in them. "connect": like "left", on a new descriptor each time.
	 * "whole": a stop would cost them their result.
	 */
	const char *kind;
	const struct wait_case *rows;
};

extern const struct wait_table wait_tables[]; /* ends in a row without a kind */

#define KERNEL_SIGSET_BYTES 8

/* Functions that the rows share. */
uint64_t case_word(const void *pointer);
void case_call(struct probe *probe, long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
const struct timespec *case_limit(struct site *site); /* CASE_LIMIT_MS from now, relative */
void case_poll(struct site *site, struct probe *probe, int milliseconds);
void case_select(struct site *site, struct probe *probe); /* for CASE_LIMIT_MS */
void case_epoll(struct site *site, struct probe *probe, int milliseconds);
void case_pause(struct probe *probe);
void case_mask(struct site *site); /* sets a mask to wait with: SIGHUP alone */
bool case_gives_zero(struct site *site, int64_t result);
bool case_gives_one(struct site *site, int64_t result);
bool case_gives_again(struct site *site, int64_t result);
void case_limit_socket(int fd, int option, long milliseconds); /* SO_RCVTIMEO, SO_SNDTIMEO */
void case_open_pipe(struct site *site);
void case_wake_pipe(struct site *site);
bool case_drained(struct site *site, int64_t result); /* true if a pipe had something to read */
void case_wake_futex(struct site *site);
/* True if it was woken, or the value changed before the wait. */
bool case_woken(struct site *site, int64_t result);
void case_open_semaphore(struct site *site);
void case_wake_semaphore(struct site *site);
void case_close_semaphore(struct site *site);

#endif
