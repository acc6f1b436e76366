/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/repeat.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "ops/decide.h"
#include "proc/process.h"

/* One process of many. */
struct ward {
	struct flmem_process process;
	bool over;	  /* it is left alone from now on */
	int code;	  /* why it was dropped, or 0 */
	uint64_t next_us; /* of the monotonic clock: not to be trimmed before */
	uint64_t trims;
	unsigned in_vain;	 /* trims in a row */
	const char *told_reason; /* why the condition was undecided when that was last told */
};

struct vigil {
	struct flmem_repeat_options options;
	struct ward *wards;
	struct pollfd *polls; /* the descriptor that ends it all, then one of each ward */
	size_t count;
	size_t opened;
	struct flmem_trim_result *result; /* room for one; it is large */
	uint64_t look_us;		  /* when the present look at all of them began */
};

const char *flmem_repeat_event_name(enum flmem_repeat_event_kind kind)
{
	static const char *const names[] = {
#define EVENT_NAME(name, text) text,
		FLMEM_REPEAT_EVENTS(EVENT_NAME)
#undef EVENT_NAME
	};

	return names[(size_t)kind < FLMEM_ARRAY_SIZE(names) ? kind : FLMEM_REPEAT_ENDED];
}

static void tell(const struct vigil *vigil, const struct ward *ward,
		 enum flmem_repeat_event_kind kind, const char *reason,
		 const struct flmem_trim_result *result)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	vigil->options.tell(
		&(struct flmem_repeat_event){
			.kind = kind,
			.time_us = (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U,
			.pid = ward->process.pid,
			.reason = reason,
			.result = result,
		},
		vigil->options.data);
}

static void leave(const struct vigil *vigil, struct ward *ward, enum flmem_repeat_event_kind kind,
		  const char *reason, const struct flmem_trim_result *result)
{
	ward->over = true;
	tell(vigil, ward, kind, reason, result);
}

static bool is_wanted(const struct vigil *vigil, struct ward *ward)
{
	const char *why;
	enum flmem_truth truth;

	if (!vigil->options.when)
		return true;
	truth = flmem_decide(vigil->options.when, ward->process.pid,
			     vigil->options.trim.assume_seccomp, &why);
	if (truth == FLMEM_UNDECIDED && why != ward->told_reason) {
		ward->told_reason = why;
		tell(vigil, ward, FLMEM_REPEAT_UNDECIDED, why, NULL);
	}
	return truth == FLMEM_TRUE;
}

/* Counted from look to look, so that a trim that takes its time does not cost a whole interval. */
static void cool_down(const struct vigil *vigil, struct ward *ward)
{
	uint64_t pause_us = vigil->options.cool_down_us;

	if (ward->in_vain && pause_us < vigil->options.every_us)
		pause_us = vigil->options.every_us;
	for (unsigned i = 0; i < ward->in_vain && pause_us < FLMEM_REPEAT_COOL_DOWN_US_MAX; i++)
		pause_us *= 2;
	ward->next_us = vigil->look_us + pause_us;
}

static void note_success(const struct vigil *vigil, struct ward *ward,
			 const struct flmem_trim_result *result)
{
	const struct flmem_repeat_options *options = &vigil->options;
	char reason[96];

	tell(vigil, ward, FLMEM_REPEAT_TRIMMED, NULL, result);
	ward->trims++;
	if (!result->released_bytes.unknown && result->released_bytes.value < options->least_bytes)
		ward->in_vain++;
	else
		ward->in_vain = 0;
	cool_down(vigil, ward);
	if (ward->in_vain >= options->in_vain_max) {
		snprintf(reason, sizeof(reason), "%u trims in a row released next to nothing",
			 ward->in_vain);
		leave(vigil, ward, FLMEM_REPEAT_GIVEN_UP, reason, NULL);
	} else if (options->count && ward->trims >= options->count) {
		leave(vigil, ward, FLMEM_REPEAT_DONE, NULL, NULL);
	}
}

static void trim(const struct vigil *vigil, struct ward *ward)
{
	struct flmem_trim_options options = vigil->options.trim;
	struct flmem_trim_result *result = vigil->result;

	options.start_time = ward->process.start_time;
	switch (flmem_trim_process(ward->process.pid, &options, result, NULL)) {
	case 0:
		note_success(vigil, ward, result);
		break;
	case FLMEM_ENOPROC: /* told when its pidfd says so */
		break;
	case FLMEM_EUNSAFE:
		tell(vigil, ward, FLMEM_REPEAT_REFUSED, result->reason, result);
		cool_down(vigil, ward);
		break;
	default:
		ward->code = result->code;
		leave(vigil, ward, FLMEM_REPEAT_DROPPED, result->reason, result);
	}
}

static void look_after(const struct vigil *vigil, struct ward *ward)
{
	if (ward->over)
		return;
	if (!flmem_process_alive(&ward->process))
		leave(vigil, ward, FLMEM_REPEAT_ENDED, NULL, NULL);
	else if (vigil->look_us >= ward->next_us && is_wanted(vigil, ward))
		trim(vigil, ward);
}

static bool is_over(const struct vigil *vigil)
{
	for (size_t i = 0; i < vigil->count; i++)
		if (!vigil->wards[i].over)
			return false;
	return true;
}

