/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/select.h>

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/roles.h>

#include "base/attempt.h"
#include "base/cleanup.h"
#include "base/text/regex.h"
#include "frameworks/framework.h"
#include "proc/argv_env.h"
#include "proc/process.h"
#include "proc/scan.h"
#include "proc/status.h"

/*
 * Longest text that is matched: regexec(3) may take long, and the target chooses its command line.
 */
#define SEARCHED_MAX ((size_t)64 << 10)

#define ROLE_BIT(role) (1U << (role))

/* Names of groups of roles; every other name is one role. */
static const struct {
	const char *name;
	unsigned mask;
} role_groups[] = {
	{"server", ROLE_BIT(FLMEM_ROLE_SERVER) | ROLE_BIT(FLMEM_ROLE_SERVER_JOB) |
			   ROLE_BIT(FLMEM_ROLE_SIMULATOR_SERVER)},
	{"client", ROLE_BIT(FLMEM_ROLE_CLIENT) | ROLE_BIT(FLMEM_ROLE_CLIENT_JOB) |
			   ROLE_BIT(FLMEM_ROLE_TRAINER) | ROLE_BIT(FLMEM_ROLE_SIMULATOR_CLIENT)},
};

unsigned flmem_role_mask(const char *name)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(role_groups); i++)
		if (strcmp(name, role_groups[i].name) == 0)
			return role_groups[i].mask;
#define ROLE_MASK_ROW(role, text)    \
	if (strcmp(name, text) == 0) \
		return ROLE_BIT(FLMEM_ROLE_##role);
	FLMEM_ROLES(ROLE_MASK_ROW)
#undef ROLE_MASK_ROW
	return 0;
}

/*
 * Limit of processes whose command line or files could not be read in time, which are then not
 * selected.
 */
#define SILENT_MAX 64U

struct silent_processes {
	pid_t pids[SILENT_MAX];
	size_t count;
};

/* The state of one selection. */
struct selection_work {
	const struct flmem_selection *selection;
	int proc;
	struct flmem_scan scan;
	struct flmem_relatives relatives;
	regex_t regex;
	bool has_regex;
	struct flmem_targets targets;
	size_t capacity;
	struct silent_processes silent;
	atomic_int at; /* the process being read */
};

static void clear_search_state(struct selection_work *work)
{
	flmem_cleanup_close(&work->proc);
	flmem_scan_clear(&work->scan);
	flmem_relatives_clear(&work->relatives);
	if (work->has_regex)
		regfree(&work->regex);
	flmem_targets_clear(&work->targets);
}

void flmem_targets_clear(struct flmem_targets *targets)
{
	free(targets->pids);
	free(targets->start_times);
	*targets = (struct flmem_targets){0};
}

static int add_target(struct selection_work *work, pid_t pid, uint64_t start_time)
{
	struct flmem_targets *targets = &work->targets;

	if (targets->count == work->capacity) {
		size_t capacity = work->capacity ? work->capacity * 2 : 64;
		pid_t *pids = reallocarray(targets->pids, capacity, sizeof(*pids));
		uint64_t *times;

		if (!pids)
			return -ENOMEM;
		targets->pids = pids;
		times = reallocarray(targets->start_times, capacity, sizeof(*times));
		if (!times)
			return -ENOMEM;
		targets->start_times = times;
		work->capacity = capacity;
	}
	targets->pids[targets->count] = pid;
	targets->start_times[targets->count++] = start_time;
	return 0;
}

static bool has_target(const struct selection_work *work, pid_t pid)
{
	for (size_t i = 0; i < work->targets.count; i++)
		if (work->targets.pids[i] == pid)
			return true;
	return false;
}

static int check_selection(const struct flmem_selection *s, struct flmem_error *err)
{
	int ways = (s->pid_count > 0) + s->all + (s->name_regex != NULL) + (s->tree != 0);

	if (!ways)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "no target: choose processes by pid, name, tree or all");
	if (ways > 1)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"pid, all, name and tree exclude each other: use only one of them");
	if (s->name_regex && !s->name_regex[0])
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "an empty name matches every process; use --all instead");
	for (size_t i = 0; i < s->pid_count; i++)
		if (s->pids[i] <= 0)
			return flmem_error_set(err, FLMEM_EUSAGE, 0, "invalid process id '%d'",
					       (int)s->pids[i]);
	if (s->tree < 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "invalid process id '%d'",
				       (int)s->tree);
	return 0;
}

