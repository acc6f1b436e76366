/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_MIXED_H
#define FLMEM_PRELOAD_SAMPLER_MIXED_H

/*
 * Makes one stack of native and of Python frames. A native frame of the interpreter's evaluation
 * function stands for the Python frames that this call of it evaluates. Which ones these are is
 * known from what the call has in its C frame (since 3.10), else from the equal numbers of both.
 */

#include "preload/sampler/sampler.h"

/* This is the kind of code that a native frame belongs to. */
enum sampler_code_of {
	SAMPLER_CODE_OTHER,
	SAMPLER_CODE_INTERPRETER, /* another function of its module */
	SAMPLER_CODE_EVALUATION,  /* its evaluation function */
};

/* All arrays are ordered innermost first. */
struct sampler_mixture {
	/* native_count + 1 entries: the last one is where the stack ends. */
	const struct sampler_native *natives;
	uint32_t native_count;
	const uint32_t *frames; /* Python frames */
	uint32_t frame_count;
	struct sampler_call *calls;
	uint32_t call_count;
	bool is_python_whole;
	uint32_t *out; /* room for FLMEM_PROFILE_DEPTH frames */
	/* The fields below are the result. */
	uint32_t count;
	bool is_complete; /* no native frame between or outside of Python frames is left out */
	bool is_deep;	  /* the outermost frames of its only kind, or of Python, did not fit */
	/*
	 * A native frame that evaluates a call but is not known to be of the function; NULL: none.
	 */
	const struct sampler_native *unknown;
};

/*
 * Mixes the frames. Native frames that cannot be put in place are left out, Python frames only
 * where there are more than FLMEM_PROFILE_DEPTH.
 */
HIDDEN void sampler_mix(struct sampler_mixture *mixture);

#endif
