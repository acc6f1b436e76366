/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes the opcodes of a pickle (pickletools.py of CPython lists them); pickle_names.c handles
 * the calls.
 */
#include "model/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes/little_endian.h"

#define ELEMENTS_MAX (UINT32_C(1) << 23) /* limit of each array; a tensor takes about 25 elements */

void flmem_pickle_clear(struct flmem_pickle *pickle)
{
	free(pickle->text);
	free(pickle->stack);
	free(pickle->memo);
	free(pickle->nodes);
	free(pickle->boxes);
	free(pickle->storages);
	free(pickle->tensors);
	*pickle = (struct flmem_pickle){0};
}

int flmem_pickle_fail(struct flmem_pickle *pickle, const char *why)
{
	return flmem_error_set(pickle->err, FLMEM_EUSAGE, 0,
			       "'%s' cannot be read: its pickle %s (byte %zu)", pickle->path, why,
			       pickle->at);
}

int flmem_pickle_nomem(struct flmem_pickle *pickle)
{
	return flmem_error_nomem(pickle->err, "cannot read the pickle of '%s'", pickle->path);
}

bool flmem_pickle_room(void **array, size_t count, size_t *room, size_t size)
{
	size_t wanted = *room ? *room * 2 : 64;
	void *larger;

	if (count < *room)
		return true;
	larger = wanted > ELEMENTS_MAX ? NULL : reallocarray(*array, wanted, size);
	if (!larger)
		return false;
	*array = larger;
	*room = wanted;
	return true;
}

static int push_value(struct flmem_pickle *pickle, struct flmem_pickle_value value)
{
	if (!flmem_pickle_room((void **)&pickle->stack, pickle->stack_count, &pickle->stack_room,
			       sizeof(*pickle->stack)))
		return flmem_pickle_nomem(pickle);
	pickle->stack[pickle->stack_count++] = value;
	return 0;
}

int flmem_pickle_push(struct flmem_pickle *pickle, enum flmem_pickle_kind kind, int64_t number)
{
	return push_value(pickle, (struct flmem_pickle_value){.kind = kind, .number = number});
}

/* A mark is popped together with the objects above it. */
bool flmem_pickle_pop(struct flmem_pickle *pickle, struct flmem_pickle_value *ret_value)
{
	if (!pickle->stack_count ||
	    pickle->stack[pickle->stack_count - 1].kind == FLMEM_PICKLE_MARK)
		return false;
	*ret_value = pickle->stack[--pickle->stack_count];
	return true;
}

int flmem_pickle_push_box(struct flmem_pickle *pickle, enum flmem_pickle_kind kind)
{
	if (!flmem_pickle_room((void **)&pickle->boxes, pickle->box_count, &pickle->box_room,
			       sizeof(*pickle->boxes)))
		return flmem_pickle_nomem(pickle);
	pickle->boxes[pickle->box_count] = (struct flmem_pickle_box){0};
	return flmem_pickle_push(pickle, kind, (int64_t)pickle->box_count++);
}

static int add_node(struct flmem_pickle *pickle, size_t box, const struct flmem_pickle_value *value)
{
	struct flmem_pickle_box *to = &pickle->boxes[box];
	uint32_t node;

	if (!pickle->node_count)
		pickle->node_count = 1;
	if (!flmem_pickle_room((void **)&pickle->nodes, pickle->node_count, &pickle->node_room,
			       sizeof(*pickle->nodes)))
		return flmem_pickle_nomem(pickle);
	node = (uint32_t)pickle->node_count++;
	pickle->nodes[node] = (struct flmem_pickle_node){.value = *value};
	if (to->count++)
		pickle->nodes[to->last].next = node;
	else
		to->first = node;
	to->last = node;
	return 0;
}

bool flmem_pickle_is_text(const struct flmem_pickle *pickle, const struct flmem_pickle_value *value,
			  const char *text)
{
	return value && value->kind == FLMEM_PICKLE_STRING && value->length == strlen(text) &&
	       memcmp(pickle->text + value->number, text, value->length) == 0;
}

