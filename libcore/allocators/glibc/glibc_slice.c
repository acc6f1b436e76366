/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_slice.h"

#include <stdlib.h>
#include <string.h>

#include "allocators/glibc/glibc_tcache.h"

#define HOPS 12U /* number of consecutive chunks that prove a start */
/* Limit of reads outside of a slice, of which a hostile heap may cause many. */
#define FAR_MAX	    8192U
#define PIECE_PAGES 4U
/* Number of pieces with the smallest pages, with the partial pages at both ends of a slice. */
#define PIECES_MAX (FLMEM_GLIBC_SLICE_MAX / (PIECE_PAGES * 4096U) + 5U)
#define RESTARTS   8U /* how often the chain may be lost and found again */
/*
 * Start of the search before a slice: more than the largest chunk of a fastbin, so that one that
 * reaches into the slice is found.
 */
#define LOOK_BACK 512U

struct flmem_glibc_slicer {
	struct flmem_glibc_slicer_options o;
	uint64_t page;
	unsigned char *bytes;
	uint64_t start, end; /* the address range of `bytes` */
	bool loaded[PIECES_MAX];
	unsigned far; /* number of reads outside that range for this slice */
};

/* The first words of a chunk. */
struct slice_head {
	uint64_t before, size;
};

/* State of reading one slice. */
struct slice_reading {
	struct flmem_glibc_slicer *slicer;
	const struct flmem_glibc_stretch *stretch;
	uint64_t from, to;
	struct flmem_glibc_sums sums;
	uint64_t run; /* start of the run of free chunks before the current one; 0: none */
	uint64_t previous;
	bool previous_fast;
};

struct flmem_glibc_slicer *flmem_glibc_slicer_new(const struct flmem_glibc_slicer_options *options)
{
	struct flmem_glibc_slicer *slicer = calloc(1, sizeof(*slicer));

	if (!slicer)
		return NULL;
	slicer->o = *options;
	slicer->page = flmem_peek_page_bytes(options->peek);
	/* A slice may begin and end within a page. */
	slicer->bytes = malloc((size_t)(FLMEM_GLIBC_SLICE_MAX + 2 * slicer->page));
	if (!slicer->bytes) {
		free(slicer);
		return NULL;
	}
	return slicer;
}

void flmem_glibc_slicer_free(struct flmem_glibc_slicer *slicer)
{
	if (!slicer)
		return;
	free(slicer->bytes);
	free(slicer);
}

static uint64_t get_size(const struct slice_head *head)
{
	return head->size & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;
}

static void begin_slice(struct flmem_glibc_slicer *slicer, uint64_t from, uint64_t to)
{
	slicer->start = from & ~(slicer->page - 1);
	slicer->end = (to + slicer->page - 1) & ~(slicer->page - 1);
	memset(slicer->loaded, 0, sizeof(slicer->loaded));
	slicer->far = 0;
	flmem_peek_prepare(slicer->o.peek, slicer->start, slicer->end);
}

/* Loads the piece of the slice with this number, and three more if the one before it was loaded. */
static bool load_piece(struct flmem_glibc_slicer *slicer, size_t piece)
{
	const uint64_t length = PIECE_PAGES * slicer->page;
	const uint64_t start = slicer->start + piece * length;
	const size_t pieces = piece && slicer->loaded[piece - 1] ? 4 : 1;
	uint64_t pages = (slicer->end - start) / slicer->page;

	if (slicer->loaded[piece])
		return true;
	if (pages > pieces * PIECE_PAGES)
		pages = pieces * PIECE_PAGES;
	if (flmem_peek_read_pages(slicer->o.peek, start, (size_t)pages,
				  slicer->bytes + piece * length, NULL))
		return false;
	for (uint64_t i = 0; i * PIECE_PAGES < pages; i++)
		slicer->loaded[piece + i] = true;
	return true;
}

static bool read_bytes(struct flmem_glibc_slicer *slicer, uint64_t address, void *out,
		       size_t length)
{
	const uint64_t offset = address - slicer->start;
	const uint64_t piece = PIECE_PAGES * slicer->page;

	if (address >= slicer->start && address < slicer->end && length <= slicer->end - address) {
		for (uint64_t i = offset / piece; i <= (offset + length - 1) / piece; i++)
			if (!load_piece(slicer, (size_t)i))
				return false;
		memcpy(out, slicer->bytes + offset, length);
		return true;
	}
	if (slicer->far++ >= FAR_MAX)
		return false;
	return flmem_peek_read(slicer->o.peek, address, out, length) == 0;
}

