/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/peek.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/attempt.h"
#include "proc/peek_words.h"
#include "proc/process.h"
#include "proc/status.h"

#define CACHE_BYTES    ((size_t)4 << 20)
#define WINDOW_BITS    16384U /* pages: 64 MiB of 4 KiB, an arena's heap */
#define AROUND_PAGES   1024U  /* the window around a single address */
#define WORD_BITS      64U
#define WINDOWS	       32U
#define NOWHERE	       UINT64_MAX
#define GROUP_PAGES    16U /* pages read at once; divides the number of slots for every page size */
#define WORDS_PER_PAGE 4U  /* fetches of single words before the whole page is fetched */

/* A window of addresses, and which of its pages are resident. */
struct peek_window {
	uint64_t start, end; /* page boundaries; equal: an empty window */
	uint64_t bits[WINDOW_BITS / WORD_BITS];
};

struct flmem_peek {
	struct flmem_peek_source source;
	struct flmem_process const *process;
	struct flmem_pages pages;
	bool swaps_in;
	struct peek_window windows[WINDOWS];
	unsigned oldest;	     /* index of the window to be replaced next */
	struct peek_window *current; /* the window last used, or being filled */
	unsigned wide;		     /* windows that a fetch has filled since the last forget */
	uint64_t last_group;	     /* page of the last cache miss */
	size_t slots;
	uint64_t *slot_page; /* address of the page in each slot, or NOWHERE */
	unsigned char *cache;
	struct flmem_peek_words *words;
};

struct flmem_peek *flmem_peek_new(const struct flmem_peek_source *source)
{
	struct flmem_peek *peek = calloc(1, sizeof(*peek));

	if (!peek)
		return NULL;
	peek->source = *source;
	peek->pages = (struct flmem_pages)FLMEM_PAGES_INIT;
	peek->slots = CACHE_BYTES / source->page_bytes;
	peek->slot_page = calloc(peek->slots, sizeof(*peek->slot_page));
	peek->cache = malloc(CACHE_BYTES);
	/* In a host program this must not take memory from its heap. */
	peek->words = mmap(NULL, sizeof(*peek->words), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (peek->words == MAP_FAILED)
		peek->words = NULL;
	if (!peek->slot_page || !peek->cache || !peek->words) {
		flmem_peek_free(peek);
		return NULL;
	}
	flmem_peek_forget(peek);
	return peek;
}

void flmem_peek_free(struct flmem_peek *peek)
{
	if (!peek)
		return;
	flmem_pages_close(&peek->pages);
	free(peek->slot_page);
	free(peek->cache);
	if (peek->words)
		munmap(peek->words, sizeof(*peek->words));
	free(peek);
}

static int visit_live(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
		      void *visit_context)
{
	struct flmem_peek *peek = context;

	return flmem_pages_each(&peek->pages, start, end, visit, visit_context);
}

static int visit_live_kept(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
			   void *visit_context)
{
	struct flmem_peek *peek = context;

	return flmem_pages_each_kept(&peek->pages, start, end, visit, visit_context);
}

static int read_live(void *context, const struct iovec *local, const struct iovec *remote,
		     size_t count)
{
	const struct flmem_peek *peek = context;
	size_t wanted = 0;
	ssize_t got;

	for (size_t i = 0; i < count; i++)
		wanted += remote[i].iov_len;
	if (peek->process->pidfd < 0)
		return -ENOSYS;
	if (flmem_attempt_is_lost())
		return -ETIMEDOUT;
	got = process_vm_readv(peek->process->pid, local, count, remote, count, 0);
	if (got < 0)
		return -errno;
	return (size_t)got == wanted ? 0 : -EFAULT;
}

/*
 * Returns true if the kernel has swapped the page out. A page that is being migrated has an entry
 * for swap as well, so VmSwap decides, which counts all swapped pages of anonymous memory.
 */
static bool is_swapped_live(void *context, uint64_t address)
{
	const struct flmem_peek *peek = context;
	struct flmem_status status;

	return flmem_pages_has_swap_entry(&peek->pages, address) &&
	       !flmem_status_read(peek->process, &status, NULL) && !status.swap_bytes.unknown &&
	       status.swap_bytes.value;
}

int flmem_peek_open(const struct flmem_process *process, struct flmem_peek **ret_peek,
		    struct flmem_error *err)
{
	const struct flmem_peek_source source = {
		.page_bytes = flmem_page_bytes(),
		.each = visit_live,
		.each_kept = visit_live_kept,
		.read = read_live,
		.swapped = is_swapped_live,
	};
	FLMEM_AUTO_PEEK struct flmem_peek *peek = flmem_peek_new(&source);
	int rc;

