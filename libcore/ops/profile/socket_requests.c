/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/profile/socket_requests.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "ops/profile/attached.h"
#include "ops/profile/attached_socket.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/checks/preflight.h"

/* Data of one attempt through a socket. */
struct socket_requests {
	const struct flmem_attach_options *options;
	uint64_t timeout_us;
	struct flmem_process process;
	struct flmem_attached_socket socket;
	struct flmem_attached attached; /* its module is not set: finding that takes the mappings */
	struct flmem_attach_result *result;
};

static void cleanup_socket_requests(struct socket_requests *orders)
{
	flmem_attached_socket_clear(&orders->socket);
	flmem_process_close(&orders->process);
}

/*
 * Refuses a process with seccomp filters, which could kill it for what the sampler and its socket
 * do. Without the right to trace, filters cannot be read: the caller must then take responsibility.
 */
static int check_socket_filters(const struct socket_requests *orders, struct flmem_error *err)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	struct flmem_status status;

	if (orders->options->assume_seccomp)
		return flmem_attached_threads_check(&orders->process, err);
	if (flmem_tasks_read(&orders->process, &tasks))
		return flmem_error_set(err, FLMEM_EFAILED, 0, "its threads cannot be read");
	for (size_t i = 0; i < tasks.count; i++) {
		int rc = flmem_status_read_thread(&orders->process, tasks.ids[i], &status);

		if (flmem_task_has_ended(rc))
			continue;
		if (rc || flmem_u64_or(status.seccomp_mode, 1))
			return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
					       "thread %d has seccomp filters, which may kill for "
					       "what the socket does (--assume-seccomp)",
					       (int)tasks.ids[i]);
	}
	return 0;
}

/* Returns the reason of a refusal, or NULL; `shown` is the whole answer, escaped. */
static const char *find_refusal(const struct flmem_attached_answer *answer,
				char shown[FLMEM_SAMPLER_ANSWER_MAX])
{
	static const char refused[] = FLMEM_SAMPLER_REFUSED;

	flmem_text_escape(answer->bytes, shown, FLMEM_SAMPLER_ANSWER_MAX);
	return flmem_text_starts(shown, refused) ? shown + sizeof(refused) - 1 : NULL;
}

static int ask_state(struct socket_requests *orders, struct flmem_error *err)
{
	struct flmem_attached_answer answer;
	char shown[FLMEM_SAMPLER_ANSWER_MAX];
	const char *refusal;
	int rc = flmem_attached_socket_ask(&orders->socket, FLMEM_SAMPLER_ORDER_STATE,
					   orders->timeout_us, &answer, err);

	if (rc)
		return rc;
	refusal = find_refusal(&answer, shown);
	if (refusal)
		return flmem_error_set(err, FLMEM_EPERM, 0, "it answers: %s", refusal);
	return flmem_attached_state_parse(answer.bytes, answer.length, (int)orders->process.pid,
					  &orders->attached.state, err);
}

/* Finds and checks the socket, without changing anything. */
static int open_socket_requests(pid_t pid, struct socket_requests *orders, struct flmem_error *err)
{
	int rc = flmem_process_open(pid, &orders->process, err);

	if (!rc)
		rc = flmem_preflight_identity(&orders->process, err);
	if (!rc)
		rc = flmem_attached_socket_find(&orders->process, &orders->socket, err);
	if (!rc)
		rc = flmem_preflight_stopped(&orders->process, err);
	if (!rc)
		rc = check_socket_filters(orders, err);
	return rc ? rc : ask_state(orders, err);
}

/* Sends an order. Once sent it may be executed, whatever the answer. */
static int send_socket_order(struct socket_requests *orders, const char *order,
			     struct flmem_error *err)
{
	const uint64_t start_us = flmem_clock_us();
	const int pid = (int)orders->process.pid;
	char shown[FLMEM_SAMPLER_ANSWER_MAX];
	const char *refusal;
	struct flmem_attached_answer answer = {.length = 0};
	int rc =
		flmem_attached_socket_ask(&orders->socket, order, orders->timeout_us, &answer, err);

	if (rc)
		return flmem_error_prefix(err, rc, "process %d did not carry out the request", pid);
	refusal = find_refusal(&answer, shown);
	if (refusal)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0, "process %d: %s", pid, refusal);
	if (strcmp(shown, FLMEM_SAMPLER_DONE) != 0)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "it is unknown what the sampler of process %d did: its "
				       "answer is not understood",
				       pid);
	orders->result->took_us = FLMEM_KNOWN(flmem_clock_us() - start_us);
	return 0;
}