const struct flmem_pickle_value *flmem_pickle_element(const struct flmem_pickle *pickle,
						      const struct flmem_pickle_value *box,
						      size_t index)
{
	const struct flmem_pickle_box *from;
	uint32_t node;

	if (box->kind != FLMEM_PICKLE_TUPLE && box->kind != FLMEM_PICKLE_LIST &&
	    box->kind != FLMEM_PICKLE_DICT)
		return NULL;
	from = &pickle->boxes[box->number];
	if (index >= from->count)
		return NULL;
	for (node = from->first; index; index--)
		node = pickle->nodes[node].next;
	return &pickle->nodes[node].value;
}

/* Moves the stack's objects from index `from` on into a box. */
static int move_into(struct flmem_pickle *pickle, size_t box, size_t from)
{
	for (size_t i = from; i < pickle->stack_count; i++) {
		int rc;

		if (pickle->stack[i].kind == FLMEM_PICKLE_MARK)
			return flmem_pickle_fail(pickle, "has a mark inside an object");
		rc = add_node(pickle, box, &pickle->stack[i]);
		if (rc)
			return rc;
	}
	pickle->stack_count = from;
	return 0;
}

/* Finds the index of the last mark; false if there is none. */
static bool find_mark(const struct flmem_pickle *pickle, size_t *ret_at)
{
	for (size_t i = pickle->stack_count; i-- > 0;)
		if (pickle->stack[i].kind == FLMEM_PICKLE_MARK) {
			*ret_at = i;
			return true;
		}
	return false;
}

static int make_tuple(struct flmem_pickle *pickle, size_t from)
{
	struct flmem_pickle_value box;
	int rc = flmem_pickle_push_box(pickle, FLMEM_PICKLE_TUPLE);

	if (rc || !flmem_pickle_pop(pickle, &box))
		return rc;
	rc = move_into(pickle, (size_t)box.number, from);
	return rc ? rc : push_value(pickle, box);
}

static int do_short_tuple(struct flmem_pickle *pickle, uint64_t count)
{
	if (pickle->stack_count < count)
		return flmem_pickle_fail(pickle, "takes more objects than its stack holds");
	return make_tuple(pickle, pickle->stack_count - count);
}

static int do_tuple(struct flmem_pickle *pickle, uint64_t argument)
{
	size_t mark;

	(void)argument;
	if (!find_mark(pickle, &mark))
		return flmem_pickle_fail(pickle, "lacks a mark");
	memmove(pickle->stack + mark, pickle->stack + mark + 1,
		(pickle->stack_count - mark - 1) * sizeof(*pickle->stack));
	pickle->stack_count--;
	return make_tuple(pickle, mark);
}

/*
 * Adds the objects above `from` to the object below them, which has this `kind`; elements of sets
 * are dropped.
 */
static int add_items(struct flmem_pickle *pickle, size_t above, size_t from,
		     enum flmem_pickle_kind kind)
{
	const struct flmem_pickle_value *to = above ? &pickle->stack[above - 1] : NULL;
	size_t count = pickle->stack_count - from;
	int rc;

	if (!to || to->kind != kind || (kind == FLMEM_PICKLE_DICT && count % 2))
		return flmem_pickle_fail(pickle, "adds to an object of another kind");
	if (kind == FLMEM_PICKLE_OTHER)
		pickle->stack_count = from;
	rc = move_into(pickle, (size_t)to->number, from);
	pickle->stack_count = above;
	return rc;
}

static int do_items(struct flmem_pickle *pickle, uint64_t kind)
{
	size_t mark;

	if (!find_mark(pickle, &mark))
		return flmem_pickle_fail(pickle, "lacks a mark");
	return add_items(pickle, mark, mark + 1, (enum flmem_pickle_kind)kind);
}

static int do_item(struct flmem_pickle *pickle, uint64_t kind)
{
	size_t count = kind == FLMEM_PICKLE_DICT ? 2 : 1;

	if (pickle->stack_count <= count)
		return flmem_pickle_fail(pickle, "takes more objects than its stack holds");
	return add_items(pickle, pickle->stack_count - count, pickle->stack_count - count,
			 (enum flmem_pickle_kind)kind);
}

