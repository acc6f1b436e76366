/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H
#define FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H

/* The files of APPFL and the rules about them; its strategies. */

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

/* The map of the gRPC settings, or NULL. */
const struct flmem_node *flmem_appfl_grpc(const struct flmem_rule_input *input);

/* Whether the value is one of OmegaConf's "${...}". */
bool flmem_appfl_is_interpolation(const struct flmem_node *node);

/* Whether it is a variable of the environment, which OmegaConf always reads as a text. */
bool flmem_appfl_is_environment(const struct flmem_node *node);

/*
 * The value that a node, or the node at a key, refers to: itself where it is not a reference. NULL
 * where that is absent or known only when a job runs.
 */
const struct flmem_node *flmem_appfl_value(const struct flmem_node *node);
const struct flmem_node *flmem_appfl_get(const struct flmem_node *map, const char *key);
const struct flmem_node *flmem_appfl_at(const struct flmem_node *map, const char *const *keys);
#define FLMEM_APPFL_AT(map, ...) flmem_appfl_at((map), (const char *const[]){__VA_ARGS__, NULL})

/* Whether some value of the file refers to a key with this name. */
bool flmem_appfl_is_referred_to(const struct flmem_check *check, const char *key);

/* Reports each value that a rule needs and that is not known. */
void flmem_appfl_check_references(struct flmem_check *check);

/* The maps that may hold optimize_memory, as keys from the root; the last one is the root. */
extern const char *const flmem_appfl_memory_places[9][4];

enum flmem_appfl_switch {
	FLMEM_APPFL_OFF,
	FLMEM_APPFL_ON,
	FLMEM_APPFL_UNCLEAR, /* known only when a job runs */
};

/* The truth value that Python gives the value at a key, or the default if it is absent. */
enum flmem_appfl_switch flmem_appfl_switch(const struct flmem_node *map, const char *key,
					   enum flmem_appfl_switch fallback);

/* The number at a key, or its default; false for any other value. */
bool flmem_appfl_number(const struct flmem_node *map, const char *key, int64_t fallback,
			int64_t *ret_value);

/* Reports on a key of the map, present or not. */
void flmem_appfl_report(struct flmem_check *check, const struct flmem_node *map, const char *key,
			struct flmem_remark remark);

/* The first other file of a kind; `after` NULL starts at the beginning. */
const struct flmem_rule_input *flmem_appfl_next(const struct flmem_check *check,
						const struct flmem_input_kind *kind,
						const struct flmem_rule_input *after);

#endif