static bool is_sane_head(const struct flmem_glibc_stretch *stretch, uint64_t chunk,
			 const struct slice_head *head)
{
	const uint64_t size = get_size(head);

	return size >= FLMEM_GLIBC_MIN_CHUNK && size % FLMEM_GLIBC_ALIGNMENT == 0 &&
	       size <= stretch->end - chunk && !(head->size & FLMEM_GLIBC_IS_MMAPPED) &&
	       !(stretch->main && head->size & FLMEM_GLIBC_NON_MAIN);
}

static bool follows_chunk(const struct slice_head *head, uint64_t previous, uint64_t chunk)
{
	return head->size & FLMEM_GLIBC_PREV_INUSE || head->before == chunk - previous;
}

/* Reports whether a free chunk precedes this one: both of its ends have the same length. */
static bool is_after_free(struct slice_reading *cut, uint64_t chunk)
{
	struct slice_head head, whole;

	return read_bytes(cut->slicer, chunk, &head, sizeof(head)) &&
	       !(head.size & FLMEM_GLIBC_PREV_INUSE) &&
	       head.before <= chunk - cut->stretch->start &&
	       read_bytes(cut->slicer, chunk - head.before, &whole, sizeof(whole)) &&
	       get_size(&whole) == head.before;
}

static bool is_chunk(struct slice_reading *cut, uint64_t chunk)
{
	const uint64_t first = chunk;
	uint64_t previous = 0;

	for (unsigned hop = 0; hop < HOPS; hop++) {
		struct slice_head head;

		/* At the end of the stretch no further chunk can prove the start. */
		if (chunk == cut->stretch->end)
			return hop > 1 || (hop && is_after_free(cut, first));
		if (!read_bytes(cut->slicer, chunk, &head, sizeof(head)) ||
		    !is_sane_head(cut->stretch, chunk, &head) ||
		    (previous && !follows_chunk(&head, previous, chunk)))
			return false;
		previous = chunk;
		chunk += get_size(&head);
	}
	return true;
}

/* Returns the first chunk of the slice from an address on, or 0. */
static uint64_t find_chunk(struct slice_reading *cut, uint64_t address)
{
	address = (address + FLMEM_GLIBC_ALIGNMENT - 1) & ~(uint64_t)(FLMEM_GLIBC_ALIGNMENT - 1);
	for (; address < cut->to; address += FLMEM_GLIBC_ALIGNMENT)
		if (is_chunk(cut, address))
			return address;
	return 0;
}

/* Counts the bytes of the slice that malloc_trim would release, with its rounding. */
static uint64_t count_slice_trimmable(const struct slice_reading *cut, uint64_t start, uint64_t end)
{
	const uint64_t page = cut->slicer->page;

	start = (start + FLMEM_GLIBC_CHUNK_STRUCT + page - 1) & ~(page - 1);
	if (start < cut->from)
		start = cut->from;
	end &= ~(page - 1);
	return start < end ? flmem_peek_resident(cut->slicer->o.peek, start, end) : 0;
}

static void close_free_run(struct slice_reading *cut, uint64_t end)
{
	const uint64_t start = cut->run < cut->from ? cut->from : cut->run;

	if (end > cut->to)
		end = cut->to;
	if (cut->run && start < end) {
		cut->sums.free += end - start;
		cut->sums.free_resident += flmem_peek_resident(cut->slicer->o.peek, start, end);
		cut->sums.trimmable += count_slice_trimmable(cut, cut->run, end);
		cut->sums.extents++;
	}
	cut->run = 0;
}

/*
 * Reports whether a chunk that is marked in use is in a fastbin: it then links to a chunk of the
 * same size. The links of a tcache point past the heads of chunks.
 */
