/* SPDX-License-Identifier: Apache-2.0 */

/* Executes the call frame instructions of one function. Nothing in them is trusted. */

#include "preload/sampler/unwind.h"

#include <string.h>

#define REGISTER_BP	6U
#define REGISTER_SP	7U
#define REGISTER_RETURN 16U
#define SAVED_MAX	4U /* nested DW_CFA_remember_state */
#define AUGMENTATION	8U
#define OFFSET_MAX	(INT64_C(1) << 30)

/* Encodings of pointers: LSB 5, 10.5. */
#define ENCODING_ABSOLUTE 0x00U
#define ENCODING_UDATA4	  0x03U
#define ENCODING_UDATA8	  0x04U
#define ENCODING_SDATA4	  0x0bU
#define ENCODING_SDATA8	  0x0cU
#define ENCODING_RELATIVE 0x10U /* the pointer is relative to its own address */

struct cfi_cursor {
	const struct sampler_cfi *in;
	size_t at;
	bool failed;
};

static uint64_t read_fixed(struct cfi_cursor *cursor, size_t size)
{
	uint64_t value = 0;

	if (cursor->failed || size > cursor->in->size - cursor->at) {
		cursor->failed = true;
		return 0;
	}
	memcpy(&value, cursor->in->bytes + cursor->at, size);
	cursor->at += size;
	return value;
}

