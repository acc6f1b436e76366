/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H
#define FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H

/* APPFL's kinds of files, its rules and its strategies. */

#include "frameworks/files.h"
#include "frameworks/strategies.h"
#include "rules/heap_site_rules.h"
#include "rules/rules.h"

extern const struct flmem_input_kind flmem_appfl_server_file;
extern const struct flmem_input_kind flmem_appfl_client_file;

extern const struct flmem_file_name flmem_appfl_files[];
extern const struct flmem_input_kind flmem_appfl_python_file;
extern const struct flmem_rule_table flmem_appfl_python_rules;
extern const struct flmem_rule_table flmem_appfl_rules;
extern const struct flmem_rule_table flmem_appfl_message_rules;
extern const struct flmem_strategies flmem_appfl_strategies;
extern const struct flmem_heap_site_table flmem_appfl_heap_rules;

/* The map grpc_configs of a file; NULL if it has none. */
const struct flmem_node *flmem_appfl_grpc(const struct flmem_rule_input *input);

/* Whether the value is an interpolation of OmegaConf: "${...}". */
bool flmem_appfl_is_interpolation(const struct flmem_node *node);

/* Whether the value is a variable of the environment, which OmegaConf always reads as a text. */
bool flmem_appfl_is_environment(const struct flmem_node *node);

/*
 * The value of a node, or of the node at a key or path, with references resolved. NULL if it is
 * absent, or known only when a job runs.
 */
const struct flmem_node *flmem_appfl_value(const struct flmem_node *node);
const struct flmem_node *flmem_appfl_get(const struct flmem_node *map, const char *key);
const struct flmem_node *flmem_appfl_at(const struct flmem_node *map, const char *const *keys);
#define FLMEM_APPFL_AT(map, ...) flmem_appfl_at((map), (const char *const[]){__VA_ARGS__, NULL})

/* Whether any value of the file refers to a key with this name. */
bool flmem_appfl_is_referred_to(const struct flmem_check *check, const char *key);

/* Reports each value that rules need and that is known only when a job runs. */
void flmem_appfl_check_references(struct flmem_check *check);

/*
 * The maps that may hold optimize_memory, as keys from the root; the last row is the root itself.
 */
extern const char *const flmem_appfl_memory_places[9][4];

enum flmem_appfl_switch {
	FLMEM_APPFL_OFF,
	FLMEM_APPFL_ON,
	FLMEM_APPFL_UNCLEAR, /* known only when a job runs */
};

/* Python's truth value of the value at a key; `fallback` if the key is absent. */
enum flmem_appfl_switch flmem_appfl_switch(const struct flmem_node *map, const char *key,
					   enum flmem_appfl_switch fallback);

/*
 * Reads the number at a key, or `fallback` if it is absent. Returns false if the value is not a
 * number or not known.
 */
bool flmem_appfl_number(const struct flmem_node *map, const char *key, int64_t fallback,
			int64_t *ret_value);

/* Reports a remark about a key of the map, whether the key is present or not. */
void flmem_appfl_report(struct flmem_check *check, const struct flmem_node *map, const char *key,
			struct flmem_remark remark);

/* The next other input of a kind; `after` is the one before, or NULL for the first. */
const struct flmem_rule_input *flmem_appfl_next(const struct flmem_check *check,
						const struct flmem_input_kind *kind,
						const struct flmem_rule_input *after);

#endif
