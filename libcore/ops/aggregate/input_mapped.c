/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/input_mapped.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <flmem/aggregate.h>

#include "ops/aggregate/input_direct.h"

/* Alignment for the arithmetic kernels: the largest element. */
#define ALIGNMENT 8U
/* Size of all windows together: mapped pages of the cache count as the process's memory. */
#define BUDGET (64UL << 20)

static atomic_bool enabled;
static struct sigaction earlier;
/*
 * Windows of the current thread. A signal handler must not be the first to allocate thread-local
 * data, hence this TLS model.
 */
static _Thread_local struct flmem_mapped_windows *attached
	__attribute__((tls_model("initial-exec")));

static bool replace_pages(const struct flmem_mapped_window *window, uintptr_t at)
{
	uintptr_t pages = (uintptr_t)window->pages;

	return pages && at >= pages && at - pages < window->length &&
	       mmap(window->pages, window->length, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/*
 * Does what would have happened without this handler. The access that raised the signal is repeated
 * and may raise it again.
 */
static void pass_on_signal(int number, siginfo_t *info, void *context)
{
	bool sent = info->si_code <= 0;
	bool handled = earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN;

	if (sent && earlier.sa_handler == SIG_IGN)
		return;
	if (!handled || (earlier.sa_flags & (int)SA_RESETHAND)) {
		sigaction(number, &earlier, NULL);
		if (sent)
			raise(number);
	} else if (earlier.sa_flags & SA_SIGINFO) {
		earlier.sa_sigaction(number, info, context);
	} else {
		earlier.sa_handler(number);
	}
}

static void handle_bus_error(int number, siginfo_t *info, void *context)
{
	struct flmem_mapped_windows *windows = attached;
	int saved = errno;

	for (size_t i = 0; windows && info->si_code > 0 && i < windows->count; i++)
		if (replace_pages(&windows->windows[i], (uintptr_t)info->si_addr)) {
			windows->failed = true;
			errno = saved;
			return;
		}
	pass_on_signal(number, info, context);
	errno = saved;
}

void flmem_aggregate_map_inputs(void)
{
	static atomic_flag begun = ATOMIC_FLAG_INIT;
	struct sigaction action = {.sa_sigaction = handle_bus_error};

	if (atomic_flag_test_and_set(&begun) || sigaction(SIGBUS, NULL, &earlier))
		return;
	action.sa_mask = earlier.sa_mask;
	action.sa_flags = SA_SIGINFO | SA_RESTART | (earlier.sa_flags & SA_ONSTACK);
	enabled = !sigaction(SIGBUS, &action, NULL);
}

bool flmem_mapped_windows_init(struct flmem_mapped_windows *windows, unsigned threads,
			       size_t inputs, size_t block_bytes)
{
	size_t bytes = BUDGET / (threads * inputs) / block_bytes * block_bytes;

	*windows = (struct flmem_mapped_windows){0};
	if (!enabled || !bytes)
		return true;
	windows->windows = calloc(inputs, sizeof(*windows->windows));
	if (!windows->windows)
		return false;
	windows->count = inputs;
	for (size_t i = 0; i < inputs; i++)
		windows->windows[i].room = bytes;
	return true;
}

static void unmap_window(struct flmem_mapped_window *window)
{
	if (window->pages)
		munmap(window->pages, window->length);
	window->pages = NULL;
}

void flmem_mapped_windows_clear(struct flmem_mapped_windows *windows)
{
	for (size_t i = 0; i < windows->count; i++)
		unmap_window(&windows->windows[i]);
	free(windows->windows);
	*windows = (struct flmem_mapped_windows){0};
}

void flmem_mapped_attach(struct flmem_mapped_windows *windows)
{
	sigset_t bus;

	attached = windows;
	if (!windows || !windows->windows)
		return;
	/*
	 * Threads of the library block all signals; a blocked SIGBUS of a read would end the
	 * process.
	 */
	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
}

/*
 * Returns true if a file has holes: a tmpfs would allocate missing pages permanently when they are
 * read through a mapping.
 */
static bool has_holes(const struct stat *status)
{
	return (uint64_t)status->st_blocks * 512 < (uint64_t)status->st_size;
}

/*
 * Returns the descriptor to map, or -1. Pages that have left the cache are read ahead as usual
 * through the descriptor for direct reads, but not through the other one
 * (flmem_input_read_exactly()). Files in memory need no read-ahead. Other file systems were not
 * measured.
 */
static int find_descriptor(const struct flmem_input_file *file)
{
	if (file->in_memory)
		return has_holes(&file->status) ? -1 : file->fd;
	return flmem_direct_descriptor(file);
}

static void map_window(struct flmem_mapped_window *window, const struct flmem_input_piece *piece)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = piece->offset / page * page;
	size_t length = (size_t)(piece->offset + piece->bytes - begin);
	int fd = find_descriptor(piece->file);
	void *pages;

	unmap_window(window);
	if (fd < 0)
		return;
	pages = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, (off_t)begin);
	if (pages == MAP_FAILED)
		return;
	window->pages = pages;
	window->length = length;
	window->file = piece->file;
	window->begin = begin;
	window->end = piece->offset + piece->bytes;
}

static char *find_piece(const struct flmem_mapped_window *window,
			const struct flmem_input_piece *piece)
{
	if (!window->pages || window->file != piece->file || piece->offset < window->begin ||
	    piece->offset + piece->bytes > window->end)
		return NULL;
	return window->pages + (piece->offset - window->begin);
}

char *flmem_mapped_find(struct flmem_mapped_window *window, const struct flmem_layout *layout,
			uint64_t begin, uint64_t end)
{
	const struct flmem_input *input = window->input;
	size_t tensor = input->offsets ? flmem_layout_find(layout, begin) : 0, same = tensor;
	struct flmem_input_piece piece = flmem_input_piece(input, layout, begin, end, &tensor);
	uint64_t limit = window->limit;
	char *found;

	if (piece.bytes != end - begin || piece.offset % ALIGNMENT != 0)
		return NULL;
	found = find_piece(window, &piece);
	if (found)
		return found;
	limit = limit - begin < window->room ? limit : begin + window->room;
	piece = flmem_input_piece(input, layout, begin, limit, &same);
	map_window(window, &piece);
	piece.bytes = end - begin;
	return find_piece(window, &piece);
}
