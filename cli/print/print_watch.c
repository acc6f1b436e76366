/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <flmem/text.h>

#include "print/print_format.h"
#include "print/print_trim.h"

#define COMMAND_MAX 72
#define SITE_MAX    64

/*
 * Prints a time with its distance to UTC: where clocks are put back, an hour of the day comes
 * twice.
 */
static void print_watch_time(uint64_t at_us)
{
	time_t seconds = (time_t)(at_us / 1000000U);
	struct tm local;
	char text[32];

	if (localtime_r(&seconds, &local) && strftime(text, sizeof(text), "%F %T%z", &local))
		printf("%s", text);
}

static void print_part(const char *name, struct flmem_u64 bytes)
{
	char text[FORMAT_MAX];

	if (!bytes.unknown && bytes.value)
		printf(", %s %s", name, format_bytes(bytes.value, text));
}

void print_watch_sample(const struct flmem_watch_sample *sample)
{
	char rss[FORMAT_MAX];

	print_watch_time(sample->at_us);
	printf("  process %d: RSS %s", (int)sample->process->pid,
	       format_bytes(sample->rss_bytes, rss));
	if (sample->split) {
		print_part("anonymous", sample->split->anon_bytes);
		print_part("files", sample->split->file_bytes);
		print_part("shared", sample->split->shmem_bytes);
		print_part("swapped", sample->split->swap_bytes);
	}
	putchar('\n');
}

static const char *format_growth(int64_t bytes, char out[FORMAT_MAX + 1])
{
	uint64_t size = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;

	out[0] = bytes < 0 ? '-' : '+';
	format_bytes(size, out + 1);
	return out;
}

static const char *format_seconds(uint64_t us, char out[FORMAT_MAX])
{
	return us < 10000000U ? format_us(us, out) : format_span(us / 1000000U, out);
}

void print_watch_round(const struct flmem_watch_round *round)
{
	char duration[FORMAT_MAX], peak[FORMAT_MAX], trough[FORMAT_MAX], growth[FORMAT_MAX + 1];

	/*
	 * The duration is 0 where the start and the end of the round were read from the log at
	 * once.
	 */
	printf("round %" PRIu64 "  process %d: %s, peak %s%s, then %s", round->number,
	       (int)round->process->pid,
	       round->duration_us ? format_seconds(round->duration_us, duration)
				  : "shorter than the interval",
	       format_bytes_or(round->peak_bytes, "unknown", peak),
	       round->peak_exact ? " (exact)" : "",
	       format_bytes_or(round->trough_bytes, "unknown", trough));
	if (!round->growth_bytes.unknown)
		printf(" (%s)", format_growth(round->growth_bytes.value, growth));
	if (!round->group_peak_bytes.unknown)
		printf("; control group at most %s",
		       format_bytes(round->group_peak_bytes.value, peak));
	putchar('\n');
}

static void print_watch_trim(const struct flmem_watch_action *action)
{
	char released[FORMAT_MAX], before[FORMAT_MAX], after[FORMAT_MAX], stopped[FORMAT_MAX];
	char text[RELEASE_MAX];

	/* A recording holds only RSS before and after the trim. */
	if (action->result)
		fputs(format_release(action->result, text), stdout);
	else if (action->released_bytes.unknown)
		printf("trimmed, but %s", action->released_bytes.unknown);
	else
		printf("RSS lowered by %s, %s -> %s",
		       format_bytes(action->released_bytes.value, released),
		       format_bytes_or(action->rss_before_bytes, "unknown", before),
		       format_bytes_or(action->rss_after_bytes, "unknown", after));
	if (!action->stopped_us.unknown)
		printf(", one thread borrowed for %s",
		       format_us(action->stopped_us.value, stopped));
}

static void print_decision(const struct flmem_watch_action *action)
{
	char count[FLMEM_TEXT_COUNTED_MAX];
	static const char *const texts[] = {
		[FLMEM_WATCH_REFUSED] = "not trimmed now, next attempt at the next occasion",
		[FLMEM_WATCH_DROPPED] = "not trimmed, only watched from now on",
		[FLMEM_WATCH_PAUSED] = "not trimmed for now",
		[FLMEM_WATCH_RESUMED] = "trimmed again",
		[FLMEM_WATCH_UNDECIDED] = "the condition cannot be decided",
	};

	if (action->kind == FLMEM_WATCH_INTERVAL_RAISED ||
	    action->kind == FLMEM_WATCH_INTERVAL_LOWERED)
		printf("trimmed every %s from now on",
		       flmem_text_counted(action->every_rounds, "round", count, sizeof(count)));
	else
		fputs(texts[action->kind], stdout);
}

void print_watch_action(const struct flmem_watch_action *action)
{
	char reason[ESCAPED_MESSAGE_MAX];

	print_watch_time(action->at_us);
	printf("  process %d: ", (int)action->process->pid);
	if (action->kind == FLMEM_WATCH_TRIMMED)
		print_watch_trim(action);
	else
		print_decision(action);
	printf(": %s\n", flmem_text_escape(action->reason, reason, sizeof(reason)));
}

static void print_growth(const struct flmem_trend *t)
{
	bool by_round = t->basis == FLMEM_TREND_BY_ROUND;
	char growth[FORMAT_MAX + 1], low[FORMAT_MAX + 1], high[FORMAT_MAX + 1];

	if (t->low_bytes.unknown)
		return;
	printf("  %s per %s (95 %%: %s to %s)\n",
	       format_growth(by_round ? t->growth_per_round_bytes.value
				      : t->growth_per_hour_bytes.value,
			     growth),
	       by_round ? "round" : "hour", format_growth(t->low_bytes.value, low),
	       format_growth(t->high_bytes.value, high));
}

