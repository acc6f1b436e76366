/* SPDX-License-Identifier: Apache-2.0 */
/* Tests lists of chunks far from each other, in the memory of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "allocators/glibc/glibc_links.h"
#include "base/cleanup.h"

#include "counting_peek.h"

#define CHUNKS	 120U
#define BINS	 3U
#define DISTANCE 43U /* pages from one chunk to the next */
#define BEFORE	 4U  /* pages with the arena */

static const unsigned bins[BINS] = {1, 70, FLMEM_GLIBC_BINS - 1};

struct heap {
	unsigned char *bytes;
	size_t page, length;
	uint64_t arena;
};

/* The last layout with fastbins, whose links are mangled. */
static const struct flmem_glibc_layout *layout(void)
{
	return flmem_glibc_layout_of(42);
}

static void put(uint64_t address, uint64_t value)
{
	memcpy((void *)(uintptr_t)address, &value, sizeof(value));
}

static uint64_t chunk_at(const struct heap *heap, unsigned index)
{
	return heap->arena + (BEFORE + (uint64_t)index * DISTANCE) * heap->page;
}

static uint64_t head_of(const struct heap *heap, unsigned bin)
{
	return flmem_glibc_bin_head(layout(), heap->arena, bin);
}

/* Links chunks: chunk i is in bin i % BINS; each is one page long. */
static void link_chunks(const struct heap *heap)
{
	for (unsigned i = 0; i < FLMEM_GLIBC_BINS; i++) {
		put(head_of(heap, i) + 16, head_of(heap, i));
		put(head_of(heap, i) + 24, head_of(heap, i));
	}
	for (unsigned i = 0; i < CHUNKS; i++) {
		const uint64_t head = head_of(heap, bins[i % BINS]), chunk = chunk_at(heap, i);
		const uint64_t before = i < BINS ? head : chunk_at(heap, i - BINS);

		put(chunk + 8, heap->page | FLMEM_GLIBC_PREV_INUSE);
		put(chunk + 16, head);
		put(chunk + 24, before);
		put(before + 16, chunk);
		put(head + 24, chunk);
		put(chunk + heap->page, heap->page);
		put(chunk + heap->page + 8, 64);
	}
}