/* Returns true if the sampler's state shows the order as done; used if no answer came in time. */
static bool has_phase(struct socket_requests *orders, enum flmem_sampler_phase phase,
		      const char *path)
{
	return !ask_state(orders, NULL) && orders->attached.state.phase == phase &&
	       (!path || strcmp(orders->attached.state.path, path) == 0);
}

static int attach_through_socket(struct socket_requests *orders, struct flmem_error *err)
{
	FLMEM_AUTO_ATTACHED_FILE struct flmem_attached_file file = FLMEM_ATTACHED_FILE_INIT;
	const struct flmem_attach_options *options = orders->options;
	const struct flmem_process *process = &orders->process;
	char order[FLMEM_SAMPLER_ORDER_MAX];
	int rc;

	if (orders->attached.state.phase != FLMEM_SAMPLER_IDLE)
		return flmem_attached_refuse_sampled(process, &orders->attached, true, err);
	rc = flmem_attached_threads_check(process, err);
	if (!rc)
		rc = flmem_attached_room_check(process, options->profile.limit_bytes, err);
	if (!rc && options->dry_run)
		return options->profile.output
			       ? flmem_attached_file_check(process, &options->profile, err)
			       : 0;
	if (!rc)
		rc = flmem_attached_file_create(process, &options->profile, true, &file, err);
	if (rc)
		return rc;
	snprintf(order, sizeof(order), FLMEM_SAMPLER_ORDER_ATTACH "%s", file.seen_path);
	rc = send_socket_order(orders, order, err);
	if (rc == FLMEM_EFAILED && has_phase(orders, FLMEM_SAMPLER_SAMPLING, file.seen_path))
		rc = 0;
	if (rc)
		return rc;
	snprintf(orders->result->profile, sizeof(orders->result->profile), "%s", file.path);
	flmem_attached_file_keep(&file);
	if (!ask_state(orders, NULL))
		flmem_attached_take(&orders->attached, orders->result);
	return 0;
}

static int detach_through_socket(struct socket_requests *orders, struct flmem_error *err)
{
	struct flmem_attach_result *result = orders->result;
	const struct flmem_process *process = &orders->process;
	FLMEM_AUTO_ATTACHED_PROFILE struct flmem_attached_profile profile = {
		.view = FLMEM_ATTACHED_VIEW_INIT};
	char path[FLMEM_SAMPLER_STATE_PATH];
	int rc;

	if (orders->attached.state.phase == FLMEM_SAMPLER_IDLE)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "process %d is not sampled",
				       (int)process->pid);
	snprintf(path, sizeof(path), "%s", orders->attached.state.path);
	flmem_attached_profile_open(process, path, &profile);
	flmem_attached_profile_name(process, &profile, result->profile, sizeof(result->profile));
	result->deleted = flmem_attached_profile_is_elsewhere(process, &profile);
	flmem_attached_take(&orders->attached, result);
	if (orders->options->dry_run)
		return 0;
	rc = send_socket_order(orders, FLMEM_SAMPLER_ORDER_DETACH, err);
	if (rc == FLMEM_EFAILED && has_phase(orders, FLMEM_SAMPLER_IDLE, NULL))
		rc = 0;
	if (rc == FLMEM_EFAILED)
		return flmem_attached_explain_detach(rc, process->pid, err);
	if (!rc)
		result->deleted |= flmem_attached_profile_has_left(process, &profile);
	return rc;
}

int flmem_socket_requests_run(pid_t pid, const struct flmem_attach_options *options, bool detach,
			      struct flmem_attach_result *result, bool *ret_is_done,
			      struct flmem_error *err)
{
	FLMEM_AUTO(cleanup_socket_requests)
	struct socket_requests orders = {
		.options = options,
		.timeout_us =
			options->timeout_us ? options->timeout_us : FLMEM_ATTACH_TIMEOUT_US_DEFAULT,
		.process = FLMEM_PROCESS_INIT,
		.socket = FLMEM_ATTACHED_SOCKET_INIT,
		.result = result,
	};
	struct flmem_error why = {0};

	*ret_is_done = false;
	if (open_socket_requests(pid, &orders, &why)) {
		if (orders.process.dirfd >= 0 && flmem_attached_socket_was_asked(&orders.process))
			snprintf(result->no_socket, sizeof(result->no_socket), "%.255s",
				 why.message);
		return 0;
	}
	*ret_is_done = true;
	result->way = FLMEM_ATTACH_BY_SOCKET;
	result->stopped_us = result->longest_stop_us = FLMEM_UNKNOWN("no thread is borrowed");
	result->loaded_by = "profile-ready"; /* no other sampler has a socket */
	return detach ? detach_through_socket(&orders, err) : attach_through_socket(&orders, err);
}
