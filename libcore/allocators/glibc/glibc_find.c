/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_find.h"

#include <stdlib.h>
#include <string.h>

#include "allocators/glibc/glibc_data.h"
#include "allocators/glibc/glibc_links.h"

#define BINS_WORDS (2 * FLMEM_GLIBC_BINS)
#define NEXT_WORD  (FLMEM_GLIBC_FROM_BINS_NEXT / 8)
/* The end of user space with five levels of page tables. */
#define ADDRESS_LIMIT (UINT64_C(1) << 57)
/* More than any number of threads, less than any system_mem. */
#define ATTACHED_MAX 4096U

static const char glibc_find_no_state[] =
	"malloc's data was not found in the memory of the process";
static const char no_layout[] = "flmem supports glibc's malloc from 2.17 on";
static const char glibc_find_no_memory[] = "flmem is out of memory";

static uint64_t get_word(const unsigned char *bytes, unsigned offset)
{
	uint64_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

static uint32_t get_half(const unsigned char *bytes, unsigned offset)
{
	uint32_t half;

	memcpy(&half, bytes + offset, sizeof(half));
	return half;
}

static bool read_heap_word(const struct flmem_glibc_space *space, uint64_t address,
			   uint64_t *ret_word)
{
	return flmem_peek_read(space->peek, address, ret_word, sizeof(*ret_word)) == 0;
}

struct main_arena_search {
	const struct flmem_glibc_space *space;
	struct flmem_glibc *glibc;
	bool unused, no_memory;
	unsigned bins; /* offset in the arena, once it has been found */
	/* State of the search for malloc_par. */
	struct flmem_glibc_range brk;
	bool is_in_brk; /* main_arena's top is in [heap], so its first chunk is, too */
	uint64_t stray; /* address in the last ring of arenas that is not an arena */
	bool usual;	/* accept only parameters with the defaults that nearly all programs keep */
	const struct flmem_glibc_layout *layout;
};

/* Bin 127 is beyond the largest size class, so its list head always points to itself. */
static bool is_bins(const uint64_t *words, uint64_t address)
{
	for (size_t i = FLMEM_GLIBC_BINS; i-- > 0;) {
		const uint64_t fd = words[2 * i], bk = words[2 * i + 1];
		const uint64_t self = address + 16 * i - 16;

		if (fd == self && bk == self)
			continue;
		if (i == FLMEM_GLIBC_BINS - 1 || !fd || !bk || (fd | bk) % 16 || fd == self ||
		    bk == self || fd >= ADDRESS_LIMIT || bk >= ADDRESS_LIMIT)
			return false;
	}
	return true;
}

/* The first heap of an arena begins with a heap_info, followed by the arena. */
static bool is_heap_of(const struct flmem_glibc_space *space, uint64_t arena, uint64_t heap_bytes,
		       struct flmem_glibc *glibc)
{
	uint64_t heap = arena & ~(heap_bytes - 1), owner;
	unsigned info = (unsigned)(arena - heap);

	if (arena - heap != 32 && arena - heap != 48)
		return false;
	if (glibc->heap_bytes &&
	    (heap_bytes != glibc->heap_bytes || info != glibc->heap_info_bytes))
		return false;
	flmem_peek_prepare(space->peek, heap, arena + FLMEM_GLIBC_STRUCT_MAX);
	if (!read_heap_word(space, heap, &owner) || owner != arena)
		return false;
	glibc->heap_bytes = heap_bytes;
	glibc->heap_info_bytes = info;
	return true;
}

/*
 * HEAP_MAX_SIZE is 64 MiB; four huge pages with the tunable glibc.malloc.hugetlb=2, 2.35 to 2.41.
 */
static bool is_other_arena(const struct flmem_glibc_space *space, uint64_t arena,
			   struct flmem_glibc *glibc)
{
	return arena % 16 == 0 && arena < ADDRESS_LIMIT &&
	       (is_heap_of(space, arena, UINT64_C(64) << 20, glibc) ||
		is_heap_of(space, arena, UINT64_C(8) << 20, glibc) ||
		is_heap_of(space, arena, UINT64_C(4) << 30, glibc));
}

static bool add_ring_arena(struct main_arena_search *search, uint64_t arena)
{
	struct flmem_glibc *glibc = search->glibc;
	uint64_t *grown;

	if (glibc->arena_count >= FLMEM_GLIBC_ARENAS_MAX)
		return false;
	/* The array is full when the count is a power of two. */
	if ((glibc->arena_count & (glibc->arena_count - 1)) == 0) {
		size_t room = glibc->arena_count ? 2 * glibc->arena_count : 1;

		grown = reallocarray(glibc->arenas, room, sizeof(*grown));
		if (!grown) {
			search->no_memory = true;
			return false;
		}
		glibc->arenas = grown;
	}
	glibc->arenas[glibc->arena_count++] = arena;
	return true;
}

/* Follows the ring from arena to arena back to the first. */
static bool follow_ring(struct main_arena_search *search, uint64_t main_arena, unsigned bins)
{
	struct flmem_glibc *glibc = search->glibc;
	uint64_t arena = main_arena;

	flmem_glibc_clear(glibc);
	do {
		if (arena != main_arena && !is_other_arena(search->space, arena, glibc)) {
			search->stray = arena;
			return false;
		}
		if (!add_ring_arena(search, arena))
			return false;
		if (!read_heap_word(search->space, arena + bins + FLMEM_GLIBC_FROM_BINS_NEXT,
				    &arena))
			return false;
	} while (arena != main_arena);
	return true;
}

/* Reports whether a release with this layout is possible for this process. */
static bool is_possible_row(const struct flmem_glibc_space *space,
			    const struct flmem_glibc_layout *row)
{
	return space->minor < 0 || row == flmem_glibc_layout_of(space->minor);
}

/*
 * Before the first call to malloc all lists are zero, but the ring is already closed. Memory that
 * is swapped out reads as zeroes, too.
 */
static bool is_unused(const struct main_arena_search *search, const uint64_t *words,
		      uint64_t address, uint64_t arena)
{
	const uint64_t last = address + (BINS_WORDS - 1) * sizeof(*words);

	return words[NEXT_WORD] == arena && !words[0] &&
	       memcmp(words, words + 1, (BINS_WORDS - 1) * sizeof(*words)) == 0 &&
	       !flmem_peek_is_swapped(search->space->peek, address) &&
	       !flmem_peek_is_swapped(search->space->peek, last);
}

static bool try_bins(struct main_arena_search *search, const struct flmem_glibc_piece *piece,
		     size_t at)
{
	const uint64_t address = piece->address + at * sizeof(uint64_t);
	const uint64_t *words = piece->words + at;
	bool used;

	if (at + NEXT_WORD >= piece->count || !words[NEXT_WORD])
		return false;
	used = is_bins(words, address);
	for (const struct flmem_glibc_layout *row = flmem_glibc_layouts; row->minor; row++) {
		if (!is_possible_row(search->space, row) || row->bins == search->bins)
			continue;
		search->bins = row->bins;
		if (used && follow_ring(search, address - row->bins, row->bins))
			return true;
		if (!used && is_unused(search, words, address, address - row->bins))
			search->unused = true;
	}
	search->bins = 0;
	return search->unused;
}

static bool find_bins(void *context, const struct flmem_glibc_piece *piece)
{
	struct main_arena_search *search = context;

	for (size_t i = 0; i + BINS_WORDS <= piece->count; i++) {
		const uint64_t last = piece->words[i + BINS_WORDS - 1];

		/* A cheap test first, since it runs for every word. */
		if (last && last != piece->address + 8 * (i + BINS_WORDS - 2) - 16)
			continue;
		if (try_bins(search, piece, i))
			return true;
	}
	return false;
}

static void read_params(const unsigned char *mp, const struct flmem_glibc_layout *layout,
			struct flmem_glibc_params *params)
{
	*params = (struct flmem_glibc_params){
		.known = true,
		.trim_threshold = get_word(mp, FLMEM_GLIBC_MP_TRIM_THRESHOLD),
		.mmap_threshold = get_word(mp, FLMEM_GLIBC_MP_MMAP_THRESHOLD),
		.arena_max = get_word(mp, FLMEM_GLIBC_MP_ARENA_MAX),
		.mmapped_count = get_half(mp, layout->mp.n_mmaps),
		.mmapped_bytes = get_word(mp, layout->mp.mmapped_mem),
		.sbrk_base = get_word(mp, layout->mp.sbrk_base),
		.fixed = get_half(mp, layout->mp.no_dyn_threshold) != 0,
	};
	if (layout->mp.thp_pagesize)
		params->thp_pagesize = get_word(mp, layout->mp.thp_pagesize);
	if (layout->mp.tcache_count)
		params->tcache_count = get_word(mp, layout->mp.tcache_count);
}

/* n_mmaps, n_mmaps_max and max_n_mmaps; mmapped_mem and max_mmapped_mem. */
static bool has_sane_counts(const unsigned char *mp, const struct flmem_glibc_layout *layout)
{
	const uint32_t count = get_half(mp, layout->mp.n_mmaps);
	const uint32_t count_max = get_half(mp, layout->mp.n_mmaps + 4);
	const uint32_t count_seen = get_half(mp, layout->mp.n_mmaps + 8);
	const uint64_t bytes = get_word(mp, layout->mp.mmapped_mem);

	return count_max <= INT32_MAX && count <= count_seen && count_seen <= INT32_MAX &&
	       bytes % 4096 == 0 && bytes <= get_word(mp, layout->mp.mmapped_mem + 8) &&
	       bytes < ADDRESS_LIMIT && (count == 0) == (bytes == 0);
}

static bool is_huge_size(uint64_t bytes)
{
	return (bytes & (bytes - 1)) == 0 && (bytes == 0 || bytes >= 65536);
}

/* The defaults of M_MMAP_MAX and M_ARENA_TEST. */
static bool has_usual_limits(const unsigned char *mp, const struct flmem_glibc_layout *layout)
{
	return get_half(mp, layout->mp.n_mmaps + 4) == 65536 &&
	       get_word(mp, FLMEM_GLIBC_MP_ARENA_TEST) == 8;
}

static bool is_params(const struct main_arena_search *search, const unsigned char *mp,
		      const struct flmem_glibc_layout *layout)
{
	const uint64_t base = get_word(mp, layout->mp.sbrk_base);
	const uint64_t arena_test = get_word(mp, FLMEM_GLIBC_MP_ARENA_TEST);

	if (search->usual && !has_usual_limits(mp, layout))
		return false;
	if (arena_test - 1 >= 1U << 20 || get_word(mp, FLMEM_GLIBC_MP_ARENA_MAX) > 1U << 20 ||
	    get_half(mp, layout->mp.no_dyn_threshold) > 1 || !has_sane_counts(mp, layout))
		return false;
	if (layout->mp.thp_pagesize && !is_huge_size(get_word(mp, layout->mp.thp_pagesize)))
		return false;
	if (layout->mp.tcache_count && get_word(mp, layout->mp.tcache_count) > UINT16_MAX)
		return false;
	if (base || search->is_in_brk)
		return flmem_glibc_range_has(&search->brk, base);
	/* Used for a malloc_par that does not contain the address of the heap. */
	return has_usual_limits(mp, layout);
}

static bool find_params(void *context, const struct flmem_glibc_piece *piece)
{
	struct main_arena_search *search = context;
	const size_t words = FLMEM_GLIBC_MP_BYTES / sizeof(uint64_t);

	for (size_t i = 0; i + words <= piece->count; i++) {
		const unsigned char *mp = (const unsigned char *)(piece->words + i);

		if (!is_params(search, mp, search->layout))
			continue;
		read_params(mp, search->layout, &search->glibc->params);
		return true;
	}
	return false;
}

/*
 * The chunk of the main thread's tcache distinguishes releases with the same malloc_par. It is the
 * first on the heap up to 2.41.
 */
static bool fits_first_chunk(const struct main_arena_search *search)
{
	const struct flmem_glibc_params *params = &search->glibc->params;
	uint64_t head;

	if (!params->known || !params->sbrk_base || !search->layout->tcache.chunk_bytes)
		return true;
	if (!read_heap_word(search->space, (params->sbrk_base + 15) / 16 * 16 + 8, &head))
		return true;
	head &= ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;
	return search->layout->tcache.counts_free ? head != 0x250 && head != 0x290
						  : head == search->layout->tcache.chunk_bytes;
}

/*
 * Whether a chunk of a fastbin links to the next one by its plain address. From 2.32 on links are
 * mangled, and even the last link is not zero.
 */
static bool has_plain_link(const struct main_arena_search *search, uint64_t chunk, uint64_t size)
{
	uint64_t link, head;

	if (chunk % FLMEM_GLIBC_ALIGNMENT || !read_heap_word(search->space, chunk + 16, &link))
		return false;
	return !link || (link % FLMEM_GLIBC_ALIGNMENT == 0 &&
			 read_heap_word(search->space, link + 8, &head) &&
			 (head & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS) == size);
}

/* Links distinguish 2.32 from 2.30, which is otherwise the same; without links either row works. */
static bool fits_links(const struct main_arena_search *search)
{
	const struct flmem_glibc_layout *layout = search->layout;

	if (search->space->minor >= 0 || !layout->mangles || !layout->fastbins)
		return true;
	for (size_t i = 0; i < search->glibc->arena_count; i++)
		for (unsigned bin = 0; bin < FLMEM_GLIBC_FASTBINS; bin++) {
			const uint64_t place =
				search->glibc->arenas[i] + layout->fastbins + 8 * bin;
			uint64_t chunk;

			if (read_heap_word(search->space, place, &chunk) && chunk)
				return !has_plain_link(search, chunk, flmem_glibc_fast_size(bin));
		}
	return true;
}

/* Takes the newest layout that fits; sets `fallback` to the last possible one. */
static bool try_layouts(struct main_arena_search *search,
			const struct flmem_glibc_layout **fallback)
{
	for (const struct flmem_glibc_layout *row = flmem_glibc_layouts; row->minor; row++) {
		if (!is_possible_row(search->space, row) || row->bins != search->bins)
			continue;
		search->layout = row;
		*fallback = row;
		if (flmem_glibc_data_search(search->space, find_params, search) &&
		    fits_first_chunk(search) && fits_links(search))
			return true;
		search->glibc->params.known = false;
	}
	return false;
}

/*
 * If the release is unknown, takes the newest row that fits; if none fits the parameters, one that
 * fits the arena. A wrong row can match memory a few words away from the parameters. The parameters
 * include limits that programs rarely change, so rows that find their defaults come first.
 */
static void choose_layout(struct main_arena_search *search)
{
	const struct flmem_glibc_layout *fallback = NULL;
	uint64_t top;

	if (read_heap_word(search->space,
			   search->glibc->arenas[0] + search->bins +
				   (uint64_t)FLMEM_GLIBC_FROM_BINS_TOP,
			   &top))
		search->is_in_brk = flmem_glibc_range_has(&search->brk, top);
	search->usual = true;
	if (!try_layouts(search, &fallback)) {
		search->usual = false;
		try_layouts(search, &fallback);
	}
	search->glibc->layout = search->glibc->params.known ? search->layout : fallback;
}

/*
 * attached_threads is in 2.23 and later, and in older ones with a distribution's backported fixes.
 */
static bool find_system_mem(const struct main_arena_search *search, struct flmem_glibc *glibc)
{
	const unsigned at = search->bins + FLMEM_GLIBC_FROM_BINS_ATTACHED;
	uint64_t word;

	if (!read_heap_word(search->space, glibc->arenas[0] + at, &word))
		return false;
	glibc->system_mem = word < ATTACHED_MAX ? at + 8 : at;
	glibc->state_bytes = glibc->system_mem + 16;
	return true;
}

bool flmem_glibc_find(const struct flmem_glibc_space *space, struct flmem_glibc *ret_glibc,
		      const char **ret_why)
{
	FLMEM_AUTO_GLIBC struct flmem_glibc glibc = {0};
	struct main_arena_search search = {
		.space = space,
		.glibc = &glibc,
		.brk = flmem_glibc_brk(space),
	};
	bool found;

	*ret_why = no_layout;
	if (space->minor >= 0 && !flmem_glibc_layout_of(space->minor))
		return false;
	found = flmem_glibc_data_search(space, find_bins, &search);
	*ret_why = search.no_memory ? glibc_find_no_memory : glibc_find_no_state;
	if (!found)
		return false;
	if (search.unused) {
		flmem_glibc_clear(&glibc);
	} else {
		choose_layout(&search);
		if (!find_system_mem(&search, &glibc))
			return false;
	}
	*ret_glibc = glibc;
	glibc = (struct flmem_glibc){0};
	return true;
}

/* Reports whether the arena has bins at the offset of the process's release. */
static bool has_bins(const struct flmem_glibc_space *space, uint64_t arena)
{
	const uint64_t place = arena + flmem_glibc_layout_of(space->minor)->bins;
	uint64_t words[BINS_WORDS];

	return flmem_peek_read(space->peek, place, words, sizeof(words)) == 0 &&
	       is_bins(words, place);
}

bool flmem_glibc_stray(const struct flmem_glibc_space *space, uint64_t *ret_address)
{
	FLMEM_AUTO_GLIBC struct flmem_glibc glibc = {0};
	struct main_arena_search search = {
		.space = space,
		.glibc = &glibc,
		.brk = flmem_glibc_brk(space),
	};

	if (!flmem_glibc_layout_of(space->minor) ||
	    flmem_glibc_data_search(space, find_bins, &search) || !search.stray ||
	    has_bins(space, search.stray))
		return false;
	/*
	 * The heap_info and the start of the arena share a page. If that page is swapped out, the
	 * address may be an arena.
	 */
	if (!flmem_peek_is_resident(space->peek, search.stray) &&
	    flmem_maps_find(space->maps, search.stray))
		return false;
	*ret_address = search.stray;
	return true;
}

void flmem_glibc_clear(struct flmem_glibc *glibc)
{
	free(glibc->arenas);
	*glibc = (struct flmem_glibc){0};
}

/* FNV-1a over words. */
static uint64_t hash_words(const unsigned char *bytes, size_t length)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i + 8 <= length; i += 8)
		hash = (hash ^ get_word(bytes, (unsigned)i)) * UINT64_C(0x100000001b3);
	return hash;
}

