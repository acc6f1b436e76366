/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the formats of mm/oom_kill.c and mm/memcontrol.c. Until 5.2 "Kill process N (NAME) score
 * ..." comes before "Killed process N (NAME) total-vm:..."; 3.10 as in RHEL 7 has ", UID 0,
 * total-vm:". Since 5.0 a line oom-kill: names the groups, before "Task in A killed as a result of
 * limit of B". The table of tasks counts in pages.
 */
#include "proc/limits/oom_log.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"

#define TASKS_MAX 100000U
#define KIB	  1024U

static const char killed_mark[] = "Killed process ";
static const char sizes_mark[] = " total-vm:";
static const char oom_log_absent[] = "the log does not show it";

struct log_line {
	const char *start;
	size_t length; /* length without the newline */
};

/* State of the current report, until the next one begins. */
struct oom_report {
	const char *tasks; /* start of the table of tasks, below its head; or NULL */
	bool of_group;
	bool all; /* memory.oom.group: the following kills are of other processes in the group */
	char group[FLMEM_OOM_GROUP_MAX];
	struct flmem_u64 usage_bytes, limit_bytes;
};

static struct log_line find_line(const char *text)
{
	return (struct log_line){.start = text, .length = strcspn(text, "\n")};
}

static const char *find_next_log_line(const struct log_line *line)
{
	const char *end = line->start + line->length;

	return *end ? end + 1 : end;
}

/* Returns the text after the words in the line; NULL if the line lacks them. */
static const char *find_after_in_line(const struct log_line *line, const char *words)
{
	const char *found = memmem(line->start, line->length, words, strlen(words));

	return found ? found + strlen(words) : NULL;
}

/* Reads "LABEL123kB" of the line, in bytes. */
static struct flmem_u64 read_size(const struct log_line *line, const char *label)
{
	const char *digits = find_after_in_line(line, label);
	uint64_t number;

	if (!digits || !flmem_text_read_digits(&digits, &number) ||
	    !flmem_text_starts(digits, "kB") || number > UINT64_MAX / KIB)
		return FLMEM_UNKNOWN(oom_log_absent);
	return FLMEM_KNOWN(number * KIB);
}

static void copy_log_text(char *out, size_t size, const char *from, size_t length)
{
	if (length >= size)
		length = size - 1;
	memcpy(out, from, length);
	out[length] = '\0';
}

/* Copies the group's path up to `end`, or to the end of the line if that is NULL. */
static void copy_group(struct oom_report *report, const struct log_line *line, const char *from,
		       const char *end)
{
	const char *last = line->start + line->length;
	size_t limit = (size_t)(last - from);
	const char *found = end ? memmem(from, limit, end, strlen(end)) : NULL;

	report->of_group = true;
	copy_log_text(report->group, sizeof(report->group), from,
		      found ? (size_t)(found - from) : limit);
}

static void read_kill_limit(const struct log_line *line, struct oom_report *report)
{
	struct flmem_u64 usage = read_size(line, " memory: usage ");

	if (usage.unknown && flmem_text_starts(line->start, "memory: usage "))
		usage = read_size(line, "memory: usage ");
	if (usage.unknown)
		return;
	report->usage_bytes = usage;
	report->limit_bytes = read_size(line, ", limit ");
}

static void begin_report(struct oom_report *report)
{
	*report = (struct oom_report){
		.usage_bytes = FLMEM_UNKNOWN(oom_log_absent),
		.limit_bytes = FLMEM_UNKNOWN(oom_log_absent),
	};
}

static void read_context(const struct log_line *line, struct oom_report *report)
{
	const char *found;

	if (find_after_in_line(line, " invoked oom-killer: "))
		begin_report(report);
	else if (find_after_in_line(line, "total_vm") && find_after_in_line(line, " tgid "))
		report->tasks = find_next_log_line(line);
	else if (find_after_in_line(line, "Memory cgroup out of memory: Kill process "))
		report->of_group = true;
	else if (find_after_in_line(line, " are going to be killed due to memory.oom.group set"))
		report->all = true;
	else if ((found = find_after_in_line(line, "killed as a result of limit of ")))
		copy_group(report, line, found, NULL);
	else if ((found = find_after_in_line(line, ",oom_memcg=")) &&
		 find_after_in_line(line, "oom-kill:constraint="))
		copy_group(report, line, found, ",task_memcg=");
	else
		read_kill_limit(line, report);
}

/* Finds the sizes. They start at the last " total-vm:": an earlier one may be part of the name. */
static bool find_sizes(const struct log_line *line, struct log_line *ret_sizes)
{
	const char *end = line->start + line->length, *p = line->start, *found = NULL;

	while ((p = memmem(p, (size_t)(end - p), sizes_mark, strlen(sizes_mark))))
		found = p++;
	if (found)
		*ret_sizes = (struct log_line){.start = found, .length = (size_t)(end - found)};
	return found;
}