static int do_pop_mark(struct flmem_pickle *pickle, uint64_t argument)
{
	size_t mark;

	(void)argument;
	if (!find_mark(pickle, &mark))
		return flmem_pickle_fail(pickle, "lacks a mark");
	pickle->stack_count = mark;
	return 0;
}

static int do_pop(struct flmem_pickle *pickle, uint64_t argument)
{
	(void)argument;
	if (!pickle->stack_count)
		return flmem_pickle_fail(pickle, "takes more objects than its stack holds");
	pickle->stack_count--;
	return 0;
}

static int do_frozen_set(struct flmem_pickle *pickle, uint64_t argument)
{
	int rc = do_pop_mark(pickle, argument);

	return rc ? rc : flmem_pickle_push(pickle, FLMEM_PICKLE_OTHER, 0);
}

static int do_protocol(struct flmem_pickle *pickle, uint64_t version)
{
	if (version < 2 || version > 5)
		return flmem_pickle_fail(pickle, "has an unknown protocol");
	return 0;
}

static int do_frame(struct flmem_pickle *pickle, uint64_t argument)
{
	(void)pickle;
	(void)argument;
	return 0;
}

static int do_value(struct flmem_pickle *pickle, uint64_t kind)
{
	return flmem_pickle_push(pickle, (enum flmem_pickle_kind)kind, 0);
}

static int do_true(struct flmem_pickle *pickle, uint64_t argument)
{
	(void)argument;
	return flmem_pickle_push(pickle, FLMEM_PICKLE_BOOL, 1);
}

static int do_box(struct flmem_pickle *pickle, uint64_t kind)
{
	return flmem_pickle_push_box(pickle, (enum flmem_pickle_kind)kind);
}

static int do_integer(struct flmem_pickle *pickle, uint64_t number)
{
	return flmem_pickle_push(pickle, FLMEM_PICKLE_INTEGER, (int64_t)number);
}

static int do_signed(struct flmem_pickle *pickle, uint64_t number)
{
	return flmem_pickle_push(pickle, FLMEM_PICKLE_INTEGER, (int32_t)(uint32_t)number);
}

static int do_float(struct flmem_pickle *pickle, uint64_t number)
{
	(void)number;
	return flmem_pickle_push(pickle, FLMEM_PICKLE_OTHER, 0);
}

static int take_bytes(struct flmem_pickle *pickle, uint64_t length, size_t *ret_at)
{
	if (length > pickle->length - pickle->at || length > UINT32_MAX)
		return flmem_pickle_fail(pickle, "ends too early");
	*ret_at = pickle->at;
	pickle->at += length;
	return 0;
}

static int do_long(struct flmem_pickle *pickle, uint64_t length)
{
	uint64_t number;
	size_t at = 0;
	int rc = take_bytes(pickle, length, &at);

	if (rc)
		return rc;
	if (length > 8)
		return flmem_pickle_push(pickle, FLMEM_PICKLE_OTHER, 0);
	number = flmem_read_little(pickle->text + at, length);
	if (length && length < 8 && number >> (8 * length - 1))
		number |= UINT64_MAX << 8 * length;
	return flmem_pickle_push(pickle, FLMEM_PICKLE_INTEGER, (int64_t)number);
}

static int do_string(struct flmem_pickle *pickle, uint64_t length)
{
	struct flmem_pickle_value value = {.kind = FLMEM_PICKLE_STRING};
	size_t at = 0;
	int rc = take_bytes(pickle, length, &at);

	value.number = (int64_t)at;
	value.length = (uint32_t)length;
	return rc ? rc : push_value(pickle, value);
}

static int do_bytes(struct flmem_pickle *pickle, uint64_t length)
{
	size_t at = 0;
	int rc = take_bytes(pickle, length, &at);

	return rc ? rc : flmem_pickle_push(pickle, FLMEM_PICKLE_OTHER, 0);
}

