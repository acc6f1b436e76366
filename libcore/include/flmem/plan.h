/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PLAN_H
#define FLMEM_PLAN_H

/*
 * Predicts the memory that a federated job needs before it runs: the peak of the server and of each
 * client in every step of a round, from the copies that the framework holds at once, and a
 * configuration that fits a node. docs/guides/planning.md derives the counts and compares them with
 * measured runs.
 *
 * Results own their strings: release with the clear functions. Calls share nothing between threads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/model.h>
#include <flmem/roles.h>
#include <flmem/value.h>

/* Optimizers of a client that trains in host memory. X(NAME, text) */
#define FLMEM_OPTIMIZERS(X)     \
	X(NONE, "none")         \
	X(SGD, "sgd")           \
	X(MOMENTUM, "momentum") \
	X(ADAM, "adam")

enum flmem_optimizer {
#define FLMEM_OPTIMIZER_ENUM(name, text) FLMEM_OPTIMIZER_##name,
	FLMEM_OPTIMIZERS(FLMEM_OPTIMIZER_ENUM)
#undef FLMEM_OPTIMIZER_ENUM
};

struct flmem_plan_request {
	const struct flmem_model *model; /* owned by the caller */
	enum flmem_framework framework;
	uint64_t clients;		/* clients per round; 1 or more */
	uint64_t node_bytes;		/* memory of the smallest node; 0: unknown */
	uint64_t actors;		/* clients that a simulator runs at once; 0: no simulator */
	enum flmem_optimizer optimizer; /* NONE: training is not counted, as on a GPU */
	/* Filter of the framework that clients apply to their results; NULL: none. */
	const char *filter;
};

/* Memory in one step of a round. */
struct flmem_plan_step {
	enum flmem_role role; /* FLMEM_ROLE_SERVER or FLMEM_ROLE_CLIENT */
	const char *name;     /* what happens in the step: "collect the results" */
	const char *contents; /* what is in memory in this step */
	uint64_t bytes;	      /* memory of the process, including its runtime */
};

/* A file to copy, or a part of one. */
struct flmem_plan_text {
	/* Name of the file and place in it. */
	const char *where;
	char *text;
};

/* One strategy of running the job. */
struct flmem_plan_strategy {
	const char *name;    /* "memory", "offload", "whole", "chunked" */
	const char *summary; /* one sentence */
	struct flmem_plan_step *steps;
	size_t step_count;
	/* Largest step of the server, and of each client process. */
	uint64_t server_peak_bytes, client_peak_bytes;
	uint64_t server_disk_bytes;	  /* disk space that the server needs for results */
	struct flmem_u64 simulator_bytes; /* the server and all clients of a simulator at once */
	struct flmem_u64 chunk_bytes;	  /* chunk size to set */
	/* Largest message. */
	struct flmem_u64 message_bytes;
	bool fits; /* both peaks, or the simulator, fit the node; true if its memory is unknown */
};

struct flmem_plan {
	struct flmem_plan_strategy *strategies;
	size_t strategy_count;
	size_t chosen;		/* index of the first strategy that fits, else of the smallest */
	uint64_t runtime_bytes; /* memory counted for Python and its libraries in each process */
	uint64_t usable_bytes;	/* part of the node's memory that processes may use; 0: unknown */
	struct flmem_plan_text *texts; /* configuration files of the chosen strategy */
	size_t text_count;
	const char *caveat; /* missing setting of the framework, or NULL */
	const char *beside; /* processes that the figures do not include, or NULL */
};

/* Computes the plan. FLMEM_EUSAGE for impossibly large numbers, FLMEM_EFAILED if memory is out. */
FLMEM_API FLMEM_MUST_CHECK int flmem_plan_make(const struct flmem_plan_request *request,
					       struct flmem_plan *ret_plan,
					       struct flmem_error *err);

/* Frees what the plan owns and zeroes the struct. */
FLMEM_API void flmem_plan_clear(struct flmem_plan *plan);

#endif