static void print_forecast(const struct flmem_watch_result *r)
{
	const struct flmem_forecast *f = &r->forecast;
	char time[FORMAT_MAX], earliest[FORMAT_MAX], limit[FORMAT_MAX];

	if (f->exhausted_in_s.unknown)
		return;
	printf("  at this growth the limit of its %s (%s) is reached in %s",
	       r->limit_is_cgroup ? "control group" : "host",
	       format_bytes_or(r->limit_bytes, "unknown", limit),
	       format_span(f->exhausted_in_s.value, time));
	if (!f->exhausted_earliest_s.unknown)
		printf(", at the earliest in %s",
		       format_span(f->exhausted_earliest_s.value, earliest));
	putchar('\n');
}

static void print_next_step(const struct flmem_watch_result *r)
{
	switch (r->next) {
	case FLMEM_WATCH_NEXT_LEAKS:
		printf("  next: flmem profile leaks %s shows which code holds it; the process is "
		       "sampled already\n",
		       r->sampled_into);
		break;
	case FLMEM_WATCH_NEXT_RUN:
		puts("  next: at its next start, flmem profile run -o FILE -- COMMAND shows which "
		     "code holds it");
		break;
	case FLMEM_WATCH_NEXT_ATTACH:
		printf("  next: flmem profile attach --pid %d --output FILE shows which code of a "
		       "Python program holds it\n",
		       (int)r->process.pid);
		break;
	default:
		break;
	}
}

static void print_actions(const struct flmem_watch_actions *a)
{
	char released[FORMAT_MAX], stopped[FORMAT_MAX], count[FLMEM_TEXT_COUNTED_MAX];

	if (!a->every_rounds)
		return;
	printf("  trimmed %s: RSS lowered by %s, threads borrowed for %s in total",
	       flmem_text_counted(a->count[FLMEM_WATCH_TRIMMED], "time", count, sizeof(count)),
	       format_bytes(a->released_bytes, released), format_us(a->stopped_us, stopped));
	if (a->count[FLMEM_WATCH_REFUSED])
		printf("; refused as unsafe %s", flmem_text_counted(a->count[FLMEM_WATCH_REFUSED],
								    "time", count, sizeof(count)));
	putchar('\n');
}

static void print_count(const char *what, struct flmem_u64 times)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	if (!times.unknown && times.value)
		printf("  its control group %s: %s\n", what,
		       flmem_text_counted(times.value, "time", count, sizeof(count)));
}

/* Prints nothing if the control group had no memory pressure. */
static void print_pressure(const struct flmem_pressure *rise)
{
	print_count("was throttled at its high mark", rise->high);
	print_count("reached its memory limit", rise->max);
	print_count("ran out of memory", rise->oom);
	print_count("had processes killed out of memory", rise->oom_kill);
}

/* Prints role and site in the federation, and whether the process has exited. */
static void print_state(const struct flmem_watch_result *r)
{
	const char *role = flmem_role_name(r->process.role);
	char site[SITE_MAX];

	if (!role && !r->ended)
		return;
	printf(" (%s", role ? role : "ended");
	if (role && r->process.site)
		printf(" %s", flmem_text_escape(r->process.site, site, sizeof(site)));
	printf("%s)", role && r->ended ? ", ended" : "");
}

static void print_watch_result(const struct flmem_watch_result *r)
{
	char command[COMMAND_MAX], first[FORMAT_MAX], last[FORMAT_MAX], peak[FORMAT_MAX];
	char span[FORMAT_MAX], count[FLMEM_TEXT_COUNTED_MAX];

	printf("process %d", (int)r->process.pid);
	print_state(r);
	printf(": %s", flmem_trend_verdict_name(r->trend.verdict));
	if (r->trend.verdict != FLMEM_TREND_TOO_EARLY)
		printf(", confidence %.3g %%", r->trend.confidence * 100);
	printf(": %s\n", r->trend.reason);
	printf("  %s\n", flmem_text_escape(r->process.command, command, sizeof(command)));
	printf("  RSS %s -> %s, peak %s, in %s", format_bytes_or(r->first_bytes, "-", first),
	       format_bytes_or(r->last_bytes, "-", last), format_bytes_or(r->peak_bytes, "-", peak),
	       r->watched_us < 10000000U ? format_us(r->watched_us, span)
					 : format_span(r->watched_us / 1000000U, span));
	if (r->rounds)
		printf(" and %s", flmem_text_counted(r->rounds, "round", count, sizeof(count)));
	putchar('\n');
	if (r->restarts)
		printf("  one history of %" PRIu64
		       " processes, each the restart of the one before\n",
		       r->restarts + 1);
	print_growth(&r->trend);
	print_forecast(r);
	print_actions(&r->actions);
	print_pressure(&r->pressure_rise);
	for (size_t i = 0; i < sizeof(r->findings) / sizeof(r->findings[0]); i++)
		if (r->findings[i])
			printf("  finding: %s\n", r->findings[i]);
	if (r->undecided)
		printf("  limit of growth undecided: %s\n", r->undecided);
	print_next_step(r);
}

void print_watch_summary(const struct flmem_watch_summary *summary)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	for (size_t i = 0; i < summary->count; i++)
		print_watch_result(&summary->results[i]);
	if (summary->unlisted)
		printf("%s not listed: too many\n",
		       flmem_text_counted(summary->unlisted, "exited process", count,
					  sizeof(count)));
	if (!summary->missed.unknown && summary->missed.value)
		printf("%s passed without samples: this host was busy or suspended\n",
		       flmem_text_counted(summary->missed.value, "interval", count, sizeof(count)));
}