static int put_memo(struct flmem_pickle *pickle, uint64_t index)
{
	if (!pickle->stack_count ||
	    pickle->stack[pickle->stack_count - 1].kind == FLMEM_PICKLE_MARK)
		return flmem_pickle_fail(pickle, "takes more objects than its stack holds");
	if (index > pickle->memo_count)
		return flmem_pickle_fail(pickle, "numbers its objects in an unknown way");
	if (index == pickle->memo_count) {
		if (!flmem_pickle_room((void **)&pickle->memo, index, &pickle->memo_room,
				       sizeof(*pickle->memo)))
			return flmem_pickle_nomem(pickle);
		pickle->memo_count++;
	}
	pickle->memo[index] = pickle->stack[pickle->stack_count - 1];
	return 0;
}

static int do_memoize(struct flmem_pickle *pickle, uint64_t argument)
{
	(void)argument;
	return put_memo(pickle, pickle->memo_count);
}

static int do_get(struct flmem_pickle *pickle, uint64_t index)
{
	if (index >= pickle->memo_count)
		return flmem_pickle_fail(pickle, "refers to an object that it does not have");
	return push_value(pickle, pickle->memo[index]);
}

/* Reads a line of text as a string. */
static bool take_line(struct flmem_pickle *pickle, struct flmem_pickle_value *ret_value)
{
	const char *start = pickle->text + pickle->at;
	const char *end = memchr(start, '\n', pickle->length - pickle->at);

	if (!end || (size_t)(end - start) > UINT32_MAX)
		return false;
	*ret_value = (struct flmem_pickle_value){
		.kind = FLMEM_PICKLE_STRING,
		.number = (int64_t)pickle->at,
		.length = (uint32_t)(end - start),
	};
	pickle->at += (size_t)(end - start) + 1;
	return true;
}

static int do_global(struct flmem_pickle *pickle, uint64_t argument)
{
	struct flmem_pickle_value module, name;

	(void)argument;
	if (!take_line(pickle, &module) || !take_line(pickle, &name))
		return flmem_pickle_fail(pickle, "ends too early");
	return flmem_pickle_name(pickle, &module, &name);
}

static int do_stack_global(struct flmem_pickle *pickle, uint64_t argument)
{
	struct flmem_pickle_value module, name;

	(void)argument;
	if (!flmem_pickle_pop(pickle, &name) || !flmem_pickle_pop(pickle, &module) ||
	    name.kind != FLMEM_PICKLE_STRING || module.kind != FLMEM_PICKLE_STRING)
		return flmem_pickle_fail(pickle, "lacks a name");
	return flmem_pickle_name(pickle, &module, &name);
}

static int do_reduce(struct flmem_pickle *pickle, uint64_t argument)
{
	(void)argument;
	return flmem_pickle_reduce(pickle);
}

static int do_persistent(struct flmem_pickle *pickle, uint64_t argument)
{
	(void)argument;
	return flmem_pickle_persistent(pickle);
}

/* Ignores the attributes of an OrderedDict (PyTorch's _metadata), which describe no tensor. */
static int do_build(struct flmem_pickle *pickle, uint64_t argument)
{
	struct flmem_pickle_value state;

	(void)argument;
	if (!flmem_pickle_pop(pickle, &state) || !pickle->stack_count ||
	    state.kind != FLMEM_PICKLE_DICT ||
	    pickle->stack[pickle->stack_count - 1].kind != FLMEM_PICKLE_DICT)
		return flmem_pickle_fail(pickle, "sets attributes of an unknown object");
	return 0;
}

#define FIXED UINT64_C(0) /* for opcodes whose argument is in the pickle: `argument_bytes` */

