/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/find_special.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/thread.h"

#define PIECE_BYTES ((uint64_t)64 << 10)
/*
 * Inputs of this size or more are searched by two threads; a caller that waits for the result
 * leaves its processor free.
 */
#define SHARED_BYTES ((uint64_t)8 << 20)
#define NO_TENSOR    SIZE_MAX

#define EIGHTS(byte) ((byte)*UINT64_C(0x0101010101010101))
#define HALVES(half) ((half)*UINT64_C(0x0001000100010001))
#define WORDS(word)  ((word)*UINT64_C(0x0000000100000001))

/*
 * For each element type, two words that cover as many elements as fit 64 bits: the bits that are
 * all set in a NaN and an infinity and in nothing else, and the lowest of these bits. Adding the
 * lowest bit to a NaN or an infinity carries into the sign bit.
 */
static const struct {
	uint64_t bits, lowest;
} specials[] = {
	[FLMEM_ELEMENT_F16] = {HALVES(0x7c00U), HALVES(0x0400U)},
	[FLMEM_ELEMENT_BF16] = {HALVES(0x7f80U), HALVES(0x0080U)},
	[FLMEM_ELEMENT_F32] = {WORDS(0x7f800000U), WORDS(0x00800000U)},
	[FLMEM_ELEMENT_F64] = {UINT64_C(0x7ff) << 52, UINT64_C(1) << 52},
	[FLMEM_ELEMENT_F8_E4M3] = {EIGHTS(0x7fU), EIGHTS(0x01U)}, /* the type has no infinities */
	[FLMEM_ELEMENT_F8_E5M2] = {EIGHTS(0x7cU), EIGHTS(0x04U)},
};

/* Returns the mask of sign bits: the sign of an element is the bit above its exponent. */
static uint64_t signs_of(enum flmem_element element)
{
	uint64_t bits = specials[element].bits;

	return (bits + specials[element].lowest) & ~bits;
}

/* Explicit vectors, because not every compiler makes them of a loop. */
typedef uint64_t word_pair __attribute__((vector_size(16)));

bool flmem_elements_have_special(enum flmem_element element, const char *from, size_t bytes)
{
	const uint64_t bits = specials[element].bits, lowest = specials[element].lowest;
	word_pair one, other, sums_of_one = {0}, sums_of_other = {0};
	uint64_t sums, word;

	for (; bytes >= 2 * sizeof(one); bytes -= 2 * sizeof(one), from += 2 * sizeof(one)) {
		memcpy(&one, from, sizeof(one));
		memcpy(&other, from + sizeof(one), sizeof(other));
		sums_of_one |= (one & bits) + lowest;
		sums_of_other |= (other & bits) + lowest;
	}
	sums_of_one |= sums_of_other;
	sums = sums_of_one[0] | sums_of_one[1];
	for (; bytes >= sizeof(word); bytes -= sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		sums |= (word & bits) + lowest;
	}
	word = 0;
	memcpy(&word, from, bytes);
	return (sums | ((word & bits) + lowest)) & signs_of(element);
}

struct special_search {
	const struct flmem_input *input;
	const struct flmem_layout *layout;
	pthread_mutex_t lock;
	size_t tensor; /* tensor of the next piece */
	uint64_t done; /* bytes of that tensor that are taken */
	size_t found;  /* first tensor with a NaN or an infinity, or NO_TENSOR */
	int rc;
	struct flmem_error why;
};

struct search_piece {
	size_t tensor;
	uint64_t at, bytes;
};

/* Takes the next piece. Returns false if there is none, or if it lies behind the first find. */
static bool take_piece(struct special_search *search, struct search_piece *ret_piece)
{
	const struct flmem_layout *layout = search->layout;
	bool taken = false;

	pthread_mutex_lock(&search->lock);
	while (!taken && !search->rc && search->found == NO_TENSOR &&
	       search->tensor < layout->list.count) {
		size_t tensor = search->tensor;
		uint64_t left = layout->order[tensor]->bytes - search->done;

		taken = left && flmem_element_is_real(layout->elements[tensor]);
		if (!taken) {
			search->tensor++;
			search->done = 0;
			continue;
		}
		*ret_piece = (struct search_piece){
			.tensor = tensor,
			.at = layout->begins[tensor] + search->done,
			.bytes = left < PIECE_BYTES ? left : PIECE_BYTES,
		};
		search->done += ret_piece->bytes;
	}
	pthread_mutex_unlock(&search->lock);
	return taken;
}

static void note_piece(struct special_search *search, size_t tensor, int rc,
		       const struct flmem_error *why)
{
	pthread_mutex_lock(&search->lock);
	if (rc) {
		search->rc = rc;
		search->why = *why;
	} else if (tensor < search->found) {
		search->found = tensor;
	}
	pthread_mutex_unlock(&search->lock);
}

static void *search_pieces(void *context)
{
	struct special_search *search = context;
	FLMEM_AUTO_FREE char *bytes = malloc(PIECE_BYTES);
	struct search_piece piece;
	struct flmem_error why = {0};

	if (!bytes) {
		int rc = flmem_error_nomem(&why, "cannot check '%s'", search->input->path);

		note_piece(search, 0, rc, &why);
		return NULL;
	}
	while (take_piece(search, &piece)) {
		int rc = flmem_input_read(search->input, search->layout, piece.at,
					  piece.at + piece.bytes, bytes, &why);

		if (rc || flmem_elements_have_special(search->layout->elements[piece.tensor], bytes,
						      (size_t)piece.bytes))
			note_piece(search, piece.tensor, rc, &why);
	}
	return NULL;
}

int flmem_input_find_special(const struct flmem_input *input, const struct flmem_layout *layout,
			     const struct flmem_tensor **ret_tensor, struct flmem_error *err)
{
	struct special_search search = {
		.input = input,
		.layout = layout,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.found = NO_TENSOR,
	};
	pthread_t helper;
	bool helped = flmem_layout_bytes(layout) >= SHARED_BYTES &&
		      flmem_thread_start(&helper, search_pieces, &search) == 0;

	search_pieces(&search);
	if (helped)
		pthread_join(helper, NULL);
	pthread_mutex_destroy(&search.lock);
	*ret_tensor = search.found == NO_TENSOR ? NULL : layout->order[search.found];
	if (search.rc && err)
		*err = search.why;
	return search.rc;
}
