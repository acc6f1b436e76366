/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_STATE_H
#define FLMEM_OPS_AGGREGATE_STATE_H

/*
 * What a server keeps from round to round, in a safetensors file: the model before it was rounded
 * to the types of the output, and moments of its steps. The file is replaced after the output:
 * until then, an interrupted round can be computed again from the old state, with the same result.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "aggregate/algorithm.h"
#include "ops/aggregate/input.h"
#include "ops/aggregate/output_layout.h"
#include "ops/aggregate/part_file.h"

struct flmem_state {
	/* Path of the file, owned by the caller; NULL: the algorithm keeps no state. */
	const char *path;
	bool exists;	/* an earlier round wrote the file */
	uint64_t round; /* number of the next round, from 1 */
	struct flmem_layout layout;
	struct flmem_input input; /* state after the round before */
	struct flmem_part_file part;
	struct flmem_journal_chunk *chunks; /* as many as the chunks of the output */
	uint64_t *places; /* place of each slot of each tensor of the model, in the state's data */
	size_t tensors, slots;
	char **names;
};

#define FLMEM_STATE_INIT                                                           \
	{                                                                          \
		.layout = {.header = FLMEM_BUF_INIT}, .part = FLMEM_PART_FILE_INIT \
	}

/* Properties of a round that do not depend on its progress. */
struct flmem_state_round {
	const char *model; /* path of an input, for messages */
	const char *output;
	const char *algorithm;
	uint64_t request; /* fingerprint of inputs and parameters */
	bool resume;	  /* refuse a round that is already complete */
};

/*
 * Opens the state of a model; a state that does not exist starts empty. FLMEM_EUSAGE for a state of
 * another model or algorithm. `path` is not copied. Clear it also after a failure.
 */
int flmem_state_open(struct flmem_state *state, const char *path, size_t slots,
		     const struct flmem_layout *model, const struct flmem_state_round *round,
		     struct flmem_error *err);

/*
 * Checks, with the lock of its part, that no other round has written the state since it was opened:
 * replacing it would lose that round.
 */
int flmem_state_check(const struct flmem_state *state, struct flmem_error *err);

void flmem_state_clear(struct flmem_state *state);

/* Returns the type of a state's elements for elements of the model. */
static inline enum flmem_element flmem_state_element(enum flmem_element element)
{
	return element == FLMEM_ELEMENT_F64 ? FLMEM_ELEMENT_F64 : FLMEM_ELEMENT_F32;
}

/* A range of elements of one tensor, in one slot. */
struct flmem_state_piece {
	size_t tensor, slot;
	uint64_t first, count;
	size_t element_bytes;
};

enum flmem_state_move {
	FLMEM_STATE_READ,   /* state of the round before */
	FLMEM_STATE_WRITE,  /* state for the next round */
	FLMEM_STATE_VERIFY, /* state that was written, to verify it */
};

int flmem_state_move(const struct flmem_state *state, enum flmem_state_move move,
		     const struct flmem_state_piece *piece, char *bytes, struct flmem_error *err);

#endif
