/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_attach.h"
#include "print/print_json.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/report.h>
#include <flmem/text.h>

#include "print/print_format.h"

static void print_attach_thread(const struct flmem_attach_result *r)
{
	char stopped[FORMAT_MAX], took[FORMAT_MAX], holds[2 * FORMAT_MAX] = "";

	if (r->stops > 1)
		snprintf(holds, sizeof(holds), " (%u times, at most %s)", r->stops,
			 format_us(flmem_u64_or(r->longest_stop_us, 0), took));
	if (r->thread && !r->stopped_us.unknown)
		printf("  borrowed thread %d%s%s for %s%s; all other threads kept running\n",
		       (int)r->thread, r->thread_state[0] ? " from " : "", r->thread_state,
		       format_us(r->stopped_us.value, stopped), holds);
	if (!r->took_us.unknown && r->engine == FLMEM_ATTACH_JEMALLOC)
		printf("  the dump took %s in a new thread\n", format_us(r->took_us.value, took));
	else if (!r->took_us.unknown)
		printf("  the code took %s%s%s%s\n", format_us(r->took_us.value, took),
		       r->entry ? " (" : "", r->entry ? r->entry : "", r->entry ? ")" : "");
}

static void print_attach_way(const struct flmem_attach_result *r)
{
	char shown[sizeof(r->no_socket)];

	if (r->way == FLMEM_ATTACH_BY_SOCKET)
		puts("  through its socket; no thread is borrowed");
	else if (r->no_socket[0])
		printf("  note: not through its socket: %s\n",
		       flmem_text_escape(r->no_socket, shown, sizeof(shown)));
}

/* Prints which thread a real run would borrow. By then it may be another one. */
static void print_planned_thread(const struct flmem_attach_result *r)
{
	if (r->thread)
		printf("  would borrow thread %d%s%s; all other threads would keep running\n",
		       (int)r->thread, r->thread_state[0] ? " from " : "", r->thread_state);
}

static void print_entry_note(uint64_t count, const char *why)
{
	if (count)
		printf("  note: entries that %s: %" PRIu64 "\n", why, count);
}

/* Prints what is redirected, and what is not sampled, if anything. */
static void print_attach_entries(const struct flmem_attach_result *r)
{
	const struct flmem_attach_entries *e = &r->entries;

	if (r->preloaded)
		return;
	if (r->loaded_by && strcmp(r->loaded_by, "profile-ready") == 0)
		printf("  its sampler was there from the start: flmem start %s\n",
		       r->way == FLMEM_ATTACH_BY_SOCKET || r->no_socket[0] ? "--profile-socket"
									   : "--profile-ready");
	printf("  redirected %" PRIu64 " entries of %" PRIu64 " objects\n", e->redirected,
	       e->objects);
	if (e->fixed)
		printf("  note: %" PRIu64 " pointers to allocator functions in data stay as they "
		       "are: calls through them are not seen\n",
		       e->fixed);
	print_entry_note(e->elsewhere, "lead to another allocator or tool and stay as they are");
	print_entry_note(e->unresolved, "could not be resolved with certainty");
	print_entry_note(e->locked, "could not be changed");
	if (e->still_loading)
		printf("  note: %" PRIu64 " objects were just being loaded; their calls are seen "
		       "once another one is loaded\n",
		       e->still_loading);
}

static const char *format_dump(const struct flmem_attach_result *r, char *out, size_t size)
{
	char shown[FLMEM_ATTACH_PATH_MAX];

	if (!r->profile[0])
		return "";
	snprintf(out, size, "; its dump is %s",
		 flmem_text_escape(r->profile, shown, sizeof(shown)));
	return out;
}

static void print_engine(const struct flmem_attach_result *r, bool detach, bool dry_run)
{
	char dump[FLMEM_ATTACH_PATH_MAX + 32];

	if (!dry_run) {
		printf("process %d: %ssampled by its jemalloc%s\n", (int)r->pid,
		       detach ? "no longer " : "", format_dump(r, dump, sizeof(dump)));
		print_attach_thread(r);
		if (detach && !r->profile[0])
			puts("  note: no dump was written; jemalloc keeps its samples of what is "
			     "live: attach again, then detach with --output FILE");
		return;
	}
	printf("process %d: would %sbe sampled by its jemalloc; nothing was changed\n", (int)r->pid,
	       detach ? "no longer " : "");
	print_planned_thread(r);
	printf("  note: only calls show whether it can profile; they come first, and it is refused "
	       "if not\n");
}

