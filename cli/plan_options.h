/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PLAN_OPTIONS_H
#define FLMEM_CLI_PLAN_OPTIONS_H

/* Declares the options of `recommend` for a plan, and prints the plan as text. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <flmem/plan.h>

#include "cmd.h"

struct plan_options {
	const char *model;
	const char *dtype;
	const char *optimizer;
	const char *filter;
	uint64_t parameters;
	uint64_t clients;
	uint64_t node_bytes;
	uint64_t actors;
};

extern const char *const plan_optimizer_choices[];

/* Returns true if a model was given. */
bool plan_is_wanted(const struct plan_options *options);

/* Returns a given option that needs a model, or NULL. */
const char *plan_stray_option(const struct plan_options *options);

/* This is a plan with what it refers to. */
struct plan_made {
	struct flmem_plan_request request;
	struct flmem_model model;
	struct flmem_plan plan;
};

/*
 * Makes the plan; `framework` NULL means nvflare. Clear the result also after an error. Returns 0
 * or the code of the failure.
 */
int plan_make(const struct plan_options *options, const char *framework, struct plan_made *ret_made,
	      struct flmem_error *err);

void plan_made_clear(struct plan_made *made);

/*
 * Makes and prints the plan; `framework` NULL means nvflare. Returns the exit status: that
 * of findings where the plan does not fit the node.
 */
int plan_run(const struct cmd *cmd, const struct plan_options *options, const char *framework,
	     bool json);

#endif
