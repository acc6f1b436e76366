/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/text.h"

#define NOTE_ALGORITHM "flmem.algorithm"
#define NOTE_ROUND     "flmem.round"
#define NOTE_REQUEST   "flmem.request"
#define PREFIX_MAX     (sizeof("momentum.") - 1)
#define BYTES_MAX      (UINT64_C(1) << 56) /* limit with which all sizes fit 63 bits */
/* Shorter pieces are left to the flush: a call for each small tensor would cost more. */
#define PUSHED_BYTES (64U << 10)

static const char *const state_prefixes[] = {
	[FLMEM_SLOT_MODEL] = "model.",
	[FLMEM_SLOT_MOMENTUM] = "momentum.",
	[FLMEM_SLOT_VARIANCE] = "variance.",
};

void flmem_state_clear(struct flmem_state *state)
{
	flmem_inputs_clear(&state->input, 1);
	flmem_layout_clear(&state->layout);
	flmem_part_file_clear(&state->part);
	for (size_t i = 0; state->names && i < state->slots * state->tensors; i++)
		free(state->names[i]);
	free(state->names);
	free(state->places);
	free(state->chunks);
	*state = (struct flmem_state)FLMEM_STATE_INIT;
}

static int state_no_memory(const struct flmem_state *state, struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot list the tensors of '%s'", state->path);
}

static bool is_kept(const struct flmem_layout *model, size_t tensor)
{
	enum flmem_element element = (enum flmem_element)model->elements[tensor];

	return element != FLMEM_ELEMENTS_COUNT && flmem_element_is_real(element);
}

/* Adds the state's tensor for one slot of one tensor of the model. */
static bool add_state_tensor(struct flmem_state *state, const struct flmem_layout *model,
			     size_t slot, size_t t, struct flmem_tensor_list *list)
{
	const struct flmem_tensor *tensor = model->order[t];
	enum flmem_element element = (enum flmem_element)model->elements[t];
	bool wide = flmem_state_element(element) == FLMEM_ELEMENT_F64;
	char **name = &state->names[slot * state->tensors + t];

	if (asprintf(name, "%s%s", state_prefixes[slot], tensor->name) < 0) {
		*name = NULL;
		return false;
	}
	list->tensors[list->count++] = (struct flmem_tensor){
		.name = *name,
		.dtype = flmem_dtype_find(wide ? "F64" : "F32"),
		.bytes = tensor->bytes / flmem_element_bytes(element) * (wide ? 8 : 4),
		.shape = tensor->shape,
		.rank = tensor->rank,
		/* The file is not used after find_state_places(). */
		.file = (uint32_t)(slot * state->tensors + t),
	};
	return true;
}

/* Finds the place of each slot of each tensor: the state's own order is by type and name. */
static void find_state_places(struct flmem_state *state)
{
	for (size_t s = 0; s < state->layout.list.count; s++) {
		size_t i = state->layout.order[s]->file;

		state->places[i] = state->layout.begins[s];
	}
}

static int make_list(struct flmem_state *state, const struct flmem_layout *model,
		     struct flmem_tensor_list *list)
{
	size_t count = state->slots * state->tensors;

	list->tensors = calloc(count + 1, sizeof(*list->tensors));
	list->extents = calloc(model->list.extent_count + 1, sizeof(*list->extents));
	list->notes = calloc(3, sizeof(*list->notes));
	if (!list->tensors || !list->extents || !list->notes)
		return -ENOMEM;
	if (model->list.extent_count)
		memcpy(list->extents, model->list.extents,
		       model->list.extent_count * sizeof(*list->extents));
	for (size_t slot = 0; slot < state->slots && slot < FLMEM_SLOTS_MAX; slot++)
		for (size_t t = 0; t < state->tensors; t++)
			if (is_kept(model, t) && !add_state_tensor(state, model, slot, t, list))
				return -ENOMEM;
	flmem_tensor_list_sort(list);
	return 0;
}

/* Refuses a state that is too large for its format: it could be written, but not be read again. */
static int check_state_size(const struct flmem_state *state, const struct flmem_layout *model,
			    struct flmem_error *err)
{
	char shown[64];

	if (flmem_layout_bytes(model) > BYTES_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the state of a model of %" PRIu64 " bytes is too large",
				       flmem_layout_bytes(model));
	for (size_t t = 0; t < state->tensors; t++)
		if (strlen(model->order[t]->name) > FLMEM_TENSOR_NAME_MAX - PREFIX_MAX)
			return flmem_error_set(
				err, FLMEM_EUSAGE, 0,
				"the name of tensor '%s' is too long for a state; "
				"at most %zu bytes",
				flmem_text_escape(model->order[t]->name, shown, sizeof(shown)),
				FLMEM_TENSOR_NAME_MAX - PREFIX_MAX);
	return 0;
}

static const char *note_of(const struct flmem_tensor_list *list, const char *key)
{
	for (size_t i = 0; i < list->note_count; i++)
		if (strcmp(list->notes[i].key, key) == 0)
			return list->notes[i].value;
	return "";
}

/* Checks the metadata of an existing state. */
static int check_notes(struct flmem_state *state, const struct flmem_tensor_list *list,
		       const struct flmem_state_round *round, const char *request,
		       struct flmem_error *err)
{
	const char *algorithm = note_of(list, NOTE_ALGORITHM), *text = note_of(list, NOTE_ROUND);
	uint64_t last;
	char shown[64];

