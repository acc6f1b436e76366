/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REPORT_H
#define FLMEM_REPORT_H

/*
 * Reports as JSON, one object each with "schema": "flmem.<command>/<version>"; docs/json-schema/
 * holds a schema per command. Strings are heap-allocated, end in a newline and are freed by the
 * caller with free(); NULL if memory is out. 64-bit numbers are written in full.
 */

#include <stddef.h>

#include <flmem/aggregate.h>
#include <flmem/attach.h>
#include <flmem/compare.h>
#include <flmem/convert.h>
#include <flmem/detect.h>
#include <flmem/error.h>
#include <flmem/exchange_client.h>
#include <flmem/exchange_serve.h>
#include <flmem/host.h>
#include <flmem/inspect.h>
#include <flmem/launch.h>
#include <flmem/plan.h>
#include <flmem/recommend.h>
#include <flmem/repeat.h>
#include <flmem/settings.h>
#include <flmem/trim.h>
#include <flmem/troubleshoot.h>
#include <flmem/watch.h>

/* Writes the report of `flmem --version` (flmem/version.h) as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_version_json(void);

/* Writes the report of `detect` without a target as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_host_json(const struct flmem_host_report *host);

/* Writes the report of `detect` with targets as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_detect_json(const struct flmem_detect_report *report);

/* Writes the report of `trim` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_trim_json(const struct flmem_trim_result *results,
							size_t count);

/*
 * Writes the report of `profile attach` or `profile detach` as JSON; `command` is the name in
 * "schema".
 */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_attach_json(const char *command,
							  const struct flmem_attach_result *result);

/* Writes one event of repeated trims as JSON on one line. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_repeat_event_json(const struct flmem_repeat_event *event);

/* Writes the report of `env` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_settings_json(const struct flmem_settings *settings);

/* Writes the report of `recommend` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_recommend_json(const struct flmem_recommendations *found);

/* Writes the report of `recommend` as JSON, with the troubleshooting lists. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_troubleshoot_json(const struct flmem_recommendations *found,
			       const struct flmem_troubleshoot_report *troubles);

/*
 * Write the findings of `recommend` for build tools, as SARIF 2.1.0, GitHub annotations and JUnit
 * XML.
 */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_recommend_sarif(const struct flmem_recommendations *found);
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_recommend_github(const struct flmem_recommendations *found);
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_recommend_junit(const struct flmem_recommendations *found);

/* Writes the report of `recommend --role` as JSON: the settings of a role. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_role_json(const struct flmem_settings *settings);

/* Writes the report of `recommend` for a planned model as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_plan_json(const struct flmem_plan_request *request,
							const struct flmem_plan *plan);

/* Writes the report of `aggregate` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_aggregate_json(const struct flmem_aggregate_result *result);

/* Writes the report of `aggregate generate` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_generate_json(const struct flmem_aggregate_result *result);

/* Writes the report of `aggregate inspect` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_inspect_json(const struct flmem_inspection *inspections, size_t count);

/* Writes the report of `aggregate convert` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_convert_json(const struct flmem_convert_request *request,
			  const struct flmem_conversion *conversion);

/* Writes the report of `aggregate diff` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_compare_json(const struct flmem_compare_request *request,
			  const struct flmem_comparison *comparison);

/* Writes the report of `start` as JSON; `proof` is NULL if no probe was made. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_start_json(const struct flmem_settings *settings,
							 char *const *argv,
							 const struct flmem_preload_proof *proof);

/* Write a sample, a round, an action or the summary of a watch as JSON on one line. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_watch_sample_json(const struct flmem_watch_sample *sample);
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_watch_round_json(const struct flmem_watch_round *round);
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_watch_action_json(const struct flmem_watch_action *action);
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_watch_summary_json(const struct flmem_watch_summary *summary,
				const struct flmem_watch_advice *advice);

/* Write the report of `exchange status` or `exchange wait` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_exchange_status_json(const struct flmem_exchange_status *status);
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_exchange_wait_json(const struct flmem_exchange_status *status);

/* Write the report of `exchange push` or `exchange pull` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_exchange_push_json(const struct flmem_exchange_push_result *result);
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_exchange_pull_json(const struct flmem_exchange_pull_request *request,
				const struct flmem_exchange_pull_result *result);

/*
 * Writes an error as JSON: {"schema": "flmem.<command>/1", "error": {"code", "exit_status",
 * "message"}}.
 */
FLMEM_API FLMEM_MUST_CHECK char *flmem_report_error_json(const char *command,
							 const struct flmem_error *error);

/* Writes the report of `exchange serve`, at its end, as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_exchange_served(const struct flmem_exchange_served *served);

/* Writes one event of the log of `exchange serve` as JSON on one line. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_exchange_event(const struct flmem_exchange_event *event);

#endif
