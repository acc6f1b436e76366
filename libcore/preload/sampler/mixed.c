/* SPDX-License-Identifier: Apache-2.0 */

#include "preload/sampler/mixed.h"

#define NATIVE_ROOM 32U /* reserved for native frames where Python frames would leave less */

struct mixing_state {
	struct sampler_mixture *m;
	uint32_t native_room, python_room;
	uint32_t call, frame; /* indices of the next call and the next frame */
	uint32_t native;
	bool is_lost; /* a call was found that is not one of `calls` */
	/*
	 * These are the sizes of the output up to the last call that was found; later native frames
	 * may prove wrong.
	 */
	uint32_t sure_count, sure_natives;
};

static void push_mixed(struct mixing_state *at, uint32_t frame)
{
	if (frame != FLMEM_PROFILE_NONE)
		at->m->out[at->m->count++] = frame;
}

/*
 * Adds a native frame, unless it lies outside of Python frames that did not fit: those would be
 * missing in between.
 */
static void push_mixed_native(struct mixing_state *at, uint32_t frame)
{
	if (at->native < at->native_room && !at->m->is_deep) {
		push_mixed(at, frame);
		at->native++;
	} else if (at->m->frame_count) {
		at->m->is_complete = false;
	} else {
		at->m->is_deep = true;
	}
}

static void push_mixed_python(struct mixing_state *at, uint32_t end)
{
	for (; at->frame < end && at->frame < at->m->frame_count; at->frame++) {
		if (at->frame < at->python_room) {
			push_mixed(at, at->m->frames[at->frame]);
		} else {
			at->m->is_complete = false;
			at->m->is_deep = true;
		}
	}
}

static bool has_next_call(const struct mixing_state *at)
{
	return at->call < at->m->call_count;
}

static bool is_call_in(const struct mixing_state *at, const struct sampler_native *native)
{
	uintptr_t call;

	if (!has_next_call(at) || native->code == SAMPLER_CODE_OTHER)
		return false;
	call = at->m->calls[at->call].at;
	return call >= native[0].low && call < native[1].low;
}

static bool is_all_python_out(const struct mixing_state *at)
{
	return at->frame == at->m->frame_count && at->m->is_python_whole;
}

static void mix_natives(struct mixing_state *at)
{
	const struct sampler_mixture *m = at->m;

	for (const struct sampler_native *native = m->natives;
	     native < m->natives + m->native_count; native++) {
		if (is_call_in(at, native)) {
			if (native->code != SAMPLER_CODE_EVALUATION)
				at->m->unknown = native;
			push_mixed_python(at, m->calls[at->call++].end);
			at->sure_count = m->count;
			at->sure_natives = at->native;
		} else if (native->code == SAMPLER_CODE_EVALUATION) {
			at->is_lost = true; /* such as a call outside of a greenlet */
			return;
		} else {
			push_mixed_native(at, native->frame);
		}
	}
}

/*
 * Returns whether the native frames end before the next call, or at the start of a coroutine's
 * stack.
 */
static bool is_next_call_outside(const struct mixing_state *at)
{
	const struct sampler_native *natives = at->m->natives;
	uintptr_t call = has_next_call(at) ? at->m->calls[at->call].at : 0;

	return call && (call < natives[0].low || call >= natives[at->m->native_count].low);
}

/* Adds native frames inside the innermost Python frame: those up to the interpreter. */
static void mix_innermost(struct mixing_state *at)
{
	const struct sampler_mixture *m = at->m;

	for (uint32_t i = 0; i < m->native_count; i++) {
		if (i && m->natives[i].code != SAMPLER_CODE_OTHER)
			return;
		push_mixed_native(at, m->natives[i].frame);
	}
}

/*
 * Checks whether the native frames after the last call that was found are in the right place, and
 * removes them if not.
 */
static void settle_mixture(struct mixing_state *at)
{
	if (is_all_python_out(at) && !at->is_lost)
		return;
	at->m->is_complete = false;
	if (is_next_call_outside(at) && !at->is_lost)
		return;
	at->m->count = at->sure_count;
	at->native = at->sure_natives;
	if (!at->call)
		mix_innermost(at);
}

/*
 * Finds calls by their order: before 3.10 a call does not record its frame, but it evaluates only
 * one.
 */
static void count_evaluations(struct sampler_mixture *m)
{
	uint32_t count = 0;

	if (!m->call_count || m->calls[0].at)
		return;
	for (uint32_t i = 0; i < m->native_count; i++)
		if (m->natives[i].code == SAMPLER_CODE_EVALUATION && count++ < m->call_count)
			m->calls[count - 1].at = m->natives[i].low;
	if (count != m->call_count)
		m->call_count = 0;
}

void sampler_mix(struct sampler_mixture *m)
{
	struct mixing_state at = {.m = m, .native_room = FLMEM_PROFILE_DEPTH - m->frame_count};

	if (at.native_room < NATIVE_ROOM)
		at.native_room = NATIVE_ROOM;
	if (at.native_room > m->native_count)
		at.native_room = m->native_count;
	at.python_room = FLMEM_PROFILE_DEPTH - at.native_room;
	m->count = 0;
	m->is_complete = true;
	m->is_deep = false;
	m->unknown = NULL;
	count_evaluations(m);
	mix_natives(&at);
	settle_mixture(&at);
	push_mixed_python(&at, m->frame_count);
}