static const struct opcode {
	unsigned char code, argument_bytes;
	int (*run)(struct flmem_pickle *pickle, uint64_t argument);
	uint64_t argument; /* for opcodes without an argument in the pickle */
} opcodes[] = {
	{0x80, 1, do_protocol, FIXED},
	{0x95, 8, do_frame, FIXED},
	{'(', 0, do_value, FLMEM_PICKLE_MARK},
	{'0', 0, do_pop, FIXED},
	{'1', 0, do_pop_mark, FIXED},
	{'N', 0, do_value, FLMEM_PICKLE_OTHER},
	{0x88, 0, do_true, FIXED},
	{0x89, 0, do_value, FLMEM_PICKLE_BOOL},
	{'J', 4, do_signed, FIXED},
	{'K', 1, do_integer, FIXED},
	{'M', 2, do_integer, FIXED},
	{0x8a, 1, do_long, FIXED},
	{'G', 8, do_float, FIXED},
	{'X', 4, do_string, FIXED},
	{0x8c, 1, do_string, FIXED},
	{0x8d, 8, do_string, FIXED},
	{'B', 4, do_bytes, FIXED},
	{'C', 1, do_bytes, FIXED},
	{0x8e, 8, do_bytes, FIXED},
	{'U', 1, do_string, FIXED},
	{'T', 4, do_string, FIXED},
	{')', 0, do_box, FLMEM_PICKLE_TUPLE},
	{'t', 0, do_tuple, FIXED},
	{0x85, 0, do_short_tuple, 1},
	{0x86, 0, do_short_tuple, 2},
	{0x87, 0, do_short_tuple, 3},
	{']', 0, do_box, FLMEM_PICKLE_LIST},
	{'a', 0, do_item, FLMEM_PICKLE_LIST},
	{'e', 0, do_items, FLMEM_PICKLE_LIST},
	{'}', 0, do_box, FLMEM_PICKLE_DICT},
	{'s', 0, do_item, FLMEM_PICKLE_DICT},
	{'u', 0, do_items, FLMEM_PICKLE_DICT},
	{0x8f, 0, do_value, FLMEM_PICKLE_OTHER},
	{0x90, 0, do_items, FLMEM_PICKLE_OTHER},
	{0x91, 0, do_frozen_set, FIXED},
	{'c', 0, do_global, FIXED},
	{0x93, 0, do_stack_global, FIXED},
	{'R', 0, do_reduce, FIXED},
	{'b', 0, do_build, FIXED},
	{'q', 1, put_memo, FIXED},
	{'r', 4, put_memo, FIXED},
	{0x94, 0, do_memoize, FIXED},
	{'h', 1, do_get, FIXED},
	{'j', 4, do_get, FIXED},
	{'Q', 0, do_persistent, FIXED},
};

static int run_opcode(struct flmem_pickle *pickle, unsigned char code)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(opcodes); i++) {
		const struct opcode *opcode = &opcodes[i];
		uint64_t argument = opcode->argument;

		if (opcode->code != code)
			continue;
		if (opcode->argument_bytes > pickle->length - pickle->at)
			return flmem_pickle_fail(pickle, "ends too early");
		if (opcode->argument_bytes)
			argument = flmem_read_little(pickle->text + pickle->at,
						     opcode->argument_bytes);
		pickle->at += opcode->argument_bytes;
		return opcode->run(pickle, argument);
	}
	return flmem_pickle_fail(pickle, "has an operation that no state dict needs");
}

static int run_all(struct flmem_pickle *pickle)
{
	while (pickle->at < pickle->length) {
		unsigned char code = (unsigned char)pickle->text[pickle->at++];
		int rc;

		if (code == '.' && pickle->stack_count == 1 &&
		    pickle->stack[0].kind != FLMEM_PICKLE_MARK)
			return 0;
		if (code == '.')
			return flmem_pickle_fail(pickle, "does not end with one object");
		rc = run_opcode(pickle, code);
		if (rc)
			return rc;
	}
	return flmem_pickle_fail(pickle, "ends too early");
}

int flmem_pickle_read(const char *path, char *text, size_t length, struct flmem_pickle *ret_pickle,
		      struct flmem_error *err)
{
	FLMEM_AUTO_PICKLE struct flmem_pickle pickle = {
		.text = text, .length = length, .path = path, .err = err};
	int rc = run_all(&pickle);

	if (rc)
		return rc;
	*ret_pickle = pickle;
	pickle = (struct flmem_pickle){0};
	return 0;
}