static int compile_name_regex(struct selection_work *work, struct flmem_error *err)
{
	int rc = flmem_regex_compile(work->selection->name_regex, REG_NOSUB,
				     "invalid regular expression for names", &work->regex, err);

	work->has_regex = rc == 0;
	return rc;
}

/* Joins the arguments with spaces, in place; text beyond the limit is not matched. */
static const char *join_argv(struct flmem_argv_env *command)
{
	char *end;

	if (!command->count)
		return "";
	end = command->text + (command->values[command->count - 1] - command->text) +
	      strlen(command->values[command->count - 1]);
	if (end > command->text + SEARCHED_MAX)
		end = command->text + SEARCHED_MAX;
	*end = '\0';
	for (char *p = command->text; p < end; p++)
		if (!*p)
			*p = ' ';
	return command->text;
}

/*
 * Returns true for an ancestor of this process that runs flmem: `sh -c 'flmem trim --name X'` and
 * `sudo flmem ...` would match X, too.
 */
static bool runs_flmem(const struct selection_work *work, pid_t pid, const char *command)
{
	return strstr(command, "flmem") && flmem_scan_descends(&work->scan, getpid(), pid);
}

static bool name_matches(const struct selection_work *work, const struct flmem_process *process)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env command = {0};
	const char *text;

	if (flmem_argv_env_read_argv(process, &command, NULL))
		return false;
	text = join_argv(&command);
	return regexec(&work->regex, text, 0, NULL, 0) == 0 &&
	       !runs_flmem(work, process->pid, text);
}

/*
 * Returns true if the mappings may be read: the kernel checks access when the file is opened
 * (proc_maps_open), not by its mode.
 */
static bool may_read_maps(const struct flmem_process *process)
{
	FLMEM_AUTO_CLOSE int fd = openat(process->dirfd, "maps", O_RDONLY | O_CLOEXEC);

	return fd >= 0;
}

static bool has_role(struct selection_work *work, const struct flmem_process *process)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env command = {0}, environment = {0};
	struct flmem_subject subject = {
		.process = process,
		.command = &command,
		.relatives = &work->relatives,
	};
	struct flmem_identity identity;

	if (flmem_argv_env_read_argv(process, &command, NULL))
		return false;
	if (flmem_argv_env_read_env(process, &environment, NULL) == 0)
		subject.environment = &environment;
	flmem_identify(&subject, &identity);
	return identity.role != FLMEM_ROLE_NONE &&
	       (work->selection->roles & ROLE_BIT(identity.role));
}

/* Marks the process as being read. Returns false if an earlier read of it was not answered. */
static bool mark_process_read(struct selection_work *work, pid_t pid)
{
	atomic_store(&work->at, (int)pid);
	for (size_t i = 0; i < work->silent.count; i++)
		if (work->silent.pids[i] == pid)
			return false;
	return true;
}

static bool passes_filters(struct selection_work *work, const struct flmem_process *process)
{
	struct flmem_status status;

	if (work->selection->min_rss_bytes &&
	    (flmem_status_read(process, &status, NULL) || status.rss_bytes.unknown ||
	     status.rss_bytes.value < work->selection->min_rss_bytes))
		return false;
	return !work->selection->roles || has_role(work, process);
}

static bool is_selected(struct selection_work *work, const struct flmem_scan_row *row)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	const struct flmem_selection *s = work->selection;

	if (row->pid == getpid() || !flmem_scan_row_runs(row))
		return false;
	if (s->tree && !flmem_scan_descends(&work->scan, row->pid, s->tree))
		return false;
	if (flmem_process_open_at(work->proc, row->pid, &process, NULL) ||
	    process.start_time != row->start_time)
		return false;
	if (!mark_process_read(work, row->pid))
		return false;
	if (s->all && !may_read_maps(&process))
		return false;
	if (s->name_regex && !name_matches(work, &process))
		return false;
	return passes_filters(work, &process);
}

static int choose_by_scan(struct selection_work *work, struct flmem_error *err)
{
	const struct flmem_selection *s = work->selection;
	int rc = flmem_scan_read(work->proc, &work->scan, err);

	if (rc)
		return rc;
	if (s->tree && !flmem_scan_find(&work->scan, s->tree))
		return flmem_error_set(err, FLMEM_ENOPROC, 0, "no process %d", (int)s->tree);
	for (size_t i = 0; i < work->scan.count; i++) {
		const struct flmem_scan_row *row = &work->scan.rows[i];

		if (is_selected(work, row) && add_target(work, row->pid, row->start_time))
			return flmem_error_nomem(err, "cannot allocate the list of targets");
	}
	return 0;
}

static bool is_narrowed(const struct flmem_selection *selection)
{
	return selection->roles || selection->min_rss_bytes;
}

