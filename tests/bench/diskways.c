/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares ways to read inputs and to write their mean, in chunks as large as those of flmem
 * aggregate: diskways WAY OUTPUT INPUT..., where WAY is threads (pread and pwrite) or uring
 * (io_uring), with -direct for O_DIRECT, -direct-output or -direct-input for O_DIRECT of these
 * only, and -huge for memory in huge pages. Only whole chunks are read, from the start of the
 * files: O_DIRECT needs aligned places. Exit status 77: the kernel or this build has no io_uring.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#if __has_include(<liburing.h>)
#include <liburing.h>
#define HAS_URING 1
#else
#define HAS_URING 0
#endif

#define CHUNK	    (4L << 20)
#define BLOCK	    (512L << 10)
#define BLOCKS	    (CHUNK / BLOCK)
#define HUGE_PAGE   (2UL << 20)
#define INPUTS_MAX  8
#define THREADS_MAX 32
/* Threads per processor: while one waits for the disk another one computes. */
#define CACHED_THREADS 2
#define DIRECT_THREADS 4 /* without a page cache each thread waits most of the time */
#define SLOTS	       8 /* number of blocks that a ring has in flight: 20 MiB for four inputs */
#define PENDING	       4
#define SKIPPED	       77

static struct {
	int inputs[INPUTS_MAX], input_count, output;
	bool direct_inputs, direct_output, huge_pages;
	off_t bytes;
	atomic_long next;
	long threads;
} job;

struct range {
	off_t begin;
	long left; /* number of blocks that are not written yet */
	bool cached[INPUTS_MAX];
};

struct slot {
	struct range *chunk;
	off_t at;
	int pending;
	bool writing;
	float *inputs[INPUTS_MAX], *mean;
};

struct worker {
	struct range chunks[SLOTS + 1];
	size_t chunk_count;
	struct range *chunk; /* the chunk whose blocks are taken now */
	off_t at;
	off_t behind[PENDING];
	size_t behind_count;
};

static void stop(const char *what)
{
	perror(what);
	exit(1);
}

static bool is_cached(int fd, off_t at)
{
	char byte;
	struct iovec place = {.iov_base = &byte, .iov_len = 1};

	return preadv2(fd, &place, 1, at, RWF_NOWAIT) == 1;
}

/* The next chunk is read in the background, as flmem does. */
static struct range *take_chunk(struct worker *worker)
{
	struct range *chunk = &worker->chunks[worker->chunk_count++ % (SLOTS + 1)];
	off_t begin = atomic_fetch_add(&job.next, CHUNK), ahead = begin + job.threads * CHUNK;

	if (begin >= job.bytes)
		return NULL;
	*chunk = (struct range){.begin = begin, .left = BLOCKS};
	for (int i = 0; i < job.input_count && !job.direct_inputs; i++) {
		chunk->cached[i] = is_cached(job.inputs[i], begin + CHUNK / 2);
		posix_fadvise(job.inputs[i], ahead, CHUNK, POSIX_FADV_WILLNEED);
	}
	return chunk;
}

static bool take_block(struct worker *worker, struct slot *slot)
{
	if (!worker->chunk || worker->at == worker->chunk->begin + CHUNK) {
		worker->chunk = take_chunk(worker);
		worker->at = worker->chunk ? worker->chunk->begin : 0;
	}
	slot->chunk = worker->chunk;
	slot->at = worker->at;
	worker->at += BLOCK;
	return slot->chunk;
}

/* Writes a chunk back, and keeps it and the chunks of the inputs from filling the page cache. */
static void end_block(struct worker *worker, const struct slot *slot)
{
	off_t *oldest = &worker->behind[worker->behind_count % PENDING];
	const struct range *chunk = slot->chunk;

	if (--slot->chunk->left)
		return;
	for (int i = 0; i < job.input_count && !job.direct_inputs; i++)
		if (!chunk->cached[i])
			posix_fadvise(job.inputs[i], chunk->begin, CHUNK, POSIX_FADV_DONTNEED);
	if (job.direct_output)
		return;
	sync_file_range(job.output, chunk->begin, CHUNK, SYNC_FILE_RANGE_WRITE);
	if (worker->behind_count++ >= PENDING) {
		sync_file_range(job.output, *oldest, CHUNK,
				SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
					SYNC_FILE_RANGE_WAIT_AFTER);
		posix_fadvise(job.output, *oldest, CHUNK, POSIX_FADV_DONTNEED);
	}
	*oldest = chunk->begin;
}

/* Computes in 64 bits, as flmem does. */
static void combine(const struct slot *slot)
{
	for (long e = 0; e < BLOCK / (long)sizeof(float); e++) {
		double sum = 0;

		for (int i = 0; i < job.input_count; i++)
			sum += (double)slot->inputs[i][e];
		slot->mean[e] = (float)(sum / job.input_count);
	}
}

