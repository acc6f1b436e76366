/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_MIXED_H
#define FLMEM_PRELOAD_SAMPLER_MIXED_H

/*
 * One stack of native and of Python frames: a native frame of the interpreter's evaluation function
 * stands for the Python frames that this call of it evaluates. Which ones these are is known by
 * what the call has in its own C frame (since 3.10), else by the numbers of both being equal.
 */

#include "preload/sampler/sampler.h"

/* The kind of code that a native frame belongs to. */
enum sampler_code_of {
	SAMPLER_CODE_OTHER,
	SAMPLER_CODE_INTERPRETER, /* its module */
	SAMPLER_CODE_EVALUATION,  /* its evaluation function */
};

/* All innermost first. */
struct sampler_mixture {
	const struct sampler_native *natives; /* one more than there are: where the last one ends */
	uint32_t native_count;
	const uint32_t *frames; /* of Python */
	uint32_t frame_count;
	struct sampler_call *calls;
	uint32_t call_count;
	bool is_python_whole;
	uint32_t *out; /* FLMEM_PROFILE_DEPTH */
	/* The fields below are the result. */
	uint32_t count;
	bool is_complete; /* no native frame between or outside of Python frames is left out */
	bool is_deep;	  /* the outermost frames of its only kind, or of Python, did not fit */
	/* A native frame that is one of a call, not known to be of the function; NULL: none. */
	const struct sampler_native *unknown;
};

/*
 * Native frames that cannot be put in place are left out, Python frames only where there are more
 * than FLMEM_PROFILE_DEPTH.
 */
HIDDEN void sampler_mix(struct sampler_mixture *mixture);

#endif