static uint64_t read_leb(struct cfi_cursor *cursor, bool is_signed)
{
	uint64_t value = 0, byte;
	unsigned shift = 0;

	do {
		byte = read_fixed(cursor, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && !cursor->failed);
	if (is_signed && (byte & 0x40) && shift < 64)
		value |= ~UINT64_C(0) << shift;
	return value;
}

static void skip_cfi(struct cfi_cursor *cursor, uint64_t size)
{
	if (cursor->failed || size > cursor->in->size - cursor->at)
		cursor->failed = true;
	else
		cursor->at += size;
}

static uint64_t read_encoded(struct cfi_cursor *cursor, unsigned encoding)
{
	uintptr_t here = cursor->in->address + cursor->at;
	uint64_t value;

	switch (encoding & 0x0f) {
	case ENCODING_ABSOLUTE:
	case ENCODING_UDATA8:
	case ENCODING_SDATA8:
		value = read_fixed(cursor, 8);
		break;
	case ENCODING_UDATA4:
		value = read_fixed(cursor, 4);
		break;
	case ENCODING_SDATA4:
		value = (uint64_t)(int64_t)(int32_t)read_fixed(cursor, 4);
		break;
	default:
		cursor->failed = true;
		return 0;
	}
	if (encoding & ~(ENCODING_RELATIVE | 0x0fU))
		cursor->failed = true;
	return encoding & ENCODING_RELATIVE ? value + here : value;
}

struct cfi_state {
	uint64_t cfa_register;
	int64_t cfa_offset;
	int64_t bp_offset; /* offset of the saved frame pointer; 0: unchanged */
	int64_t return_offset;
	bool return_undefined, strange; /* `strange`: a register is saved in an unsupported way */
};

struct cfi_program {
	uint64_t code_factor;
	int64_t data_factor;
	unsigned encoding;
	bool has_data; /* whether FDEs have augmentation data */
	uint64_t location, length, wanted;
	struct cfi_state now, first, saved[SAVED_MAX];
	unsigned depth;
};

static bool read_augmentation(struct cfi_cursor *cursor, struct cfi_program *program,
			      const char *text)
{
	uint64_t length = read_leb(cursor, false);
	size_t start = cursor->at;

	program->has_data = true;
	for (text++; *text && !cursor->failed; text++)
		switch (*text) {
		case 'R':
			program->encoding = (unsigned)read_fixed(cursor, 1);
			break;
		case 'L':
			skip_cfi(cursor, 1);
			break;
		case 'P':
			read_encoded(cursor, (unsigned)read_fixed(cursor, 1) & 0x7fU);
			break;
		default: /* 'S' marks the frame of a signal, whose caller was not left by a call */
			return false;
		}
	cursor->at = start;
	skip_cfi(cursor, length);
	return !cursor->failed;
}

static bool read_cie(struct cfi_cursor *cursor, struct cfi_program *program)
{
	char augmentation[AUGMENTATION] = "";
	uint64_t version = read_fixed(cursor, 1);
	size_t length = 0;

	do {
		if (length == sizeof(augmentation))
			return false;
		augmentation[length] = (char)read_fixed(cursor, 1);
	} while (augmentation[length++]);
	program->code_factor = read_leb(cursor, false);
	program->data_factor = (int64_t)read_leb(cursor, true);
	if ((version == 1 ? read_fixed(cursor, 1) : read_leb(cursor, false)) != REGISTER_RETURN ||
	    cursor->failed || (version != 1 && version != 3) || program->data_factor < -64 ||
	    program->data_factor > 64 || program->code_factor > 64)
		return false;
	if (augmentation[0] == 'z')
		return read_augmentation(cursor, program, augmentation);
	return !augmentation[0];
}

static void set_register(struct cfi_program *program, uint64_t number, int64_t offset, bool strange)
{
	if (number == REGISTER_BP)
		program->now.bp_offset = offset;
	else if (number == REGISTER_RETURN)
		program->now.return_offset = offset;
	else
		return;
	program->now.strange |= strange;
}

static void restore_register(struct cfi_program *program, uint64_t number)
{
	if (number == REGISTER_BP)
		program->now.bp_offset = program->first.bp_offset;
	else if (number == REGISTER_RETURN)
		program->now.return_offset = program->first.return_offset;
}

static int64_t limit_offset(struct cfi_cursor *cursor, uint64_t factor, int64_t unit)
{
	int64_t value = (int64_t)factor;

	if (value > OFFSET_MAX || value < -OFFSET_MAX) {
		cursor->failed = true;
		return 0;
	}
	return value * unit;
}

static void define_cfa(struct cfi_cursor *cursor, struct cfi_program *program, int64_t unit)
{
	program->now.cfa_register = read_leb(cursor, false);
	program->now.cfa_offset = limit_offset(cursor, read_leb(cursor, unit < 0), unit);
}

static void save_state(struct cfi_cursor *cursor, struct cfi_program *program)
{
	if (program->depth == SAVED_MAX)
		cursor->failed = true;
	else
		program->saved[program->depth++] = program->now;
}

static void restore_state(struct cfi_cursor *cursor, struct cfi_program *program)
{
	if (!program->depth)
		cursor->failed = true;
	else
		program->now = program->saved[--program->depth];
}

/* Executes the instructions that define how a register is saved. */
static void run_register(struct cfi_cursor *cursor, struct cfi_program *program, uint64_t code)
{
	uint64_t number = read_leb(cursor, false);

	switch (code) {
	case 0x05: /* DW_CFA_offset_extended */
		set_register(program, number,
			     limit_offset(cursor, read_leb(cursor, false), program->data_factor),
			     false);
		return;
	case 0x11: /* DW_CFA_offset_extended_sf */
		set_register(program, number,
			     limit_offset(cursor, read_leb(cursor, true), program->data_factor),
			     false);
		return;
	case 0x06: /* DW_CFA_restore_extended */
		restore_register(program, number);
		return;
	case 0x07: /* DW_CFA_undefined */
		program->now.return_undefined |= number == REGISTER_RETURN;
		return;
	case 0x08: /* DW_CFA_same_value */
		set_register(program, number, 0, number == REGISTER_RETURN);
		return;
	case 0x10: /* DW_CFA_expression */
	case 0x16: /* DW_CFA_val_expression */
		skip_cfi(cursor, read_leb(cursor, false));
		break;
	default: /* DW_CFA_register, val_offset, val_offset_sf */
		read_leb(cursor, false);
	}
	set_register(program, number, 0, true);
}

static void run_extended(struct cfi_cursor *cursor, struct cfi_program *program, uint64_t code)
{
	switch (code) {
	case 0x00: /* DW_CFA_nop */
		return;
	case 0x01: /* DW_CFA_set_loc */
		program->location = read_encoded(cursor, program->encoding);
		return;
	case 0x02: /* DW_CFA_advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
		program->location +=
			read_fixed(cursor, (size_t)1 << (code - 2)) * program->code_factor;
		return;
	case 0x0a:
		save_state(cursor, program);
		return;
	case 0x0b:
		restore_state(cursor, program);
		return;
	case 0x0c: /* DW_CFA_def_cfa */
		define_cfa(cursor, program, 1);
		return;
	case 0x12: /* DW_CFA_def_cfa_sf */
		define_cfa(cursor, program, program->data_factor);
		return;
	case 0x0d: /* DW_CFA_def_cfa_register */
		program->now.cfa_register = read_leb(cursor, false);
		return;
	case 0x0e: /* DW_CFA_def_cfa_offset */
		program->now.cfa_offset = limit_offset(cursor, read_leb(cursor, false), 1);
		return;
	case 0x13: /* DW_CFA_def_cfa_offset_sf */
		program->now.cfa_offset =
			limit_offset(cursor, read_leb(cursor, true), program->data_factor);
		return;
	case 0x0f: /* DW_CFA_def_cfa_expression */
		skip_cfi(cursor, read_leb(cursor, false));
		program->now.cfa_register = UINT64_MAX;
		return;
	case 0x2e: /* DW_CFA_GNU_args_size */
		read_leb(cursor, false);
		return;
	case 0x05:
	case 0x06:
	case 0x07:
	case 0x08:
	case 0x09:
	case 0x10:
	case 0x11:
	case 0x14:
	case 0x15:
	case 0x16:
		run_register(cursor, program, code);
		return;
	default:
		cursor->failed = true;
	}
}

/* Executes instructions up to the row for the requested address. */
static bool run_instructions(struct cfi_cursor *cursor, struct cfi_program *program)
{
	while (cursor->at < cursor->in->size && !cursor->failed) {
		uint64_t code = read_fixed(cursor, 1), low = code & 0x3f;

		if (code >> 6 == 1) /* DW_CFA_advance_loc */
			program->location += low * program->code_factor;
		else if (code >> 6 == 2) /* DW_CFA_offset */
			set_register(
				program, low,
				limit_offset(cursor, read_leb(cursor, false), program->data_factor),
				false);
		else if (code >> 6 == 3) /* DW_CFA_restore */
			restore_register(program, low);
		else
			run_extended(cursor, program, code);
		if (program->location > program->wanted)
			return !cursor->failed;
	}
	return !cursor->failed;
}

static bool make_rule(const struct cfi_state *state, struct sampler_rule *ret_rule)
{
	struct sampler_rule rule = {
		.cfa_offset = (int32_t)state->cfa_offset,
		.bp_offset = (int32_t)state->bp_offset,
	};

	if (state->return_undefined) {
		rule.how = SAMPLER_UNWIND_END;
		*ret_rule = rule;
		return true;
	}
	if (state->strange || state->return_offset != -8 || state->cfa_offset % 8 ||
	    state->bp_offset % 8)
		return false;
	if (state->cfa_register == REGISTER_SP)
		rule.how = SAMPLER_UNWIND_SP;
	else if (state->cfa_register == REGISTER_BP)
		rule.how = SAMPLER_UNWIND_BP;
	*ret_rule = rule;
	return rule.how != SAMPLER_UNWIND_UNKNOWN;
}

/* Reads the range of the function, and skips the bytes before its instructions. */
static bool read_fde(struct cfi_cursor *cursor, struct cfi_program *program)
{
	uint64_t start = read_encoded(cursor, program->encoding);
	uint64_t length = read_encoded(cursor, program->encoding & 0x0f);

	program->length = length;
	if (program->has_data)
		skip_cfi(cursor, read_leb(cursor, false));
	program->location = start;
	return !cursor->failed && program->wanted >= start && program->wanted - start < length;
}

bool sampler_cfi_range(const struct sampler_cfi *cie, const struct sampler_cfi *fde, uintptr_t pc,
		       struct sampler_code_range *ret_range)
{
	struct cfi_program program = {.wanted = pc};
	struct cfi_cursor head = {.in = cie}, body = {.in = fde};

	if (!read_cie(&head, &program) || !read_fde(&body, &program))
		return false;
	*ret_range = (struct sampler_code_range){program.location, program.length};
	return true;
}

bool sampler_cfi_run(const struct sampler_cfi *cie, const struct sampler_cfi *fde, uintptr_t pc,
		     struct sampler_rule *ret_rule)
{
	struct cfi_program program = {.wanted = UINT64_MAX};
	struct cfi_cursor head = {.in = cie}, body = {.in = fde};

	if (!read_cie(&head, &program) || !run_instructions(&head, &program))
		return false;
	program.first = program.now;
	program.wanted = pc;
	return read_fde(&body, &program) && run_instructions(&body, &program) &&
	       make_rule(&program.now, ret_rule);
}