/* Until `until_us`, the end of a process, or the order to stop: then true. */
static bool wait(const struct vigil *vigil, uint64_t until_us)
{
	uint64_t now_us = flmem_clock_us();

	while (now_us < until_us && !is_over(vigil)) {
		const uint64_t left_us = until_us - now_us;
		const struct timespec time = {.tv_sec = (time_t)(left_us / 1000000U),
					      .tv_nsec = (long)(left_us % 1000000U) * 1000};

		for (size_t i = 0; i < vigil->count; i++)
			vigil->polls[i + 1].fd =
				vigil->wards[i].over ? -1 : vigil->wards[i].process.pidfd;
		if (ppoll(vigil->polls, vigil->count + 1, &time, NULL) > 0) {
			if (vigil->polls[0].revents)
				return true;
			for (size_t i = 0; i < vigil->count; i++)
				if (vigil->polls[i + 1].revents)
					leave(vigil, &vigil->wards[i], FLMEM_REPEAT_ENDED, NULL,
					      NULL);
		}
		now_us = flmem_clock_us();
	}
	return false;
}

/* A look whose time has passed while others were looked after is left out. */
static uint64_t next_look(uint64_t last_us, uint64_t every_us)
{
	uint64_t now_us = flmem_clock_us();

	return last_us + ((now_us - last_us) / every_us + 1) * every_us;
}

static int outcome(const struct vigil *vigil, struct flmem_error *err)
{
	size_t dropped = 0;
	int code = 0;

	for (size_t i = 0; i < vigil->count; i++) {
		if (!vigil->wards[i].code)
			continue;
		dropped++;
		code = vigil->wards[i].code;
	}
	if (!dropped)
		return 0;
	return flmem_error_set(err, dropped < vigil->count ? FLMEM_EPARTLY : code, 0,
			       "%zu of %zu processes could not be trimmed", dropped, vigil->count);
}

static int keep_vigil(struct vigil *vigil, struct flmem_error *err)
{
	bool stopped = false;

	vigil->look_us = flmem_clock_us();
	while (!stopped) {
		for (size_t i = 0; i < vigil->count && !stopped; i++) {
			look_after(vigil, &vigil->wards[i]);
			/*
			 * A trim may take seconds; an order to stop does not wait for the others.
			 */
			stopped = poll(vigil->polls, 1, 0) > 0;
		}
		if (stopped || is_over(vigil))
			break;
		vigil->look_us = next_look(vigil->look_us, vigil->options.every_us);
		stopped = wait(vigil, vigil->look_us);
	}
	return outcome(vigil, err);
}

static void close_vigil(struct vigil *vigil)
{
	for (size_t i = 0; i < vigil->opened; i++)
		flmem_process_close(&vigil->wards[i].process);
	free(vigil->wards);
	free(vigil->polls);
	free(vigil->result);
}

/* One that was there when it was chosen has ended since; else there never was such a process. */
static void open_ward(const struct vigil *vigil, struct ward *ward, pid_t pid, uint64_t start_time)
{
	struct flmem_error err = {0};
	int rc = flmem_process_open(pid, &ward->process, &err);

	ward->process.pid = pid;
	if (rc && !start_time) {
		ward->code = rc;
		leave(vigil, ward, FLMEM_REPEAT_DROPPED, err.message, NULL);
	} else if (rc || (start_time && ward->process.start_time != start_time)) {
		leave(vigil, ward, FLMEM_REPEAT_ENDED, NULL, NULL);
	}
}

static void open_wards(struct vigil *vigil, const pid_t *pids, const uint64_t *start_times)
{
	for (size_t i = 0; i < vigil->count; i++) {
		struct ward *ward = &vigil->wards[i];

		ward->process = (struct flmem_process)FLMEM_PROCESS_INIT;
		vigil->polls[i + 1].events = POLLIN;
		vigil->opened++;
		open_ward(vigil, ward, pids[i], start_times[i]);
	}
}

static void fill_defaults(struct flmem_repeat_options *options)
{
	if (!options->every_us)
		options->every_us = FLMEM_REPEAT_EVERY_US_DEFAULT;
	if (!options->least_bytes)
		options->least_bytes = FLMEM_REPEAT_LEAST_BYTES_DEFAULT;
	if (!options->in_vain_max)
		options->in_vain_max = FLMEM_REPEAT_IN_VAIN_MAX_DEFAULT;
}

int flmem_repeat(const pid_t *pids, const uint64_t *start_times, size_t count,
		 const struct flmem_repeat_options *options, struct flmem_error *err)
{
	FLMEM_AUTO(close_vigil) struct vigil vigil = {.options = *options, .count = count};

	fill_defaults(&vigil.options);
	vigil.wards = calloc(count ? count : 1, sizeof(*vigil.wards));
	vigil.polls = calloc(count + 1, sizeof(*vigil.polls));
	vigil.result = calloc(1, sizeof(*vigil.result));
	if (!vigil.wards || !vigil.polls || !vigil.result)
		return flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot hold the processes");
	vigil.polls[0] = (struct pollfd){.fd = options->stop_fd, .events = POLLIN};
	open_wards(&vigil, pids, start_times);
	return keep_vigil(&vigil, err);
}