	if (strcmp(algorithm, round->algorithm) != 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a state of '%s' (its algorithm: '%s'); name "
				       "another --state",
				       state->path, round->algorithm,
				       flmem_text_escape(algorithm, shown, sizeof(shown)));
	if (!flmem_text_read_digits(&text, &last) || *text || last == UINT64_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' does not record its round",
				       state->path);
	if (round->resume && strcmp(note_of(list, NOTE_REQUEST), request) == 0) {
		flmem_part_file_forget(state->path);
		flmem_part_file_forget(round->output);
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "round %" PRIu64
				       " is complete: '%s' already includes these inputs; without "
				       "--resume they are aggregated as a new round",
				       last, state->path);
	}
	state->round = last + 1;
	return 0;
}

static int read_existing(struct flmem_state *state, const struct flmem_state_round *round,
			 const char *request, struct flmem_error *err)
{
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	FLMEM_AUTO_CLOSE int fd = open(state->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat status;
	int rc;

	state->round = 1;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return flmem_error_set(err, flmem_code_of_open(errno), errno, "cannot read '%s'",
				       state->path);
	if (fstat(fd, &status) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", state->path);
	if (!S_ISREG(status.st_mode))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a regular file; name another --state",
				       state->path);
	state->exists = true;
	rc = flmem_safetensors_read(FLMEM_SOURCE_FD(fd), state->path, &list, err);
	return rc ? rc : check_notes(state, &list, round, request, err);
}

static void add_notes(struct flmem_tensor_list *list, const struct flmem_state_round *round,
		      const char *number, const char *request)
{
	const struct flmem_tensor_note notes[] = {
		{NOTE_ALGORITHM, round->algorithm}, {NOTE_ROUND, number}, {NOTE_REQUEST, request}};

	memcpy(list->notes, notes, sizeof(notes));
	list->note_count = FLMEM_ARRAY_SIZE(notes);
}

int flmem_state_open(struct flmem_state *state, const char *path, size_t slots,
		     const struct flmem_layout *model, const struct flmem_state_round *round,
		     struct flmem_error *err)
{
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	char request[24], number[24];
	int rc;

	state->path = path;
	state->tensors = model->list.count;
	rc = check_state_size(state, model, err);
	if (rc)
		return rc;
	state->slots = slots;
	state->places = calloc(slots * state->tensors + 1, sizeof(*state->places));
	state->names = calloc(slots * state->tensors + 1, sizeof(*state->names));
	if (!state->places || !state->names || make_list(state, model, &list))
		return state_no_memory(state, err);
	snprintf(request, sizeof(request), "%016" PRIx64, round->request);
	rc = read_existing(state, round, request, err);
	if (rc)
		return rc;
	snprintf(number, sizeof(number), "%" PRIu64, state->round);
	add_notes(&list, round, number, request);
	rc = flmem_layout_init(&state->layout, &list, path, err);
	state->layout.list.note_count = 0; /* their texts go out of scope here */
	if (rc)
		return rc;
	if (state->layout.header.length > FLMEM_SAFETENSORS_HEAD_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the header of '%s' would be larger than the %u bytes that "
				       "the format allows: too many tensors",
				       path, FLMEM_SAFETENSORS_HEAD_MAX);
	find_state_places(state);
	if (state->exists)
		rc = flmem_input_open(path, round->model, &state->layout, &state->input, err);
	return rc == FLMEM_EUSAGE
		       ? flmem_error_prefix(err, rc, "'%s' is not the state of this model", path)
		       : rc;
}

int flmem_state_check(const struct flmem_state *state, struct flmem_error *err)
{
	struct stat now;
	bool exists = stat(state->path, &now) == 0;

	if (!exists && flmem_code_of_open(errno) == FLMEM_EFAILED)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot examine '%s'",
				       state->path);
	if (exists == state->exists &&
	    (!exists || flmem_file_is_same(&now, &state->input.files[0].status)))
		return 0;
	return flmem_error_set(
		err, FLMEM_EFAILED, 0,
		"another aggregation has just written '%s'; run the command again for "
		"the next round",
		state->path);
}

int flmem_state_move(const struct flmem_state *state, enum flmem_state_move move,
		     const struct flmem_state_piece *piece, char *bytes, struct flmem_error *err)
{
	uint64_t begin = state->places[piece->slot * state->tensors + piece->tensor] +
			 piece->first * piece->element_bytes;
	size_t length = (size_t)piece->count * piece->element_bytes;
	uint64_t offset = state->layout.header.length + begin;
	int rc;

	switch (move) {
	case FLMEM_STATE_READ:
		return flmem_input_read(&state->input, &state->layout, begin, begin + length, bytes,
					err);
	case FLMEM_STATE_WRITE:
		rc = flmem_part_file_write(&state->part, offset, bytes, length, err);
		/* Otherwise the disk would start at the flush, when all is combined. */
		if (!rc && length >= PUSHED_BYTES)
			sync_file_range(state->part.fd, (off_t)offset, (off_t)length,
					SYNC_FILE_RANGE_WRITE);
		return rc;
	case FLMEM_STATE_VERIFY:
		break;
	}
	if (!flmem_io_read_at(state->part.fd, offset, bytes, length))
		return flmem_error_set(err, FLMEM_EFAILED, 0, "cannot read '%s.part'", state->path);
	return 0;
}
