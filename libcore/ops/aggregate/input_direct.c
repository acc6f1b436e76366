/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/input_direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Alignment of offsets, lengths and addresses: the largest block size of common devices. */
#define ALIGNMENT      UINT64_C(4096)
#define WINDOW_LARGEST (2UL << 20)
/* Smaller pieces would be seeks on a rotating disk. */
#define WINDOW_SMALLEST (256UL << 10)
#define PIECE_SMALLEST	(1UL << 20)
/* Memory of all windows together, within the limits that docs/guides/aggregate.md names. */
#define BUDGET_PER_INPUT (8UL << 20)
#define BUDGET_SMALLEST	 (32UL << 20)
#define BUDGET_LARGEST	 (128UL << 20)
#define HUGE_PAGE	 (2UL << 20)

struct flmem_direct_file {
	int fd;
	atomic_bool refused; /* the file system refused O_DIRECT */
};

size_t flmem_direct_window_bytes(unsigned threads, size_t inputs)
{
	size_t budget = BUDGET_PER_INPUT * inputs, bytes;

	budget = budget < BUDGET_SMALLEST  ? BUDGET_SMALLEST
		 : budget > BUDGET_LARGEST ? BUDGET_LARGEST
					   : budget;
	bytes = budget / (threads * inputs) / ALIGNMENT * ALIGNMENT;
	bytes = bytes < WINDOW_LARGEST ? bytes : WINDOW_LARGEST;
	return bytes < WINDOW_SMALLEST ? 0 : bytes;
}

bool flmem_direct_windows_init(struct flmem_direct_windows *windows, size_t inputs,
			       size_t window_bytes)
{
	size_t bytes = (inputs * window_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	void *memory;

	*windows = (struct flmem_direct_windows){0};
	if (!window_bytes)
		return true;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return true;
	windows->windows = calloc(inputs, sizeof(*windows->windows));
	if (!windows->windows) {
		munmap(memory, bytes);
		return false;
	}
	madvise(memory, bytes, MADV_HUGEPAGE);
	windows->memory = memory;
	windows->memory_bytes = bytes;
	for (size_t i = 0; i < inputs; i++)
		windows->windows[i] = (struct flmem_direct_window){
			.memory = windows->memory + i * window_bytes,
			.room = window_bytes,
		};
	return true;
}

void flmem_direct_windows_clear(struct flmem_direct_windows *windows)
{
	free(windows->windows);
	if (windows->memory)
		munmap(windows->memory, windows->memory_bytes);
	*windows = (struct flmem_direct_windows){0};
}

/*
 * Returns true if descriptors are scarce: the output needs some, and many for a model in many
 * files.
 */
static bool is_scarce(int fd)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 || (rlim_t)fd >= limit.rlim_cur / 2;
}

/*
 * Opens a file on a block device for direct reads. Other file systems (network, FUSE, overlay,
 * memory) have a major device number of 0; the cost of reading past their cache was not measured.
 */
static struct flmem_direct_file *open_direct(const struct flmem_input_file *file)
{
	FLMEM_AUTO_CLOSE int fd = -1;
	struct flmem_direct_file *direct;
	char name[sizeof("/proc/self/fd/") + 12];

	if (!major(file->status.st_dev))
		return NULL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", file->fd);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_DIRECT);
	direct = fd < 0 || is_scarce(fd) ? NULL : calloc(1, sizeof(*direct));
	if (direct)
		direct->fd = FLMEM_TAKE_FD(fd);
	return direct;
}

void flmem_direct_open(const struct flmem_input *input)
{
	for (size_t i = 0; i < input->file_count; i++) {
		struct flmem_input_file *file = &input->files[i];

		if (flmem_input_file_has_pages(file) && !file->direct)
			file->direct = open_direct(file);
	}
}

void flmem_direct_close(struct flmem_direct_file *direct)
{
	if (direct)
		flmem_cleanup_close(&direct->fd);
	free(direct);
}

int flmem_direct_descriptor(const struct flmem_input_file *file)
{
	return file->direct ? file->direct->fd : -1;
}

static bool is_usable(const struct flmem_input_file *file)
{
	return file->direct && !file->direct->refused;
}

bool flmem_direct_takes(const struct flmem_input_piece *piece)
{
	return piece->bytes >= PIECE_SMALLEST && is_usable(piece->file);
}

static bool has_byte(const struct flmem_direct_window *window,
		     const struct flmem_input_piece *piece)
{
	return window->file == piece->file && piece->offset >= window->begin &&
	       piece->offset < window->end;
}

/*
 * Returns true if the window has begun this piece; its rest is then read directly, however short.
 */
static bool continues_window(const struct flmem_direct_window *window,
			     const struct flmem_input_piece *piece)
{
	return window->file == piece->file && piece->offset == window->end &&
	       is_usable(piece->file);
}

static bool is_worth_filling(const struct flmem_direct_window *window,
			     const struct flmem_input_piece *piece,
			     const struct flmem_input_piece *rest)
{
	return !has_byte(window, piece) &&
	       (flmem_direct_takes(rest) || continues_window(window, piece));
}

/*
 * Fills the window. The code that reads through the page cache reports a file that ends too early.
 */
static void fill_direct_window(struct flmem_direct_window *window,
			       const struct flmem_input_piece *piece)
{
	struct flmem_direct_file *direct = piece->file->direct;
	uint64_t begin = piece->offset / ALIGNMENT * ALIGNMENT;
	uint64_t end = (piece->offset + piece->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	/* Read equal parts; otherwise a few pages of each chunk would be left for the last read. */
	uint64_t reads = (end - begin + window->room - 1) / window->room;
	size_t bytes = (size_t)((end - begin) / reads + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	ssize_t got = pread(direct->fd, window->memory, bytes, (off_t)begin);

	window->file = NULL;
	if (got < 0 && errno != EINTR)
		direct->refused = true;
	if (got <= 0)
		return;
	window->file = piece->file;
	window->begin = begin;
	window->end = begin + (uint64_t)got;
}

/* Reads the first bytes of a piece, as many as it can, and shortens the piece to them. */
static int read_some(struct flmem_direct_window *window, struct flmem_input_piece *piece, char *out,
		     struct flmem_error *err)
{
	uint64_t left;

	if (!has_byte(window, piece))
		return flmem_input_file_read(piece->file, piece->offset, piece->bytes, out, err);
	left = window->end - piece->offset;
	piece->bytes = piece->bytes < left ? piece->bytes : left;
	memcpy(out, window->memory + (piece->offset - window->begin), (size_t)piece->bytes);
	return 0;
}

int flmem_direct_read(struct flmem_direct_window *window, const struct flmem_layout *layout,
		      uint64_t begin, uint64_t end, char *out, struct flmem_error *err)
{
	const struct flmem_input *input = window->input;
	int rc = 0;

	while (begin < end && !rc) {
		size_t tensor = input->offsets ? flmem_layout_find(layout, begin) : 0;
		size_t same = tensor;
		struct flmem_input_piece piece =
			flmem_input_piece(input, layout, begin, end, &tensor);
		struct flmem_input_piece rest =
			flmem_input_piece(input, layout, begin, window->limit, &same);

		if (is_worth_filling(window, &piece, &rest))
			fill_direct_window(window, &rest);
		rc = read_some(window, &piece, out, err);
		out += piece.bytes;
		begin += piece.bytes;
	}
	return rc;
}