	if (!peek)
		return flmem_error_nomem(err, "cannot read memory");
	peek->source.context = peek;
	peek->process = process;
	rc = flmem_pages_open(process, &peek->pages, err);
	if (rc)
		return rc;
	*ret_peek = FLMEM_TAKE(peek);
	return 0;
}

uint64_t flmem_peek_page_bytes(const struct flmem_peek *peek)
{
	return peek->source.page_bytes;
}

void flmem_peek_swap_in(struct flmem_peek *peek)
{
	peek->swaps_in = peek->source.each_kept != NULL;
	flmem_peek_forget(peek);
}

bool flmem_peek_swaps_in(const struct flmem_peek *peek)
{
	return peek->swaps_in;
}

void flmem_peek_forget(struct flmem_peek *peek)
{
	for (unsigned i = 0; i < WINDOWS; i++)
		peek->windows[i].end = peek->windows[i].start = 0;
	peek->current = &peek->windows[0];
	peek->wide = 0;
	memset(peek->slot_page, 0xff, peek->slots * sizeof(*peek->slot_page));
	flmem_peek_words_forget(peek->words);
}

void flmem_peek_forget_words(struct flmem_peek *peek)
{
	flmem_peek_words_forget(peek->words);
}

static void mark_resident(void *context, uint64_t start, uint64_t end)
{
	struct flmem_peek *peek = context;
	struct peek_window *window = peek->current;
	uint64_t first = (start - window->start) / peek->source.page_bytes;
	uint64_t last = (end - window->start) / peek->source.page_bytes;

	for (uint64_t i = first; i < last && i < WINDOW_BITS; i++)
		window->bits[i / WORD_BITS] |= UINT64_C(1) << i % WORD_BITS;
}

/* Fills the oldest window; on failure nothing in it counts as resident. */
static void fill_peek_window(struct flmem_peek *peek, uint64_t start, uint64_t end)
{
	struct peek_window *window = &peek->windows[peek->oldest];

	peek->oldest = (peek->oldest + 1) % WINDOWS;
	peek->current = window;
	window->start = start;
	window->end = end;
	memset(window->bits, 0, sizeof(window->bits));
	if ((peek->swaps_in ? peek->source.each_kept : peek->source.each)(
		    peek->source.context, start, end, mark_resident, peek))
		memset(window->bits, 0, sizeof(window->bits));
}

static bool covers_address(const struct peek_window *window, uint64_t address)
{
	return address - window->start < window->end - window->start;
}

/*
 * Makes a window that covers the address the current one; a new window reaches to `end` if
 * possible. Returns false if there can be no page.
 */
static bool select_window(struct flmem_peek *peek, uint64_t address, uint64_t end)
{
	const uint64_t usual = AROUND_PAGES * peek->source.page_bytes;
	const uint64_t most = WINDOW_BITS * peek->source.page_bytes;
	const uint64_t start = address & ~(usual - 1);

	if (covers_address(peek->current, address))
		return true;
	for (unsigned i = 0; i < WINDOWS; i++) {
		if (!covers_address(&peek->windows[i], address))
			continue;
		peek->current = &peek->windows[i];
		return true;
	}
	/* Otherwise the end of the address space could not be queried. */
	if (start + most < start)
		return false;
	end = end < start + most ? (end + usual - 1) & ~(usual - 1) : start + most;
	fill_peek_window(peek, start, end);
	return true;
}

bool flmem_peek_renew(struct flmem_peek *peek, uint64_t address, uint64_t end)
{
	for (unsigned i = 0; i < WINDOWS; i++)
		if (covers_address(&peek->windows[i], address))
			peek->windows[i].end = peek->windows[i].start;
	flmem_peek_forget_range(peek, address, 1);
	return select_window(peek, address, end) && flmem_peek_is_resident(peek, address);
}

bool flmem_peek_is_swapped(struct flmem_peek *peek, uint64_t address)
{
	return peek->source.swapped && peek->source.swapped(peek->source.context, address);
}

void flmem_peek_prepare(struct flmem_peek *peek, uint64_t start, uint64_t end)
{
	const uint64_t page = peek->source.page_bytes;

	start &= ~(page - 1);
	if (end > UINT64_MAX - page || end <= start)
		return;
	end = (end + page - 1) & ~(page - 1);
	if (end - start > WINDOW_BITS * page)
		end = start + WINDOW_BITS * page;
	fill_peek_window(peek, start, end);
}

bool flmem_peek_is_resident(struct flmem_peek *peek, uint64_t address)
{
	uint64_t index;

	if (!select_window(peek, address, address + 1))
		return false;
	index = (address - peek->current->start) / peek->source.page_bytes;
	return peek->current->bits[index / WORD_BITS] >> index % WORD_BITS & 1;
}

/* Counts the resident pages of the window from `first` up to `last`. */
static uint64_t count_window_pages(const struct peek_window *window, uint64_t first, uint64_t last)
{
	uint64_t count = 0;

	while (first < last) {
		uint64_t word = window->bits[first / WORD_BITS] >> first % WORD_BITS;
		uint64_t here = WORD_BITS - first % WORD_BITS;

		if (here > last - first) {
			here = last - first;
			word &= (UINT64_C(1) << here) - 1;
		}
		count += (uint64_t)__builtin_popcountll(word);
		first += here;
	}
	return count;
}

/* Counts the resident pages of the range within the current window. */
static uint64_t count_in_window(const struct flmem_peek *peek, uint64_t start, uint64_t end)
{
	const struct peek_window *window = peek->current;
	const uint64_t page = peek->source.page_bytes;
	const uint64_t first = (start - window->start) / page;
	const uint64_t last = (end - window->start + page - 1) / page;
	uint64_t sum = count_window_pages(window, first, last) * page;

	if (start % page && count_window_pages(window, first, first + 1))
		sum -= start % page;
	if (end % page && count_window_pages(window, last - 1, last))
		sum -= page - end % page;
	return sum;
}

uint64_t flmem_peek_resident(struct flmem_peek *peek, uint64_t start, uint64_t end)
{
	uint64_t sum = 0;

	while (start < end && select_window(peek, start, end)) {
		uint64_t stop = end < peek->current->end ? end : peek->current->end;

		sum += count_in_window(peek, start, stop);
		start = stop;
	}
	return sum;
}

void flmem_peek_forget_range(struct flmem_peek *peek, uint64_t address, size_t length)
{
	const uint64_t page = peek->source.page_bytes;

	if (address > UINT64_MAX - length)
		return;
	for (uint64_t at = address & ~(page - 1); at < address + length; at += page)
		if (peek->slot_page[at / page % peek->slots] == at)
			peek->slot_page[at / page % peek->slots] = NOWHERE;
	flmem_peek_words_forget_range(peek->words, address, length);
}

/* Parts of one transfer; consecutive pages are one part. */
struct peek_transfer {
	struct iovec local[FLMEM_PEEK_PAGES_MAX], remote[FLMEM_PEEK_PAGES_MAX];
	size_t parts;
};

static void add_page(struct peek_transfer *transfer, unsigned char *to, uint64_t from, size_t page)
{
	struct iovec *last = transfer->remote + transfer->parts;

	if (transfer->parts && (uint64_t)(uintptr_t)last[-1].iov_base + last[-1].iov_len == from) {
		last[-1].iov_len += page;
		transfer->local[transfer->parts - 1].iov_len += page;
		return;
	}
	*last = (struct iovec){(void *)(uintptr_t)from, page};
	transfer->local[transfer->parts++] = (struct iovec){to, page};
}

static int run_transfer(struct flmem_peek *peek, const struct peek_transfer *transfer)
{
	return transfer->parts ? peek->source.read(peek->source.context, transfer->local,
						   transfer->remote, transfer->parts)
			       : 0;
}

/*
 * Reads those of `count` consecutive pages that are resident into their slots, which are
 * consecutive, too.
 */
static int load_pages(struct flmem_peek *peek, uint64_t start, size_t count)
{
	const size_t page = (size_t)peek->source.page_bytes;
	const size_t first = (size_t)(start / page % peek->slots);
	struct peek_transfer transfer;
	uint64_t resident = 0;
	int rc;

	transfer.parts = 0;
	for (size_t i = 0; i < count; i++) {
		peek->slot_page[first + i] = NOWHERE;
		if (!flmem_peek_is_resident(peek, start + i * page))
			continue;
		add_page(&transfer, peek->cache + (first + i) * page, start + i * page, page);
		resident |= UINT64_C(1) << i;
	}
	rc = run_transfer(peek, &transfer);
	for (size_t i = 0; i < count && !rc; i++)
		if (resident >> i & 1)
			peek->slot_page[first + i] = start + i * page;
	return rc;
}

/*
 * Returns the cached copy of the page, which is read on a miss; NULL with *ret_code set on failure.
 */
static const unsigned char *find_cached(struct flmem_peek *peek, uint64_t page, int *ret_code)
{
	const uint64_t page_bytes = peek->source.page_bytes;
	const size_t slot = (size_t)(page / page_bytes % peek->slots);
	const uint64_t group = page & ~(GROUP_PAGES * page_bytes - 1);
	const bool near =
		group - peek->last_group + GROUP_PAGES * page_bytes <= 2 * GROUP_PAGES * page_bytes;

	if (peek->slot_page[slot] == page)
		return peek->cache + slot * page_bytes;
	*ret_code = -ENODATA;
	if (!flmem_peek_is_resident(peek, page))
		return NULL;
	/*
	 * A miss next to the last one shows a list in address order, so read the following pages,
	 * too, but swap in no page that is not needed.
	 */
	*ret_code = near && !peek->swaps_in ? load_pages(peek, group, GROUP_PAGES) : -EAGAIN;
	peek->last_group = group;
	if (*ret_code)
		*ret_code = load_pages(peek, page, 1);
	return *ret_code ? NULL : peek->cache + slot * page_bytes;
}

/*
 * Queries a whole window around an address, aligned like the heaps of arenas: a fetch goes from one
 * end of a heap to the other, and small windows would replace each other.
 */
static void cover_widely(struct flmem_peek *peek, uint64_t address)
{
	const uint64_t most = WINDOW_BITS * peek->source.page_bytes;
	const uint64_t start = address & ~(most - 1);

	for (unsigned i = 0; i < WINDOWS; i++)
		if (covers_address(&peek->windows[i], address))
			return;
	if (peek->wide == WINDOWS || start + most < start)
		return;
	peek->wide++;
	fill_peek_window(peek, start, start + most);
}

/* Adds what one address needs: words, or its whole page if several words of it were read. */
static void add_fetched_words(struct flmem_peek *peek, struct peek_transfer *transfer,
			      uint64_t address)
{
	const size_t page = (size_t)peek->source.page_bytes;
	const uint64_t start = address & ~(uint64_t)(page - 1);
	const size_t slot = (size_t)(start / page % peek->slots);
	const size_t left = (size_t)(start + page - address);
	const size_t length = left < FLMEM_PEEK_WORDS_LENGTH ? left : FLMEM_PEEK_WORDS_LENGTH;
	unsigned char *to = NULL;

	if (peek->slot_page[slot] == start || flmem_peek_words_find(peek->words, address, length))
		return;
	cover_widely(peek, address);
	if (!flmem_peek_is_resident(peek, start))
		return;
	if (flmem_peek_words_of_page(peek->words, start, slot) < WORDS_PER_PAGE)
		to = flmem_peek_words_add(peek->words, address, length, start, slot);
	transfer->local[transfer->parts] = (struct iovec){to, length};
	transfer->remote[transfer->parts] = (struct iovec){(void *)(uintptr_t)address, length};
	if (!to) {
		peek->slot_page[slot] = NOWHERE;
		transfer->local[transfer->parts] = (struct iovec){peek->cache + slot * page, page};
		transfer->remote[transfer->parts] = (struct iovec){(void *)(uintptr_t)start, page};
	}
	transfer->parts++;
}

/* If two pages map to one slot, the later one is copied last, and stays. */
void flmem_peek_fetch(struct flmem_peek *peek, const uint64_t *addresses, size_t count)
{
	const size_t page = (size_t)peek->source.page_bytes;
	struct peek_transfer transfer = {.parts = 0};

	for (size_t i = 0; i < count && i < FLMEM_PEEK_PAGES_MAX; i++)
		add_fetched_words(peek, &transfer, addresses[i]);
	if (run_transfer(peek, &transfer)) {
		flmem_peek_words_undo(peek->words);
		return;
	}
	flmem_peek_words_keep(peek->words);
	for (size_t i = 0; i < transfer.parts; i++) {
		const uint64_t start = (uint64_t)(uintptr_t)transfer.remote[i].iov_base;

		if (transfer.remote[i].iov_len == page)
			peek->slot_page[start / page % peek->slots] = start;
	}
}

int flmem_peek_read(struct flmem_peek *peek, uint64_t address, void *out, size_t length)
{
	const uint64_t page_bytes = peek->source.page_bytes;
	const unsigned char *fetched;
	unsigned char *to = out;
	int rc = 0;

	if (length && address + (length - 1) < address)
		return -EFAULT;
	fetched = flmem_peek_words_find(peek->words, address, length);
	if (fetched) {
		memcpy(out, fetched, length);
		return 0;
	}
	while (length) {
		size_t offset = (size_t)(address % page_bytes);
		size_t step = (size_t)page_bytes - offset;
		const unsigned char *kept = find_cached(peek, address - offset, &rc);

		if (!kept)
			return rc;
		if (step > length)
			step = length;
		memcpy(to, kept + offset, step);
		to += step;
		address += step;
		length -= step;
	}
	return 0;
}

int flmem_peek_read_pages(struct flmem_peek *peek, uint64_t start, size_t count, void *out,
			  uint64_t *ret_resident)
{
	const size_t page = (size_t)peek->source.page_bytes;
	struct peek_transfer transfer;
	uint64_t resident = 0;
	int rc;

	if (count > FLMEM_PEEK_PAGES_MAX || start % page || start > UINT64_MAX - count * page)
		return -EINVAL;
	transfer.parts = 0;
	for (size_t i = 0; i < count; i++) {
		unsigned char *to = (unsigned char *)out + i * page;

		if (!flmem_peek_is_resident(peek, start + i * page)) {
			memset(to, 0, page);
			continue;
		}
		add_page(&transfer, to, start + i * page, page);
		resident |= UINT64_C(1) << i;
	}
	rc = run_transfer(peek, &transfer);
	if (!rc && ret_resident)
		*ret_resident = resident;
	return rc;
}

int flmem_peek_read_pieces(struct flmem_peek *peek, const struct flmem_peek_pieces *pieces,
			   void *out, uint64_t *ret_resident)
{
	struct iovec local[FLMEM_PEEK_PAGES_MAX], remote[FLMEM_PEEK_PAGES_MAX];
	const uint64_t page = peek->source.page_bytes;
	uint64_t resident = 0, address = pieces->start;
	const size_t length = pieces->length;
	size_t parts = 0;
	int rc;

	if (pieces->count > FLMEM_PEEK_PAGES_MAX || length > page)
		return -EINVAL;
	memset(out, 0, pieces->count * length);
	for (size_t i = 0; i < pieces->count; i++, address += pieces->stride) {
		if (address % page + length > page || address < pieces->start)
			return -EINVAL;
		if (!flmem_peek_is_resident(peek, address))
			continue;
		local[parts] = (struct iovec){(unsigned char *)out + i * length, length};
		remote[parts++] = (struct iovec){(void *)(uintptr_t)address, length};
		resident |= UINT64_C(1) << i;
	}
	rc = parts ? peek->source.read(peek->source.context, local, remote, parts) : 0;
	if (rc)
		return rc;
	*ret_resident = resident;
	return 0;
}
