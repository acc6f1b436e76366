/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RULES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RULES_H

/* NVFlare's kinds of files, its rules, start commands and strategies. */

#include <flmem/process_report.h>

#include "frameworks/files.h"
#include "frameworks/setting_rows.h"
#include "frameworks/strategies.h"
#include "rules/heap_site_rules.h"
#include "rules/rules.h"

#define FLMEM_SOURCE_NVFLARE_CODE "NVFlare code, 2.7.2 to 2.9.0"

/* Variables that NVFlare's external trainers or its start script read. */
#define FLMEM_NVFLARE_GC_ROUNDS	       "NVFLARE_CLIENT_MEMORY_GC_ROUNDS"
#define FLMEM_NVFLARE_TENSOR_CHUNK     "NVFLARE_TENSOR_DOWNLOAD_CHUNK_SIZE"
#define FLMEM_NVFLARE_NUMPY_CHUNK      "NVFLARE_NP_DOWNLOAD_CHUNK_SIZE"
#define FLMEM_NVFLARE_CUDA_EMPTY_CACHE "NVFLARE_CUDA_EMPTY_CACHE"
#define FLMEM_NVFLARE_JEMALLOC_PRELOAD "NVFLARE_ENABLE_JEMALLOC_PRELOAD"

extern const struct flmem_input_kind flmem_nvflare_meta_file;
extern const struct flmem_input_kind flmem_nvflare_server_file;
extern const struct flmem_input_kind flmem_nvflare_client_file;
extern const struct flmem_input_kind flmem_nvflare_python_file;
/* A module that such a script imports. */
extern const struct flmem_input_kind flmem_nvflare_module_file;
extern const struct flmem_input_kind flmem_nvflare_target_file;
extern const struct flmem_input_kind flmem_nvflare_resources_file;
extern const struct flmem_input_kind flmem_nvflare_deployment_file;
extern const struct flmem_input_kind flmem_nvflare_studies_file;
extern const struct flmem_input_kind flmem_nvflare_comm_file;

/*
 * Kinds of files with variables of processes: scripts, and files from which launchers take them for
 * jobs.
 */
#define FLMEM_NVFLARE_VARIABLE_FILES                                                       \
	&flmem_launch_file, &flmem_nvflare_resources_file, &flmem_nvflare_deployment_file, \
		&flmem_nvflare_studies_file

extern const struct flmem_file_name flmem_nvflare_files[];
extern const struct flmem_job_layout flmem_nvflare_jobs;
extern const struct flmem_start_ops flmem_nvflare_start;

extern const struct flmem_rule_table flmem_nvflare_server_rules;
extern const struct flmem_rule_table flmem_nvflare_client_rules;
extern const struct flmem_rule_table flmem_nvflare_offload_rules;
extern const struct flmem_rule_table flmem_nvflare_python_rules;
extern const struct flmem_rule_table flmem_nvflare_environ_rules;
extern const struct flmem_rule_table flmem_nvflare_collector_rules;
extern const struct flmem_rule_table flmem_nvflare_cleanup_rules;
extern const struct flmem_rule_table flmem_nvflare_launch_rules;
extern const struct flmem_rule_table flmem_nvflare_launch_doubts;
extern const struct flmem_rule_table flmem_nvflare_launcher_rules;
extern const struct flmem_rule_table flmem_nvflare_value_rules;
extern const struct flmem_rule_table flmem_nvflare_comm_rules;
extern const struct flmem_rule_table flmem_nvflare_variable_rules;
extern const struct flmem_rule_table flmem_nvflare_set_rules;
extern const struct flmem_rule_table flmem_nvflare_limit_rules; /* report nothing without a plan */
extern const struct flmem_rule_table flmem_nvflare_spec_rules;
extern const struct flmem_rule_table flmem_nvflare_key_rules;
extern const struct flmem_rule_table flmem_nvflare_ignored_rules;
extern const struct flmem_rule_table flmem_nvflare_interval_rules;
extern const struct flmem_rule_table flmem_nvflare_call_rules;
extern const struct flmem_rule_table flmem_nvflare_script_rules;
extern const struct flmem_rule_table flmem_nvflare_elsewhere_rules;
extern const struct flmem_rule_table flmem_nvflare_import_rules;
extern const struct flmem_rule_table flmem_nvflare_facts;

/*
 * Path of the file that NVFlare reads instead of `path`, which the caller frees; NULL: it reads
 * `path`.
 */
char *flmem_nvflare_read_instead(const char *path);

/* Whether NVFlare reads another comm_config file of the kit instead of this one. */
bool flmem_nvflare_comm_ignored(const char *path);

/* The operation `ignored` of NVFlare's job layout (files.h). */
const struct flmem_input_kind *flmem_nvflare_ignored(const struct flmem_found_file *file);

/* The operation `facts_init` of NVFlare (framework.h). */
void flmem_nvflare_facts_init(struct flmem_recommendations *found);

/* Whether an interval is unknown because no checked job sets it, not because of its value. */
bool flmem_nvflare_is_in_no_job(struct flmem_u64 rounds);

extern const struct flmem_live_table flmem_nvflare_live_rules;
extern const struct flmem_leftover_row flmem_nvflare_leftover;
extern const struct flmem_trend_table flmem_nvflare_trend_rules;
extern const struct flmem_heap_site_table flmem_nvflare_heap_rules;

/* The operation `own_gc_rounds` of NVFlare (framework.h). */
struct flmem_u64 flmem_nvflare_own_gc_rounds(const struct flmem_process_report *process);

extern const struct flmem_strategies flmem_nvflare_strategies;
extern const struct flmem_setting_row flmem_nvflare_settings[];
extern const struct flmem_settings_syntax flmem_nvflare_setting_syntaxes[];

/* Reports a file of functions that nvflare.collab runs: no file contains its recipe. */
void flmem_nvflare_report_collab(struct flmem_check *check);

#endif