static int set_up(void **state)
{
	static struct heap heap;

	heap.page = (size_t)flmem_page_bytes();
	heap.length = (BEFORE + (CHUNKS + 1) * DISTANCE) * heap.page;
	heap.bytes = mmap(NULL, heap.length, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (heap.bytes == MAP_FAILED)
		return -1;
	madvise(heap.bytes, heap.length, MADV_NOHUGEPAGE);
	heap.arena = (uint64_t)(uintptr_t)heap.bytes;
	link_chunks(&heap);
	*state = &heap;
	return 0;
}

static int tear_down(void **state)
{
	struct heap *heap = *state;

	return munmap(heap->bytes, heap->length);
}

static bool is_late_at_once(void *context)
{
	(void)context;
	return true;
}

static void fetch_lists(const struct heap *heap, struct flmem_peek *peek,
			bool (*is_late)(void *context))
{
	flmem_glibc_lists_fetch(&(struct flmem_glibc_fetch){.peek = peek,
							    .layout = layout(),
							    .arenas = &heap->arena,
							    .count = 1,
							    .is_late = is_late});
}

/* Returns the number of valid chunks in the bins. */
static unsigned walk_bins(const struct heap *heap, struct flmem_peek *peek)
{
	unsigned count = 0;

	for (unsigned i = 0; i < BINS; i++) {
		const uint64_t head = head_of(heap, bins[i]);
		struct flmem_glibc_link link;
		uint64_t chunk, previous = head;

		assert_int_equal(flmem_peek_read(peek, head + 16, &chunk, sizeof(chunk)), 0);
		for (; chunk != head; previous = chunk, chunk = link.next, count++) {
			assert_int_equal(flmem_glibc_bin_link(peek, chunk, previous, &link), 0);
			assert_null(link.wrong);
		}
	}
	return count;
}

/* One call reads all bins from both ends; the chunks and the heads after them are cached then. */
static void bins_are_read_together(void **state)
{
	const struct heap *heap = *state;
	struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;

	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	counting_peek_open(&process, &counting);
	fetch_lists(heap, counting.peek, NULL);
	assert_in_range(counting.calls, 1, CHUNKS / BINS / 2 + 6);
	counting.calls = 0;
	assert_int_equal(walk_bins(heap, counting.peek), CHUNKS);
	assert_in_range(counting.calls, 0, 8);
	flmem_process_close(&process);
}

/* What was read before is read again: the program goes on meanwhile. */
static void lists_are_fetched_anew(void **state)
{
	const struct heap *heap = *state;
	const uint64_t chunk = chunk_at(heap, 0), next = heap->page | FLMEM_GLIBC_PREV_INUSE;
	struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	uint64_t words[4]; /* prev_size, size, fd, bk */

	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	counting_peek_open(&process, &counting);
	fetch_lists(heap, counting.peek, NULL);
	put(chunk + 8, next + 64);
	fetch_lists(heap, counting.peek, NULL);
	assert_int_equal(flmem_peek_read(counting.peek, chunk, words, sizeof(words)), 0);
	put(chunk + 8, next);
	assert_int_equal(words[1], next + 64);
	flmem_process_close(&process);
}

static void put_fast(uint64_t chunk, uint64_t size, uint64_t next)
{
	put(chunk + 8, size);
	put(chunk + 16, (chunk + 16) >> 12 ^ next);
}

static uint64_t fast_at(const struct heap *heap, unsigned index)
{
	return chunk_at(heap, index) + 7 * heap->page + 48;
}

/* A link is mangled with its own address, which may be in the page after that of the chunk. */
static void a_link_may_be_in_the_next_page(void **state)
{
	const struct heap *heap = *state;
	const uint64_t chunk = chunk_at(heap, 1) + 8 * heap->page - 16, next = fast_at(heap, 2);
	struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	struct flmem_glibc_link link;

	put_fast(chunk, flmem_glibc_fast_size(0), next);
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	counting_peek_open(&process, &counting);
	assert_int_equal(flmem_glibc_fast_link(counting.peek, layout(), chunk,
					       flmem_glibc_fast_size(0), &link),
			 0);
	assert_null(link.wrong);
	assert_int_equal(link.next, next);
	flmem_process_close(&process);
}

/* Two fastbins of 40 chunks each are followed together. */
static void fastbins_are_read_together(void **state)
{
	const struct heap *heap = *state;
	struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;

	for (unsigned i = 0; i < 80; i++)
		put_fast(fast_at(heap, i), flmem_glibc_fast_size(i % 2),
			 i < 78 ? fast_at(heap, i + 2) : 0);
	put(heap->arena + layout()->fastbins, fast_at(heap, 0));
	put(heap->arena + layout()->fastbins + 8, fast_at(heap, 1));
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	counting_peek_open(&process, &counting);
	fetch_lists(heap, counting.peek, NULL);
	assert_in_range(counting.calls, 1, 50);
	counting.calls = 0;
	for (unsigned i = 0; i < 80; i++) {
		struct flmem_glibc_link link;

		assert_int_equal(flmem_glibc_fast_link(counting.peek, layout(), fast_at(heap, i),
						       flmem_glibc_fast_size(i % 2), &link),
				 0);
		assert_null(link.wrong);
	}
	assert_int_equal(counting.calls, 0);
	flmem_process_close(&process);
}

/* Of each list only the ends are read. */
static void a_late_fetch_ends(void **state)
{
	const struct heap *heap = *state;
	struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;

	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	counting_peek_open(&process, &counting);
	fetch_lists(heap, counting.peek, is_late_at_once);
	assert_in_range(counting.calls, 1, 4);
	flmem_process_close(&process);
}

/* Links lead nowhere, or in circles: fewer chunks are read, and the search ends. */
static void broken_lists_are_left(void **state)
{
	const struct heap *heap = *state;
	const uint64_t words[] = {
		0, 8, UINT64_MAX, UINT64_MAX - 15, chunk_at(heap, 3), heap->arena + heap->length};
	struct flmem_process process = FLMEM_PROCESS_INIT;

	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(words); i++) {
		FLMEM_AUTO(counting_peek_close) struct counting_peek counting;

		put(chunk_at(heap, 6) + 16, words[i]);
		put(chunk_at(heap, 7) + 24, words[i]);
		put(chunk_at(heap, 8) + 8, words[i]);
		counting_peek_open(&process, &counting);
		fetch_lists(heap, counting.peek, NULL);
		assert_in_range(counting.calls, 1, 1000);
	}
	flmem_process_close(&process);
}

/* Two circles, one from each end, do not meet: the size of the cache ends the search. */
static void circles_are_left(void **state)
{
	const struct heap *heap = *state;
	struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;

	put(chunk_at(heap, BINS) + 16, chunk_at(heap, 0));
	put(chunk_at(heap, CHUNKS - 2 * BINS) + 24, chunk_at(heap, CHUNKS - BINS));
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	counting_peek_open(&process, &counting);
	alarm(5);
	fetch_lists(heap, counting.peek, NULL);
	alarm(0);
	assert_in_range(counting.calls, 1, 1000);
	flmem_process_close(&process);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bins_are_read_together, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lists_are_fetched_anew, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_link_may_be_in_the_next_page, set_up, tear_down),
		cmocka_unit_test_setup_teardown(fastbins_are_read_together, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_late_fetch_ends, set_up, tear_down),
		cmocka_unit_test_setup_teardown(circles_are_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(broken_lists_are_left, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("glibc_links", tests, NULL, NULL);
}