/* Reads "13364 (python3)" up to `end`; the name may contain any bytes. */
static bool read_killed_task(const char *at, const char *end, struct flmem_oom_kill *kill)
{
	const char *close;
	uint64_t pid;

	if (!flmem_text_read_digits(&at, &pid) || pid == 0 || pid > INT32_MAX ||
	    !flmem_text_starts(at, " (") || end < at + 2)
		return false;
	at += 2;
	close = memrchr(at, ')', (size_t)(end - at));
	if (!close)
		return false;
	kill->pid = (pid_t)pid;
	copy_log_text(kill->name, sizeof(kill->name), at, (size_t)(close - at));
	return true;
}

static bool read_kill(const struct log_line *line, const struct oom_report *report,
		      struct flmem_oom_kill *ret_kill)
{
	const char *at = find_after_in_line(line, killed_mark);
	struct flmem_oom_kill kill = {
		.of_group = report->of_group ||
			    find_after_in_line(line, "Memory cgroup out of memory")};
	struct log_line sizes;

	if (!at || !find_sizes(line, &sizes) || !read_killed_task(at, sizes.start, &kill))
		return false;
	kill.total_vm_bytes = read_size(&sizes, sizes_mark);
	kill.anon_bytes = read_size(&sizes, ", anon-rss:");
	kill.file_bytes = read_size(&sizes, ", file-rss:");
	kill.shmem_bytes = read_size(&sizes, ", shmem-rss:");
	kill.usage_bytes = report->usage_bytes;
	kill.limit_bytes = report->limit_bytes;
	copy_log_text(kill.group, sizeof(kill.group), report->group, strlen(report->group));
	*ret_kill = kill;
	return true;
}

static void skip_log_blanks(const char **text)
{
	while (**text == ' ')
		(*text)++;
}

/* Reads PID and resident pages of "[ 13364] 0 13364 55342 9789 ...", after any prefix. */
static bool read_task(const struct log_line *line, uint64_t *ret_pid, uint64_t *ret_pages)
{
	uint64_t skipped;

	for (const char *at = line->start; at < line->start + line->length; at++) {
		const char *p = at + 1;
		int left = 3; /* columns to skip: uid, tgid, total_vm */

		if (*at != '[')
			continue;
		skip_log_blanks(&p);
		if (!flmem_text_read_digits(&p, ret_pid) || *p++ != ']')
			continue;
		for (; left; left--) {
			skip_log_blanks(&p);
			if (!flmem_text_read_digits(&p, &skipped))
				break;
		}
		skip_log_blanks(&p);
		if (!left && flmem_text_read_digits(&p, ret_pages))
			return true;
	}
	return false;
}

static void read_tasks(const char *tasks, struct flmem_oom_kill *kill)
{
	uint64_t pid, pages, all = 0, own = 0, count = 0;

	kill->tasks = kill->share_percent = FLMEM_UNKNOWN(oom_log_absent);
	for (const char *p = tasks; p && count < TASKS_MAX;) {
		const struct log_line line = find_line(p);

		if (!read_task(&line, &pid, &pages))
			break;
		if (pages > UINT64_MAX / 100 - all)
			return;
		all += pages;
		own = pid == (uint64_t)kill->pid ? pages : own;
		count++;
		p = find_next_log_line(&line);
	}
	if (!count || count == TASKS_MAX)
		return;
	kill->tasks = FLMEM_KNOWN(count);
	if (own)
		kill->share_percent = FLMEM_KNOWN(own * 100 / all);
}

bool flmem_oom_log_read(const char *text, struct flmem_oom_log *ret_log)
{
	struct flmem_oom_log log = {0};
	struct flmem_oom_kill kill;
	const char *tasks = NULL;
	struct oom_report report;
	unsigned number = 1;

	begin_report(&report);
	for (const char *p = text; *p; number++) {
		const struct log_line line = find_line(p);

		if (read_kill(&line, &report, &kill)) {
			if (!report.all || !log.kills) {
				log.last = kill;
				log.last.line = number;
				tasks = report.tasks;
			}
			log.kills++;
		} else {
			read_context(&line, &report);
		}
		p = find_next_log_line(&line);
	}
	if (!log.kills)
		return false;
	read_tasks(tasks, &log.last);
	*ret_log = log;
	return true;
}

bool flmem_oom_log_is_likely(const char *text)
{
	const char *found = strstr(text, killed_mark);

	return found && strstr(found, sizes_mark);
}