static int choose_by_pid(struct selection_work *work, struct flmem_error *err)
{
	const struct flmem_selection *s = work->selection;
	bool narrowed = is_narrowed(s);

	for (size_t i = 0; i < s->pid_count; i++) {
		FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

		if (has_target(work, s->pids[i]))
			continue;
		if (narrowed && !mark_process_read(work, s->pids[i]))
			continue;
		if (narrowed && (flmem_process_open_at(work->proc, s->pids[i], &process, NULL) ||
				 !passes_filters(work, &process)))
			continue;
		if (add_target(work, s->pids[i], process.start_time))
			return flmem_error_nomem(err, "cannot allocate the list of targets");
	}
	return 0;
}

static int choose_targets(struct selection_work *work, struct flmem_error *err)
{
	int rc;

	work->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (work->proc < 0)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, errno,
				       "cannot open /proc; mount it first");
	work->relatives.proc_dirfd = work->proc;
	rc = work->selection->pid_count ? choose_by_pid(work, err) : choose_by_scan(work, err);
	if (!rc && !work->targets.count)
		return flmem_error_set(err, FLMEM_ENOPROC, 0, "no process matches the selection");
	return rc;
}

/*
 * One selection and all its data, allocated on the heap: if a read of a process is never answered,
 * the thread outlives the caller.
 */
struct selection_search {
	struct selection_work work;
	struct flmem_selection selection; /* a copy that owns its PIDs and its pattern */
};

static void free_search(void *context)
{
	struct selection_search *search = context;

	clear_search_state(&search->work);
	free((pid_t *)(uintptr_t)search->selection.pids);
	free((char *)(uintptr_t)search->selection.name_regex);
	free(search);
}

static void cleanup_search(struct selection_search **search)
{
	if (*search)
		free_search(*search);
}

static struct selection_search *new_search(const struct flmem_selection *selection)
{
	FLMEM_AUTO(cleanup_search) struct selection_search *search = calloc(1, sizeof(*search));
	const size_t count = selection->pid_count;
	pid_t *pids = calloc(count ? count : 1, sizeof(*pids));
	char *regex = selection->name_regex ? strdup(selection->name_regex) : NULL;

	if (!search) {
		free(pids);
		free(regex);
		return NULL;
	}
	search->selection = *selection;
	search->selection.pids = pids;
	search->selection.name_regex = regex;
	search->work.proc = -1;
	search->work.selection = &search->selection;
	if (!pids || (selection->name_regex && !regex))
		return NULL;
	if (count)
		memcpy(pids, selection->pids, count * sizeof(*pids));
	return FLMEM_TAKE(search);
}

static int run_search(void *context, struct flmem_error *err)
{
	struct selection_search *search = context;

	return choose_targets(&search->work, err);
}

/* Makes one selection, without the processes whose reads were not answered in earlier attempts. */
static int attempt_search(const struct flmem_selection *selection, struct silent_processes *silent,
			  struct flmem_targets *ret_targets, struct flmem_error *err)
{
	const struct flmem_attempt how = {.run = run_search, .release = free_search};
	FLMEM_AUTO(cleanup_search) struct selection_search *search = new_search(selection);
	bool lost = false;
	int rc;

	if (!search)
		return flmem_error_nomem(err, "cannot allocate the list of targets");
	rc = selection->name_regex ? compile_name_regex(&search->work, err) : 0;
	if (rc)
		return rc;
	search->work.silent = *silent;
	/* PIDs without further filters are used as given, without reading the processes. */
	rc = selection->pid_count && !is_narrowed(selection)
		     ? choose_targets(&search->work, err)
		     : flmem_attempt_run(&how, search, &lost, err);
	if (!lost && !rc) {
		*ret_targets = search->work.targets;
		search->work.targets = (struct flmem_targets){0};
	}
	if (!lost)
		return rc;
	/*
	 * The thread stores `at` before it reads a process, so `at` names the one that did not
	 * answer.
	 */
	silent->pids[silent->count++] = atomic_load(&search->work.at);
	(void)FLMEM_TAKE(search);
	return rc;
}

int flmem_select(const struct flmem_selection *selection, struct flmem_targets *ret_targets,
		 struct flmem_error *err)
{
	struct silent_processes silent = {0};
	int rc = check_selection(selection, err);

	if (rc)
		return rc;
	for (;;) {
		size_t before = silent.count;

		rc = attempt_search(selection, &silent, ret_targets, err);
		if (silent.count == before || silent.count == SILENT_MAX)
			return rc;
	}
}