bool flmem_glibc_counts_threads(const struct flmem_glibc *glibc)
{
	return glibc->system_mem > glibc->layout->bins + FLMEM_GLIBC_FROM_BINS_ATTACHED;
}

bool flmem_glibc_arena_read(const struct flmem_glibc_space *space, const struct flmem_glibc *glibc,
			    size_t index, struct flmem_glibc_arena *ret_arena)
{
	const struct flmem_glibc_layout *layout = glibc->layout;
	unsigned char bytes[FLMEM_GLIBC_STRUCT_MAX];
	struct flmem_glibc_arena arena = {.address = glibc->arenas[index]};

	flmem_peek_forget_range(space->peek, arena.address, glibc->state_bytes);
	flmem_peek_prepare(space->peek, arena.address, arena.address + glibc->state_bytes);
	if (glibc->state_bytes > sizeof(bytes) ||
	    flmem_peek_read(space->peek, arena.address, bytes, glibc->state_bytes))
		return false;
	arena.locked = get_half(bytes, 0) != 0;
	arena.top = get_word(bytes, layout->bins + (unsigned)FLMEM_GLIBC_FROM_BINS_TOP);
	arena.system_mem = get_word(bytes, glibc->system_mem);
	if (flmem_glibc_counts_threads(glibc))
		arena.threads = get_word(bytes, layout->bins + FLMEM_GLIBC_FROM_BINS_ATTACHED);
	for (unsigned i = 0; layout->fastbins && i < FLMEM_GLIBC_FASTBINS; i++)
		arena.fastbins[i] = get_word(bytes, layout->fastbins + 8 * i);
	/* The hash leaves out the lock at the start of the arena. */
	arena.state = hash_words(bytes + 8, glibc->state_bytes - 8);
	*ret_arena = arena;
	return true;
}