static void print_attached(const struct flmem_attach_result *r, bool detach, bool dry_run)
{
	char shown[FLMEM_ATTACH_PATH_MAX];

	if (r->engine == FLMEM_ATTACH_JEMALLOC) {
		print_engine(r, detach, dry_run);
		return;
	}
	if (dry_run) {
		printf("process %d: would %s%s; nothing was changed\n", (int)r->pid,
		       detach ? "be detached from" : "be sampled", detach ? " the sampler" : "");
		print_attach_way(r);
		print_planned_thread(r);
		return;
	}
	flmem_text_escape(r->profile, shown, sizeof(shown));
	printf(!detach	    ? "process %d: sampled into %s\n"
	       : r->deleted ? "process %d: no longer sampled; %s was deleted, renamed, replaced or "
			      "truncated meanwhile: it lacks the samples\n"
			    : "process %d: no longer sampled; %s is complete\n",
	       (int)r->pid, shown);
	print_attach_way(r);
	print_attach_thread(r);
	if (!detach)
		print_attach_entries(r);
}

#define HINT_MAX 160

#define TEXT_ROW(name, text) text,
const char *const profile_attach_engines[] = {FLMEM_ATTACH_ENGINES(TEXT_ROW) NULL};
#undef TEXT_ROW

static struct flmem_attach_options attach_options_of(const struct profile_attach_options *o)
{
	bool is_jemalloc =
		o->engine && !strcmp(o->engine, flmem_attach_engine_name(FLMEM_ATTACH_JEMALLOC));

	return (struct flmem_attach_options){
		.engine = is_jemalloc ? FLMEM_ATTACH_JEMALLOC : FLMEM_ATTACH_SAMPLER,
		.profile = {.output = o->output,
			    .interval_bytes = o->interval_bytes,
			    .limit_bytes = o->limit_bytes,
			    .native = o->native,
			    .force = o->force},
		.timeout_us = o->timeout_us,
		.assume_seccomp = o->assume_seccomp,
		.dry_run = o->dry_run,
	};
}

static int print_attach_json(const struct cmd *cmd, const struct flmem_attach_result *result,
			     bool detach)
{
	char *text = flmem_report_attach_json(detach ? "profile-detach" : "profile-attach", result);
	struct flmem_error err = {0};

	return print_json(text, &err) ? cmd_fail(cmd, true, &err) : 0;
}

/*
 * Blocks signals so that Ctrl-C waits until the files are in place or removed, some seconds at
 * most; SIGKILL does not.
 */
static void defer_ends(bool dry_run, sigset_t *ret_before)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; !dry_run && i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaddset(&mask, ends[i]);
	sigprocmask(SIG_BLOCK, &mask, ret_before);
}

static int attach_undisturbed(const struct profile_attach_options *o,
			      const struct flmem_attach_options *options,
			      struct flmem_attach_result *ret_result, struct flmem_error *err)
{
	sigset_t before;
	int rc;

	defer_ends(o->dry_run, &before);
	rc = flmem_profile_attach(o->pid, options, ret_result, err);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

/*
 * Describes a child with more memory: the user may have named the shell or the launcher of the
 * program.
 */
static bool describe_larger_child(pid_t pid, char *out, size_t size)
{
	char bytes[FORMAT_MAX];
	uint64_t resident;
	pid_t child = flmem_profile_larger_child(pid, &resident);

	if (child)
		snprintf(out, size,
			 "process %d, below process %d, has more memory (%s resident): to sample "
			 "that one, attach to it",
			 (int)child, (int)pid, format_bytes(resident, bytes));
	return child != 0;
}

/* Names such a child. A refusal is one line, so it is added to the message of an error. */
static void name_larger_child(pid_t pid, struct flmem_error *err)
{
	const size_t length = strlen(err->message);
	char hint[HINT_MAX];

	if (!describe_larger_child(pid, hint, sizeof(hint)))
		return;
	if (err->code)
		snprintf(err->message + length, sizeof(err->message) - length, "; %s", hint);
	else
		fprintf(stderr, "flmem profile attach: %s\n", hint);
}

int profile_attach_run(const struct cmd *cmd, const struct profile_attach_options *o,
		       const struct opt_rest *rest, bool detach)
{
	const struct flmem_attach_options options = attach_options_of(o);
	struct flmem_attach_result result;
	struct flmem_error err = {0};
	int rc = cmd_no_arguments(cmd, rest, &err);

	if (!rc && !o->pid)
		rc = flmem_error_set(&err, FLMEM_EUSAGE, 0, "name the process with --pid PID");
	if (rc)
		return cmd_fail(cmd, o->json, &err);
	rc = detach ? flmem_profile_detach(o->pid, &options, &result, &err)
		    : attach_undisturbed(o, &options, &result, &err);
	if (rc == FLMEM_EUSAGE)
		return cmd_fail(cmd, o->json, &err);
	if (!detach && (!rc || rc == FLMEM_EUNSUPPORTED))
		name_larger_child(o->pid, &err);
	if (rc)
		cmd_fail(cmd, false, &err);
	if (o->json && print_attach_json(cmd, &result, detach))
		return flmem_code_exit_status(FLMEM_EFAILED);
	if (!rc && !o->json)
		print_attached(&result, detach, o->dry_run);
	return flmem_code_exit_status(rc);
}