static bool is_in_fastbin(const struct slice_reading *cut, uint64_t chunk, uint64_t size)
{
	const struct flmem_glibc_slicer_options *o = &cut->slicer->o;
	const uint64_t place = chunk + 16;
	uint64_t link;
	struct slice_head target;

	if (size > o->fast_max || !read_bytes(cut->slicer, place, &link, sizeof(link)))
		return false;
	if (o->layout->mangles)
		link ^= place >> 12;
	if (!link)
		return o->layout->mangles;
	if (link % FLMEM_GLIBC_ALIGNMENT || link < o->low || link >= o->high)
		return false;
	return read_bytes(cut->slicer, link, &target, sizeof(target)) && get_size(&target) == size;
}

static void check_slice_tcache(struct slice_reading *cut, uint64_t chunk)
{
	const struct flmem_glibc_slicer_options *o = &cut->slicer->o;
	unsigned char bytes[FLMEM_GLIBC_TCACHE_CHUNK_MAX];
	const unsigned length = o->layout->tcache.chunk_bytes - 16;

	if (read_bytes(cut->slicer, chunk + 16, bytes, length) &&
	    flmem_glibc_tcache_read(o->peek, o->layout, o->tcache_count, bytes, &cut->sums.cached))
		cut->sums.tcache_structs += length + 16;
}

/*
 * Starts at the first chunk found. The memory before it belongs to a chunk that begins before the
 * slice.
 */
static void begin_at_chunk(struct slice_reading *cut, uint64_t chunk)
{
	struct slice_head head;

	cut->previous = 0;
	cut->previous_fast = false;
	cut->run = 0;
	if (!read_bytes(cut->slicer, chunk, &head, sizeof(head)) ||
	    head.size & FLMEM_GLIBC_PREV_INUSE || head.before > chunk)
		return;
	cut->run = cut->previous = chunk - head.before;
}

/* Processes the chunk and moves to the next; false when it cannot be a chunk. */
static bool pass_chunk(struct slice_reading *cut, uint64_t *chunk)
{
	struct slice_head head;

	if (!read_bytes(cut->slicer, *chunk, &head, sizeof(head)) ||
	    (cut->previous && !follows_chunk(&head, cut->previous, *chunk)))
		return false;
	if (!(head.size & FLMEM_GLIBC_PREV_INUSE) || cut->previous_fast) {
		if (!cut->run)
			cut->run = cut->previous;
	} else {
		close_free_run(cut, cut->previous);
	}
	if (*chunk >= cut->to)
		return true;
	if (!is_sane_head(cut->stretch, *chunk, &head))
		return false;
	cut->previous = *chunk;
	cut->previous_fast = is_in_fastbin(cut, *chunk, get_size(&head));
	if (get_size(&head) == cut->slicer->o.layout->tcache.chunk_bytes && *chunk >= cut->from &&
	    *chunk != cut->stretch->start)
		check_slice_tcache(cut, *chunk);
	*chunk += get_size(&head);
	cut->sums.chunks++;
	return true;
}

/*
 * Processes all chunks up to the first one after the slice; searches the next start where the chain
 * is lost.
 */
static void pass_chunks(struct slice_reading *cut, uint64_t chunk)
{
	unsigned restarts = 0;
	bool last = false;

	while (chunk && !last) {
		last = chunk >= cut->to;
		if (pass_chunk(cut, &chunk))
			continue;
		close_free_run(cut, cut->previous);
		chunk = last || restarts++ == RESTARTS ? 0 : find_chunk(cut, chunk + 16);
		if (chunk)
			begin_at_chunk(cut, chunk);
	}
	close_free_run(cut, chunk ? chunk : cut->previous);
}

bool flmem_glibc_slice_read(struct flmem_glibc_slicer *slicer,
			    const struct flmem_glibc_stretch *stretch, uint64_t from, uint64_t to,
			    struct flmem_glibc_sums *ret_sums)
{
	struct slice_reading cut = {.slicer = slicer, .stretch = stretch, .from = from, .to = to};
	uint64_t search = stretch->start, chunk = 0;

	if (from < search || from >= to || to - from > FLMEM_GLIBC_SLICE_MAX)
		return false;
	if (from - search > LOOK_BACK)
		search = from - LOOK_BACK;
	begin_slice(slicer, search, to);
	chunk = find_chunk(&cut, search);
	if (!chunk)
		return false;
	begin_at_chunk(&cut, chunk);
	pass_chunks(&cut, chunk);
	cut.sums.walked = to - from;
	*ret_sums = cut.sums;
	return true;
}
