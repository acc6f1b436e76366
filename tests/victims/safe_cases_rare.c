/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of calls that return plain EINTR when interrupted, and of some that the kernel itself
 * repeats.
 */
#include "safe_cases.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "safe_common.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define FILE_BYTES    (UINT64_C(16) << 20)
#define RING_ENTRIES  4
#define FUTEX_32_BITS 2 /* FUTEX2_SIZE_U32, which older headers lack */

/* System V semaphores, without a timeout. */

static void arm_semop(struct site *site, struct probe *probe)
{
	site->semaphore = (struct sembuf){.sem_op = -1};
	case_call(probe, SYS_semop, (uint64_t)site->ipc, case_word(&site->semaphore), 1, 0);
}

/* Asynchronous I/O: a poll of a pipe. */

static void open_aio(struct site *site)
{
	case_open_pipe(site);
	if (syscall(SYS_io_setup, 8, &site->aio) != 0)
		victim_die("io_setup");
}

static void arm_getevents(struct site *site, struct probe *probe)
{
	struct iocb *list = &site->request;
	bool pending = site->request.aio_buf; /* the last wait did not take its event */

	site->request = (struct iocb){.aio_lio_opcode = IOCB_CMD_POLL,
				      .aio_fildes = (uint32_t)site->read_fd,
				      .aio_buf = POLLIN};
	if (!pending && syscall(SYS_io_submit, site->aio, 1, &list) != 1)
		victim_die("io_submit");
	case_call(probe, SYS_io_getevents, site->aio, 1, 1, case_word(&site->completion));
}

static bool took_event(struct site *site, int64_t result)
{
	if (result == 1)
		site->request.aio_buf = 0;
	return case_drained(site, result);
}

/* A ring without liburing; the helper submits a request that completes at once. */

static struct {
	int fd;
	_Atomic unsigned *tail, *completed, *consumed;
	unsigned *array, mask;
	struct io_uring_sqe *entries;
} ring;

static char *map_ring(size_t bytes, off_t offset)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, offset);

	if (at == MAP_FAILED)
		victim_die("mmap");
	return at;
}

static void open_ring(struct site *site)
{
	struct io_uring_params params = {0};
	char *submit, *complete;

	(void)site;
	ring.fd = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &params);
	if (ring.fd < 0)
		victim_die("io_uring_setup");
	submit = map_ring(params.sq_off.array + params.sq_entries * sizeof(unsigned),
			  IORING_OFF_SQ_RING);
	complete = map_ring(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
			    IORING_OFF_CQ_RING);
	ring.entries = (struct io_uring_sqe *)(void *)map_ring(
		params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring.tail = (_Atomic unsigned *)(void *)(submit + params.sq_off.tail);
	ring.array = (unsigned *)(void *)(submit + params.sq_off.array);
	ring.mask = params.sq_entries - 1;
	ring.completed = (_Atomic unsigned *)(void *)(complete + params.cq_off.tail);
	ring.consumed = (_Atomic unsigned *)(void *)(complete + params.cq_off.head);
}

static void arm_ring(struct site *site, struct probe *probe)
{
	(void)site;
	case_call(probe, SYS_io_uring_enter, (uint64_t)ring.fd, 0, 1, IORING_ENTER_GETEVENTS);
}

static void wake_ring(struct site *site)
{
	unsigned tail = atomic_load(ring.tail), slot = tail & ring.mask;

	(void)site;
	if (atomic_load(ring.completed) != atomic_load(ring.consumed))
		return;
	ring.entries[slot] = (struct io_uring_sqe){.opcode = IORING_OP_NOP};
	ring.array[slot] = slot;
	atomic_store(ring.tail, tail + 1);
	syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0);
}

static bool took_completion(struct site *site, int64_t result)
{
	unsigned tail = atomic_load(ring.completed);

	(void)site;
	if (result != 0 || tail == atomic_load(ring.consumed))
		return false;
	atomic_store(ring.consumed, tail);
	return true;
}

/* Allocating shared memory is not a wait, but any signal ends it. */

static void open_memory_file(struct site *site)
{
	site->wait_fd = memfd_create("victim", MFD_CLOEXEC);
	if (site->wait_fd < 0)
		victim_die("memfd_create");
}

static void arm_fallocate(struct site *site, struct probe *probe)
{
	if (ftruncate(site->wait_fd, 0) != 0)
		victim_die("ftruncate");
	case_call(probe, SYS_fallocate, (uint64_t)site->wait_fd, 0, 0, FILE_BYTES);
}

/* Makes a timeout that the kernel cannot update. */

static void open_constant(struct site *site)
{
	struct timespec *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		victim_die("mmap");
	*page = (struct timespec){.tv_nsec = CASE_LIMIT_MS * 1000000L};
	if (mprotect(page, 4096, PROT_READ) != 0)
		victim_die("mprotect");
	site->constant = page;
}

static void arm_ppoll_constant(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_ppoll, 0, 0, case_word(site->constant), 0);
}

static void arm_pselect_constant(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_pselect6, 0, 0, 0, 0);
	probe->args[4] = case_word(site->constant);
}

/* For comparison: the kernel repeats these calls by itself. */

static void open_small_pipe(struct site *site)
{
	case_open_pipe(site);
	if (fcntl(site->write_fd, F_SETPIPE_SZ, 4096) < 0)
		victim_die("F_SETPIPE_SZ");
}

static void arm_pipe_write(struct site *site, struct probe *probe)
{
	fcntl(site->write_fd, F_SETFL, O_NONBLOCK);
	while (write(site->write_fd, site->buffer, sizeof(site->buffer)) > 0)
		;
	fcntl(site->write_fd, F_SETFL, 0);
	case_call(probe, SYS_write, (uint64_t)site->write_fd, case_word(site->buffer), 1, 0);
}

static void wake_pipe_writer(struct site *site)
{
	char bytes[4096];

	if (read(site->read_fd, bytes, sizeof(bytes)) <= 0)
		_exit(1);
}

struct waiter { /* struct futex_waitv, which older headers lack */
	uint64_t value, address;
	uint32_t flags, reserved;
};

static void arm_waitv(struct site *site, struct probe *probe)
{
	struct waiter *waiter = (struct waiter *)(void *)site->buffer;

	*waiter = (struct waiter){atomic_load(&site->futex), case_word(&site->futex), FUTEX_32_BITS,
				  0};
	case_call(probe, SYS_futex_waitv, case_word(waiter), 1, 0, 0);
}

const struct wait_case wait_cases_rare[] = {
	{"semop", false, case_open_semaphore, arm_semop, case_gives_zero, case_wake_semaphore,
	 case_close_semaphore},
	{"io_getevents", false, open_aio, arm_getevents, took_event, case_wake_pipe, NULL},
	{"io_uring_enter", false, open_ring, arm_ring, took_completion, wake_ring, NULL},
	{"fallocate", false, open_memory_file, arm_fallocate, case_gives_zero, NULL, NULL},
	{"write-pipe", false, open_small_pipe, arm_pipe_write, case_gives_one, wake_pipe_writer,
	 NULL},
	{"futex_waitv", false, open_memory_file, arm_waitv, case_woken, case_wake_futex, NULL},
	{0},
};

const struct wait_case wait_cases_constant[] = {
	{"ppoll-constant", true, open_constant, arm_ppoll_constant, case_gives_zero, NULL, NULL},
	{"pselect-constant", true, open_constant, arm_pselect_constant, case_gives_zero, NULL,
	 NULL},
	{0},
};