static void make_slot(struct slot *slot)
{
	size_t bytes = (size_t)(job.input_count + 1) * BLOCK;
	char *memory;

	bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	memory = aligned_alloc(HUGE_PAGE, bytes);
	if (!memory)
		stop("aligned_alloc");
	madvise(memory, bytes, job.huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	memset(memory, 0, bytes);
	for (int i = 0; i < job.input_count; i++)
		slot->inputs[i] = (float *)(memory + i * BLOCK);
	slot->mean = (float *)(memory + job.input_count * BLOCK);
}

static void *work_alone(void *unused)
{
	struct worker worker = {0};
	struct slot slot = {0};

	(void)unused;
	make_slot(&slot);
	while (take_block(&worker, &slot)) {
		for (int i = 0; i < job.input_count; i++)
			if (pread(job.inputs[i], slot.inputs[i], BLOCK, slot.at) != BLOCK)
				stop("pread");
		combine(&slot);
		if (pwrite(job.output, slot.mean, BLOCK, slot.at) != BLOCK)
			stop("pwrite");
		end_block(&worker, &slot);
	}
	return NULL;
}

#if HAS_URING
static bool begin_slot(struct worker *worker, struct io_uring *ring, struct slot *slot)
{
	if (!take_block(worker, slot))
		return false;
	slot->writing = false;
	slot->pending = job.input_count;
	for (int i = 0; i < job.input_count; i++) {
		struct io_uring_sqe *entry = io_uring_get_sqe(ring);

		io_uring_prep_read(entry, job.inputs[i], slot->inputs[i], BLOCK, (__u64)slot->at);
		io_uring_sqe_set_data(entry, slot);
	}
	return true;
}

static void write_slot(struct io_uring *ring, struct slot *slot)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(ring);

	combine(slot);
	slot->writing = true;
	io_uring_prep_write(entry, job.output, slot->mean, BLOCK, (__u64)slot->at);
	io_uring_sqe_set_data(entry, slot);
}

/* Returns the slot of the next read or write that is complete. */
static struct slot *await_slot(struct io_uring *ring)
{
	struct io_uring_cqe *done;
	struct slot *slot;
	int rc;

	io_uring_submit(ring);
	do
		rc = io_uring_wait_cqe(ring, &done);
	while (rc == -EINTR);
	errno = rc ? -rc : done->res < 0 ? -done->res : EIO;
	if (rc || done->res != BLOCK)
		stop("io_uring");
	slot = io_uring_cqe_get_data(done);
	io_uring_cqe_seen(ring, done);
	return slot;
}

static void *work_ring(void *unused)
{
	struct worker worker = {0};
	struct slot slots[SLOTS] = {0};
	struct io_uring ring;
	int active = 0, rc = io_uring_queue_init(SLOTS * (INPUTS_MAX + 1), &ring, 0);

	(void)unused;
	errno = -rc;
	if (rc)
		stop("io_uring_queue_init");
	for (int i = 0; i < SLOTS; i++) {
		make_slot(&slots[i]);
		active += begin_slot(&worker, &ring, &slots[i]);
	}
	while (active) {
		struct slot *slot = await_slot(&ring);

		if (slot->writing) {
			end_block(&worker, slot);
			active -= !begin_slot(&worker, &ring, slot);
		} else if (!--slot->pending) {
			write_slot(&ring, slot);
		}
	}
	io_uring_queue_exit(&ring);
	return NULL;
}

static void require_ring(void)
{
	struct io_uring ring;
	int rc = io_uring_queue_init(8, &ring, 0);

	if (rc) {
		fprintf(stderr, "the kernel refuses io_uring: %s\n", strerror(-rc));
		exit(SKIPPED);
	}
	io_uring_queue_exit(&ring);
}
#else
#define work_ring work_alone

static void require_ring(void)
{
	fprintf(stderr, "built without liburing\n");
	exit(SKIPPED);
}
#endif

static void open_files(char **names, int count)
{
	int in = job.direct_inputs ? O_DIRECT : 0, out = job.direct_output ? O_DIRECT : 0;
	struct stat status;

	if (stat(names[1], &status) < 0)
		stop(names[1]);
	job.bytes = status.st_size / CHUNK * CHUNK;
	job.input_count = count - 1;
	job.output = open(names[0], O_RDWR | O_CREAT | O_TRUNC | out, 0600);
	if (job.output < 0 || fallocate(job.output, 0, 0, job.bytes) < 0)
		stop(names[0]);
	for (int i = 0; i < job.input_count; i++) {
		job.inputs[i] = open(names[i + 1], O_RDONLY | in);
		if (job.inputs[i] < 0)
			stop(names[i + 1]);
	}
}

int main(int argc, char **argv)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[THREADS_MAX];
	bool rings, direct;

	if (argc < 4 || argc > 3 + INPUTS_MAX)
		stop("usage: diskways WAY OUTPUT INPUT...");
	rings = strncmp(argv[1], "uring", 5) == 0;
	direct = strstr(argv[1], "-direct");
	job.direct_output = direct && !strstr(argv[1], "-input");
	job.direct_inputs = direct && !strstr(argv[1], "-output");
	job.huge_pages = strstr(argv[1], "-huge");
	if (rings)
		require_ring();
	open_files(argv + 2, argc - 2);
	job.threads = processors * (rings ? 1 : direct ? DIRECT_THREADS : CACHED_THREADS);
	job.threads = job.threads < THREADS_MAX ? job.threads : THREADS_MAX;
	for (long i = 0; i < job.threads; i++)
		if (pthread_create(&threads[i], NULL, rings ? work_ring : work_alone, NULL))
			stop("pthread_create");
	for (long i = 0; i < job.threads; i++)
		pthread_join(threads[i], NULL);
	if (fdatasync(job.output) < 0)
		stop("fdatasync");
	return 0;
}
